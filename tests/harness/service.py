"""What systemd does for a service, as the service sees it: a socket that hears of it, and ports that it is handed."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .processes import Address, Process, SocketPath, eventually, weir_binary

# Becomes the service: what it is handed has the numbers from 3 on, and `own` in a variable stands for its own number.
BECOME = """
import fcntl, os, sys
handed, command = [int(number) for number in sys.argv[1].split(",") if number], sys.argv[2:]
moved = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in handed]
for number in handed:
    os.close(number)
for place, number in enumerate(moved, 3):
    os.dup2(number, place)
    os.close(number)
variables = {name: str(os.getpid()) if value == "own" else value for name, value in os.environ.items()}
os.execve(command[0], command, variables)
"""


class ServiceManager:
    """Hears what a service says of itself (sd_notify)."""

    def __init__(self, address: str) -> None:
        """`address`: a path, or a name behind @ that is in no file system."""
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)
        self._heard: list[dict[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    @property
    def variables(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address}

    def heard(self) -> list[dict[str, str]]:
        """All datagrams so far, each as the values by their names."""
        while True:
            try:
                datagram = self._socket.recv(1 << 16)
            except BlockingIOError:
                return list(self._heard)
            lines = datagram.decode().split("\n")
            self._heard.append(dict(line.split("=", 1) for line in lines))

    def count(self, name: str) -> int:
        return sum(name in datagram for datagram in self.heard())

    def wait(self, name: str, times: int = 1) -> dict[str, str]:
        """The datagram with this name, once it has come this number of times."""
        eventually(lambda: self.count(name) >= times, f"{name} {times} times among {self.heard()}")
        return [datagram for datagram in self.heard() if name in datagram][times - 1]

    def wait_status(self, part: str) -> None:
        """Returns once the last status has this in it."""

        def last() -> str:
            return next((it["STATUS"] for it in reversed(self.heard()) if "STATUS" in it), "")

        eventually(lambda: part in last(), f"the status has {part!r}; {self.heard()}")


class Service(Process):
    """`weir proxy` as a service manager starts it: with variables, and with sockets that it is handed."""

    def __init__(
        self,
        *options: str,
        listen: Address | SocketPath | None = None,
        variables: Mapping[str, str] | None = None,
        handed: Sequence[socket.socket] = (),
    ) -> None:
        self.address = listen or Address.free()
        numbers = [it.fileno() for it in handed]
        given = {"LISTEN_PID": "own", "LISTEN_FDS": str(len(handed))} if handed else {}
        settings = [f"{name}={value}" for name, value in (given | dict(variables or {})).items()]
        weir = [str(weir_binary()), "proxy", "--listen", str(self.address), *options]
        become = [sys.executable, "-ISc", BECOME, ",".join(map(str, numbers))]
        super().__init__(["env", *settings, *become, *weir], passed=numbers)


# ── a thread that hangs ──────────────────────────────────────────────────────────────────────────────────────────────

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_FOR_THREADS = 0x40000000

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def ptrace(request: int, thread: int) -> None:
    if LIBC.ptrace(request, thread, None, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class FrozenThread:
    """Holds one thread of a child process, as if it hung, while all others go on. A signal can only stop all of them.

    It is what a debugger does at first (ptrace); where the kernel refuses that, `PermissionError`.
    """

    def __init__(self, process: Process, name: str) -> None:
        """The first thread whose name begins so."""
        tasks = sorted(Path(f"/proc/{process.pid}/task").iterdir(), key=lambda task: int(task.name))
        found = [int(task.name) for task in tasks if (task / "comm").read_text().startswith(name)]
        assert found, f"no thread {name} in {[(task / 'comm').read_text() for task in tasks]}"
        self._thread = found[0]
        ptrace(PTRACE_SEIZE, self._thread)
        ptrace(PTRACE_INTERRUPT, self._thread)
        os.waitpid(self._thread, WAIT_FOR_THREADS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            ptrace(PTRACE_DETACH, self._thread)
        except ProcessLookupError:
            # It was killed, and is waited for by whoever holds it.
            os.waitpid(self._thread, WAIT_FOR_THREADS)
