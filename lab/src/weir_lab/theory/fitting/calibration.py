"""Parameters of models from measurements, and how well a model predicts what it was not fitted to.

1. `demand_from_utilization`: service demands from the utilization law, which holds at any load. Never from response times near
   saturation, where waiting cannot be distinguished from service.
2. `fit_closed_model`: think-like delay and service time of a closed model from a throughput curve.
3. `hold_out` and `leave_one_out`: fit candidates to some populations, predict the others, and rank them by what they did not see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, stdtrit

from weir_lab.theory.queueing import fit_scalability, mm1
from weir_lab.theory.stats import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ClosedModel",
    "Demand",
    "Point",
    "Prediction",
    "Score",
    "closed_model_intervals",
    "demand_from_utilization",
    "fit_closed_model",
    "hold_out",
    "leave_one_out",
    "standard_candidates",
]


@dataclass(frozen=True)
class Demand:
    """Demand of a station in seconds per request, two ways, and its idle load.

    ``ratio_s`` is U m / X over runs. ``slope_s`` is the slope of U m on X, which leaves out work that does not depend on requests;
    ``background`` is that work, in busy servers. Where ``background`` holds 0, both agree and the ratio is the sharper one.
    """

    ratio_s: Interval
    slope_s: Interval
    background: Interval


@dataclass(frozen=True)
class Point:
    """A population with the throughput of each of its runs, per second."""

    population: int
    throughput_per_s: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return sum(self.throughput_per_s) / len(self.throughput_per_s)


if TYPE_CHECKING:
    # Fits points, and gives a predictor of X(N).
    Candidate = Callable[[Sequence[Point]], Callable[[Sequence[int]], NDArray[np.float64]]]


@dataclass(frozen=True)
class ClosedModel:
    """A delay and one station of m servers: N clients, away for ``delay_s`` between requests, share m servers of ``service_time_s``."""

    delay_s: float
    service_time_s: float
    servers: int

    def throughput(self, populations: Sequence[int]) -> NDArray[np.float64]:
        """X(N) = G(N-1) / G(N), exact: `queueing.finite_source` without what a fit does not need.

        G(N) = sum_n Z^(N-n)/(N-n)! S^n/(1 2 ... m m ...), in logarithms.
        """
        counts = np.arange(max(populations) + 1.0)
        busy = np.minimum(counts, self.servers)
        served = counts * math.log(self.service_time_s) - gammaln(busy + 1.0) - (counts - busy) * math.log(self.servers)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(counts > 0.0, counts * np.log(self.delay_s), 0.0) - gammaln(counts + 1.0)

        def log_norm(size: int) -> float:
            terms = served[: size + 1] + away[size::-1]
            top = float(terms.max())
            return top + math.log(float(np.exp(terms - top).sum()))

        return np.array([math.exp(log_norm(n - 1) - log_norm(n)) for n in populations])


@dataclass(frozen=True)
class Prediction:
    """One population: observed and predicted throughput per second and response time in seconds; ``fitted`` if the model saw it."""

    population: int
    observed_per_s: float
    predicted_per_s: float
    observed_response_s: float
    predicted_response_s: float
    fitted: bool

    @property
    def error_percent(self) -> float:
        """Predicted minus observed throughput, relative to the observed; positive is optimistic."""
        return 100.0 * (self.predicted_per_s / self.observed_per_s - 1.0)

    @property
    def response_error_percent(self) -> float:
        """The same for the response time; positive is pessimistic."""
        return 100.0 * (self.predicted_response_s / self.observed_response_s - 1.0)


@dataclass(frozen=True)
class Score:
    """A candidate with its predictions. Errors are over populations it was not fitted to; None if the model could not be fitted."""

    name: str
    predictions: tuple[Prediction, ...]
    mape_throughput: float | None
    mape_response: float | None
    bias_throughput: float | None
    problem: str = ""


def demand_from_utilization(
    throughput_per_s: ArrayLike, utilization: ArrayLike, servers: int = 1, level: float = 0.95
) -> Demand:
    """Demand of a station from runs at several loads, by the utilization law U = X D / m.

    The slope is ordinary least squares with an intercept, with t intervals of n - 2 degrees of freedom.

    >>> demand = demand_from_utilization([100.0, 200.0, 300.0], [0.11, 0.21, 0.31])
    >>> round(demand.slope_s.mean, 6), round(demand.background.mean, 6)
    (0.001, 0.01)
    """
    x, busy = np.asarray(throughput_per_s, dtype=np.float64), np.asarray(utilization, dtype=np.float64) * servers
    if x.ndim != 1 or x.shape != busy.shape or x.size < 3 or not (np.isfinite(x).all() and np.isfinite(busy).all()):
        raise ValueError("Demands need at least 3 runs, each with a throughput and a utilization.")
    if x.min() <= 0.0 or busy.min() < 0.0 or np.ptp(x) <= 1e-6 * x.max():
        raise ValueError("Demands need positive throughputs at different loads.")
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ busy) / spread
    intercept = float(busy.mean() - slope * x.mean())
    residual = busy - intercept - slope * x
    error = math.sqrt(float(residual @ residual) / (x.size - 2))
    reach = float(stdtrit(x.size - 2, 0.5 + level / 2.0)) * error
    on_slope = reach / math.sqrt(spread)
    on_intercept = reach * math.sqrt(1.0 / x.size + float(x.mean()) ** 2 / spread)
    return Demand(
        mean_interval(busy / x, level),
        Interval(slope, slope - on_slope, slope + on_slope, int(x.size), level),
        Interval(intercept, intercept - on_intercept, intercept + on_intercept, int(x.size), level),
    )


def fit_closed_model(points: Sequence[Point], servers: int) -> ClosedModel:
    """Delay and service time that minimise the squared log errors of the throughput.

    Identified only if the points reach from light load (where X = N / (Z + S)) into saturation (X = m / S).

    >>> model = ClosedModel(0.01, 0.002, 4)
    >>> points = [Point(n, (float(model.throughput([n])[0]),) * 2) for n in (1, 8, 32, 64)]
    >>> round(fit_closed_model(points, 4).delay_s, 6)
    0.01
    """
    from scipy.optimize import least_squares  # slow to load, and most commands do not need it

    if len({point.population for point in points}) < 2:
        raise ValueError("A closed model has 2 parameters: fit it to at least 2 populations.")
    populations = [point.population for point in points]
    observed = np.log([point.mean for point in points])
    first, top = points[int(np.argmin(populations))], max(point.mean for point in points)
    cycle = first.population / first.mean
    service = min(servers / top, 0.9 * cycle)
    start = np.log([max(cycle - service, 0.01 * cycle), service])

    def residual(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        delay, time = np.exp(np.clip(logs, -40.0, 20.0)).tolist()
        return np.asarray(np.log(ClosedModel(delay, time, servers).throughput(populations)) - observed)

    fit = least_squares(residual, start, xtol=1e-10, ftol=1e-10, gtol=1e-10, max_nfev=60)
    delay, time = np.exp(np.clip(fit.x, -40.0, 20.0)).tolist()
    return ClosedModel(delay, time, servers)


def closed_model_intervals(points: Sequence[Point], servers: int, level: float = 0.95) -> tuple[Interval, Interval]:
    """Intervals of delay and service time by leaving repetitions out one by one (jackknife on logarithms, t), in seconds.

    All populations leave out the same repetition, so that what a block has in common stays together. Reference: Efron and Tibshirani,
    An Introduction to the Bootstrap, ch. 11. The bootstrap itself holds about 85 % of what it says with 5 runs.
    """
    runs = min(len(point.throughput_per_s) for point in points)
    if runs < 3:
        raise ValueError(f"Intervals of a model need 3 runs of each population, not {runs}.")

    def fitted(kept: Sequence[int]) -> NDArray[np.float64]:
        drawn = [Point(point.population, tuple(point.throughput_per_s[i] for i in kept)) for point in points]
        model = fit_closed_model(drawn, servers)
        return np.log([model.delay_s, model.service_time_s])

    whole = fitted(range(runs))
    without = np.array([fitted([i for i in range(runs) if i != left]) for left in range(runs)])
    values = runs * whole - (runs - 1) * without
    ends = [mean_interval(column, level) for column in values.T]
    # Around the fit to all runs, which is what is printed.
    made = [
        Interval(math.exp(log), math.exp(log - end.half_width), math.exp(log + end.half_width), runs, level)
        for log, end in zip(whole.tolist(), ends, strict=True)
    ]
    return made[0], made[1]


def standard_candidates(servers: int) -> dict[str, Candidate]:
    """Models by name: each fits points and returns a predictor of X(N)."""
    return {
        f"closed, delay and {servers} server{'s' if servers > 1 else ''}": lambda points: (
            fit_closed_model(points, servers).throughput
        ),
        "asymptotes": lambda points: _asymptotes(fit_closed_model(points, servers)),
        "universal scalability law": lambda points: (
            fit_scalability([point.population for point in points], [point.mean for point in points]).throughput
        ),
        "M/M/1 of the largest throughput": _open_as_closed,
    }


def hold_out(
    points: Sequence[Point],
    fit_to: Sequence[int],
    candidates: Mapping[str, Candidate],
    think_time_s: float = 0.0,
) -> list[Score]:
    """Fit each candidate to the populations in `fit_to`, predict the others, best first by the error of the throughput.

    Response times follow by the interactive law, R = N/X - Z, on both sides.
    """
    seen = [point for point in points if point.population in set(fit_to)]
    if not seen or len(seen) == len(points):
        raise ValueError("A hold-out needs populations to fit to and others to predict.")
    known = {point.population for point in seen}
    return _ranked(points, candidates, think_time_s, lambda _: seen, known)


def leave_one_out(
    points: Sequence[Point], candidates: Mapping[str, Candidate], think_time_s: float = 0.0
) -> list[Score]:
    """Predict each population but the smallest and the largest from a fit to all others; best first by the error of the throughput.

    With few populations a single hold-out judges a model by one or two points, which a bad one meets by luck now and then. The two ends
    are always fitted to: no model is asked beyond what it saw.
    """
    sizes = sorted(point.population for point in points)
    if len(sizes) < 3:
        raise ValueError("Leaving one out needs at least 3 populations.")
    ends = {sizes[0], sizes[-1]}

    def others(population: int) -> list[Point]:
        return [point for point in points if population in ends or point.population != population]

    return _ranked(points, candidates, think_time_s, others, ends)


def _ranked(
    points: Sequence[Point],
    candidates: Mapping[str, Candidate],
    think_time_s: float,
    seen_for: Callable[[int], list[Point]],
    known: set[int],
) -> list[Score]:
    """Scores of all candidates; `seen_for` gives what a model may see to predict a population, `known` those it has seen itself."""
    scores = []
    for name, fit in candidates.items():
        predicted: dict[int, float] = {}
        try:
            fits: dict[tuple[int, ...], Callable[[Sequence[int]], NDArray[np.float64]]] = {}
            for point in points:
                seen = seen_for(point.population)
                key = tuple(one.population for one in seen)
                if key not in fits:
                    fits[key] = fit(seen)
                predicted[point.population] = float(fits[key]([point.population])[0])
        except ValueError as error:
            scores.append(Score(name, (), None, None, None, str(error)))
            continue
        predictions = tuple(
            Prediction(
                point.population,
                point.mean,
                predicted[point.population],
                point.population / point.mean - think_time_s,
                point.population / predicted[point.population] - think_time_s,
                point.population in known,
            )
            for point in points
        )
        fresh = [prediction for prediction in predictions if not prediction.fitted]
        errors = np.array([prediction.error_percent for prediction in fresh])
        times = np.array([prediction.response_error_percent for prediction in fresh])
        scores.append(
            Score(name, predictions, float(np.abs(errors).mean()), float(np.abs(times).mean()), float(errors.mean()))
        )
    return sorted(scores, key=lambda score: math.inf if score.mape_throughput is None else score.mape_throughput)


def _asymptotes(model: ClosedModel) -> Callable[[Sequence[int]], NDArray[np.float64]]:
    cycle, top = model.delay_s + model.service_time_s, model.servers / model.service_time_s
    return lambda populations: np.minimum(np.asarray(populations) / cycle, top)


def _open_as_closed(points: Sequence[Point]) -> Callable[[Sequence[int]], NDArray[np.float64]]:
    """M/M/1 whose μ is just above the largest throughput: the X at which λ R(λ) + λ Z = N, Z from the first point."""
    top = 1.001 * max(point.mean for point in points)
    first = min(points, key=lambda point: point.population)
    delay = max(0.0, first.population / first.mean - 1.0 / top)

    def solve(population: int) -> float:
        low, high = 0.0, top
        for _ in range(80):
            rate = 0.5 * (low + high)
            if rate in (low, high):
                break
            jobs = rate * (mm1(rate, top).mean_response_time_s + delay)
            low, high = (rate, high) if jobs < population else (low, rate)
        return 0.5 * (low + high)

    return lambda populations: np.array([solve(population) for population in populations])
