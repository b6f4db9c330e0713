"""A closed network is fitted to some numbers of clients and has to predict the others: `hold_out`.

::

    populations that are kept ──▶ think time Z, demands ──▶ each of `forms` fitted, and judged ──▶ the best one predicts
    populations held out ─────────────────────────────────────────────────────────────────────────▶ and is held against these

Think time Z is what the clients did, N/X - R, from the populations that are kept. These decide, too, which kind of
network it is. Each but their ends is predicted from the others, and the kind with the smallest errors is taken. If
some kinds can show what they were fitted to within the errors that a prediction may have, it is one of those. Of
the populations that are held out nothing is known but their number of clients and how slow the machine was, where a
yardstick was read. That is no property of the system: a machine that others use changes it from run to run. Beside
the prediction stands what the asymptotic bounds say from the same data. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.theory.fitting.holdout_forms import (
    R_ERROR_MAX_PERCENT,
    X_ERROR_MAX_PERCENT,
    Form,
    Known,
    Measured,
    fit,
    forms,
    residuals,
)
from weir_lab.theory.fitting.meeting import Meeting, Verdict, meeting_of
from weir_lab.theory.linear import interval_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["HeldOut", "HoldOut", "Measured", "Model", "hold_out"]

BOUND_BEATEN = 2.0
"""How many times the model's error that of the asymptotic bounds should be."""

_KEPT_MIN = 4
# Think times of one population that differ by more than this from all others' are a late generator's, or an idle one's.
_THINK_MAX = 0.03


@dataclass(frozen=True)
class Model:
    """A fitted network; times in seconds.

    ``score`` is its error on kept populations left out one by one, in units of what is allowed; of a network that does worse even where
    it saw them, the error on these. ``worst_seen`` is its largest error where it saw them, in the same unit.
    """

    name: str
    think_s: float
    parameters: dict[str, float]
    score: float
    worst_seen: float

    @property
    def shows_what_it_saw(self) -> bool:
        """Whether all that it was fitted to lies within the errors that a prediction may have."""
        return self.worst_seen <= 1.0


@dataclass(frozen=True)
class HeldOut:
    """One population that the model did not see. Errors: predicted against observed, percent; ``reason`` is empty where both are met.

    ``x_meeting`` and ``r_meeting`` hold the intervals of its runs against the predictions.
    """

    population: int
    x: float
    r: float
    x_predicted: float
    r_predicted: float
    x_bound: float
    r_bound: float
    x_meeting: Meeting
    r_meeting: Meeting
    reason: str = ""

    @property
    def x_error(self) -> float:
        """Of the throughput; positive is too fast."""
        return 100.0 * (self.x_predicted / self.x - 1.0)

    @property
    def r_error(self) -> float:
        """Of the response time; positive is too slow."""
        return 100.0 * (self.r_predicted / self.r - 1.0)

    @property
    def x_bound_error(self) -> float:
        """Of the asymptotic bound of the throughput."""
        return 100.0 * (self.x_bound / self.x - 1.0)

    @property
    def r_bound_error(self) -> float:
        """Of the asymptotic bound of the response time."""
        return 100.0 * (self.r_bound / self.r - 1.0)


@dataclass(frozen=True)
class HoldOut:
    """What came of it. ``knee`` is N* = (Z + D) / D_max of the asymptotes; ``models`` are all that were tried, best first."""

    kept: tuple[int, ...]
    knee: float
    models: tuple[Model, ...]
    rows: tuple[HeldOut, ...]

    @property
    def model(self) -> Model:
        """The one that predicts."""
        return self.models[0]

    @property
    def x_mape(self) -> float:
        """Mean absolute error of predicted throughputs in percent."""
        return _mape(row.x_error for row in self.rows)

    @property
    def r_mape(self) -> float:
        """The same of response times."""
        return _mape(row.r_error for row in self.rows)

    @property
    def x_bound_mape(self) -> float:
        """The same of the asymptotic bound of the throughput."""
        return _mape(row.x_bound_error for row in self.rows)

    @property
    def r_bound_mape(self) -> float:
        """The same of the asymptotic bound of the response time."""
        return _mape(row.r_bound_error for row in self.rows)

    @property
    def both_sides(self) -> bool:
        """Whether populations below and above the knee were held out."""
        return min(row.population for row in self.rows) < self.knee < max(row.population for row in self.rows)

    @property
    def met(self) -> bool:
        """Whether every population that was held out is predicted within the errors allowed, by the intervals of its runs."""
        return self.both_sides and all(row.x_meeting.met and row.r_meeting.met for row in self.rows)

    @property
    def beats_bound(self) -> bool:
        """Whether the asymptotic bounds are off at least twice as far, in throughput and in response time."""
        return (
            self.x_bound_mape >= BOUND_BEATEN * self.x_mape and self.r_bound_mape >= BOUND_BEATEN * self.r_mape
        )  # fmt: skip


