"""What the numbers say, in sentences made by rule.

No sentence is written by hand: each is chosen and filled from an `Analysis`. A difference is only called one where the interval, adjusted
for the number of comparisons, says so. ``answer_sentences`` is what may be repeated; ``limit_sentences`` says what stands in its way, and
``check_sentences`` how it was checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import stdtr

from weir_lab.design import Prediction, RequestPath, Response
from weir_lab.report.numbers.analysis import RESPONSE_NAMES
from weir_lab.theory.units import (
    change_text,
    count_text,
    duration_text,
    interval_text,
    microseconds,
    number,
    rate,
    signed_percent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.numbers.analysis import Analysis, Comparison, Point
    from weir_lab.report.numbers.sweeps import TwoLevelDesign
    from weir_lab.theory.factorial import Effect
    from weir_lab.theory.linear import Change

__all__ = [
    "SENTENCES_MAX",
    "PredictionVerdict",
    "answer",
    "answer_sentences",
    "check_sentences",
    "cpu_sentence",
    "judge_predictions",
    "limit_sentences",
    "spoken_of",
    "stands_out",
]

SENTENCES_MAX = 3
"""Of an answer: more cannot be repeated from memory."""

# What a proxy costs is said under the heaviest load and under the lightest, where response times are not made of waiting for one another.
_COSTS = ((-1, Response.THROUGHPUT), (0, Response.MEAN_RESPONSE_TIME))

# More series than this are counted in the answer, not named.
_SERIES_MAX = 4

# More cells than this are counted and not named.
_NEAR_BEST_NAMED_MAX = 3


@dataclass(frozen=True)
class PredictionVerdict:
    """A prediction beside what was observed.

    ``held``: the whole interval lies in the predicted range; ``refuted``: it lies outside; otherwise ``undecided``.
    """

    prediction: Prediction
    observed: Change
    verdict: str


def judge_predictions(analysis: Analysis) -> list[PredictionVerdict]:
    """Compare every prediction of the study with the observed interval."""
    if not analysis.comparisons:
        return []
    by_clients = {comparison.clients: comparison for comparison in analysis.comparisons}
    return [
        _judge(prediction, by_clients[prediction.clients].effects[prediction.response])
        for prediction in analysis.study.predictions
    ]


def answer(analysis: Analysis) -> str:
    """One paragraph that answers the study's question."""
    return " ".join(answer_sentences(analysis))


def answer_sentences(analysis: Analysis) -> list[str]:
    """What a reader takes away, in at most three sentences.

    Where paths are compared: throughput with the most clients, response time with the fewest, where time goes in the proxy. Elsewhere: the
    best cell, what varies the response most, and the knees.
    """
    if analysis.comparisons:
        sentences = [
            *(_cost(analysis, analysis.comparisons[place], response) for place, response in _COSTS),
            _where_time_goes(analysis),
        ]
    else:
        sentences = [_best_cell(analysis), *(_effects(design) for design in analysis.designs[:1]), _knees(analysis)]
    return [sentence for sentence in sentences if sentence][:SENTENCES_MAX]


def limit_sentences(analysis: Analysis) -> list[str]:
    """Where more clients bring no more, which difference would have been shown, and what to mind."""
    sentences = [_knees(analysis), *_could_show(analysis)] if analysis.comparisons else []
    return [sentence for sentence in [*sentences, _caveats(analysis)] if sentence]


def check_sentences(analysis: Analysis) -> list[str]:
    """How the numbers were checked: the law, the counts of both sides, what was predicted."""
    return [_checks(analysis)]


def spoken_of(analysis: Analysis) -> tuple[Point, str]:
    """The cell that the answer begins with, and how a sentence names it."""
    if analysis.comparisons:
        clients = analysis.comparisons[-1].clients
        return analysis.point(RequestPath.PROXY, clients), f"With {count_text(clients, 'client')} through the proxy"
    return _best(analysis), "At the largest throughput"


