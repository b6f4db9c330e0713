"""What the numbers say, in sentences made by rule.

No sentence is written by hand: each is chosen and filled from an `Analysis`. A difference is only called one where the interval, adjusted
for the number of comparisons, says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design import Prediction, RequestPath, Response
from weir_lab.report.numbers.analysis import RESPONSE_NAMES
from weir_lab.theory.units import change_text, count_text, interval_text, microseconds, number, rate, signed_percent

if TYPE_CHECKING:
    from weir_lab.report.numbers.analysis import Analysis, Comparison, Point
    from weir_lab.report.numbers.sweeps import TwoLevelDesign
    from weir_lab.theory.linear import Change

__all__ = [
    "SENTENCES_MAX",
    "PredictionVerdict",
    "answer",
    "answer_sentences",
    "cpu_sentence",
    "judge_predictions",
]

SENTENCES_MAX = 5

# More series than this are counted in the answer, not named.
_SERIES_MAX = 4


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
    """What a reader takes away, in at most five sentences: costs or the best cell, where time goes, what holds, and what to mind.

    Sections say the rest: CPU time, all effects, knees.
    """
    if analysis.comparisons:
        sentences = [
            _costs(analysis, Response.THROUGHPUT),
            _costs(analysis, Response.MEAN_RESPONSE_TIME),
            _where_time_goes(analysis) or _knees(analysis),
        ]
    else:
        sentences = [_best_cell(analysis), *(_effects(design) for design in analysis.designs[:1]), _knees(analysis)]
    sentences += [_checks(analysis), _caveats(analysis)]
    return [sentence for sentence in sentences if sentence][:SENTENCES_MAX]


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


def _costs(analysis: Analysis, response: Response) -> str:
    ends = (analysis.comparisons[0], analysis.comparisons[-1])
    first, last = (_effect(analysis, comparison, response) for comparison in ends)
    return f"From direct to proxy, {RESPONSE_NAMES[response]} went {first}, and {last}."


def _effect(analysis: Analysis, comparison: Comparison, response: Response) -> str:
    change = comparison.effects[response]
    before, after = (
        _level(analysis.point(path, comparison.clients), response) for path in (RequestPath.DIRECT, RequestPath.PROXY)
    )
    unit = "requests/s" if response is Response.THROUGHPUT else "µs"
    doubt = "" if change.shown else f"; {_doubt(change)}"
    return (
        f"from {before} to {after} {unit} with {count_text(comparison.clients, 'client')} "
        f"({change_text(change)}{doubt})"
    )


def _doubt(change: Change) -> str:
    """Why no difference is claimed: how large a change these runs could have shown, down and up."""
    up = change.detectable_percent
    down = -100.0 * up / (100.0 + up)
    return f"no difference shown, though {signed_percent(down)} or {signed_percent(up)} % probably would have been"


def _level(point: Point, response: Response) -> str:
    if response is Response.THROUGHPUT:
        return rate(point.throughput_rps.mean)
    return microseconds(point.response_time_mean_ns.mean)


def _where_time_goes(analysis: Analysis) -> str:
    point = analysis.points_of(RequestPath.PROXY)[-1]
    if point.proxy is None:
        return ""
    response, residence = point.response_time_mean_ns.mean, point.proxy.residence_time_mean_ns.mean
    stage, longest = max(point.proxy.stage_mean_ns.items(), key=lambda item: item[1].mean)
    return (
        f"With {count_text(point.clients, 'client')}, a request through the proxy took {microseconds(response)} µs on average, "
        f"{microseconds(residence)} µs of it ({100 * residence / response:.0f} %) between the proxy's first and last stamp; the longest "
        f"stage there was {stage} with {microseconds(longest.mean)} µs."
    )


def _cpu(analysis: Analysis) -> str:
    direct, proxy = (analysis.points_of(path)[-1] for path in (RequestPath.DIRECT, RequestPath.PROXY))
    return (
        f"All roles together spent {microseconds(proxy.cpu_per_request_total_ns)} µs of CPU time on a request through the proxy and "
        f"{microseconds(direct.cpu_per_request_total_ns)} µs on a direct one."
    )


def _best_cell(analysis: Analysis) -> str:
    """The largest throughput, and which other cells it cannot be distinguished from."""
    best = max(analysis.points, key=lambda point: point.throughput_rps.mean)
    near = analysis.near_best
    doubt = (
        f"; {count_text(near, 'other cell')} {'is' if near == 1 else 'are'} not shown to be below it" if near else ""
    )
    return (
        f"The largest throughput is {interval_text(best.throughput_rps)} requests/s ({best.label}), with a mean response time of "
        f"{microseconds(best.response_time_mean_ns.mean)} µs{doubt}."
    )


def _effects(design: TwoLevelDesign) -> str:
    """What varies a response most, by its share of the variation, and whether that is more than error."""
    terms = [effect for effect in design.read.effects if effect.percent_of_variation is not None]
    strongest = max(terms, key=lambda effect: effect.percent_of_variation or 0.0)
    scale = " (on logarithms)" if design.on_logarithms else ""
    word = "significant" if strongest.significant else "not significant"
    return (
        f"Of the variation of {design.response}{scale}, {number(strongest.percent_of_variation or 0.0, 1)} % comes from "
        f"{design.name_of(strongest.term)} ({word} at 95 %), {number(design.read.percent_error, 1)} % is error."
    )


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
    """The law, the counts of both sides, and what was written down before, in one sentence."""
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
        parts.append(f"{count_text(len(analysis.invalid), 'attempt')} failed and were left out")
    return f"Note: {'; '.join(parts)}." if parts else ""
