"""Spikes of a trace by rule, and the machine's seconds that they are held against."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from pydantic import ValidationError

from weir_lab.bench.machine.watching import Glance, Watch, glance, seconds_of
from weir_lab.records.formats.seconds import MachineSeconds
from weir_lab.records.sharing.packing import plain_seconds
from weir_lab.records.sharing.unpacking import seconds_of_plain
from weir_lab.records.windows import Window
from weir_lab.report.sections import traces
from weir_lab.report.sections.claims.rules import _counted, _longer_text
from weir_lab.report.sections.traces import (
    CANNOT_TELL,
    DRIFTS,
    STABLE,
    Spikes,
    Steadiness,
    _alike_point,
    _held_most,
    _merged,
    goes_with,
    spikes_of,
    steadiness,
)
from weir_lab.theory.linear import Counted, Estimate, Within
from weir_lab.theory.stats import Spike, coincidences, find_spikes

if TYPE_CHECKING:
    from collections.abc import Callable

    from weir_lab.report.numbers.readings import Reading

HOUR = 3600


def steady(seed: int, spread: float = 0.03) -> np.ndarray:
    """An hour in windows of a second that are alike but for noise, and grow by a third."""
    rng = np.random.default_rng(seed)
    return 10_000.0 * np.linspace(1.0, 1.33, HOUR) * (1.0 + spread * rng.standard_normal(HOUR))


def test_an_hour_without_spikes_has_none_however_it_drifts() -> None:
    assert sum(len(find_spikes(steady(seed).tolist())) for seed in range(20)) == 0


def test_each_spike_that_was_put_in_comes_out_with_its_length_and_size() -> None:
    series = steady(1)
    for first, count, size in ((200, 1, -0.5), (1000, 3, -0.3), (2500, 2, 0.6)):
        series[first : first + count] *= 1.0 + size
    found = find_spikes(series.tolist())
    assert [(spike.first, spike.count) for spike in found] == [(200, 1), (1000, 3), (2500, 2)]
    assert [spike.size for spike in found] == pytest.approx([-0.5, -0.3, 0.6], abs=0.12)


def test_what_is_small_beside_the_noise_is_none() -> None:
    series = steady(2, spread=0.08)
    series[500] *= 0.75
    assert find_spikes(series.tolist()) == []
    assert find_spikes([100.0, 20.0] * 10) == [], "too short for a local median"


def test_a_cause_is_named_where_it_was_unusual_and_nothing_where_none_was() -> None:
    rng = np.random.default_rng(3)
    steal, stalls = rng.uniform(0.0, 0.004, HOUR), rng.uniform(0.2, 0.3, HOUR)
    steal[201] = 0.5  # clocks of the generator and of the lab are a window apart
    stalls[1001] = 0.9
    spikes = [Spike(200, 1, -0.5), Spike(1000, 3, -0.3), Spike(2500, 2, -0.2)]
    found = coincidences(spikes, {"steal": steal.tolist(), "stalls": stalls.tolist()}, {"steal": 0.02})
    assert found == [["steal"], ["stalls"], []]
    flat = coincidences(spikes, {"steal": [0.0] * HOUR}, {"steal": 0.02})
    assert flat == [[], [], []]


def test_seconds_are_differences_of_neighbours() -> None:
    looks = [
        Glance(10**9 * n, 10**8 * n, 10**7 * n, 3 * 10**7 * n, (n, 250_000 * n), {"proxy-0": 10**6 * n * n})
        for n in range(4)
    ]
    found = seconds_of(5, 2, looks)
    assert found is not None
    assert (found.length_us, found.busy_us, found.steal_us) == ([10**6] * 3, [10**5] * 3, [10**4] * 3)
    assert (found.others_us, found.piece_ns) == ([2 * 10**4] * 3, [250_000] * 3)
    assert found.stalled_us == {"proxy-0": [1000, 3000, 5000]}
    assert found.starts_s == [0.0, 1.0, 2.0]
    assert seconds_of(5, 2, looks[:1]) is None


def test_seconds_come_back_from_their_small_form() -> None:
    found = seconds_of(5, 2, [Glance(10**9 * n, n, n, n, (n, n), {"a": 7_000 * n}) for n in range(5)])
    assert found is not None
    assert MachineSeconds.model_validate(seconds_of_plain(plain_seconds(found))) == found


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValidationError, match="different lengths"):
        MachineSeconds(
            start_unix_ns=1, cores=1, length_us=[1, 2], busy_us=[1], steal_us=[1], others_us=[1], piece_ns=[1]
        )


def look() -> Glance:
    return glance(set(), {"proxy-0": time.monotonic_ns()}, (0, 0))


@pytest.mark.parametrize("looks", [look, None])
def test_a_watch_looks_until_it_ends_and_not_at_all_without_eyes(looks: Callable[[], Glance] | None) -> None:
    seen = 0

    def counted() -> Glance:
        nonlocal seen
        seen += 1
        return look()

    with Watch(None if looks is None else counted, 2, every_s=0.001) as watch:
        watch.begin()
        while looks is not None and seen < 3:
            time.sleep(0.001)
        found = watch.end()
    if looks is None:
        assert found is None
    else:
        assert found is not None
        assert len(found.length_us) == seen - 1 >= 2
        assert min(found.stalled_us["proxy-0"]) > 0


def test_spikes_of_a_run_are_held_against_the_same_second_of_the_machine() -> None:
    """The lab began to look half a second after the load had begun to be measured."""
    rates = steady(4)
    rates[[700, 1500]] *= 0.4
    glances = [Glance(10**9 * n, 0, 0, 0, (n, 250_000 * n), {"proxy-0": 0, "server-0": 10**6 * n}) for n in range(HOUR)]
    stalled = [
        replace(one, stalled_ns={**one.stalled_ns, "proxy-0": 8 * 10**8 * (number > 700)})
        for number, one in enumerate(glances)
    ]
    seconds = seconds_of(5 * 10**8, 2, stalled)
    run = SimpleNamespace(
        run=SimpleNamespace(seconds=seconds),
        load=SimpleNamespace(measured=SimpleNamespace(start_unix_ns=0)),
    )
    windows = tuple(Window(float(n), 1.0, int(rate), int(1e9), None) for n, rate in enumerate(rates))
    found = spikes_of(cast("Reading", run), Steadiness(windows, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0))
    assert found is not None
    assert found.causes == (("quota",), ())
    assert (found.open, found.with_cause("quota"), found.with_cause("steal")) == (1, 1, 0)
    assert found.per_hour == pytest.approx(2.0)
    assert found.bursts == 2
    assert found.reach == pytest.approx(0.15, abs=0.02), "five standard deviations of 3 %"
    assert found.kinds_text == "2 down; unusual in that second or beside it: quota in 1, and nothing in 1"
    short = Steadiness(windows[:100], 1.0, 0.0, -1.0, 1.0, 0.0, 0.0)
    assert spikes_of(cast("Reading", run), short) is None


@pytest.mark.parametrize("held", [True, False])
def test_what_throughput_goes_with_second_by_second_is_said(held: bool) -> None:
    """The control's throughput spread by 24 %, nearly all of it the time for which the server's quota held it; no page said so."""
    rng = np.random.default_rng(6)
    stalled_ns = rng.uniform(0.1e9, 0.5e9, HOUR)
    rates = 20_000.0 * (1.0 - stalled_ns / 1e9 if held else np.ones(HOUR)) * (1.0 + 0.02 * rng.standard_normal(HOUR))
    # What the quota takes of a second it takes at any time in it, so that 50 ms more or less change little.
    sums = np.cumsum(np.concatenate([[0.0], stalled_ns]))
    looks = [Glance(10**9 * n, 0, 0, 0, (n, 250_000 * n), {"server-0": int(sums[n])}) for n in range(HOUR + 1)]
    run = SimpleNamespace(
        run=SimpleNamespace(seconds=seconds_of(5 * 10**7, 2, looks)),  # the lab looks 50 ms later
        load=SimpleNamespace(measured=SimpleNamespace(start_unix_ns=0)),
    )
    windows = tuple(Window(float(n), 1.0, int(rate), int(1e9), None) for n, rate in enumerate(rates))
    found = goes_with(cast("Reading", run), Steadiness(windows, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0))
    assert {name for name, one in found.items() if one is None} == {"steal", "other processes", "slow cores"}
    assert found["quota"] is not None
    points = _alike_point("hour", found, _held_most(cast("Reading", run)))
    if not held:
        assert abs(found["quota"].correlation) < 0.1
        assert points == []
        return
    assert found["quota"].correlation < -0.95
    ((point, lead),) = points
    assert point.startswith(
        "Second by second, throughput of hour goes with the time for which a CPU quota held its machine (mostly server-0). The "
        "correlation is −0.99 ("
    )
    assert lead.endswith("(mostly server-0).")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-4.9, 4.9, STABLE),
        (0.5, 4.0, STABLE),
        (-6.0, 1.0, CANNOT_TELL),
        (4.0, 9.0, CANNOT_TELL),
        (5.1, 9.0, DRIFTS),
        (-9.0, -5.1, DRIFTS),
    ],
)
def test_a_trace_is_stable_where_its_interval_lies_within_the_margin(low: float, high: float, said: str) -> None:
    found = Steadiness((), 1.0, (low + high) / 2.0, low, high, 0.0, 0.0)
    assert found.verdict() == said
    assert found.verdict(100.0) == STABLE


def test_a_spike_of_one_window_stays_in_a_drawing_of_merged_windows() -> None:
    windows = [cast("Window", SimpleNamespace(start_s=float(second))) for second in range(15)]
    merged = _merged(windows, [100.0] * 7 + [20.0] + [100.0] * 7)
    assert (merged.x, merged.low, merged.high) == (0.0, 20.0, 100.0)
    assert 94.0 < merged.y < 95.0


def test_of_one_trace_more_runs_would_tell_nothing_and_a_longer_one_might() -> None:
    """“Some 487 runs of each level in place of 1 would tell” stood behind a verdict on an hour."""
    wide = Within(Estimate(-1.0, 2.0, 20.0), -5.0, 5.0)
    assert _longer_text([wide], 0.05) == "; a trace some 3 times as long would tell in 4 of 5 such studies"
    assert _longer_text([Within(Estimate(-1.0, 0.5, 20.0), -5.0, 5.0)], 0.05) == ""
    assert "no longer trace would tell" in _longer_text([Within(Estimate(5.0, 2.0, 20.0), -5.0, 5.0)], 0.05)
    far = Within(Estimate(-1.0, 36.0, 20.0), -5.0, 5.0)
    assert _longer_text([far], 0.05) == "; it would take a trace more than 10 times as long"


def test_a_trace_that_could_show_no_spike_is_not_asked_for_in_a_longer_form() -> None:
    """“A trace 7 times as long would tell” stood behind one whose windows had to be 85 % off to be spikes."""

    def said(reach: float) -> str:
        return _counted("control", Spikes((), (), 0.0, True, 0, reach), Counted(0, 1.0, 1.0)).evidence(0.003)

    assert "control has 0 spikes in 0 bursts (a window 85 % off its median would be one)" in said(0.85)
    assert said(0.85).endswith("; its windows differ too much to show smaller ones, however long it were")
    assert said(0.10).endswith("; a trace some 7 times as long would tell in 4 of 5 such studies")


def test_a_trace_whose_parts_are_too_much_alike_has_no_interval_and_its_page_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wave of ten minutes: what one part says the next one says again."""
    rates = 10_000.0 * (1.0 + 0.2 * np.sin(np.linspace(0.0, 2.0 * np.pi, 600)))
    windows = [Window(float(n), 1.0, round(rate), 10**9, None) for n, rate in enumerate(rates)]
    monkeypatch.setattr(traces, "windows_of_run", lambda *_: windows)
    run = SimpleNamespace(run=SimpleNamespace(folder=None), load=None, law_deviation=0.0, times=None)
    found = steadiness(cast("Reading", run), 1)
    assert found is not None
    assert (math.isinf(found.high_percent), found.verdict()) == (True, CANNOT_TELL)
    assert traces._end(found.low_percent) == "–"
    said, lead = traces._point("hour", found, cast("Reading", run))
    assert lead.endswith("% (its parts are too much alike for an interval).")
    assert traces._point("hour", found, cast("Reading", run), again=True)[1] == "hour may be stable or not within 5 %:"
    assert "It wanders: means of 20 s lie −20 to +20 % off its mean; they spread by 14.3 %, and would by 3.2 %" in said


@pytest.mark.parametrize(("drift", "cut", "said"), [(0.0, 60, STABLE), (-0.2, 0, DRIFTS)])
def test_a_warm_up_is_cut_before_the_verdict_and_a_drift_is_not(
    drift: float, cut: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    rates = 10_000.0 * np.linspace(1.0, 1.0 + drift, 600) * (1.0 + 0.02 * rng.standard_normal(600))
    if not drift:
        rates[:60] *= np.linspace(0.3, 0.8, 60)
    windows = [Window(float(n), 1.0, round(rate), 10**9, None) for n, rate in enumerate(rates)]
    monkeypatch.setattr(traces, "windows_of_run", lambda *_: windows)
    run = SimpleNamespace(run=SimpleNamespace(folder=None), load=None, law_deviation=0.0)
    found = steadiness(cast("Reading", run), 1)
    assert found is not None
    assert (found.cut, len(found.windows), found.verdict()) == (cut, 600, said)
    assert found.wanders == bool(drift)
    assert found.cv_percent < 8.0
