"""One run: a load through a subject, with the CPU time that each role used in the load's measured phase."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.harness.wire import Connectable, Wire

from .cells import Cell
from .subjects import Subject

# Between two samples of CPU time. The measured phase's borders fall between samples and are interpolated, which is
# wrong by at most one interval's change of rate at either end.
SAMPLE_INTERVAL_S = 0.05

# More CPU than this, in cores, used by anything but the run itself: the run is disturbed. One compiler nearby uses 1.
FOREIGN_CORES_MAX = 0.15

JIFFY_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

Record = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How long each run takes, and how much of the machine others may use meanwhile."""

    warmup_s: float
    measured_s: float
    foreign_cores_max: float = FOREIGN_CORES_MAX


class RunError(Exception):
    """The load did not produce a record."""


@dataclass(frozen=True)
class Roles:
    """Process ids by role. CPU time of everything else is foreign."""

    proxy: int | None
    servers: Sequence[int]

    def readers(self) -> dict[str, Callable[[], int]]:
        own = os.getpid()
        proxy = self.proxy
        readers: dict[str, Callable[[], int]] = {
            "servers": lambda: sum(map(cpu_ns, self.servers)),
            "servers_user_ticks": lambda: sum(user_ticks(pid) for pid in self.servers),
            "servers_kernel_ticks": lambda: sum(kernel_ticks(pid) for pid in self.servers),
            "bench": lambda: cpu_ns(own),
            "machine": busy_ns,
            "stolen": stolen_ns,
        }
        if proxy is not None:
            readers["proxy"] = lambda: cpu_ns(proxy)
            readers["proxy_user_ticks"] = lambda: user_ticks(proxy)
            readers["proxy_kernel_ticks"] = lambda: kernel_ticks(proxy)
        return readers


