"""A closed network is fitted to some numbers of clients and has to predict the others: `hold_out`.

::

    N clients, each thinks for Z ──▶ delay D0 ──▶ one station, of one of five kinds ──┐
              ▲───────────────────────────────────────────────────────────────────────┘

Think time Z is what the clients did, N/X - R, from the populations that are kept. D0 and the station's parameters are fitted to
throughputs *and* response times of these, each in units of the error that it may have. Which kind of station it is, the kept populations
decide, too: each but their ends is predicted from the others, and the kind with the smallest errors is taken. The populations that are held
out take no part in any of it. Beside the prediction stands what the asymptotic bounds say from the same data. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.queueing import Kind, Station, solve_closed, token_bucket
from weir_lab.stats import mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["HeldOut", "HoldOut", "Measured", "Model", "hold_out"]

X_ERROR_MAX_PERCENT = 5.0
"""What a prediction of a throughput may be off."""
R_ERROR_MAX_PERCENT = 10.0
"""What a prediction of a mean response time may be off."""
BOUND_BEATEN = 2.0
"""How many times the model's error that of the asymptotic bounds should be."""

_KEPT_MIN = 4
# Phases of a token that comes evenly: c² = 1/4, so waits are 0.625 of exponential times', where constant ones have 0.5.
_EVEN = 4
# A longer burst than this is no queue that closed loops of some hundred clients could tell from none.
_BURST_MAX = 256.0
# Of parameters: a nanosecond, a thousand seconds or tokens.
_LOGS = (-20.7, 6.9)
# Think times of one population that differ by more than this from all others' are a late generator's, or an idle one's.
_THINK_MAX = 0.03


@dataclass(frozen=True)
class Measured:
    """A population with throughput per second and mean response time in seconds of each of its runs."""

    population: int
    throughput_per_s: tuple[float, ...]
    response_s: tuple[float, ...]

    @property
    def x(self) -> float:
        """Mean throughput over runs."""
        return sum(self.throughput_per_s) / len(self.throughput_per_s)

    @property
    def r(self) -> float:
        """Mean response time over runs."""
        return sum(self.response_s) / len(self.response_s)

    @property
    def think_s(self) -> float:
        """N/X - R: how long a client was away between a reply and its next request."""
        return self.population / self.x - self.r


@dataclass(frozen=True)
class Model:
    """A fitted network. Times in seconds; ``score`` is its error on kept populations left out one by one, in units of what is allowed."""

    name: str
    think_s: float
    parameters: dict[str, float]
    score: float


@dataclass(frozen=True)
class HeldOut:
    """One population that the model did not see. Errors: predicted against observed, percent; ``reason`` is empty where both are met."""

    population: int
    x: float
    r: float
    x_predicted: float
    r_predicted: float
    x_bound: float
    r_bound: float
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
        """Whether every population that was held out is predicted within the errors allowed."""
        return self.both_sides and not any(row.reason for row in self.rows)

    @property
    def beats_bound(self) -> bool:
        """Whether the asymptotic bounds are off at least twice as far, in throughput and in response time."""
        return (
            self.x_bound_mape >= BOUND_BEATEN * self.x_mape and self.r_bound_mape >= BOUND_BEATEN * self.r_mape
        )  # fmt: skip


