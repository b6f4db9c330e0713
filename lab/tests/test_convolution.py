"""Convolution in logarithms against sums of exact integers, over ranges that no double holds, and how much work it takes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_lab.theory.queueing import Kind, Station, solve_closed
from weir_lab.theory.queueing.networks import convolution
from weir_lab.theory.queueing.networks.convolution import log_convolution

logs = st.one_of(st.floats(-5000.0, 5000.0), st.just(-math.inf))


def one_by_one(weights: list[float], values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    total = np.full(len(values), -np.inf)
    for k, weight in enumerate(weights[: len(values)]):
        total[k:] = np.logaddexp(total[k:], weight + np.array(values)[: len(values) - k])
    return total


@given(st.lists(logs, min_size=1, max_size=30), st.lists(logs, min_size=1, max_size=40))
def test_any_sequences_of_any_size(weights: list[float], values: list[float]) -> None:
    found = log_convolution(np.array(weights), np.array(values))
    assert found == pytest.approx(one_by_one(weights, values), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize(("weights", "values"), [(700, 1500), (1500, 300), (1, 1), (256, 257), (257, 256), (513, 1024)])
def test_blocks_meet_without_a_seam(weights: int, values: int) -> None:
    rng = np.random.default_rng(7)
    left, right = np.cumsum(rng.normal(0, 3, weights)), np.cumsum(rng.normal(-5, 3, values))
    found = log_convolution(left, right)
    assert found == pytest.approx(one_by_one(left.tolist(), right.tolist()), rel=1e-13, abs=1e-10)


def test_sums_of_exact_integers() -> None:
    """1/k! with 1/n!: the binomial theorem says 2^n / n!."""
    size = 600
    logs = np.array([-math.lgamma(k + 1.0) for k in range(size)])
    exact = [float(n * math.log(2) + -math.lgamma(n + 1.0)) for n in range(size)]
    assert log_convolution(logs, logs) == pytest.approx(exact, rel=1e-13, abs=1e-12)
    integers = [Fraction(3) ** (k * k % 97) for k in range(300)]
    found = log_convolution(np.array([math.log(i) for i in integers]), np.array([math.log(i) for i in integers]))
    for n in (0, 1, 100, 255, 256, 299):
        assert found[n] == pytest.approx(math.log(sum(integers[k] * integers[n - k] for k in range(n + 1))), rel=1e-13)


def test_a_large_network_takes_few_products_and_no_sums_in_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: products of a block are cheap, a sum in logarithms costs a hundred times as much per term."""
    products, slow = [0], [0]
    convolve, in_logarithms = np.convolve, convolution._in_logarithms

    def counted(a: np.ndarray, v: np.ndarray, mode: str) -> object:
        products[0] += (a.size - v.size + 1) * v.size
        return convolve(a, v, mode)  # type: ignore[call-overload]

    def counted_slow(*arguments: np.ndarray) -> object:
        slow[0] += arguments[2].size
        return in_logarithms(*arguments)

    monkeypatch.setattr(np, "convolve", counted)
    monkeypatch.setattr(convolution, "_in_logarithms", counted_slow)
    stations = [Station("delay", 0.01, kind=Kind.DELAY), Station("loop", 1e-5)]
    stations += [Station(f"workers {time}", time, servers=100) for time in (0.001, 0.0015, 0.002)]
    population = 10_000
    solution = solve_closed(stations, population)
    assert solution.throughput_per_s[-1] == pytest.approx(50_000, rel=1e-9)
    assert solution.jobs.sum(axis=0) == pytest.approx(solution.population, rel=1e-9)
    # 3 stations for the whole network, and 3 x 3 for their jobs, each of 100 capacities; single servers have one.
    assert products[0] <= 1.1 * population * (3 * 100 + 9 * 100 + 10)
    assert slow[0] <= 100