def cpu_sentence(analysis: Analysis) -> str:
    """What a request costs all roles together, where paths are compared; nothing elsewhere."""
    return _cpu(analysis) if analysis.comparisons else ""


def _judge(prediction: Prediction, observed: Change) -> PredictionVerdict:
    low, high = prediction.change_percent_min, prediction.change_percent_max
    if low <= observed.low and observed.high <= high:
        verdict = "held"
    elif observed.high < low or observed.low > high:
        verdict = "refuted"
    else:
        verdict = "undecided"
    return PredictionVerdict(prediction, observed, verdict)


def _cost(analysis: Analysis, comparison: Comparison, response: Response) -> str:
    """Both paths beside each other at one number of clients."""
    change, clients = comparison.effects[response], count_text(comparison.clients, "client")
    direct, proxied = (analysis.point(path, comparison.clients) for path in (RequestPath.DIRECT, RequestPath.PROXY))
    spread = f"({change_text(change)}{'' if change.shown else '; no difference shown'})"
    if response is Response.THROUGHPUT:
        served, before = (rate(point.throughput_rps.mean) for point in (proxied, direct))
        return f"With {clients}, {served} requests/s were answered through the proxy and {before} directly {spread}."
    took, before = (duration_text(point.response_time_mean_ns.mean / 1e9) for point in (proxied, direct))
    return f"With {clients}, a request took {took} on average through the proxy and {before} directly {spread}."


def _could_show(analysis: Analysis) -> list[str]:
    """Of the changes that the answer calls not shown: how large they would have had to be."""
    found = []
    for place, response in _COSTS:
        comparison = analysis.comparisons[place]
        change = comparison.effects[response]
        if not change.shown:
            up = change.detectable_percent
            down = -100.0 * up / (100.0 + up)
            found.append(
                f"With {count_text(comparison.clients, 'client')}, a change of the {RESPONSE_NAMES[response]} by {signed_percent(down)} or "
                f"{signed_percent(up)} % probably would have been shown."
            )
    return found


def _where_time_goes(analysis: Analysis) -> str:
    point = analysis.points_of(RequestPath.PROXY)[-1]
    if point.proxy is None:
        return ""
    response, residence = point.response_time_mean_ns.mean, point.proxy.residence_time_mean_ns.mean
    stage, longest = max(point.proxy.stage_mean_ns.items(), key=lambda item: item[1].mean)
    return (
        f"With {count_text(point.clients, 'client')}, a request through the proxy takes {duration_text(response / 1e9)}, of which "
        f"{duration_text(residence / 1e9)} ({100 * residence / response:.0f} %) pass inside it, most in stage {stage} "
        f"({duration_text(longest.mean / 1e9)})."
    )


def _cpu(analysis: Analysis) -> str:
    direct, proxy = (analysis.points_of(path)[-1] for path in (RequestPath.DIRECT, RequestPath.PROXY))
    return (
        f"All roles together spent {microseconds(proxy.cpu_per_request_total_ns)} µs of CPU time on a request through the proxy and "
        f"{microseconds(direct.cpu_per_request_total_ns)} µs on a direct one."
    )


def _best_cell(analysis: Analysis) -> str:
    """The largest throughput, and which other cells it cannot be distinguished from."""
    best, near = _best(analysis), analysis.near_best
    doubt = f"; {_named(near)} may have as much" if near else ""
    return (
        f"The largest mean throughput is {interval_text(best.throughput_rps)} requests/s ({best.label}), with a mean response time of "
        f"{microseconds(best.response_time_mean_ns.mean)} µs{doubt}."
    )


def _named(labels: Sequence[str]) -> str:
    """Some cells by what varies among them, many by their number.

    >>> _named(["clients 4", "clients 16", "clients 32"])
    'clients 4, 16 and 32'
    >>> _named(["path proxy, clients 4", "path direct, clients 4"])
    'path proxy, clients 4 and path direct, clients 4'
    >>> _named(["clients 1", "clients 2", "clients 4", "clients 8"])
    '4 other cells'
    """
    if len(labels) > _NEAR_BEST_NAMED_MAX:
        return count_text(len(labels), "other cell")
    factors = {label.rpartition(" ")[0] for label in labels}
    if len(factors) > 1 or "," in labels[0]:
        return " and ".join(labels)
    *most, last = [label.rpartition(" ")[2] for label in labels]
    return f"{factors.pop()} {' and '.join([*([', '.join(most)] if most else []), last])}"


