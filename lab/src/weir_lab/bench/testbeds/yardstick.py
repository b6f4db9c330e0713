"""How fast this machine's cores are while a run is made: `Yardstick`.

A core that shares its execution units with a busy neighbour, or whose clock is lowered, does the same work in more CPU time, and no
counter of a guest system says so. A fixed piece of work of about a quarter of a millisecond, done now and then on each core and timed by
the thread's own CPU clock, does. It takes less than one percent of a core.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

__all__ = ["Pieces", "Yardstick", "mean_piece_ns", "piece_now_ns"]

_WORK = bytes(96 << 10)
# Mean pause between two pieces on a core; each is drawn anew, so that no rhythm of the system under study is met again and again.
_PAUSE_S = 0.04


@dataclass(frozen=True)
class Pieces:
    """Pieces of work done on one core so far, and the CPU time they took."""

    count: int = 0
    cpu_ns: int = 0


class Yardstick:
    """Context manager: a thread on each of `cores` works while it is open; none where there are no cores to measure.

    >>> with Yardstick([]) as nothing:
    ...     nothing.read()
    {}
    """

    def __init__(self, cores: Iterable[int]) -> None:
        self._pieces = {core: Pieces() for core in cores}
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(core,), name=f"yardstick-{core}", daemon=True)
            for core in self._pieces
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def read(self) -> dict[int, Pieces]:
        """What was done so far, per core."""
        return dict(self._pieces)

    def _work(self, core: int) -> None:
        try:
            os.sched_setaffinity(0, {core})  # of this thread alone
        except OSError:
            return  # a core that was taken away is not measured
        draw = random.Random(core)
        while not self._ended.wait(draw.uniform(0.5, 1.5) * _PAUSE_S):
            spent = _piece_ns()
            so_far = self._pieces[core]
            self._pieces[core] = Pieces(so_far.count + 1, so_far.cpu_ns + spent)


def mean_piece_ns(first: dict[int, Pieces], second: dict[int, Pieces]) -> dict[str, float]:
    """Mean CPU time of a piece between two readings, by the core's number; cores without a piece are left out."""
    found = {}
    for core, later in second.items():
        earlier = first.get(core, Pieces())
        if later.count > earlier.count:
            found[str(core)] = (later.cpu_ns - earlier.cpu_ns) / (later.count - earlier.count)
    return found


def piece_now_ns(cores: Iterable[int]) -> dict[str, int]:
    """CPU time of one piece on each core now, by the core's number; the calling thread visits them in turn.

    A first piece on each is not counted: it finds the caches as whoever worked there before left them.
    """
    home, found = os.sched_getaffinity(0), {}
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            _piece_ns()
            found[str(core)] = _piece_ns()
    finally:
        os.sched_setaffinity(0, home)
    return found


def _piece_ns() -> int:
    before = time.thread_time_ns()
    hashlib.blake2b(_WORK)
    return time.thread_time_ns() - before
