"""One life: memcached servers, both sides before them, and pieces of load in turn. Start with `make_life`.

::

    servers -> A and B (in random order) -> keys set through both
            -> [gap] piece of A [gap] piece of B [gap] piece of B [gap] piece of A [gap] ...   -> all stop
                `------ pair 0 ------'           `------ pair 1 ------'

Both sides are alive all the time; one works and the other sleeps. A piece is one run of ``weir load``, which takes 2 to 5 ms to start: its
connections are made and its first requests answered in a warm-up that is not counted. Error replies are counted; a side with too many of
them ends the comparison, because no verdict is made of errors (`ERRORS_MAX_SHARE`). No request is outstanding when a piece ends, so that
none is charged with the other side's piece. In a gap nobody works, and the yardstick is read.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.programs.generators import Share, prefill_argv, weir_load_argv
from weir_lab.bench.running import Executables
from weir_lab.bench.running.proxies import RunningProxy, start_proxies
from weir_lab.bench.running.starting import Starter, start_servers
from weir_lab.bench.testbeds import TestbedKind, open_testbed, piece_now_ns
from weir_lab.design import Plan, RequestPath, Settings
from weir_lab.design.topology import Cores, Shape, Topology
from weir_lab.errors import TestbedError
from weir_lab.records.comparisons import LifeRecord, PieceRecord
from weir_lab.records.formats import LoadRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Literal

    from weir_lab.bench.testbeds import Testbed
    from weir_lab.bench.turns.sides import Side

    Name = Literal["A", "B"]

__all__ = ["ERRORS_ALLOWED", "ERRORS_MAX_SHARE", "Bench", "load_argv", "make_life"]

_GRACE_S = 30.0
# What the generator says, with status 1, where nothing came back in its short time: a piece without answers, as a busy machine makes them.
_NOTHING = "no request was ever answered"
_NS = 1e9
ERRORS_MAX_SHARE = 0.001
"""A side that answers more of the requests of a life than this with errors ends the comparison: far below any difference that matters."""
ERRORS_ALLOWED = 10
"""So few of a life do not, whatever their share: the first pieces have few requests."""


@dataclass(frozen=True)
class Bench:
    """What all lives of a comparison have in common."""

    sides: dict[Name, Side]
    settings: Settings
    executables: Executables
    pairs: int
    """Pairs of a life that count; one before them is its warm-up."""
    piece_s: float
    warmup_s: float
    levels: tuple[int, ...]
    """Numbers of clients; each life has all of its pairs at each of them."""
    cores: Cores = field(default_factory=Cores)
    load_flags: tuple[str, ...] = ()
    """More flags of ``weir load``."""
    seed: int = 20161118

    @property
    def pinned(self) -> list[int]:
        """Cores that any role is pinned to."""
        return sorted({*self.cores.client, *self.cores.proxy, *self.cores.server})


def make_life(bench: Bench, number: int, folder: Path) -> LifeRecord:
    """Make the life of that number in a folder of its own; its random choices depend on the seed and the number alone."""
    draw = random.Random(f"{bench.seed}-{number}")
    first: Name = draw.choice(("A", "B"))
    order: list[Name] = [first, "B" if first == "A" else "A"]
    began, began_unix_ns = time.monotonic(), time.time_ns()
    testbed = open_testbed(
        TestbedKind.LOCAL, Topology(cores=bench.cores), Shape(clients=1, proxies=1, servers=bench.settings.servers)
    )
    with ExitStack() as held:
        held.enter_context(testbed)
        servers, addresses = start_servers(_starter(held, testbed, bench, folder / "servers"), bench.settings)
        started = {
            name: _Started.make(_starter(held, testbed, bench, folder / name.lower()), bench, name, addresses)
            for name in order
        }
        life = _Life(bench, started, testbed, draw, began)
        life.fill()
        life.run()
        for server in servers:
            server.process.require_alive()
    return LifeRecord(
        number=number,
        begun_unix_ns=began_unix_ns,
        took_s=time.monotonic() - began,
        first=first,
        pieces=life.pieces,
        yardstick_ns=life.yardstick_ns,
        asked=dict(life.asked),
        errors={name: dict(texts) for name, texts in life.errors.items()},
    )


def load_argv(bench: Bench, target: str, clients: int, seed: int) -> list[str]:
    """Command line of one piece."""
    share = Share(
        number=0,
        machine="client-0",
        connections=clients,
        threads=min(bench.settings.client_threads, clients),
        targets=tuple(target.split(",")),
        seed=seed,
    )
    plan = Plan(
        repetitions=1,
        order="randomised-blocks",
        seed=0,
        attempts=1,
        warmup_s=bench.warmup_s,
        measured_s=bench.piece_s,
    )
    argv = weir_load_argv(bench.executables.weir, bench.settings, plan, share, prefilled=True, start_at=None)
    return [*argv, *bench.load_flags, "--json", "-"]


def _starter(held: ExitStack, testbed: Testbed, bench: Bench, folder: Path) -> Starter:
    folder.mkdir(parents=True)
    return Starter(held.enter_context(Processes(folder)), testbed, bench.executables, folder)


@dataclass(frozen=True)
class _Started:
    """A side at work: its proxy, if it has one, and where load goes."""

    name: Name
    proxy: RunningProxy | None
    targets: tuple[str, ...]

    @classmethod
    def make(cls, starter: Starter, bench: Bench, name: Name, servers: list[str]) -> _Started:
        side = bench.sides[name]
        if side.direct:
            return cls(name, None, tuple(servers))
        settings = bench.settings.model_copy(update={"path": RequestPath.PROXY, "subject": side.subject_name})
        try:
            proxies = start_proxies(starter, settings, side.subject, None, servers)
        except TestbedError as error:
            raise TestbedError(f"{name} ({side.asked}): {error}") from error
        return cls(name, proxies[0], (proxies[0].listen,))

    def cpu_ns(self) -> int | None:
        """Of its process so far."""
        return self.proxy.running.machine.cpu_ns(self.proxy.running.process) if self.proxy is not None else None


@dataclass
class _Life:
    """Pieces in turn."""

    bench: Bench
    sides: dict[Name, _Started]
    testbed: Testbed
    draw: random.Random
    began: float
    pieces: list[PieceRecord] = field(default_factory=list)
    yardstick_ns: list[dict[str, int]] = field(default_factory=list)
    asked: Counter[Name] = field(default_factory=Counter)
    errors: dict[Name, Counter[str]] = field(default_factory=dict)

    def fill(self) -> None:
        """Set every key through each side: where its placement looks for it, and on the direct path on every server."""
        for place, side in enumerate(self.sides.values()):
            for target in side.targets:
                seed = self.bench.seed + place
                argv = prefill_argv(self.bench.executables.weir, self.bench.settings, target, seed)
                record = self._load(side, [*argv, *self.bench.load_flags, "--json", "-"])
                if record.errors:  # what is not set is missed later
                    raise TestbedError(
                        f"{self._called(side)} answered with errors: {_reported(record.errors)}. Mend that first."
                    )

    def run(self) -> None:
        """The pair 0 and those that count."""
        for pair in range(self.bench.pairs + 1):
            for clients in self.draw.sample(self.bench.levels, len(self.bench.levels)):
                order: list[Name] = ["A", "B"]
                self.draw.shuffle(order)
                seed = self.draw.randrange(1 << 31)  # both pieces of a pair ask for the same
                for name in order:
                    self._gap()
                    self.pieces.append(self._piece(self.sides[name], clients, pair, seed))
        self._gap()

    def _gap(self) -> None:
        self.yardstick_ns.append(piece_now_ns(self.bench.pinned))

    def _piece(self, side: _Started, clients: int, pair: int, seed: int) -> PieceRecord:
        begun_ns = round((time.monotonic() - self.began) * _NS)
        before = side.cpu_ns()
        record = self._load(side, load_argv(self.bench, ",".join(side.targets), clients, seed))
        after = side.cpu_ns()
        self._count(side, record)
        times = record.response_times()
        answered, asked = record.response_time_count, record.requests_of_all_phases
        spent = (after - before) / asked if before is not None and after is not None and asked else None
        return PieceRecord(
            side=side.name,
            clients=clients,
            pair=pair,
            begun_ns=begun_ns,
            requests=record.measured.requests,
            throughput_rps=record.throughput_rps,
            mean_ns=record.response_time_sum_ns / answered if answered else None,
            p50_ns=times.percentile(50.0) if answered and times is not None else None,
            p99_ns=times.percentile(99.0) if answered and times is not None else None,
            cpu_ns_per_request=spent,
        )

    def _load(self, side: _Started, argv: list[str]) -> LoadRecord:
        """Run the generator to its end; anything but right answers ends the comparison."""
        command = self.testbed.machine("client-0").command("load", argv)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self._limit_s(), check=False)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"the load on {self._called(side)} did not end within {self._limit_s():g} s") from None
        except OSError as error:
            raise TestbedError(f"{argv[0]} cannot be started: {error.strerror}. Is it installed?") from error
        if side.proxy is not None:
            side.proxy.running.process.require_alive()
        if done.returncode != 0 and _NOTHING not in done.stderr:
            words = done.stderr.strip()[-400:] or "(nothing)"
            raise TestbedError(
                f"the load on {self._called(side)} ended with status {done.returncode}. Its last words: {words}"
            )
        try:
            record = LoadRecord.model_validate_json(done.stdout)
        except ValidationError as error:
            raise TestbedError(f"what the load on {self._called(side)} printed is no record: {error}") from error
        if record.failures.count:
            reported = "; ".join(record.failures.first[:1]) or "(nothing reported)"
            raise TestbedError(f"{self._called(side)} failed verification {record.failures.count} times: {reported}")
        return record

    def _count(self, side: _Started, record: LoadRecord) -> None:
        """Error replies so far, which end the comparison if they are too many."""
        self.asked[side.name] += record.requests_of_all_phases
        if not record.errors:
            return
        texts = self.errors.setdefault(side.name, Counter())
        texts.update(record.errors)
        count, asked = texts.total(), self.asked[side.name]
        if count > max(ERRORS_ALLOWED, ERRORS_MAX_SHARE * asked):
            raise TestbedError(
                f"{self._called(side)} answered {count:,} of {asked:,} requests of a life with errors: {_reported(texts)}. More than "
                f"{ERRORS_ALLOWED} and {100 * ERRORS_MAX_SHARE:g} % end the comparison. Mend that first."
            )

    def _called(self, side: _Started) -> str:
        return f"{side.name} ({self.bench.sides[side.name].asked})"

    def _limit_s(self) -> float:
        return self.bench.warmup_s + self.bench.piece_s + _GRACE_S


def _reported(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} times {text!r}" for text, count in errors.items())
