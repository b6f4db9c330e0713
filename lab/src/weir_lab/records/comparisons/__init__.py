"""Comparisons of two systems in turn.

``lives``      what a comparison leaves on disk, and the pairs of a life
``looking``    when it looks, what it sees, and when it has seen enough
``sentences``  the answer in words
"""

from weir_lab.records.comparisons.lives import (
    LIVES,
    ComparisonRecord,
    LevelRecord,
    LifeRecord,
    LookRecord,
    Metric,
    PieceRecord,
    SideRecord,
    append_life,
    has_value,
    pairs_of,
    read_lives,
    value_of,
)
from weir_lab.records.comparisons.looking import Budget, Looking, Outcome, Outcomes, Rule, replay, worst
from weir_lab.records.comparisons.sentences import (
    METRIC_WORDS,
    answer_lines,
    change_words,
    ended_record,
    errors_sentence,
    limit_lines,
    lives_text,
    verdict_sentence,
)

__all__ = [
    "LIVES",
    "METRIC_WORDS",
    "Budget",
    "ComparisonRecord",
    "LevelRecord",
    "LifeRecord",
    "LookRecord",
    "Looking",
    "Metric",
    "Outcome",
    "Outcomes",
    "PieceRecord",
    "Rule",
    "SideRecord",
    "answer_lines",
    "append_life",
    "change_words",
    "ended_record",
    "errors_sentence",
    "has_value",
    "limit_lines",
    "lives_text",
    "pairs_of",
    "read_lives",
    "replay",
    "value_of",
    "verdict_sentence",
    "worst",
]
