"""Load generators of a run: `fill` sets the keys, `start_loads` starts all generators, `watch` waits for both ends of their measured phase.

Several generators of ours begin together at a moment fixed before they start. What they print tells when the measured phase begins: ours
say so, and memcaslap prints a block of text at the end of each second, so the phase begins with the last block of its warm-up.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from weir_lab.bench.planning import room_for_all_keys
from weir_lab.bench.programs.generators import MEMCASLAP, memcaslap_argv, memcaslap_config, prefill_argv, weir_load_argv
from weir_lab.bench.programs.subjects import NUTCRACKER, WEIR
from weir_lab.bench.running.starting import Running
from weir_lab.design import RequestPath, Role
from weir_lab.errors import TestbedError
from weir_lab.records import read_json
from weir_lab.records.formats import LoadRecord
from weir_lab.records.formats.foreign import GeneratorEntry, GeneratorsRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weir_lab.bench.programs.generators import Share
    from weir_lab.bench.running.edges import Edge
    from weir_lab.bench.running.starting import Starter
    from weir_lab.design import Plan, Settings

__all__ = ["Fleet", "fill", "start_loads", "watch"]

_GRACE_S = 30.0
_PREFILL_S = 120.0
# Generators begin together so long after the first is started: some multiple of what starting one took just now.
_LEAD_MIN_S, _LEAD_MAX_S = 0.5, 30.0
_TOO_LATE = "choose a later one"
# What memcaslap prints before the block of each second.
_CLEAR_SCREEN = "\x1b[2J"


class _Line(NamedTuple):
    """A line that a generator printed; ``text`` is ``None`` at the end of its output."""

    load: _Load
    text: str | None


@dataclass
class _Load:
    """One generator at work."""

    share: Share
    running: Running
    generator: str
    blocks_of_warmup: int
    blocks: int = 0
    begun_unix_ns: int | None = None
    ended: bool = False

    def hear(self, text: str) -> bool:
        """Whether the measured phase begins with this line."""
        if self.begun_unix_ns is not None:
            return False
        if self.generator == "weir":
            begins = text.startswith("measured:")
        else:
            self.blocks += _CLEAR_SCREEN in text
            begins = self.blocks >= self.blocks_of_warmup
        if begins:
            self.begun_unix_ns = time.time_ns()
        return begins


@dataclass
class Fleet:
    """All generators of a run."""

    loads: list[_Load]
    folder: Path
    lines: queue.Queue[_Line] = field(default_factory=queue.Queue)
    readers: list[threading.Thread] = field(default_factory=list)

    @property
    def running(self) -> list[Running]:
        """Their processes."""
        return [load.running for load in self.loads]

    def collect(self) -> list[str]:
        """Bring their files into the run's folder; what is wrong with those that ended badly."""
        problems = []
        for load in self.loads:
            process = load.running.process
            if load.generator == "weir":
                for ending in ("json", "hdr"):
                    load.running.machine.collect(self.folder / f"{load.share.name}.{ending}")
            if process.popen.returncode != 0:
                problems.append(
                    f"load generator {process.name} ended with status {process.popen.returncode}: {process.last_words()}"
                )
        return problems

    def answered(self) -> int:
        """Requests of all phases, of the prefill too, as far as their records tell; 0 where they do not."""
        files = [self.folder / f"{load.share.name}.json" for load in self.loads if load.generator == "weir"]
        files += [self.folder / "prefill.json"]
        return sum(read_json(file, LoadRecord).requests_of_all_phases for file in files if file.exists())

    def record(self, plan: Plan, first: Edge, second: Edge) -> GeneratorsRecord:
        """Who loaded the system."""
        return GeneratorsRecord(
            warmup_s=plan.warmup_s,
            measured_s=plan.measured_s,
            generators=[
                GeneratorEntry(
                    name=load.share.name,
                    generator=load.generator,
                    machine=load.share.machine,
                    connections=load.share.connections,
                    threads=load.share.threads,
                    targets=list(load.share.targets),
                    begun_unix_ns=load.begun_unix_ns or first.unix_ns,
                    clock_offset_ns=load.running.machine.clock_offset_ns,
                    cpu_ns=_cpu_between(first, second, load.share.name) if load.generator != "weir" else None,
                )
                for load in self.loads
            ],
        )

    def cpu_ns(self, record: GeneratorsRecord) -> int:
        """CPU time of all generators in the measured phase: their own count where they have one."""
        total = sum(entry.cpu_ns or 0 for entry in record.generators)
        for load in self.loads:
            if load.generator == "weir":
                spent = read_json(self.folder / f"{load.share.name}.json", LoadRecord).cpu
                total += spent.user_ns + spent.system_ns
        return total


