"""Runs on a host of the testbed ``hosts``: the lab's eyes there. Sent over SSH and started with ``python3 -c``; needs nothing but Python.

Reads one request per line from standard input and answers with one line, both JSON. It makes a folder for the lab's files at its start.
When its input ends, because the lab has left or the connection is gone, it ends what was started there and removes the folder: nothing
stays behind, whatever was killed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "version_of"]

_CHUNK = 128 << 10
_LIMIT_S = 30.0
_CONNECT_S = 5.0


def main() -> None:
    """Serve requests until the input ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # sshd's, when the connection ends: the input's end says the same
    folder = Path(tempfile.mkdtemp(prefix="weir-host-"))
    listeners: dict[int, socket.socket] = {}
    actions: dict[str, Callable[[Any], Any]] = {
        "facts": lambda _: _facts(folder),
        "time": lambda _: time.time_ns(),
        "ports": lambda asked: _free_ports(asked["count"]),
        "usage": lambda asked: _usage(folder, asked["name"]),
        "busy": lambda _: _busy_ns(),
        "traffic": lambda _: _traffic(),
        "sha256": lambda asked: hashlib.sha256((folder / asked["name"]).read_bytes()).hexdigest(),
        "read": lambda asked: base64.b64encode((folder / asked["name"]).read_bytes()).decode(),
        "write": lambda asked: (folder / asked["name"]).write_bytes(base64.b64decode(asked["content"])),
        "listen": lambda asked: _listen(listeners, asked["address"]),
        "receive": lambda asked: _receive(listeners.pop(asked["port"]), asked["after_s"]),
        "send": lambda asked: _send(asked["address"], asked["port"], asked["seconds"]),
        "echo": lambda asked: _echo(listeners.pop(asked["port"])),
        "version": lambda asked: version_of(asked["target"]),
        "ping": lambda asked: _ping(asked["address"], asked["port"], asked["count"]),
    }
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = {"result": actions[asked["do"]](asked)}
            except Exception as error:  # the lab decides what it means
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        for file in folder.glob("*.pid"):
            _kill(folder, file.stem)
        shutil.rmtree(folder, ignore_errors=True)


def _facts(folder: Path) -> Any:
    return {"folder": str(folder), "uid": os.getuid(), "cores": sorted(os.sched_getaffinity(0))}


def _pid(folder: Path, name: str) -> int:
    """Process number of a role that was started in the folder. One that is used again works elsewhere, and is nobody we know."""
    pid = int((folder / f"{name}.pid").read_text())
    if Path(f"/proc/{pid}/cwd").readlink() != folder:
        raise ProcessLookupError(f"{name} has ended")
    return pid


def _usage(folder: Path, name: str) -> Any:
    process = Path(f"/proc/{_pid(folder, name)}")
    spent = sum(int((task / "schedstat").read_text().split()[0]) for task in (process / "task").iterdir())
    pages = int((process / "statm").read_text().split()[1])
    return {"cpu_ns": spent, "resident_bytes": pages * os.sysconf("SC_PAGE_SIZE")}


def _kill(folder: Path, name: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.kill(_pid(folder, name), signal.SIGKILL)


def _busy_ns() -> int:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) * 10**9 // os.sysconf("SC_CLK_TCK")


def _traffic() -> Any:
    received = sent = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, counters = line.partition(":")
        if name.strip() != "lo":
            received += int(counters.split()[0])
            sent += int(counters.split()[8])
    return {"sent_bytes": sent, "received_bytes": received}


def _free_ports(count: int) -> Any:
    ports: list[int] = []
    held: list[socket.socket] = []
    for port in range(20_000 + time.time_ns() // 1000 % 10_000, 32_000):
        probe = socket.socket()
        held.append(probe)
        try:
            probe.bind(("", port))
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            break
    for probe in held:
        probe.close()
    return ports


def _listen(listeners: dict[int, socket.socket], address: str) -> int:
    listener = socket.create_server((address, 0))
    listener.settimeout(_LIMIT_S)
    port = int(listener.getsockname()[1])
    listeners[port] = listener
    return port


def _receive(listener: socket.socket, after_s: float) -> Any:
    with listener, listener.accept()[0] as connection:
        connection.settimeout(_LIMIT_S)
        buffer = bytearray(4 * _CHUNK)
        first = last = time.monotonic()
        counted = 0
        counted_from: float | None = None
        while size := connection.recv_into(buffer):
            last = time.monotonic()
            if counted_from is not None:
                counted += size
            elif last - first >= after_s:
                counted_from = last
    return {"bytes": counted, "seconds": last - (first if counted_from is None else counted_from)}


def _send(address: str, port: int, seconds: float) -> bool:
    chunk = bytes(_CHUNK)
    with socket.create_connection((address, port), timeout=_LIMIT_S) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(chunk)
    return True


def _echo(listener: socket.socket) -> bool:
    with listener, listener.accept()[0] as connection:
        connection.settimeout(_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := connection.recv(1):
            connection.sendall(byte)
    return True


def _ping(address: str, port: int, count: int) -> Any:
    times = []
    with socket.create_connection((address, port), timeout=_LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter_ns()
            connection.sendall(b".")
            connection.recv(1)
            times.append((time.perf_counter_ns() - began) / 1e6)
    return times


def version_of(target: str) -> str:
    """What a server that runs already answers to ``version``; ``unknown`` of a proxy that does not say. `OSError` without a connection."""
    host, _, port = target.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as connection:
        try:
            connection.sendall(b"version\r\n")
            line = connection.recv(256).split(b"\r\n")[0]
        except OSError:
            return "unknown"
    return line.decode("ascii", errors="replace") if line.startswith(b"VERSION ") else "unknown"


if __name__ == "__main__":
    main()
