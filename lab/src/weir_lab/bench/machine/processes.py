"""Processes of this machine: start, wait until ready, measure CPU time, stop and reap whatever happens.

Knows nothing of studies. Start with `Processes`.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from weir_lab.errors import TestbedError
from weir_lab.records.formats.seen import ThreadTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import TracebackType

__all__ = [
    "Process",
    "Processes",
    "cpu_ns",
    "free_ports",
    "machine_busy_ns",
    "machine_steal_ns",
    "others_ns",
    "prefer_thread",
    "resident_bytes",
    "thread_times",
    "threads_named",
    "wait_until",
]

# Below the range from which the kernel takes ports for outgoing connections (32768 by default), so that a port found free is not
# taken by a client connection before the server binds it.
_PORTS = range(20_000, 32_000)
# Nice value of threads that go first: ten steps are about ten times the share.
_PREFERRED = -10
_STOP_S = 5.0
# Parent of all threads of the kernel.
_KERNEL_THREADS = 2
# Places of the times of a core in proc_stat(5).
_IDLE, _IO_WAIT, _STEAL = 3, 4, 7
_POLL_S = 0.01


@dataclass(frozen=True)
class Process:
    """One started process and where its output goes."""

    role: str
    name: str
    argv: tuple[str, ...]
    popen: subprocess.Popen[str]
    stderr_log: Path
    abrupt: bool = False
    """Whether it is killed at the end, after all others have gone: nothing is lost with it."""

    def require_alive(self) -> None:
        """Raise if it has ended."""
        status = self.popen.poll()
        if status is not None:
            raise TestbedError(f"{self.name} ended early with status {status}. Its last words: {self.last_words()}")

    def last_words(self) -> str:
        """End of its standard error, for error messages."""
        try:
            text = self.stderr_log.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            text = ""
        return text[-400:] or f"(nothing; see {self.stderr_log.parent})"


class Processes:
    """Context manager that stops and reaps everything it started, in reverse order."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[Process] = []
        # Children then end with this process even if it is killed and cannot stop them. The signal comes only for a death after it was
        # asked for, so a child looks once whether its parent is still the lab.
        setpriv = shutil.which("setpriv")
        parent_lives = ["/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
        self._prefix = [setpriv, "--pdeathsig", "KILL", "--", *parent_lives] if setpriv else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop and reap what is started so far; more may be started afterwards."""
        _stop(list(reversed(self._started)))

    @property
    def started(self) -> list[Process]:
        """Everything started so far, in order."""
        return list(self._started)

    def start(
        self,
        role: str,
        name: str,
        argv: list[str],
        *,
        started_as: list[str] | None = None,
        piped: str | None = None,
        abrupt: bool = False,
    ) -> Process:
        """Start a process in a session of its own, its output in NAME.stdout and NAME.stderr.

        `started_as` is the command line that runs `argv` on its machine, where it is not `argv` itself. With `piped`, ``stdout`` or
        ``stderr``, the caller reads that stream and keeps the log. An ``abrupt`` process is killed when all others have gone.
        """
        stderr_log = self._logs / f"{name}.stderr"
        with _uninterrupted(), (self._logs / f"{name}.stdout").open("w") as out, stderr_log.open("w") as err:
            try:
                popen = subprocess.Popen(
                    [*self._prefix, *(started_as or argv)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if piped == "stdout" else out,
                    stderr=subprocess.PIPE if piped == "stderr" else err,
                    text=True,
                    start_new_session=True,  # Ctrl-C reaches the lab alone, which then stops the roles in order
                )
            except OSError as error:
                raise TestbedError(f"{argv[0]} cannot be started: {error.strerror}. Is it installed?") from error
            process = Process(role, name, tuple(argv), popen, stderr_log, abrupt)
            self._started.append(process)
        return process


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back: a process must be known before anything may raise, or nobody would stop it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread alone
        return
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _frame: held.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for got in held:
            signal.raise_signal(got)


def wait_until(ready: Callable[[], bool], process: Process, limit_s: float, what: str) -> None:
    """Poll until `ready`; `TestbedError` if the process ends or the time is over."""
    deadline = time.monotonic() + limit_s
    while not ready():
        process.require_alive()
        if time.monotonic() > deadline:
            raise TestbedError(
                f"{process.name} was not ready within {limit_s:g} s ({what}). Its last words: {process.last_words()}"
            )
        time.sleep(_POLL_S)


def free_ports(count: int) -> list[int]:
    """TCP ports of the loopback interface that nobody listens on now, from a random start so that two sweeps seldom meet."""
    first = random.SystemRandom().randrange(len(_PORTS))
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for offset in range(len(_PORTS)):
            port = _PORTS[(first + offset) % len(_PORTS)]
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise TestbedError(f"No {count} free ports between {_PORTS.start} and {_PORTS.stop}. Stop unused servers.")


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process so far, in ns (scheduler statistics; threads that have ended are not in it)."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    except (OSError, IndexError, ValueError) as error:
        raise TestbedError(f"CPU time of process {pid} cannot be read from /proc ({error}).") from error


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM now (second field of proc(5)'s statm)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError) as error:
        raise TestbedError(f"Memory of process {pid} cannot be read from /proc ({error}).") from error


def threads_named(pid: int, name: str) -> list[int]:
    """Threads of a process that have this name; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text(encoding="utf-8").strip() == name:
                found.append(int(task.name))
    return found


def prefer_thread(pid: int, name: str) -> None:
    """Let threads of that name go before all others on this machine's cores, if we may; it is no fault if not."""
    with contextlib.suppress(OSError):
        for thread in threads_named(pid, name):
            os.setpriority(os.PRIO_PROCESS, thread, _PREFERRED)


def machine_busy_ns() -> int:
    """CPU time that the cores of this process spent on anything but idling, in ns with the resolution of a kernel tick.

    Cores that this process may not use are another machine, as far as a run is concerned: several runs share a large machine so.
    """
    return _in_ns(sum(sum(times) - times[_IDLE] - times[_IO_WAIT] for times in _core_ticks()))


def machine_steal_ns() -> int:
    """CPU time that a virtual machine was not given so far, over the cores of this process, in ns with the resolution of a kernel tick."""
    return _in_ns(_steal_ticks())


def _steal_ticks() -> int:
    return sum(times[_STEAL] for times in _core_ticks())


def _core_ticks() -> list[list[int]]:
    """The first eight times of proc_stat(5), guests left out, of each core that this process may use."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu"))
    return [[int(field) for field in fields[1:9]] for fields in lines if fields[0] in ours]


def _in_ns(ticks: int) -> int:
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def thread_times(pid: int) -> ThreadTimes:
    """Of each thread of a process its name, its CPU time, and how long it was ready and waited for a processor, in ns."""
    found: ThreadTimes = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):  # it may end while we look
                cpu, waited = (task / "schedstat").read_text().split()[:2]
                found[int(task.name)] = ((task / "comm").read_text(encoding="utf-8").strip(), int(cpu), int(waited))
    except OSError:
        return {}
    return found


def others_ns(ours: Collection[int]) -> int:
    """CPU time of all processes but these so far, with children that they have waited for, and steal: what this machine was not given.

    Threads of the kernel are left out: what they do for the network of our roles is nobody else's work. So are processes that are kept off
    the cores of this one. Resolution of a kernel tick.
    """
    ticks = _steal_ticks()
    cores = os.sched_getaffinity(0)
    has_all = len(cores) == os.cpu_count()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) in ours:
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            elsewhere = not has_all and cores.isdisjoint(os.sched_getaffinity(int(folder.name)))
        except OSError:
            continue  # it has just ended
        if elsewhere or int(fields[1]) == _KERNEL_THREADS or int(folder.name) == _KERNEL_THREADS:
            continue
        # utime and stime, cutime and cstime of proc(5). Of this process only its own: its children are the roles.
        ticks += sum(int(one) for one in fields[11 : 13 if int(folder.name) == os.getpid() else 15])
    return _in_ns(ticks)


def _stop(processes: list[Process]) -> None:
    """Ask all to end that have something to bring to an end, then kill the rest.

    memcached has nothing, and would heed the signal at its next clock tick only, up to a second later.
    """
    for send in (signal.SIGTERM, signal.SIGKILL):
        asked = [process.popen for process in processes if send is signal.SIGKILL or not process.abrupt]
        for popen in asked:
            if popen.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(popen.pid, send)
        deadline = time.monotonic() + _STOP_S
        for popen in asked:
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        for stream in (process.popen.stdout, process.popen.stderr):
            if stream is not None:
                stream.close()