def fill(starter: Starter, settings: Settings, targets: list[str], servers: Sequence[str], seed: int) -> float:
    """Set the keys where the generators do not do it themselves; how long it took to start one, in seconds.

    On the direct path every server must hold every key, since any connection may ask for it. Servers of ours behind a proxy get all keys,
    too: an engine that works on one request of a connection at a time needs a round trip per key, half a minute at a small speed. Where
    that cannot be, several generators find the keys set through the proxy. So do clients that think, whose system is made for less than
    all of them would bring at once. A single generator sets them itself otherwise, and so does memcaslap.
    """
    if settings.generator != "weir":
        return 0.0
    # Where sizes are drawn by the seed, what is set must have the sizes that the generator will look for.
    apart = 0 if settings.preset is not None else 1
    if settings.path is RequestPath.DIRECT:
        # Nothing of ours runs where targets do.
        nears = ["client-0" if starter.own_keys is not None else f"server-{index}" for index in range(len(targets))]
        seeds = [seed + apart * (1 + index) for index in range(len(targets))]
        return _prefill(starter, settings, list(zip(nears, targets, seeds, strict=True)))
    if _at_servers(settings, servers):
        # Replicas of a key are to be alike.
        places = [(f"server-{index}", server, seed + apart) for index, server in enumerate(servers)]
        return _prefill(starter, settings, places)
    if _filled_apart(settings, servers):
        return _prefill(starter, settings, [("proxy-0", targets[0], seed + apart)], through_proxy=True)
    return 0.0


def _filled_apart(settings: Settings, servers: Sequence[str]) -> bool:
    """Whether a generator of its own sets the keys before the others start."""
    return (
        settings.path is RequestPath.DIRECT
        or _at_servers(settings, servers)
        or settings.generators > 1
        or settings.think_time_ms > 0.0
    )


def _at_servers(settings: Settings, servers: Sequence[str]) -> bool:
    """Whether keys can be set on every server behind the proxy: they are ours, have room, and the proxy changes no key."""
    if not servers or settings.generator != "weir" or settings.preset is not None:
        return False
    return settings.subject in (WEIR, NUTCRACKER) and room_for_all_keys(settings)


def _prefill(
    starter: Starter, settings: Settings, places: Sequence[tuple[str, str, int]], *, through_proxy: bool = False
) -> float:
    """Fill targets at once, each from the machine that it runs on, so that keys do not wait for the link of a client.

    ``places`` are machines, targets and seeds.
    """
    filling = []
    for number, (near, target, seed) in enumerate(places):
        name, machine = "prefill" if through_proxy else f"prefill-{number}", starter.machine(near)
        record = starter.folder / f"{name}.json"
        argv = prefill_argv(starter.executables.weir, settings, target, seed, starter.own_keys)
        argv += ["--json", machine.file(record)]
        filling.append(
            (target, machine, record, time.monotonic(), starter.start(machine, Role.CLIENT, name, argv).process)
        )
    overheads_s = []
    for target, machine, record, began, process in filling:
        try:
            process.popen.wait(_PREFILL_S)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"prefill of {target} took more than {_PREFILL_S:g} s") from None
        took_s = time.monotonic() - began
        if process.popen.returncode != 0:
            raise TestbedError(
                f"prefill of {target} ended with status {process.popen.returncode}: {process.last_words()}"
            )
        machine.collect(record)
        phases = read_json(record, LoadRecord).phases.values()
        overheads_s.append(max(0.0, took_s - sum(phase.duration_ns for phase in phases) / 1e9))
    # That of the others has in it what it took to wait for those before.
    return overheads_s[0]


def start_loads(
    starter: Starter,
    settings: Settings,
    plan: Plan,
    shares: list[Share],
    servers: Sequence[str],
    overhead_s: float,
) -> Fleet:
    """Start all generators; those of ours that are several begin at one moment, by the clock of each machine."""
    prefilled = _filled_apart(settings, servers)
    # Connections are opened one after the other, each in a round trip.
    opening_s = 2.0 * max(share.connections for share in shares) * _round_trip_s(starter)
    lead_s = min(_LEAD_MAX_S, max(_LEAD_MIN_S, 3.0 * overhead_s * len(shares)) + opening_s)
    together_ns = time.time_ns() + round(lead_s * 1e9) if len(shares) > 1 else None
    fleet = Fleet([], starter.folder)
    for share in shares:
        running = _start(starter, settings, plan, share, together_ns, prefilled=prefilled)
        load = _Load(share, running, settings.generator, round(plan.warmup_s))
        fleet.loads.append(load)
        reader = threading.Thread(target=_copy_lines, args=(load, starter.folder, fleet.lines), daemon=True)
        reader.start()
        fleet.readers.append(reader)
    return fleet


