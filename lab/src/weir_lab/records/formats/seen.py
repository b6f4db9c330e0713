"""What is seen of stations inside a role: its kinds of threads, and how long requests waited in the kernel. Pure.

Threads that differ by a number alone belong to one kind: ``weir-worker-0`` and ``weir-worker-1`` are ``weir-worker``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weir_lab.records.formats.weir import Count, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weir_lab.records.formats.proxy_records import ProxyWindow, TraceRow

__all__ = ["KernelWait", "ThreadTimes", "ThreadsUse", "kernel_wait_of", "kind_of", "threads_between", "with_turns"]

_NUMBER = re.compile(r"[-.]?\d+")
# Threads of a proxy have this before their name in its windows.
_PREFIX = "weir-"

ThreadTimes = dict[int, tuple[str, int, int]]
"""By a thread's id: its name, its CPU time and the time for which it was ready and waited for a processor, both in ns."""


class ThreadsUse(Record):
    """Threads of one kind between the edges of the measured phase."""

    threads: Count
    cpu_ns: Count
    waited_ns: Count
    """Ready to run, without a processor."""
    busiest_ns: Count
    """CPU time of the one that used most."""
    turns: Count | None = None
    """How often they looked for work, and for how long they had some (``busy_ns``), in the windows that lie between the edges."""
    busy_ns: Count | None = None
    windows_ns: Count | None = None
    """The length of those windows."""


class KernelWait(Record):
    """Sampled requests that came between the edges: from the kernel's stamp of their arrival until the proxy had read their first byte."""

    count: Count
    sum_ns: Count


def kind_of(name: str) -> str:
    """A thread's name without numbers.

    >>> kind_of("weir-worker-12"), kind_of("weir-reader-3.1"), kind_of("weir-network")
    ('weir-worker', 'weir-reader', 'weir-network')
    """
    return _NUMBER.sub("", name)


def threads_between(
    first: Mapping[int, tuple[str, int, int]], second: Mapping[int, tuple[str, int, int]]
) -> dict[str, ThreadsUse]:
    """Threads that were there at both edges, by kind."""
    kinds: dict[str, list[tuple[int, int]]] = {}
    for thread, (name, cpu_ns, waited_ns) in second.items():
        if thread in first:
            used = (max(0, cpu_ns - first[thread][1]), max(0, waited_ns - first[thread][2]))
            kinds.setdefault(kind_of(name), []).append(used)
    return {
        kind: ThreadsUse(
            threads=len(used),
            cpu_ns=sum(cpu_ns for cpu_ns, _ in used),
            waited_ns=sum(waited_ns for _, waited_ns in used),
            busiest_ns=max(cpu_ns for cpu_ns, _ in used),
        )
        for kind, used in sorted(kinds.items())
    }


def with_turns(
    threads: Mapping[str, ThreadsUse], windows: Iterable[ProxyWindow], first_unix_ns: int, last_unix_ns: int
) -> dict[str, ThreadsUse]:
    """The same with turns and busy time from the proxies' windows that lie between two moments."""
    turns: dict[str, tuple[int, int]] = {}
    length_ns = 0
    for window in windows:
        if window.collected_unix_ns - window.length_ns < first_unix_ns or window.collected_unix_ns > last_unix_ns:
            continue
        length_ns += window.length_ns
        for one in window.threads:
            kind = kind_of(_PREFIX + one.thread)
            sofar = turns.get(kind, (0, 0))
            turns[kind] = (sofar[0] + one.turns, sofar[1] + one.busy_ns)
    return {
        kind: use
        if kind not in turns
        else use.model_copy(update={"turns": turns[kind][0], "busy_ns": turns[kind][1], "windows_ns": length_ns})
        for kind, use in threads.items()
    }


def kernel_wait_of(rows: Iterable[TraceRow], first_unix_ns: int, last_unix_ns: int) -> KernelWait | None:
    """Of the sampled requests between two moments whose arrival the kernel stamped; ``None`` without any."""
    waits = [
        max(0, row.first_byte_ns - row.arrived_ns)
        for row in rows
        if row.arrived_ns is not None and first_unix_ns <= row.time_unix_ns <= last_unix_ns
    ]
    return KernelWait(count=len(waits), sum_ns=sum(waits)) if waits else None