def hold_out(measured: Sequence[Measured], held: Sequence[int], workers: int | None = None) -> HoldOut:
    """Fit to all populations but those in `held`, and predict these. `workers` is how many a pool has, where there is one.

    >>> from weir_lab.theory.queueing import token_bucket
    >>> away, service = 0.01, 0.001
    >>> def made(n: int) -> Measured:
    ...     one = token_bucket([n], away, service)
    ...     return Measured(n, (float(one.throughput_per_s[0]),) * 2, (float(one.residence_time_s[0]),) * 2)
    >>> found = hold_out([made(n) for n in (1, 2, 4, 8, 12, 16, 32)], [4, 16])
    >>> found.met, round(found.model.parameters["service_s"], 5)
    (True, 0.001)
    """
    points = sorted(measured, key=lambda one: one.population)
    unknown = set(held) - {one.population for one in points}
    if unknown:
        raise ValueError(
            f"{', '.join(map(str, sorted(unknown)))} clients were not measured, so they cannot be held out."
        )
    kept = [one for one in points if one.population not in set(held)]
    out = [one for one in points if one.population in set(held)]
    if len(kept) < _KEPT_MIN or not out:
        raise ValueError(f"Keep at least {_KEPT_MIN} numbers of clients to fit to, and hold out one or more.")
    known = Known.of(kept, _think(kept))
    models = sorted(
        _candidates(kept, workers, known), key=lambda tried: (not tried[0].shows_what_it_saw, tried[0].score)
    )  # fmt: skip
    best, form = models[0]
    sizes = [one.population for one in out]
    x, r = form.answers(out, known, np.array(list(best.parameters.values())))
    bound_x, bound_r, knee = _bounds(kept, best.think_s, sizes)
    rows = tuple(
        _judged(
            HeldOut(one.population, one.x, one.r, row[0], row[1], row[2], row[3], *_meetings(one, row[0], row[1])),
            one,
            knee,
            best,
        )
        for one, *row in zip(out, x.tolist(), r.tolist(), bound_x, bound_r, strict=True)
    )
    return HoldOut(tuple(one.population for one in kept), knee, tuple(model for model, _ in models), rows)


def _candidates(kept: Sequence[Measured], workers: int | None, known: Known) -> list[tuple[Model, Form]]:
    """All forms with their scores. One that misses what it is fitted to by more than another misses what it did not see has lost."""
    fitted = [(form, fit(form, kept, known)) for form in forms(workers, known)]
    ranked = sorted(
        ((_root_mean_square(residuals(form, kept[1:-1], known, found)), form, found) for form, found in fitted),
        key=lambda tried: tried[0],
    )
    models: list[tuple[Model, Form]] = []
    for seen, form, found in ranked:
        best = min((model.score for model, _ in models if model.shows_what_it_saw), default=math.inf)
        score = seen if seen > best else _left_out(form, kept, known, found)
        parameters = dict(zip(form.parameters, found.tolist(), strict=True))
        worst = float(np.abs(residuals(form, kept, known, found)).max())
        models.append((Model(form.name, known.think_s, parameters, score, worst), form))
    return models