def _round_trip_s(starter: Starter) -> float:
    """The longest median between machines, as it was measured; none on a testbed without links."""
    return max((one.median_ms for one in starter.testbed.record.round_trips), default=0.0) / 1e3


def _start(
    starter: Starter, settings: Settings, plan: Plan, share: Share, together_ns: int | None, *, prefilled: bool
) -> Running:
    client = starter.machine(share.machine)
    if settings.generator == MEMCASLAP:
        config = starter.folder / "memcaslap.conf"
        config.write_text(memcaslap_config(settings), encoding="utf-8")
        client.deliver(config)
        argv = memcaslap_argv(plan, share, client.file(config))
        return starter.start(client, Role.CLIENT, share.name, argv, piped="stdout")
    start_at = None if together_ns is None else (together_ns + client.clock_offset_ns) / 1e9
    weir, keys = starter.executables.weir, starter.own_keys
    argv = weir_load_argv(weir, settings, plan, share, prefilled=prefilled, start_at=start_at, keys=keys)
    for flag, ending in (("--hdr", "hdr"), ("--json", "json")):
        argv += [flag, client.file(starter.folder / f"{share.name}.{ending}")]
    return starter.start(client, Role.CLIENT, share.name, argv, piped="stderr")


def _copy_lines(load: _Load, folder: Path, lines: queue.Queue[_Line]) -> None:
    popen, name = load.running.process.popen, load.running.process.name
    stream, ending = (popen.stderr, "stderr") if load.generator == "weir" else (popen.stdout, "stdout")
    assert stream is not None
    with (folder / f"{name}.{ending}").open("w", encoding="utf-8") as log:
        for text in stream:
            log.write(text)
            log.flush()
            lines.put(_Line(load, text))
    lines.put(_Line(load, None))


def watch(fleet: Fleet, plan: Plan, first_edge: Callable[[], None], second_edge: Callable[[], None]) -> None:
    """Call at both edges of the measured phase, and wait until all generators have ended.

    The phase has begun when the last generator says so, and ends `Plan.measured_s` after the first did: what all have in common.
    """
    limit = time.monotonic() + plan.warmup_s + plan.measured_s + plan.cooldown_s + _PREFILL_S + _GRACE_S + _LEAD_MAX_S
    closes_at: float | None = None
    opened = closed = False
    while not all(load.ended for load in fleet.loads):
        line = _next_line(fleet.lines, closes_at if opened and not closed and closes_at is not None else limit)
        now = time.monotonic()
        if line is not None and line.text is None:
            _end(line.load, fleet)
        elif line is not None and line.text is not None and line.load.hear(line.text) and closes_at is None:
            closes_at = now + plan.measured_s
        if not opened and all(load.begun_unix_ns is not None for load in fleet.loads):
            opened = True
            first_edge()
        elif opened and not closed and closes_at is not None and (now >= closes_at or _any_ended(fleet)):
            closed = True
            second_edge()
        if line is None and now >= limit:
            raise TestbedError("the load generators did not end in time; they were stopped")
    for reader in fleet.readers:
        reader.join()


def _end(load: _Load, fleet: Fleet) -> None:
    """One that ends badly before its measured phase takes the run with it: the others need not go on."""
    load.ended = True
    status = load.running.process.popen.wait()
    if status == 0 or load.begun_unix_ns is not None:
        return
    words = load.running.process.last_words()
    if _TOO_LATE in words:
        raise TestbedError(
            f"{load.running.process.name} was not ready when all {len(fleet.loads)} load generators were to begin: the machine is too busy"
        )
    raise TestbedError(f"load generator {load.running.process.name} ended with status {status}: {words}")


def _any_ended(fleet: Fleet) -> bool:
    return any(load.ended for load in fleet.loads)


def _next_line(lines: queue.Queue[_Line], until: float) -> _Line | None:
    """The next line, or ``None`` if there was none in time."""
    try:
        return lines.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
        return None


def _cpu_between(first: Edge, second: Edge, name: str) -> int | None:
    if name not in first.client_ns or name not in second.client_ns:
        return None
    spent = second.client_ns[name] - first.client_ns[name]
    return spent if spent >= 0 else None  # its threads had ended by then, and their time is lost
