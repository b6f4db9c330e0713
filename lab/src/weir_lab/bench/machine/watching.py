"""Reads this machine's counters once a second while a long run is measured: `Watch`.

It costs some milliseconds of CPU time a second, which count as the lab's. Nothing that is read here is reset by reading.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from weir_lab.bench.machine.processes import cpu_ns, machine_busy_ns, machine_steal_ns, others_ns
from weir_lab.errors import TestbedError
from weir_lab.records.formats.seconds import MachineSeconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import TracebackType

__all__ = ["Glance", "Watch", "glance", "seconds_of"]

_EVERY_S = 1.0


@dataclass(frozen=True)
class Glance:
    """Counters at one instant; ``pieces`` are the yardstick's so far and their CPU time, over all cores."""

    monotonic_ns: int
    busy_ns: int
    steal_ns: int
    others_ns: int
    pieces: tuple[int, int]
    stalled_ns: dict[str, int] = field(default_factory=dict)


def glance(
    ours: Collection[int], stalled_ns: dict[str, int], pieces: tuple[int, int], awake: Collection[int] = ()
) -> Glance:
    """Now. Processes that keep cores ``awake`` are as if the cores idled."""
    busy_ns = machine_busy_ns() - sum(map(cpu_ns, awake))
    others = others_ns({*ours, *awake})
    return Glance(time.monotonic_ns(), busy_ns, machine_steal_ns(), others, pieces, stalled_ns)


def seconds_of(start_unix_ns: int, cores: int, glances: Sequence[Glance]) -> MachineSeconds | None:
    """Differences of neighbours; ``None`` where there are none. What a process that ended took away counts as nothing."""
    if len(glances) < 2:
        return None
    pairs = list(itertools.pairwise(glances))

    def column(of: Callable[[Glance], int]) -> list[int]:
        return [max(0, of(later) - of(earlier)) // 1000 for earlier, later in pairs]

    machines = sorted(set.intersection(*(set(one.stalled_ns) for one in glances)))
    return MachineSeconds(
        start_unix_ns=start_unix_ns,
        cores=cores,
        length_us=column(lambda one: one.monotonic_ns),
        busy_us=column(lambda one: one.busy_ns),
        steal_us=column(lambda one: one.steal_ns),
        others_us=column(lambda one: one.others_ns - one.steal_ns),
        piece_ns=[_piece_ns(earlier.pieces, later.pieces) for earlier, later in pairs],
        stalled_us={name: column(lambda one, name=name: one.stalled_ns[name]) for name in machines},  # type: ignore[misc]
    )


def _piece_ns(earlier: tuple[int, int], later: tuple[int, int]) -> int:
    count = later[0] - earlier[0]
    return (later[1] - earlier[1]) // count if count > 0 else 0


class Watch:
    """Context manager around the measured phase; `begin` and `end` at its edges. Without ``look`` it does nothing."""

    def __init__(self, look: Callable[[], Glance] | None, cores: int, every_s: float = _EVERY_S) -> None:
        self._look, self._cores, self._every_s = look, cores, every_s
        self._glances: list[Glance] = []
        self._start_unix_ns = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Look from now on."""
        if self._look is not None:
            self._start_unix_ns = time.time_ns()
            self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
            self._thread.start()

    def end(self) -> MachineSeconds | None:
        """Look no more; what was seen."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return seconds_of(self._start_unix_ns, self._cores, self._glances)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _work(self) -> None:
        assert self._look is not None
        due = time.monotonic()
        while True:
            try:
                self._glances.append(self._look())
            except (OSError, TestbedError):
                return  # a role has gone: what was seen until then stays
            due = max(due + self._every_s, time.monotonic())
            if self._ended.wait(due - time.monotonic()):
                return
