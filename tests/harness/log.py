"""What a proxy that was started with `--log-format json` has said."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from .processes import Address, Process, eventually

OPTIONS = ("--log-format", "json")


def lines(process: Process) -> list[dict[str, Any]]:
    """Each line of the log; one that is being written does not count yet."""
    text = process.output()
    complete, _, _ = text.rpartition("\n")
    return [json.loads(line) for line in complete.splitlines()]


def reported(process: Process, event: str, server: Address | None = None) -> list[dict[str, Any]]:
    """The lines about this event, and this server."""
    wanted = {"event": event} | ({"server": str(server)} if server else {})
    return [line for line in lines(process) if wanted.items() <= line.items()]


def wait_reported(process: Process, event: str, server: Address | None = None, *, times: int = 1) -> dict[str, Any]:
    """Returns the line once there is one; fails with the log if it does not come."""
    try:
        eventually(lambda: len(reported(process, event, server)) >= times, f"{event} of {server} reported")
    except AssertionError as late:
        raise AssertionError(f"{late}\n{process.output()}") from None
    return reported(process, event, server)[-1]


def count(process: Process) -> Counter[tuple[str, str]]:
    """The number of lines of each event, and server, if it is about one."""
    return Counter((line["event"], line.get("server", "")) for line in lines(process))
