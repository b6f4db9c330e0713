"""What a comparison leaves on disk: ``comparison.json``, and a line of ``lives.jsonl`` per process life. Start with `ComparisonRecord`.

`pairs_of` makes of a life what is judged.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from weir_lab.errors import RecordError
from weir_lab.records.formats import Count, Record
from weir_lab.theory.stats.stopping import Direction, Pair

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "LIVES",
    "ComparisonRecord",
    "LevelRecord",
    "LifeRecord",
    "LookRecord",
    "Metric",
    "PieceRecord",
    "SideRecord",
    "append_life",
    "has_value",
    "pairs_of",
    "read_lives",
    "value_of",
]

LIVES = "lives.jsonl"
"""The file of a comparison's lives, in its folder."""

# A percentile needs requests; where more of a life's pairs than this have too few for it, it is the wrong metric.
_MISSING_MAX = 0.2


class Metric(StrEnum):
    """What is compared."""

    THROUGHPUT = "throughput"
    RESPONSE_TIME = "response-time"
    MEDIAN = "p50"
    P99 = "p99"
    CPU = "cpu"

    @property
    def direction(self) -> Direction:
        """Only of throughput more is better."""
        return Direction.HIGHER_IS_FASTER if self is Metric.THROUGHPUT else Direction.LOWER_IS_FASTER


class PieceRecord(Record):
    """One run of the load generator, a tenth of a second or less, against one side."""

    side: Literal["A", "B"]
    clients: Annotated[int, Field(ge=1)]
    """Connections of the load: the level of the comparison."""
    pair: Count
    """Pieces of a pair follow one another; the pair 0 of a life is its warm-up."""
    begun_ns: Count
    """Since the life began."""
    requests: Count
    """0 where a neighbour kept the side from its core for the whole piece, or the side stood still."""
    throughput_rps: Annotated[float, Field(ge=0.0)]
    mean_ns: float | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    cpu_ns_per_request: float | None = None
    """CPU time of the side's proxy while the generator was there; ``None`` where there is no proxy."""


class LifeRecord(Record):
    """``weir.ab-life/1``: both sides from start to end. ``yardstick_ns`` has a reading before each piece and one after the last."""

    schema_: Annotated[Literal["weir.ab-life/1"], Field(alias="schema")] = "weir.ab-life/1"
    number: Annotated[int, Field(ge=1)]
    begun_unix_ns: int
    took_s: Annotated[float, Field(gt=0.0)]
    first: Literal["A", "B"]
    """Which side was started first."""
    pieces: list[PieceRecord]
    yardstick_ns: list[dict[str, int]]
    asked: dict[Literal["A", "B"], Count] = Field(default_factory=dict)
    """Requests that each side answered in all pieces, their warm-ups included."""
    errors: dict[Literal["A", "B"], dict[str, Count]] = Field(default_factory=dict)
    """Of these, error replies by their text."""


class SideRecord(Record):
    """What was compared: as it was asked for, the command line, and the state of its programs."""

    asked: str
    argv: list[str]
    programs: dict[str, str]


class LookRecord(Record):
    """A look at the data: lives so far, share of the budget used, and what the interval was."""

    lives: Annotated[int, Field(ge=1)]
    used: Annotated[float, Field(ge=0.0, le=1.0)]
    change_percent: float
    low_percent: float
    high_percent: float


class LevelRecord(Record):
    """The answer at one number of clients."""

    clients: Annotated[int, Field(ge=1)]
    looks: list[LookRecord]
    verdict: str
    sentence: str


class ComparisonRecord(Record):
    """``weir.ab/1``: the question, the circumstances and the answer."""

    schema_: Annotated[Literal["weir.ab/1"], Field(alias="schema")] = "weir.ab/1"
    sides: dict[Literal["A", "B"], SideRecord]
    metric: str
    same_within_percent: float
    precision_percent: float | None
    error: float
    budget_s: float | None
    lives_max: int | None
    pairs: int
    piece_s: float
    warmup_s: float
    load: list[str]
    """Command line of the generator, at the first level; target and seed differ from piece to piece."""
    servers: int
    cores: dict[str, list[int]]
    seed: int
    machine: dict[str, str | int | float]
    begun_unix_ns: int
    took_s: float
    levels: list[LevelRecord]
    errors: str = ""
    """Which side answered with errors, and how often; empty where none did."""
    verdict: str
    """Over all levels: the worst, where slower is worse than cannot tell."""