def hold_out(measured: Sequence[Measured], held: Sequence[int], workers: int | None = None) -> HoldOut:
    """Fit to all populations but those in `held`, and predict these. `workers` is how many a pool has, where there is one.

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
    models = sorted(_candidates(kept, workers), key=lambda tried: tried[0].score)
    best, predict = models[0]
    sizes = [one.population for one in out]
    x, r = predict(sizes)
    bound_x, bound_r, knee = _bounds(kept, best.think_s, sizes)
    rows = tuple(
        _judged(HeldOut(one.population, one.x, one.r, *row), one, knee, best)
        for one, *row in zip(out, x.tolist(), r.tolist(), bound_x, bound_r, strict=True)
    )
    return HoldOut(tuple(one.population for one in kept), knee, tuple(model for model, _ in models), rows)


if TYPE_CHECKING:
    # Throughputs and response times of populations.
    Answers = tuple[NDArray[np.float64], NDArray[np.float64]]
    Network = Callable[[Sequence[int], float, NDArray[np.float64]], Answers]


@dataclass(frozen=True)
class _Form:
    """A kind of station: names of its parameters, beginnings of the search, and the network with it."""

    name: str
    parameters: tuple[str, ...]
    network: Network
    starts: tuple[tuple[float, ...], ...] = ((),)
    """Of parameters beyond D0 and the service time."""


def _candidates(
    kept: Sequence[Measured], workers: int | None
) -> list[tuple[Model, Callable[[Sequence[int]], Answers]]]:
    think = _think(kept)
    found: list[tuple[Model, Callable[[Sequence[int]], Answers]]] = []
    for form in _forms(workers):
        fitted = _fit(form, kept, think)
        errors: list[float] = []
        for one in kept[1:-1]:
            others = [other for other in kept if other is not one]
            errors += _residuals(form, [one], think, _fit(form, others, think, fitted)).tolist()
        score = math.sqrt(sum(error * error for error in errors) / len(errors))
        model = Model(form.name, think, dict(zip(form.parameters, fitted.tolist(), strict=True)), score)
        found.append((model, partial(_answers, form, think, fitted)))
    return found


def _answers(form: _Form, think: float, parameters: NDArray[np.float64], sizes: Sequence[int]) -> Answers:
    return form.network(sizes, think, parameters)


def _think(kept: Sequence[Measured]) -> float:
    """Z: the median over populations, each weighted with its requests, for so many think times it holds."""
    ordered = sorted(kept, key=lambda one: one.think_s)
    reached, half = 0.0, sum(one.x for one in kept) / 2.0
    for one in ordered:
        reached += one.x
        if reached >= half:
            break
    return max(1e-9, one.think_s)


def _fit(
    form: _Form, kept: Sequence[Measured], think: float, near: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Parameters with the least squares of errors in units of what is allowed; the search begins at `near`, if that is known."""
    from scipy.optimize import least_squares  # slow to load, and most commands do not need it

    light, service = kept[0].r, 1.0 / max(one.x for one in kept)
    starts = [np.log([max(0.1 * light, light - service), service, *more]) for more in form.starts]
    best: tuple[float, NDArray[np.float64]] | None = None

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return _residuals(form, kept, think, np.exp(np.clip(logs, *_LOGS)))

    for start in starts if near is None else [np.log(near)]:
        step = np.full(start.size, 1e-3)
        fit = least_squares(residuals, start, diff_step=step, xtol=1e-5, ftol=1e-5, max_nfev=20)
        if best is None or fit.cost < best[0]:
            best = float(fit.cost), np.exp(np.clip(fit.x, *_LOGS))
    assert best is not None, "every form has a start"
    return best[1]


def _residuals(
    form: _Form, points: Sequence[Measured], think: float, parameters: NDArray[np.float64]
) -> NDArray[np.float64]:
    x, r = form.network([one.population for one in points], think, parameters)
    off_x = np.log(x / np.array([one.x for one in points])) * 100.0 / X_ERROR_MAX_PERCENT
    off_r = np.log(r / np.array([one.r for one in points])) * 100.0 / R_ERROR_MAX_PERCENT
    return np.concatenate([off_x, off_r])


def _forms(workers: int | None) -> list[_Form]:
    two = ("outside_s", "service_s")
    forms = [
        _Form("one server, exponential times", two, lambda n, z, p: _through_bucket(n, z, p, 0.0, 1)),
        _Form("one server, even times", two, lambda n, z, p: _through_bucket(n, z, p, 0.0, _EVEN)),
        _Form(
            "batches: n requests take a fixed time and n times the service time", (*two, "fixed_s"), _batches,
            ((1e-5,), (1e-4,)),
        ),
        _Form(
            "token bucket: nobody waits until its burst is used up", (*two, "burst"),
            lambda n, z, p: _through_bucket(n, z, p, min(float(p[2]), _BURST_MAX), _EVEN), ((3.0,), (30.0,)),
        ),
    ]  # fmt: skip
    for servers in sorted({2, workers or 2} - {1}):
        forms.append(_Form(f"{servers} servers, exponential times", two, _servers(servers)))
    return forms