class CpuSampler:
    """Samples the CPU time of roles against the wall clock, in a thread, from `start` to `stop`."""

    def __init__(self, readers: Mapping[str, Callable[[], int]]) -> None:
        self._readers = readers
        self._samples: list[tuple[int, ...]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> CpuSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def used_ns(self, start_unix_ns: int, end_unix_ns: int) -> dict[str, float]:
        """CPU time of each role between two moments."""
        table = np.array(self._samples, dtype=np.int64)
        times = table[:, 0]
        if not times[0] <= start_unix_ns < end_unix_ns <= times[-1]:
            raise RunError("the measured phase lies outside the sampled time; was the clock set during the run?")
        # Relative to the first sample, so that a double holds every nanosecond.
        moments = np.array([start_unix_ns, end_unix_ns], dtype=np.int64) - times[0]
        used = {}
        for column, role in enumerate(self._readers, start=1):
            before, after = np.interp(moments, times - times[0], table[:, column] - table[0, column])
            used[role] = float(after - before)
        return used

    def _sample(self) -> None:
        while True:
            self._samples.append((time.time_ns(), *(read() for read in self._readers.values())))
            if self._stopped.wait(SAMPLE_INTERVAL_S):
                self._samples.append((time.time_ns(), *(read() for read in self._readers.values())))
                return


def run(
    weir: Path, cell: Cell, subject: Subject, servers: Sequence[tuple[Connectable, int]], plan: Plan, seed: int
) -> Record:
    """One load through a started subject; `servers` with their process ids. Gives the record that is kept."""
    for address, _ in servers:
        with Wire(address) as wire:
            assert wire.ask(b"flush_all") == b"OK"
    command = [str(weir), "load", "--target", subject.target, *subject.flags, *cell.flags(), "--seed", str(seed)]
    command += ["--warmup", f"{plan.warmup_s}s", "--duration", f"{plan.measured_s}s", "--json", "-"]
    proxy_cores, other_cores = cores(cell)
    place(proxy_cores, [subject.process.pid] if subject.process else [])
    place(other_cores, [pid for _, pid in servers])
    roles = Roles(subject.process.pid if subject.process else None, [pid for _, pid in servers])
    with CpuSampler(roles.readers()) as sampler:
        done = subprocess.run(
            ["taskset", "--cpu-list", ",".join(map(str, sorted(other_cores))), *command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        rss = rss_bytes(subject.process.pid) if subject.process else None
        gathered = keys_per_message(subject.snapshot()) if subject.admin else None
    try:
        load: Record = without_folders(without_histograms(json.loads(done.stdout)))
    except ValueError:
        said = done.stderr.strip()[-1000:]
        raise RunError(f"exit status {done.returncode} and no record from: {' '.join(command)}\n{said}") from None
    measured = load["phases"]["measured"]
    start = measured["start_unix_ns"]
    used = sampler.used_ns(start, start + measured["duration_ns"])
    return {
        "load": load,
        "cpu": cpu_record(load, used, measured),
        "proxy_rss_bytes": rss,
        "keys_per_message": gathered,
        "problems": problems(load, used, measured, plan.foreign_cores_max),
    }


def cpu_record(load: Record, used: Mapping[str, float], measured: Record) -> Record:
    """CPU time per request by role, and what the rest of the machine used meanwhile."""
    requests = max(1, measured["requests"])
    per_request = {role: used[role] / requests for role in ("proxy", "servers") if role in used}
    return {
        "per_request_ns": per_request | {"load": load["cpu"]["per_request_ns"]},
        "kernel_share": {role: kernel_share(role, used) for role in per_request},
        "proxy_cores": used["proxy"] / measured["duration_ns"] if "proxy" in used else None,
        "foreign_cores": foreign_cores(load, used, measured),
        "stolen_cores": used["stolen"] / measured["duration_ns"],
    }


def kernel_share(role: str, used: Mapping[str, float]) -> float | None:
    """The part of a role's CPU time that the kernel took, for its calls and for what came in on its sockets. It comes
    from clock ticks, so it is a share alone: the time itself is known better."""
    user, kernel = (used.get(f"{role}_{where}_ticks", 0.0) for where in ("user", "kernel"))
    return kernel / (user + kernel) if user + kernel > 0.0 else None


def foreign_cores(load: Record, used: Mapping[str, float], measured: Record) -> float:
    own = used.get("proxy", 0.0) + used["servers"] + used["bench"] + load["cpu"]["user_ns"] + load["cpu"]["system_ns"]
    return float((used["machine"] - own) / measured["duration_ns"])


def problems(load: Record, used: Mapping[str, float], measured: Record, foreign_cores_max: float) -> list[str]:
    """Why a run does not count. It is kept all the same."""
    found = []
    foreign = foreign_cores(load, used, measured) + used["stolen"] / measured["duration_ns"]
    if foreign > foreign_cores_max:
        found.append(f"disturbed: {foreign:.2f} cores were used by others")
    found += [f"{measured[count]} {count}" for count in ("failures", "errors", "misses") if measured[count]]
    if not measured["requests"]:
        found.append("nothing was answered")
    return found


def without_folders(load: Record) -> Record:
    """A load's record with the names of sockets alone: their folder was made for one run."""
    targets = [f"unix:{Path(it).name}" if it.startswith("unix:") else it for it in load["config"]["targets"]]
    return {**load, "config": {**load["config"], "targets": targets}}


def without_histograms(value: Any) -> Any:
    """A load's record without its encoded histograms, which are most of its size; the percentiles stay."""
    if isinstance(value, dict):
        return {name: without_histograms(entry) for name, entry in value.items() if name != "histogram"}
    if isinstance(value, list):
        return [without_histograms(entry) for entry in value]
    return value


def keys_per_message(snapshot: Record) -> float | None:
    """Keys that clients asked for over the messages of gets to servers, since the proxy's start (`weir.proxy/1`). What
    was answered without a server counts as asked for. None where nothing was got."""
    operations = snapshot["operations"]
    keys = sum(operations[name]["keys"] for name in ("get", "multiget") if name in operations)
    sets = operations["set"]["requests"] if "set" in operations else 0
    # Each part counts as a request of its server, whether or not it shares a message.
    messages = sum(server["requests"] for server in snapshot["servers"]) - sets - snapshot["counters"]["gets_joined"]
    return keys / messages if keys and messages > 0 else None


def cores(cell: Cell) -> tuple[set[int], set[int]]:
    """Where the proxy runs, and where servers and load do."""
    available = sorted(os.sched_getaffinity(0))
    if not cell.own_core:
        return set(available), set(available)
    if len(available) < 2:
        raise RunError("a proxy on its own core needs a machine with two cores or more")
    return {available[0]}, {available[1]}


def place(cores: set[int], pids: Sequence[int]) -> None:
    """Moves all threads of these processes to these cores."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            # A thread may have ended meanwhile, as stunnel's do.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, to the nanosecond (clock ticks would be 10 ms)."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def user_ticks(pid: int) -> int:
    """CPU time of a process in its own code, in clock ticks (`utime` of proc_pid_stat(5))."""
    return int(stat_fields(pid)[11])


def kernel_ticks(pid: int) -> int:
    """CPU time of a process in the kernel, in clock ticks (`stime` of proc_pid_stat(5))."""
    return int(stat_fields(pid)[12])


def stat_fields(pid: int) -> list[str]:
    """What `/proc/PID/stat` says behind the name, which may hold blanks and brackets; the first is the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def busy_ns() -> int:
    """Time that the cores of this run were not idle, stolen time left out, since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq = jiffies(os.sched_getaffinity(0))[:7]
    return (user + nice + system + irq + softirq) * JIFFY_NS


def stolen_ns() -> int:
    """Time that the hypervisor gave to others while one of these cores wanted to run."""
    return jiffies(os.sched_getaffinity(0))[7] * JIFFY_NS


def jiffies(cores: Set[int]) -> list[int]:
    """The columns of `/proc/stat` (proc_stat(5)), summed over these cores alone: what may run on others has no part in
    the run."""
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    wanted = {f"cpu{core}" for core in cores}
    return [
        sum(column)
        for column in zip(*([int(word) for word in row[1:]] for row in rows if row[0] in wanted), strict=True)
    ]