def _best(analysis: Analysis) -> Point:
    return max(analysis.points, key=lambda point: point.throughput_rps.mean)


def _effects(design: TwoLevelDesign) -> str:
    """What varies a response most, by its share of the variation, and whether that is more than error."""
    terms = [effect for effect in design.read.effects if effect.percent_of_variation is not None]
    strongest = max(terms, key=lambda effect: effect.percent_of_variation or 0.0)
    scale = " (on logarithms)" if design.on_logarithms else ""
    word = "significant" if stands_out(strongest, len(terms)) else "not significant"
    return (
        f"Of the variation of {design.response}{scale}, {number(strongest.percent_of_variation or 0.0, 1)} % comes from "
        f"{design.name_of(strongest.term)} ({word} at 95 %), {number(design.read.percent_error, 1)} % is error."
    )


def stands_out(strongest: Effect, terms: int) -> bool:
    """Whether the largest of all effects is more than error: by Bonferroni, because the largest of many is large by chance."""
    interval = strongest.interval
    if interval is None:
        return False
    if interval.standard_error == 0.0:
        return strongest.effect != 0.0
    p = 2.0 * float(stdtr(interval.freedom, -abs(strongest.effect) / interval.standard_error))
    return p * terms <= 1.0 - interval.level


def _knees(analysis: Analysis) -> str:
    known = [series for series in analysis.series if series.knee is not None]
    if not known:
        return ""
    if len(known) > _SERIES_MAX:
        reported = sum(series.knee is not None and series.knee.verdict.startswith("between") for series in known)
        return f"The knee is bracketed in {reported} of {len(known)} series."
    parts = [f"{series.knee.verdict} ({series.name})" for series in known if series.knee is not None]
    return f"Knee of throughput over clients: {'; '.join(parts)}."


def _checks(analysis: Analysis) -> str:
    """All checks in one sentence."""
    rows, off = len(analysis.points), [point for point in analysis.points if not point.law_holds]
    worst = max(analysis.points, key=lambda point: abs(point.law_deviation.mean))
    limit = f"{100 * analysis.study.gates.law_deviation_max:g} %"
    counted = sum(point.proxy.client_requests for point in analysis.points if point.proxy)
    where = f"largest deviation {signed_percent(100 * worst.law_deviation.mean)} %, {worst.path}, {count_text(worst.clients, 'client')}"
    parts = [f"The interactive law holds within {limit} on {rows - len(off)} of {rows} rows ({where})"]
    if counted:
        parts.append(f"client and proxy counted the same {counted:,} requests")
    verdicts = [judged.verdict for judged in judge_predictions(analysis)]
    if verdicts:
        reported = [f"{verdicts.count(word)} {word}" for word in ("held", "refuted", "undecided") if word in verdicts]
        parts.append(f"of {count_text(len(verdicts), 'prediction')} written down before, {', '.join(reported)}")
    return f"{'; '.join(parts)}."


def _caveats(analysis: Analysis) -> str:
    parts = []
    busiest = max(point.other_cpu_share.mean for point in analysis.points)
    if busiest > analysis.study.gates.other_cpu_share_max:
        parts.append(
            f"up to {100 * busiest:.0f} % of the machine's CPU time went elsewhere, so these numbers describe a busy machine"
        )
    if analysis.flagged:
        parts.append(f"{len(analysis.flagged)} of {len(analysis.used)} runs carry a flag (see the list of runs)")
    if analysis.invalid:
        left_out = "was" if len(analysis.invalid) == 1 else "were"
        parts.append(f"{count_text(len(analysis.invalid), 'attempt')} failed and {left_out} left out")
    return f"Note: {'; '.join(parts)}." if parts else ""