def _through_bucket(
    sizes: Sequence[int], think: float, parameters: NDArray[np.float64], burst: float, phases: int
) -> Answers:
    outside, service = parameters[:2].tolist()
    solved = token_bucket(sizes, think + outside, service, burst, phases)
    return solved.throughput_per_s, outside + solved.residence_time_s


def _servers(servers: int) -> Network:
    def network(sizes: Sequence[int], think: float, parameters: NDArray[np.float64]) -> Answers:
        # The service time is what a request costs at full load, so that all forms have the same beginning.
        station = Station("servers", float(parameters[1]) * servers, servers=servers)
        return _closed(sizes, think, float(parameters[0]), station)

    return network


def _batches(sizes: Sequence[int], think: float, parameters: NDArray[np.float64]) -> Answers:
    outside, service, fixed = parameters.tolist()
    jobs = np.arange(1.0, max(sizes) + 1.0)
    rates = jobs / (fixed + service * jobs)
    station = Station("batches", fixed + service, speedup=tuple((rates / rates[0]).tolist()))
    return _closed(sizes, think, outside, station)


def _closed(sizes: Sequence[int], think: float, outside: float, station: Station) -> Answers:
    solved = solve_closed([station, Station("away", think + outside, kind=Kind.DELAY)], max(sizes))
    x = solved.throughput_per_s[np.asarray(sizes) - 1]
    return x, np.asarray(sizes) / x - think


def _bounds(kept: Sequence[Measured], think: float, sizes: Sequence[int]) -> tuple[list[float], list[float], float]:
    """Asymptotic bounds of X and R, and their crossing: D from the lightest load, 1/D_max from the largest throughput."""
    light, top = kept[0].r, max(one.x for one in kept)
    x = [min(n / (think + light), top) for n in sizes]
    r = [max(light, n / top - think) for n in sizes]
    return x, r, (think + light) * top


def _judged(row: HeldOut, one: Measured, knee: float, model: Model) -> HeldOut:
    """With a sentence where an error is larger than allowed."""
    off_x, off_r = abs(row.x_error) > X_ERROR_MAX_PERCENT, abs(row.r_error) > R_ERROR_MAX_PERCENT
    if not (off_x or off_r):
        return row
    reason = _reason(row, one, knee, model, of_x=off_x)
    return HeldOut(
        row.population, row.x, row.r, row.x_predicted, row.r_predicted, row.x_bound, row.r_bound, reason
    )  # fmt: skip


def _reason(row: HeldOut, one: Measured, knee: float, model: Model, *, of_x: bool) -> str:
    """What the data tell of a miss, the surest first."""
    away = one.think_s / model.think_s - 1.0
    cycle = abs(one.think_s - model.think_s) / (one.population / one.x)
    if cycle > _THINK_MAX:
        return (
            f"its clients were away for {1e3 * one.think_s:.2f} ms between requests, {100 * away:+.0f} % of the others' "
            f"{1e3 * model.think_s:.2f} ms: the load generator was late or the run too short, which no model of the system knows"
        )
    values, predicted = (one.throughput_per_s, row.x_predicted) if of_x else (one.response_s, row.r_predicted)
    interval = mean_interval(values) if len(values) > 1 else None
    if interval is not None and interval.low <= predicted <= interval.high:
        half = 100.0 * (interval.high - interval.low) / 2.0 / interval.mean
        return (
            f"its runs differ: their 95 % interval, ±{half:.0f} %, holds the prediction; more or longer runs would tell"
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
