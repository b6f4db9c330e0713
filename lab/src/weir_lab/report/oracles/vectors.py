"""Published examples: textbook tables, and the data of well-known tools. Compared to the digits that were printed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from weir_lab.report.oracles.compared import Compared
from weir_lab.theory.factorial import analyse_factorial
from weir_lab.theory.linear import fit, lay_out
from weir_lab.theory.queueing import (
    Kind,
    Station,
    asymptotic_bounds,
    balanced_job_bounds,
    erlang_b,
    erlang_c,
    fit_scalability,
    geometric_bounds,
    mm1,
    mmm,
    mmmk,
    solve_closed,
    solve_open,
)
from weir_lab.theory.stats import mser5, percentile_min_count, sample_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["VECTORS"]


def _printed(what: str, ours: float, known: float, digits: int) -> Compared:
    """Known to this number of decimals: half a unit of the last one is lost, a whole one if it was cut."""
    return Compared(what, float(ours), known, 1.001 * 10.0**-digits, absolute=True)


def _stations(*demands: float, think: float = 0.0) -> list[Station]:
    queues = [Station(f"station {index}", demand) for index, demand in enumerate(demands, start=1)]
    return [*queues, Station("think", think, kind=Kind.DELAY)] if think else queues


_CASE_8 = [Station("a", 0.125, 16), Station("b", 0.3, 10), Station("c", 0.2, 5), Station("z", 4.0, kind=Kind.DELAY)]


def _gateway() -> Iterator[Compared]:
    station = mm1(125.0, 500.0)
    yield _printed("U", station.utilization, 0.25, 12)
    yield _printed("N", station.mean_jobs_in_system, 0.333333, 6)
    yield _printed("R ms", 1e3 * station.mean_response_time_s, 2.666667, 6)
    yield _printed("P(N>=13) 1e8", 1e8 * station.prob_jobs_at_least(13), 1.4901, 4)


def _computer_centre() -> Iterator[Compared]:
    station = mmm(1 / 6, 1 / 20, 5)
    yield _printed("rho", station.utilization, 0.666667, 6)
    yield _printed("p0", station.prob_empty, 0.0317523, 7)
    yield _printed("C", station.prob_queueing, 0.3266693, 7)
    yield _printed("Nq", station.mean_jobs_in_queue, 0.6533386, 7)
    yield _printed("W", station.mean_waiting_time_s, 3.920031, 6)
    yield _printed("R", station.mean_response_time_s, 23.920031, 6)
    yield _printed("N", station.mean_jobs_in_system, 3.986672, 6)
    yield _printed("W 90 %", station.waiting_time_quantile_s(0.9), 14.2053, 4)


def _erlang() -> Iterator[Compared]:
    known = (
        (3, 2, 4 / 19, 4 / 9),
        (10, 8, 0.1216611, 0.4091802),
        (110, 100, 0.0274634, 0.2370075),
        (520, 500, 0.0143618, 0.2747563),
    )
    for servers, load, b, c in known:
        yield _printed(f"B({servers},{load})", erlang_b(servers, load), b, 7)
        yield _printed(f"C({servers},{load})", erlang_c(servers, load), c, 7)


def _finite_buffer() -> Iterator[Compared]:
    station = mmmk(3.0, 2.0, 2, 5)
    yield _printed("p0", station.prob_empty, 0.179334, 6)
    yield _printed("pK", station.prob_loss, 0.085113, 6)
    yield _printed("N", station.mean_jobs_in_system, 2.00595, 5)
    yield _printed("W", station.mean_waiting_time_s, 0.230857, 6)


def _operational() -> Iterator[Compared]:
    stations = [
        Station("cpu", 0.04, 25),
        Station("a", 0.03, 20),
        Station("b", 0.025, 4),
        Station("z", 5.0, kind=Kind.DELAY),
    ]
    for station, demand in zip(stations, (1.0, 0.6, 0.1), strict=False):
        yield _printed(f"D {station.name}", station.demand_s, demand, 12)
    yield _printed("R_min", asymptotic_bounds(stations, 1).response_time_low_s, 1.7, 12)
    yield _printed("X_max", asymptotic_bounds(stations, 1000).throughput_high_per_s, 1.0, 12)


def _open_networks() -> Iterator[Compared]:
    first = solve_open([Station("a", 0.01, 16), Station("b", 0.02, 7), Station("c", 0.03, 8)], 3.0)
    for time, known in zip(first.response_time_per_visit_s, (0.0192308, 0.0344828, 0.1071429), strict=True):
        yield _printed("R per visit", time, known, 7)
    yield _printed("R", first.response_time_s, 1.4062145, 7)
    second = solve_open(_stations(0.605, 2.1, 1.35), 0.3)
    for time, known in zip(second.residence_time_s, (0.739157, 5.675676, 2.268908), strict=True):
        yield _printed("residence", time, known, 6)


def _closed_network() -> Iterator[Compared]:
    solution = solve_closed(_CASE_8, 20)
    times = {2: 7.4, 3: 9.087719, 5: 13.256145, 10: 26.469854, 17: 47.044926, 20: 56.015632}
    for n, known in times.items():
        yield _printed(f"R({n})", solution.response_time_s[n - 1], known, 6)
    for n, known in {2: 0.1754386, 3: 0.2292225, 5: 0.2897518, 20: 0.3332465}.items():
        yield _printed(f"X({n})", solution.throughput_per_s[n - 1], known, 7)
    for jobs, known in zip(solution.jobs[:3, 19].tolist(), (1.990623, 16.176651, 0.499740), strict=True):
        yield _printed("Q(20)", jobs, known, 6)


def _convolution() -> Iterator[Compared]:
    solution = solve_closed(_stations(0.78, 2.34, 1.56, think=4.68), 3)
    capacity = np.cumprod(1.0 / (solution.throughput_per_s * 0.78))
    for ours, known in zip(capacity.tolist(), (12.0, 79.0, 384.0), strict=True):
        yield Compared("G", ours, known, 1e-12)
    yield _printed("X", solution.throughput_per_s[2], 0.2637553, 7)
    yield _printed("R", solution.response_time_s[2], 6.694177, 6)
    yield _printed("Q_A", solution.jobs[1, 2], 0.968750, 6)
    for ours, known in zip(solution.utilization[:3, 2].tolist(), (0.205729, 0.617188, 0.411458), strict=True):
        yield _printed("U", ours, known, 6)


def _bounds() -> Iterator[Compared]:
    yield _printed("ABA X", asymptotic_bounds(_stations(9.2, 8.0, think=120.0), 20).throughput_high_per_s, 0.108696, 6)
    yield _printed("ABA R", asymptotic_bounds(_stations(9.2, 8.0, think=120.0), 20).response_time_low_s, 64.0, 9)
    yield _printed("N*", asymptotic_bounds(_CASE_8, 20).knee, 3.3333, 4)
    for n, low, high in ((5, 11.0, 16.588235), (20, 56.0, 61.161290)):
        bounds = balanced_job_bounds(_CASE_8, n)
        yield _printed(f"BJB R({n}) low", bounds.response_time_low_s, low, 6)
        yield _printed(f"BJB R({n}) high", bounds.response_time_high_s, high, 6)
    for n, low, high in ((10, 0.086207, 0.1), (2, 0.055556, 0.061538)):
        bounds = balanced_job_bounds(_stations(10.0, 7.0, 5.0, 4.0), n)
        yield _printed(f"BJB X({n}) low", bounds.throughput_low_per_s, low, 6)
        yield _printed(f"BJB X({n}) high", bounds.throughput_high_per_s, high, 6)
    known = ((10, 0.0, 8.1521, 8.2690), (10, 1.0, 5.7569, 6.1410), (80, 0.0, 9.8233, 9.8765), (80, 1.0, 9.7147, 9.8594))
    for n, think, low, high in known:
        bounds = geometric_bounds(_stations(0.1, 0.1, 0.09, 0.08, think=think), n)
        yield _printed(f"GB X({n}) low", bounds.throughput_low_per_s, low, 4)
        yield _printed(f"GB X({n}) high", bounds.throughput_high_per_s, high, 4)


def _mixed_network() -> Iterator[Compared]:
    stations = [
        Station("two", 0.5, servers=2),
        Station("b", 0.6, 0.5),
        Station("c", 0.8, 0.5),
        Station("z", 1.0, kind=Kind.DELAY),
    ]
    solution = solve_closed(stations, 3)
    yield _printed("X", solution.throughput_per_s[2], 1.217461, 6)
    for ours, known in zip(solution.jobs[:, 2].tolist(), (0.623679, 0.472872, 0.685988, 1.217461), strict=True):
        yield _printed("Q", ours, known, 6)


def _trap() -> Iterator[Compared]:
    stations = [Station("z", 0.2, kind=Kind.DELAY), Station("front", 0.02), Station("eight", 0.25, servers=8)]
    solution = solve_closed(stations, 128)
    for n, known in {1: 2.127660, 8: 16.745613, 16: 29.505896, 32: 31.997301}.items():
        yield _printed(f"X({n})", solution.throughput_per_s[n - 1], known, 6)
    yield _printed("X(64)", solution.throughput_per_s[63], 31.999999998, 9)
    yield _printed("X(128)", solution.throughput_per_s[127], 32.0, 9)
    yield _printed("R(128)", solution.response_time_s[127], 3.8, 9)


def _designs() -> Iterator[Compared]:
    square = [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    for effect, known in zip(analyse_factorial(square, [[15], [45], [25], [75]]).effects, (40, 20, 10, 5), strict=True):
        yield _printed(f"2^2 {effect.term}", effect.effect, known, 12)
    cube = [[a, b, c] for c in (-1, 1) for b in (-1, 1) for a in (-1, 1)]
    design = analyse_factorial(cube, [[y] for y in (14, 22, 10, 34, 46, 58, 50, 86)])
    for term, known in {"I": 40, "A": 10, "B": 5, "C": 20, "AB": 5, "AC": 2, "BC": 3, "ABC": 1}.items():
        yield _printed(f"2^3 {term}", design[term].effect, known, 12)
    yield _printed("2^3 SST", design.sst, 4512, 9)
    repeated = analyse_factorial(square, [[15, 18, 12], [45, 48, 51], [25, 28, 19], [75, 75, 81]], level=0.90)
    for ours, known in ((repeated.ssy, 27204), (repeated.ss0, 20172), (repeated.sst, 7032), (repeated.sse, 102)):
        yield _printed("2^2 r sums", ours, known, 8)
    yield _printed("s_e", repeated.sd_error or 0.0, 3.570714, 6)
    yield _printed("s_q", repeated.sd_effect or 0.0, 1.030776, 6)
    contrast = repeated.contrast({"A": 1, "B": 1, "AB": -2})
    yield _printed("contrast", contrast.value, 21.0, 9)
    yield _printed("contrast low", contrast.low, 16.305, 3)
    yield _printed("contrast high", contrast.high, 25.695, 3)


def _log_design() -> Iterator[Compared]:
    y = [[85.10, 79.50, 147.90], [0.891, 1.047, 1.072], [0.955, 0.933, 1.122], [0.0148, 0.0126, 0.0118]]
    design = analyse_factorial([[-1, -1], [1, -1], [-1, 1], [1, 1]], np.log10(y), level=0.90)
    for effect, known in zip(design.effects, (0.02856, -0.97147, -0.97149, 0.02857), strict=True):
        yield _printed(effect.term, effect.effect, known, 5)
    yield _printed("half-width", design.contrast({"A": 1.0}).high - design["A"].effect, 0.04510, 5)
    yield _printed("error %", design.percent_error, 0.25, 2)


def _scalability() -> Iterator[Compared]:
    fit = fit_scalability([1, 18, 36, 72, 108, 144, 216], [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])
    yield _printed("gamma", fit.gamma.value, 89.995, 3)
    yield _printed("alpha", fit.alpha.value, 0.0277284, 7)
    yield _printed("beta", 1e4 * fit.beta.value, 1.043658, 5)  # nls of R stops 3e-6 from the least squares
    yield _printed("s", fit.residual_sd, 82.846, 3)
    yield _printed("alpha low", fit.alpha.low, 0.002402, 6)
    yield _printed("alpha high", fit.alpha.high, 0.053054, 6)
    yield _printed("peak", fit.peak or 0.0, 96.519, 3)
    yield _printed("peak X", fit.peak_throughput or 0.0, 1883.90, 2)


_RAYTRACER = (
    (1, 20),
    (4, 78),
    (8, 130),
    (12, 170),
    (16, 190),
    (20, 200),
    (24, 210),
    (28, 230),
    (32, 260),
    (48, 280),
    (64, 310),
)


def _raytracer() -> Iterator[Compared]:
    n, x = zip(*_RAYTRACER, strict=True)
    six = fit_scalability(n[:6], x[:6])
    yield _printed("gamma of six", six.gamma.value, 20.8560, 4)
    yield _printed("alpha of six", six.alpha.value, 0.0244440, 7)
    yield _printed("beta of six", six.beta.value, 0.00162681, 8)
    yield _printed("alpha low", six.alpha.low, -0.00226, 5)
    yield _printed("alpha high", six.alpha.high, 0.05115, 5)
    whole = fit_scalability(n, x)
    yield _printed("alpha", whole.alpha.value, 0.0577708, 7)
    yield _printed("gamma", whole.gamma.value, 21.8488, 4)
    yield Compared("no peak", float(whole.peak is None), 1.0, 0.0)


def _warmup() -> Iterator[Compared]:
    series = [10.0, 20, 30, 40, 50, 60, 70, 80, 85, 90] + [100.0, 101, 99, 102, 98] * 10
    yield Compared("deleted", float(mser5(series).delete), 10.0, 0.0)


def _sample_size() -> Iterator[Compared]:
    yield Compared("runs", float(sample_size(20.0, 5.0, 0.05)), 97.0, 0.0)


def _two_systems() -> Iterator[Compared]:
    pairs = ((5.4, 19.1), (16.6, 3.5), (0.6, 3.4), (1.4, 2.5), (0.6, 3.6), (7.3, 1.7))
    systems, contrast = ["a", "b"] * len(pairs), {"a": 1.0, "b": -1.0}
    blocks = [block for block in range(len(pairs)) for _ in pairs[0]]
    paired = fit(lay_out(systems, blocks), [value for pair in pairs for value in pair]).contrast(contrast)
    reach = float(stdtrit(paired.freedom, 0.95)) * paired.standard_error
    yield _printed("mean", paired.value, -0.316667, 6)
    yield _printed("s", paired.standard_error * math.sqrt(6), 9.034471, 6)
    yield _printed("low", paired.value - reach, -7.748784, 6)
    yield _printed("high", paired.value + reach, 7.115451, 6)
    a, b = [5.36, 16.57, 0.62, 1.41, 0.64, 7.26], [19.12, 3.52, 3.38, 2.50, 3.60, 1.74]
    welch = fit(lay_out(["a"] * len(a) + ["b"] * len(b)), [*a, *b]).contrast_by_cell(contrast)
    reach = float(stdtrit(welch.freedom, 0.95)) * welch.standard_error
    yield _printed("Welch freedom", welch.freedom, 9.943431, 6)
    yield _printed("Welch low", welch.value - reach, -7.038828, 6)
    yield _printed("Welch high", welch.value + reach, 6.372161, 6)


def _percentiles() -> Iterator[Compared]:
    for percent, known in ((90.0, 29), (95.0, 59), (99.0, 299), (99.9, 2995)):
        yield Compared(f"n for p{percent:g}", float(percentile_min_count(percent)), float(known), 0.0)


VECTORS: dict[str, Callable[[], Iterator[Compared]]] = {
    "vector 1, M/M/1 gateway (Jain ch. 31)": _gateway,
    "vector 2, M/M/5 computer centre (Jain ch. 31)": _computer_centre,
    "vector 4, Erlang B and C": _erlang,
    "vector 5, M/M/2/5 (Octave queueing)": _finite_buffer,
    "vector 6, operational analysis (after Jain ch. 33)": _operational,
    "vector 7, open networks (Jain 34.1, Lazowska p. 113)": _open_networks,
    "vector 8, closed network (Jain 34.2)": _closed_network,
    "vector 10, convolution with terminals (Jain 35.5)": _convolution,
    "vectors 11-13, asymptotic, balanced-job, geometric bounds": _bounds,
    "vector 15, mixed closed network (Bolch 8.4)": _mixed_network,
    "vector 17, the trap of load-dependent MVA": _trap,
    "vectors 20 and 27, 2^k r designs (Jain ch. 17, 18)": _designs,
    "vector 21, scalability law (R usl, specsdm91)": _scalability,
    "vectors 22 and 24, scalability law (R usl, raytracer)": _raytracer,
    "vector 25, MSER-5": _warmup,
    "vector 26, sample size (Jain ch. 13)": _sample_size,
    "vector 28, log transform (Jain table 18.5)": _log_design,
    "vector 30, two systems (Jain 13.5, 13.6)": _two_systems,
    "vector 31, minimum counts of percentiles": _percentiles,
}
