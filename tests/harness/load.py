"""Load that checks what it reads: `weir load`, with one writer of every key, so that outdated values are found."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from .processes import Address, Process, weir_binary

# Long enough for whatever is done to the servers meanwhile; the test ends it.
UNTIL_STOPPED = "1h"


class CheckedLoad(Process):
    """Closed-loop load on few keys, of which three in ten requests are writes, until `stop`."""

    def __init__(self, target: Address, record: Path, *options: str) -> None:
        self._record = record
        command = [str(weir_binary()), "load", "--target", str(target), "--duration", UNTIL_STOPPED]
        command += ["--warmup", "0s", "--json", str(record), "--one-writer", "--writes", "0.3", "--keys", "2000"]
        super().__init__([*command, *options])

    def stop(self) -> dict[str, Any]:
        """Ends the load as ^C does, and returns its record (`weir.load/1`)."""
        self.signal(signal.SIGINT)
        assert self.wait() == 0, self.output()
        record: dict[str, Any] = json.loads(self._record.read_text())
        return record


def assert_right(record: dict[str, Any]) -> None:
    """Nothing that was read was wrong: nobody else's, not outdated, not broken. Errors and misses are right."""
    assert record["failures"]["count"] == 0, record["failures"]["first"]
    assert record["foreign_values"] == 0
    assert record["phases"]["measured"]["requests"] > 0
