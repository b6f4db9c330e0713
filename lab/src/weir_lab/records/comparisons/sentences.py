"""The answer of a comparison in words, and its record: the same for terminal, file and page.

Start with `verdict_sentence`, which is said of one number of clients. Of a whole record, `answer_lines` is what may be repeated, and
`limit_lines` what limits it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from weir_lab.records.comparisons.lives import LevelRecord, Metric
from weir_lab.records.comparisons.looking import worst
from weir_lab.theory.stats.stopping import Verdict
from weir_lab.theory.units import count_text, signed_percent, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.records.comparisons.lives import ComparisonRecord, LifeRecord, LookRecord
    from weir_lab.records.comparisons.looking import Outcome, Outcomes, Rule

__all__ = [
    "METRIC_WORDS",
    "answer_lines",
    "change_words",
    "ended_record",
    "errors_sentence",
    "limit_lines",
    "lives_text",
    "verdict_sentence",
]

# More sentences cannot be repeated from memory.
_ANSWER_MAX = 3

METRIC_WORDS = {
    Metric.THROUGHPUT: "throughput",
    Metric.RESPONSE_TIME: "mean response time",
    Metric.MEDIAN: "median response time",
    Metric.P99: "p99 of the response time",
    Metric.CPU: "CPU time of the proxy per request",
}


def verdict_sentence(outcome: Outcome, rule: Rule) -> str:
    """What was found, how sure, and from how much; where nothing was, what would help."""
    metric, lives = METRIC_WORDS[rule.metric], lives_text(len(outcome.lives))
    judgement = outcome.judgement
    if judgement is None:
        return f"Cannot tell: {lives}, and the first look is after {rule.plan.first}. Give a larger budget."
    found = f"{metric} {change_words(*judgement.change, 1.0 - rule.plan.error)}, from {lives}"
    margin = f"{significant(100.0 * rule.same_within)} %"
    if judgement.verdict is Verdict.CANNOT_TELL:
        return f"Cannot tell: {found}. {_what_helps(outcome, rule)}"
    if judgement.verdict is Verdict.SAME:
        return f"B is the same as A within {margin}: {found}."
    return f"B is {judgement.verdict}: {found}."


def change_words(percent: float, low: float, high: float, level: float) -> str:
    """``+5.12 % (97.5 % interval +3.01 to +7.20)``."""
    ends = f"{signed_percent(low)} to {signed_percent(high)}"
    return f"{signed_percent(percent)} % ({100.0 * level:g} % interval {ends})"


def errors_sentence(lives: Sequence[LifeRecord]) -> str:
    """Which side answered with errors, how often and which; empty where none did."""
    parts = []
    for side in ("A", "B"):
        texts: Counter[str] = Counter()
        for life in lives:
            texts.update(life.errors.get(side, {}))
        if texts:
            asked = sum(life.asked.get(side, 0) for life in lives)
            reported = ", ".join(f"{count:,} times {text!r}" for text, count in texts.most_common())
            parts.append(f"{side} answered {texts.total():,} of {asked:,} requests with an error: {reported}")
    return f"{'; '.join(parts)}." if parts else ""


def ended_record(record: ComparisonRecord, outcomes: Outcomes, rule: Rule, took_s: float) -> ComparisonRecord:
    """The record of a comparison that has ended so."""
    several = len(outcomes) > 1
    levels = [
        LevelRecord(
            clients=clients,
            looks=outcome.look_records,
            verdict=outcome.verdict,
            sentence=(f"{count_text(clients, 'client')}: " if several else "") + verdict_sentence(outcome, rule),
        )
        for clients, outcome in outcomes.items()
    ]
    verdict = worst(outcome.verdict for outcome in outcomes.values())
    errors = errors_sentence(next(iter(outcomes.values())).lives)
    return record.model_copy(update={"took_s": took_s, "levels": levels, "errors": errors, "verdict": verdict.value})


def answer_lines(record: ComparisonRecord) -> list[str]:
    """At most three sentences: the verdict with each number of clients.

    Of more than three numbers: which verdict with which of them, and the ends of the change.
    """
    if len(record.levels) <= _ANSWER_MAX:
        return [_verdict_alone(level) for level in record.levels]
    ends = _ends(record)
    return [_verdicts_counted(record), *([ends] if ends else [])]


def limit_lines(record: ComparisonRecord) -> list[str]:
    """How small a change could be shown, what would help where a verdict is lacking, and error replies."""
    found = []
    looked = [level for level in record.levels if level.looks]
    several = len(record.levels) > 1
    if looked:
        widest = max(looked, key=lambda level: _half_width(level.looks[-1]))
        look = widest.looks[-1]
        where = f" with {count_text(widest.clients, 'client')}" if several else ""
        found.append(
            f"{lives_text(look.lives)} show changes of about {significant(_half_width(look))} % or more{where}."
        )
    for level in record.levels:
        advice = level.sentence.removeprefix(_verdict_alone(level)).strip()
        if advice and several:
            advice = f"With {count_text(level.clients, 'client')}, {advice[0].lower()}{advice[1:]}"
        found += [advice] if advice else []
    return [*found, *([record.errors] if record.errors else [])]


def _verdict_alone(level: LevelRecord) -> str:
    """Without what would help."""
    return f"{level.sentence.split('. ')[0].rstrip('.')}."


def _verdicts_counted(record: ComparisonRecord) -> str:
    """Which verdict with which numbers of clients, the worst first."""
    margin = f"{significant(record.same_within_percent)} %"
    words = {
        Verdict.SLOWER: "B is slower",
        Verdict.CANNOT_TELL: "cannot tell",
        Verdict.SAME: f"B is the same as A within {margin}",
        Verdict.FASTER: "B is faster",
    }
    parts = []
    for verdict, said in words.items():
        clients = [str(level.clients) for level in record.levels if level.verdict == verdict]
        if clients:
            parts.append(f"{said} with {' and '.join(filter(None, (', '.join(clients[:-1]), clients[-1])))}")
    return f"Of {len(record.levels)} numbers of clients: {'; '.join(parts)}."


def _ends(record: ComparisonRecord) -> str:
    looked = sorted((level for level in record.levels if level.looks), key=lambda level: level.looks[-1].change_percent)
    if not looked:
        return ""
    least, most = (_change_at(level, 1.0 - record.error) for level in (looked[0], looked[-1]))
    return f"The {METRIC_WORDS[Metric(record.metric)]} changes by {least} to {most}."


def _change_at(level: LevelRecord, sure: float) -> str:
    look = level.looks[-1]
    change = change_words(look.change_percent, look.low_percent, look.high_percent, sure)
    return f"{change} with {count_text(level.clients, 'client')}"


def _half_width(look: LookRecord) -> float:
    return (look.high_percent - look.low_percent) / 2.0


def lives_text(count: int) -> str:
    """``1 process life``, ``12 process lives``."""
    return count_text(count, "process life").replace("lifes", "lives")


def _what_helps(outcome: Outcome, rule: Rule) -> str:
    """How many lives would make the interval as narrow as the margin, by the square root."""
    judgement = outcome.judgement
    assert judgement is not None
    margin = math.log1p(rule.same_within)
    more = math.ceil(len(outcome.lives) * (judgement.log_change.half_width / margin) ** 2)
    if more <= len(outcome.lives):
        return "The change is near the margin: a larger budget, or another --same-within, would decide."
    better = "a quieter machine, or another --metric, needs fewer"
    return f"About {more:,} lives would make the interval as narrow as the margin; {better}."
