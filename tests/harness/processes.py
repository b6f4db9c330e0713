"""Starts memcached and `weir proxy` on free loopback ports, waits until they accept, and always ends them."""

from __future__ import annotations

import contextlib
import functools
import http
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]

# How long anything may take before a test says that it hangs. Generous: it is about life, not speed.
LIVENESS_S = 20.0

# Below the range the kernel hands out to outgoing connections, so that none of those takes a port between the probe
# and the bind. Tests that run side by side (gw0, gw1, …) have ports of their own for the same reason.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
PORTS = range(20000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 32768, WORKERS)


def weir_binary() -> Path:
    """The release binary: $WEIR_BIN, or what `make build` leaves in the target folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = Path(os.environ.get("WEIR_BIN", target / "release" / "weir"))
    if not binary.is_file():
        raise FileNotFoundError(f"{binary} is missing: run `make build`, or set WEIR_BIN")
    return binary


def program(name: str) -> str:
    """Where a program is: on PATH, where Debian keeps some besides, or where scripts/setup put it."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + f":/usr/sbin:/usr/local/sbin:{ROOT}/.tools/bin")
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: run `make setup`")
    return found


# Who looks all the time takes the processor from those that are waited for.
LOOK_AGAIN_S = 0.001
# Between two attempts to connect to a process that starts. Sooner, tests freeze servers that a proxy has not met.
KNOCK_AGAIN_S = 0.02


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Returns once `happened()`; fails if it does not for as long as anything may take."""
    deadline = time.monotonic() + LIVENESS_S
    while not happened():
        assert time.monotonic() < deadline, f"after {LIVENESS_S} s still not: {what}"
        time.sleep(LOOK_AGAIN_S)


# What every proxy with event loops is given besides: `make test-long` forces the batching to its extremes.
EVENT_OPTIONS = os.environ.get("WEIR_TEST_EVENT_OPTIONS", "").split()

# Nobody may have bound a port yet that was given out a moment ago.
_given: set[int] = set()


def free_port() -> int:
    for port in random.sample(PORTS, 200):
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise OSError(f"no free port among 200 tried in {PORTS}")


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def free(cls) -> Self:
        return cls("127.0.0.1", free_port())

    @property
    def pair(self) -> tuple[str, int]:
        return self.host, self.port

    def connect(self, timeout: float) -> socket.socket:
        connected = socket.create_connection(self.pair, timeout=timeout)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def accepts(self) -> bool:
        return accepts(self)


@dataclass(frozen=True)
class SocketPath:
    """An address in the file system."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def connect(self, timeout: float) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(timeout)
        try:
            connected.connect(str(self.path))
        except OSError:
            connected.close()
            raise
        return connected

    def accepts(self) -> bool:
        return accepts(self)


def accepts(address: Address | SocketPath) -> bool:
    try:
        address.connect(1).close()
    except OSError:
        return False
    return True


class Process:
    """A child process with its output in a file, killed when the `with` block ends."""

    def __init__(
        self, command: Sequence[str], descriptors: tuple[int, int] | None = None, passed: Sequence[int] = ()
    ) -> None:
        """`descriptors`: how many the process may have, soft and hard, if not as many as this one. `passed`: those of
        this one that it gets."""
        self.command = list(command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        limited = None
        if descriptors is not None:
            limited = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, descriptors)
        self._child = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=tuple(passed),
            preexec_fn=limited,  # noqa: PLW1509 (one call to the kernel, which takes no lock)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._output.close()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def states(self) -> set[str]:
        """The kernel's letters for what its threads do: R runs, S sleeps, T is stopped, Z has ended."""
        found = set()
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            # One that ends meanwhile is none.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
        return found

    def output(self) -> str:
        # The child writes where this descriptor stands: to move it would make the child write over what it has written.
        length = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), length, 0).decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def freeze(self) -> None:
        """Stops the process without its knowing: its sockets stay open and nothing answers."""
        self.signal(signal.SIGSTOP)
        # Each thread stops when it gets to the signal: those that serve may still read when the first has stopped.
        eventually(lambda: self.states() == {"T"}, f"process {self.pid} stopped")

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def wait(self) -> int:
        """The exit status, once the process ended by itself."""
        try:
            return self._child.wait(LIVENESS_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {LIVENESS_S} s: {self.command}\n{self.output()}") from None

    def kill(self) -> None:
        if self.running:
            self._child.kill()
        self._child.wait()

    def wait_ready(self, address: Address | SocketPath) -> None:
        """Returns once the process accepts connections; fails with its output if it ended instead."""
        for _ in range(int(LIVENESS_S / KNOCK_AGAIN_S)):
            if address.accepts():
                return
            try:
                # Waiting for the child to end is the pause between two attempts.
                status = self._child.wait(KNOCK_AGAIN_S)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"exit status {status} instead of listening: {self.command}\n{self.output()}")
        raise AssertionError(f"{address} does not accept after {LIVENESS_S} s: {self.command}\n{self.output()}")


