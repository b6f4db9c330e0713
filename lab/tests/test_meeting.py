"""Predictions on simulated runs whose truth is known: met, missed, and silence where the data cannot tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir_lab.theory.fitting.meeting import Meeting, Verdict, meeting_of, tally_text
from weir_lab.theory.linear import positive_interval
from weir_lab.theory.stats import benjamini_hochberg

DRAWS = [pytest.param(500, id="few"), pytest.param(10_000, id="many", marks=pytest.mark.long)]


def shares(truth: float, spread: float, runs: int, draws: int) -> dict[Verdict, float]:
    """How often runs of a system at ``truth`` times the prediction are said to meet it within 5 %, and to miss it."""
    rng = np.random.default_rng([draws, runs])
    found = [
        meeting_of(positive_interval(truth * np.exp(rng.normal(0.0, spread, runs))), 1.0, 5.0).verdict
        for _ in range(draws)
    ]
    return {one: found.count(one) / draws for one in Verdict}


def at_most(share: float, wanted: float, draws: int) -> None:
    assert share <= wanted + 3.0 * math.sqrt(wanted * (1.0 - wanted) / draws), share


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize(("spread", "runs"), [(0.01, 5), (0.03, 5), (0.03, 3), (0.10, 5)])
def test_a_prediction_at_the_margin_is_seldom_met_and_seldom_missed(spread: float, runs: int, draws: int) -> None:
    for truth in (0.95, 1.05):
        found = shares(truth, spread, runs, draws)
        print(truth, spread, runs, {str(one): share for one, share in found.items()})
        at_most(found[Verdict.MET], 0.025, draws)
        at_most(found[Verdict.MISSED], 0.025, draws)


def test_what_is_right_is_met_and_what_is_wrong_is_missed_where_runs_are_alike() -> None:
    assert shares(1.0, 0.02, 5, 500)[Verdict.MET] > 0.85
    assert shares(1.12, 0.02, 5, 500)[Verdict.MISSED] > 0.9
    # The worse the data, the less is said; before, nothing could miss.
    loud = shares(1.0, 0.15, 3, 500)
    assert loud[Verdict.CANNOT_TELL] > 0.95
    assert loud[Verdict.MET] < 0.02


def test_a_single_run_tells_nothing_and_a_tally_counts_only_what_is_met() -> None:
    alone = meeting_of(None, 100.0, 5.0, 101.0)
    assert (alone.verdict, alone.met, round(alone.percent, 6), alone.low) == (Verdict.CANNOT_TELL, False, 1.0, None)
    near = meeting_of(positive_interval([100.0, 102.0, 104.0]), 100.0, 5.0)
    assert near.verdict is Verdict.CANNOT_TELL
    assert 1.0 < near.times_more < 20.0
    met = Meeting(Verdict.MET, 0.0, -1.0, 1.0, 1.0)
    assert tally_text([met, met, alone]) == "2 of 3 met, 1 cannot tell"


@pytest.mark.parametrize("draws", DRAWS)
def test_of_exploratory_comparisons_that_are_shown_five_of_a_hundred_are_wrong_at_most(draws: int) -> None:
    """Fifteen without an effect beside five with one: far more than 5 % of the studies have a wrong one unadjusted."""
    rng = np.random.default_rng(draws)
    proportions, found = [], 0
    for _ in range(draws):
        z = rng.standard_normal(20)
        z[15:] += 4.0
        p = [math.erfc(abs(one) / math.sqrt(2.0)) for one in z]
        shown = [place for place, q in enumerate(benjamini_hochberg(p)) if q <= 0.05]
        proportions.append(sum(place < 15 for place in shown) / max(1, len(shown)))
        found += sum(place >= 15 for place in shown)
    print("false discoveries", float(np.mean(proportions)), "found", found / draws / 5)
    assert float(np.mean(proportions)) <= 0.05 + 3.0 * float(np.std(proportions)) / math.sqrt(draws)
    assert found / draws / 5 > 0.9