def append_life(folder: Path, life: LifeRecord) -> None:
    """Add a line, at once, so that an interrupted comparison keeps what it has."""
    with (folder / LIVES).open("a", encoding="utf-8") as file:
        file.write(life.model_dump_json(by_alias=True) + "\n")


def read_lives(folder: Path) -> list[LifeRecord]:
    """All lives of a comparison."""
    path, found = folder / LIVES, []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read ({error}). Name the folder of a comparison.") from error
    for number, line in enumerate(lines, start=1):
        try:
            found.append(LifeRecord.model_validate(json.loads(line)))
        except (ValueError, ValidationError) as error:
            raise RecordError(f"{path}, line {number}: not a life of a comparison ({error}).") from error
    return found


def pairs_of(life: LifeRecord, metric: Metric, clients: int) -> list[Pair]:
    """The pairs of a life that count at a level: its pair 0 is left out, and pairs in which neither side answered anything.

    A piece in which nothing was answered is the slowest of all: its pair is infinitely far on that side, and the trimmed mean leaves it out
    like any other extreme one, as long as there are few. Both sides are treated alike, so that no stop of a side is overlooked. The same
    holds of a piece that has answers, but too few of them for the p99: to leave its pair out would favour the slower side, which has more
    such pieces. Many of them are an error.
    """
    slow = _slowness(life)
    found: dict[int, dict[str, tuple[float, float]]] = {}
    missing: list[RecordError] = []
    for place, piece in enumerate(life.pieces):
        if piece.pair > 0 and piece.clients == clients:
            try:
                found.setdefault(piece.pair, {})[piece.side] = (_log_of(piece, metric), slow[place])
            except RecordError as error:
                missing.append(error)
                if metric is Metric.P99:
                    found.setdefault(piece.pair, {})[piece.side] = (math.inf, slow[place])
    if len(missing) > _MISSING_MAX * len(found):
        raise missing[0]
    whole = [(sides["A"], sides["B"]) for sides in found.values() if len(sides) == 2]
    return [Pair(b[0] - a[0], b[1] - a[1]) for a, b in whole if math.isfinite(a[0]) or math.isfinite(b[0])]


def _log_of(piece: PieceRecord, metric: Metric) -> float:
    if piece.requests == 0:
        return -math.inf if metric is Metric.THROUGHPUT else math.inf
    return math.log(value_of(piece, metric))


def value_of(piece: PieceRecord, metric: Metric) -> float:
    """The metric of a piece with answers; `RecordError` where it has none."""
    found = _value(piece, metric)
    if not found:
        why = {
            Metric.CPU: "there is no proxy on that side, or its process did no work itself",
            Metric.P99: "a piece has too few requests for it; use more clients or longer pieces",
        }.get(metric, "the record of the load has none")
        raise RecordError(f"{piece.side} has no {metric}: {why}. Choose another --metric.")
    return float(found)


def has_value(piece: PieceRecord, metric: Metric) -> bool:
    """Whether a piece has the metric."""
    return bool(piece.requests and _value(piece, metric))


def _value(piece: PieceRecord, metric: Metric) -> float | None:
    return {
        Metric.THROUGHPUT: piece.throughput_rps,
        Metric.RESPONSE_TIME: piece.mean_ns,
        Metric.MEDIAN: piece.p50_ns,
        Metric.P99: piece.p99_ns,
        Metric.CPU: piece.cpu_ns_per_request,
    }[metric]


def _slowness(life: LifeRecord) -> list[float]:
    """Log of the yardstick's time around each piece: the mean of the readings before and after it, over all cores."""
    if any(not reading for reading in life.yardstick_ns) or len(life.yardstick_ns) != len(life.pieces) + 1:
        return [0.0] * len(life.pieces)
    means = [statistics.fmean(reading.values()) for reading in life.yardstick_ns]
    return [math.log((before + after) / 2.0) for before, after in itertools.pairwise(means)]