class Memcached(Process):
    """One memcached with one thread, as the studies ran it."""

    def __init__(self, *options: str, address: Address | None = None, binary: str | None = None) -> None:
        self.address = address or Address.free()
        command = [
            binary or program("memcached"),
            "-l",
            self.address.host,
            "-p",
            str(self.address.port),
            "-U",
            "0",
            "-t",
            "1",
        ]
        if os.geteuid() == 0:
            command += ["-u", "root"]  # memcached asks root to say so
        super().__init__([*command, *options])


class SocketMemcached(Process):
    """The same behind a socket in the file system."""

    def __init__(self, path: Path) -> None:
        self.address = SocketPath(path)
        command = [program("memcached"), "-s", str(path), "-a", "0700", "-t", "1"]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        super().__init__(command)


class Twemproxy(Process):
    """One nutcracker with one pool, whose file is written into this folder."""

    def __init__(self, folder: Path, servers: Sequence[Address], *settings: str) -> None:
        self.address = Address.free()
        stats = Address.free()
        lines = [f"  {setting}" for setting in (f"listen: {self.address}", *settings, "servers:")]
        file = folder / f"nutcracker-{self.address.port}.yml"
        file.write_text("\n".join(["pool:", *lines, *(f"   - {server}:1" for server in servers)]) + "\n")
        super().__init__([program("nutcracker"), "-c", str(file), "-a", stats.host, "-s", str(stats.port), "-v", "2"])


class Proxy(Process):
    """`weir proxy` in front of some servers, with an admin port."""

    def __init__(self, servers: Sequence[Address], *options: str, descriptors: tuple[int, int] | None = None) -> None:
        self.address = Address.free()
        self.admin = Address.free()
        command = [str(weir_binary()), "proxy", "--listen", str(self.address), "--admin", str(self.admin)]
        for server in servers:
            command += ["--server", str(server)]
        if "--engine" not in options:
            command += EVENT_OPTIONS
        super().__init__([*command, *options], descriptors)

    def http(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=LIVENESS_S) as response:
            body: bytes = response.read()
        return body.decode()

    def snapshot(self) -> dict[str, Any]:
        """What every thread has measured."""
        return self.reported("/snapshot")

    def reported(self, path: str) -> dict[str, Any]:
        """A page that every thread has a part in. One that gets no CPU for seconds is late, and all are asked again."""
        pages: list[dict[str, Any]] = []

        def is_reported() -> bool:
            try:
                pages.append(json.loads(self.http(path)))
            except urllib.error.HTTPError as error:
                with error:
                    if error.code != http.HTTPStatus.SERVICE_UNAVAILABLE:
                        raise
            return bool(pages)

        eventually(is_reported, f"the proxy tells {path}")
        return pages[0]


class ConfiguredProxy(Proxy):
    """`weir proxy` that takes pools and routes from a file, which can be read again."""

    def __init__(self, file: Path, *options: str, descriptors: tuple[int, int] | None = None) -> None:
        self.file = file
        super().__init__([], "--config", str(file), *options, descriptors=descriptors)

    def reload(self) -> tuple[int, str]:
        """POST /reload: its status, and what it says."""
        request = urllib.request.Request(f"http://{self.admin}/reload", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=LIVENESS_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def generation(self) -> int:
        """How many configurations have been in force, the first included."""
        ready = self.reported("/ready")
        assert ready["ready"]
        return int(ready["generation"])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))