def _left_out(form: Form, kept: Sequence[Measured], known: Known, near: NDArray[np.float64]) -> float:
    """Root mean square of errors of each population but the ends, predicted from all others."""
    errors: list[NDArray[np.float64]] = []
    for one in kept[1:-1]:
        others = [other for other in kept if other is not one]
        knowing = Known.of(others, known.think_s)
        errors.append(residuals(form, [one], knowing, fit(form, others, knowing, near)))
    return _root_mean_square(np.concatenate(errors))


def _root_mean_square(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _think(kept: Sequence[Measured]) -> float:
    """Z: the median over populations, each weighted with its requests: each request brings one think time."""
    ordered = sorted(kept, key=lambda one: one.think_s)
    reached, half = 0.0, sum(one.x for one in kept) / 2.0
    for one in ordered:
        reached += one.x
        if reached >= half:
            break
    return max(1e-9, one.think_s)


def _bounds(kept: Sequence[Measured], think: float, sizes: Sequence[int]) -> tuple[list[float], list[float], float]:
    """Asymptotic bounds of X and R, and their crossing: D from the lightest load, 1/D_max from the largest throughput."""
    light, top = kept[0].r, max(one.x for one in kept)
    x = [min(n / (think + light), top) for n in sizes]
    r = [max(light, n / top - think) for n in sizes]
    return x, r, (think + light) * top


def _meetings(one: Measured, x: float, r: float) -> tuple[Meeting, Meeting]:
    """Of throughput and response time; a single run has no interval, and tells nothing."""

    def of(values: Sequence[float], predicted: float, margin: float, mean: float) -> Meeting:
        return meeting_of(interval_of(values) if len(values) > 1 else None, predicted, margin, mean)

    return (
        of(one.throughput_per_s, x, X_ERROR_MAX_PERCENT, one.x),
        of(one.response_s, r, R_ERROR_MAX_PERCENT, one.r),
    )


def _judged(row: HeldOut, one: Measured, knee: float, model: Model) -> HeldOut:
    """With a sentence where a prediction is not met."""
    if row.x_meeting.met and row.r_meeting.met:
        return row
    # What is missed comes before what the runs cannot tell.
    of_x = min((False, True), key=lambda rate: _rank(row.x_meeting if rate else row.r_meeting))
    return replace(row, reason=_reason(row, one, knee, model, of_x=of_x))


def _rank(met: Meeting) -> int:
    return [Verdict.MISSED, Verdict.CANNOT_TELL, Verdict.MET].index(met.verdict)


def _reason(row: HeldOut, one: Measured, knee: float, model: Model, *, of_x: bool) -> str:
    """What the data tell of a miss, the surest first."""
    away = one.think_s / model.think_s - 1.0
    cycle = abs(one.think_s - model.think_s) / (one.population / one.x)
    if cycle > _THINK_MAX:
        return (
            f"its clients were away for {1e3 * one.think_s:.2f} ms between requests, {100 * away:+.0f} % of the others' "
            f"{1e3 * model.think_s:.2f} ms: the load generator was late or the run too short, which no model of the system knows"
        )
    met = row.x_meeting if of_x else row.r_meeting
    if met.verdict is Verdict.CANNOT_TELL:
        if met.low is None or met.high is None:
            return "one run tells nothing of how runs differ: make more"
        half = (met.high - met.low) / 2.0
        return (
            f"its runs differ: their 95 % interval, ±{half:.0f} %, lies neither within what is allowed nor outside; more or longer runs "
            "would tell"
        )
    slow = row.r_error > 0.0
    if row.population < 0.5 * knee:
        return (
            "at light load requests took less time than at the lightest, which the fit is bound to: sleeping processors wake slowly"
            if slow
            else "at light load requests waited for something that the model's one station does not hold: other queues, shared cores"
        )
    if row.population <= 2.0 * knee:
        return (
            "around the knee queues are shorter than the model's: arrivals or service vary less, or batches make requests cheaper"
            if slow
            else "around the knee queues are longer than the model's: service comes in bursts (quotas, shared cores) or varies more"
        )
    return (
        "in saturation requests cost less than at the populations that were kept: larger batches"
        if slow
        else "in saturation requests cost more than at the populations that were kept: contention, switches between threads"
    )


def _mape(errors: Iterable[float]) -> float:
    found = [abs(error) for error in errors]
    return sum(found) / len(found)
