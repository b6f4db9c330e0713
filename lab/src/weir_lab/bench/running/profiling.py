"""A CPU profile of the proxies in the measured phase, where asked for: ``perf record`` beside each, and its summary as text.

A profile takes CPU time from what it looks at, so profiled runs are runs of their own (their content hash says so).
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Self

from weir_lab.bench.network import find_program
from weir_lab.errors import TestbedError
from weir_lab.records import placed_name

if TYPE_CHECKING:
    from types import TracebackType

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.running.starting import Running, Starter

__all__ = ["Profiling", "missing_profiler"]

# Off the kernel's tick, so that what happens at each tick is not sampled each time.
_SAMPLES_PER_S = 199
_END_S = 30.0
_SUMMARY_S = 120.0


def missing_profiler() -> str | None:
    """Why nothing can be profiled on this machine; ``None`` if it can."""
    return (
        None
        if find_program("perf")
        else "perf is not installed: install the package linux-perf, or leave --profile out"
    )


class Profiling:
    """Context manager around the measured phase; does nothing for no process."""

    def __init__(self, starter: Starter, proxies: list[Running]) -> None:
        self._starter = starter
        self._proxies = proxies
        self._recording: list[tuple[int, Process]] = []

    def __enter__(self) -> Self:
        return self

    def begin(self, seconds: float) -> None:
        """Record from now on, for so long."""
        for place, proxy in enumerate(self._proxies):
            data = self._starter.folder / placed_name("profile", place, "data")
            argv = ["perf", "record", "-F", str(_SAMPLES_PER_S), "-g", "-o", str(data)]
            argv += ["-p", str(proxy.process.popen.pid), "--", "sleep", f"{seconds:g}"]
            process = self._starter.processes.start("lab", placed_name("perf", place, "log").removesuffix(".log"), argv)
            self._recording.append((place, process))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return  # who started them stops them
        for place, process in self._recording:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(_END_S)
            data = self._starter.folder / placed_name("profile", place, "data")
            if not data.exists():
                raise TestbedError(f"perf recorded nothing: {process.last_words()}")
            argv = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", str(data)]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=_SUMMARY_S, check=False)
            except (OSError, subprocess.SubprocessError) as problem:
                raise TestbedError(f"perf report failed: {problem}") from problem
            summary = self._starter.folder / placed_name("profile", place, "txt")
            summary.write_text(done.stdout, encoding="utf-8")
