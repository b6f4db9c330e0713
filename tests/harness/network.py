"""A network of the test's own, in which the path of one connection can be made to swallow everything."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .processes import Address, program

_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Whatever this thread starts inside has a loopback of its own. Skips where nobody may make one."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(_CLONE_NEWNET) != 0:
            pytest.skip(f"needs the right to make a network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            _ip("link", "set", "lo", "up")
            # What leads to this machine itself is looked up first, unless it is asked to come later.
            _ip("rule", "add", "pref", "100", "lookup", "local")
            _ip("rule", "del", "pref", "0")
            yield
        finally:
            assert libc.setns(before, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(before)


def flows_to(server: Address) -> list[int]:
    """The local ports of all connections to a server."""
    ports = []
    for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]:
        local, remote, state = line.split()[1:4]
        if int(remote.partition(":")[2], 16) == server.port and state == "01":
            ports.append(int(local.partition(":")[2], 16))
    return sorted(ports)


def busiest_flow_to(server: Address, until: Callable[[], None]) -> int:
    """The local port of the connection over which most is sent to a server until this returns."""
    before = _sent_to(server)
    until()
    sent = {port: count - before.get(port, 0) for port, count in _sent_to(server).items()}
    return max(sent, key=lambda port: sent[port])


def _sent_to(server: Address) -> dict[int, int]:
    """By the local port of each connection to a server: the bytes that the server's kernel has acknowledged."""
    words = ("-Hnti", "state", "established", "dst", str(server))
    lines = subprocess.run([program("ss"), *words], check=True, capture_output=True, text=True).stdout
    found = re.findall(r":(\d+)\s+\S+:\d+ .*?(?:bytes_acked:(\d+))", lines.replace("\n\t", " "))
    return {int(port): int(count) for port, count in found}


def swallow(port: int, server: Address) -> None:
    """From now on every packet between this local port and the server is dropped, and no error is sent.

    The server is named, because its client gives the port up one day: the next to get it may connect elsewhere.
    """
    there, back = str(port), str(server.port)
    _ip("rule", "add", "pref", "1", "ipproto", "tcp", "sport", there, "dport", back, "blackhole")
    _ip("rule", "add", "pref", "2", "ipproto", "tcp", "sport", back, "dport", there, "blackhole")


def _ip(*words: str) -> None:
    subprocess.run([program("ip"), *words], check=True, capture_output=True, text=True)
