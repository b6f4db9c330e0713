"""`weir top --once`: one plain view of a running proxy."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.processes import LIVENESS_S, Address, eventually, weir_binary


def once(admin: Address) -> subprocess.CompletedProcess[str]:
    command = [str(weir_binary()), "top", str(admin), "--once"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=3 * LIVENESS_S)


@pytest.mark.every_engine
def test_it_shows_the_newest_second(start_proxy: StartProxy, connect: Connect, engine: str) -> None:
    proxy = start_proxy()
    wire = connect(proxy.address)
    wire.store(b"key", b"value")
    eventually(lambda: bool(json.loads(proxy.http("/windows"))["windows"]), "a second is over")
    shown = once(proxy.admin)
    assert shown.returncode == 0, shown.stderr
    answer, title, *_ = shown.stdout.splitlines()
    assert re.fullmatch(
        r"no request was answered in this second(; bottleneck: servers)?"
        r"|\d+ requests/s, p99 \S+( .s)?; (no bottleneck shows|bottleneck: \S.*)",
        answer,
    ), answer
    assert title.startswith(f"weir top {proxy.admin}   engine {engine}")
    for part in ("throughput", "in proxy", "stages", "utilization", "bottleneck", "sessions 1"):
        assert part in shown.stdout, shown.stdout
    for server in json.loads(proxy.http("/config"))["servers"]:
        assert server in shown.stdout


def test_it_says_that_no_proxy_is_there() -> None:
    shown = once(Address.free())
    assert shown.returncode == 1
    assert "no proxy answers" in shown.stderr


def test_it_wants_a_terminal_for_more() -> None:
    command = [str(weir_binary()), "top", "127.0.0.1:1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIVENESS_S)
    assert shown.returncode == 2
    assert "--once" in shown.stderr
