"""A switch that delays what passes, for kernels without netem: the program ``weir-delay``, started in the namespace of the switch.

`DelayDevice` starts it, asks it what it did, and ends it. It ends with the lab, too: it reads a pipe that closes then.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DelayDevice", "DelayPort", "DelayReport", "Lateness", "find_delay_device"]

_LIMIT_S = 20.0
_NAME = "weir-delay"
_VARIABLE = "WEIR_DELAY_BIN"
# Where this file lies in a clone; elsewhere nothing is found there.
_REPOSITORY = Path(__file__).resolve().parents[5]


@dataclass(frozen=True)
class DelayPort:
    """One port of the device, and what leaves through it."""

    interface: str
    delay_ms: float


@dataclass(frozen=True)
class Lateness:
    """How much after they were due frames left, in microseconds; negative is early."""

    count: int
    p1_us: int
    median_us: int
    p90_us: int
    p99_us: int
    p999_us: int
    max_us: int


@dataclass(frozen=True)
class DelayReport:
    """What the device says of itself. Counters are totals; lateness is that since the report before."""

    priority: str
    lateness: Lateness | None
    early_us: float
    correction_is_spent: bool
    cpu_ns: int
    packets: int
    """Packets that left, as a wire would count them."""
    wire_bytes: int
    dropped_packets: int
    """Packets that came and did not leave, for whatever reason."""
    waiting_bytes_max: int
    """The most that waited at one port."""

    @property
    def is_real_time(self) -> bool:
        """Whether the device goes before all ordinary threads."""
        return self.priority.startswith("SCHED_FIFO")


def find_delay_device() -> Path | None:
    """Where the program is: as ``WEIR_DELAY_BIN`` says, else where cargo puts it, from here or from this repository, else on the PATH."""
    said = os.environ.get(_VARIABLE)
    if said is not None:
        return Path(said) if Path(said).is_file() else None
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    for folder in (Path(), _REPOSITORY):
        built = folder / target / "release" / _NAME
        if built.is_file():
            return built.absolute()
    found = shutil.which(_NAME)
    return Path(found) if found else None


class DelayDevice:
    """A running device. `enter` are the words that start a program in the switch's namespace."""

    def __init__(self, program: Path, enter: Sequence[str], ports: Sequence[DelayPort], *words: str) -> None:
        argv = [*enter, str(program), *words]
        argv += [word for port in ports for word in ("--port", f"{port.interface}={port.delay_ms:.6f}")]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise TestbedError(f"{program}: cannot be started ({error.strerror}). Build it: scripts/setup.") from error
        self._pending = b""
        try:
            self.first = self._read()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    def report(self) -> DelayReport:
        """What it did so far; begins a new period of lateness."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise TestbedError(self._ended()) from error
        return self._read()

    def close(self) -> None:
        """End it."""
        for pipe in (self._process.stdin,):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_LIMIT_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> DelayReport:
        line = self._line()
        try:
            return _report(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise TestbedError(
                f"{_NAME} said {line[:200]!r}, which is no report ({error!r}). Build it again."
            ) from error

    def _line(self) -> bytes:
        out = self._process.stdout
        assert out is not None
        deadline = time.monotonic() + _LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TestbedError(f"{_NAME} did not answer within {_LIMIT_S:g} s. Is the machine too busy?")
                got = os.read(out.fileno(), 1 << 16)
                if not got:
                    raise TestbedError(self._ended())
                self._pending += got
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _ended(self) -> str:
        assert self._process.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        words = b""
        if self._process.poll() is not None:
            words = self._process.stderr.read()
        said = " ".join(words.decode("utf-8", "replace").split()) or "nothing"
        return (
            f"{_NAME}, which is the network, has ended with status {self._process.returncode}. Its last words: {said}"
        )


def _report(read: dict[str, Any]) -> DelayReport:
    if read["schema"] != "weir.delay/1":
        raise ValueError(f"schema {read['schema']!r}")
    ports, late = read["ports"], read["lateness"]
    dropped = sum(port[kind] for port in ports for kind in ("dropped_at_rate", "dropped_at_lane", "missed", "refused"))
    names = Lateness.__dataclass_fields__
    return DelayReport(
        priority=read["priority"],
        lateness=None if late is None else Lateness(**{name: late[name] for name in names}),
        early_us=read["early_us"],
        correction_is_spent=read["correction_is_spent"],
        cpu_ns=read["cpu_ns"],
        packets=sum(port["sent_packets"] for port in ports),
        wire_bytes=sum(port["sent_bytes"] for port in ports),
        dropped_packets=dropped + read["unusable"],
        waiting_bytes_max=max(port["waiting_bytes_max"] for port in ports),
    )
