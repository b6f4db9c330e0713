"""Which questions two studies share, and whether our data answer them alike. `pair_questions`.

Two sentences are about the same where their names are the same but for the study (``s3-one-workers`` and ``s5-one-workers``), or else
where sections of one kind judge them by the same rule, contrast and settings. They claim the same where rule and contrast are the same;
the levels and margins that a rule takes may differ, and the sentences name them. Verdicts that differ say nothing then of claims about
other levels. Of claims that are not the same some exclude each other, such as which factor explains most; others are different questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.design.whole.sets import load_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import Ruled, StudySet
    from weir_lab.report.page.blocks import Finding
    from weir_lab.report.sets.stories.reading import Whole

__all__ = [
    "ALIKE",
    "IN_ONE",
    "OTHERWISE",
    "OTHER_CLAIM",
    "OTHER_LEVELS",
    "OTHER_QUESTION",
    "UNDECIDED",
    "Question",
    "pair_questions",
    "set_of",
    "unpaired",
]

ALIKE, OTHERWISE, IN_ONE, UNDECIDED, OTHER_CLAIM, OTHER_LEVELS, OTHER_QUESTION = (
    "alike",
    "otherwise",
    "decided in one only",
    "not decided",
    "other claims",
    "other levels",
    "other questions",
)
# What one thing alone can be: two claims that name different ones exclude each other.
_ONE_ALONE = {"most_variation": "term", "longest_stage": "stage", "limited_by": "station", "effect_sign": "sign"}
# Numbers among a rule's arguments that name levels; others are margins and values. With some rules these are limits of the answer.
_LEVELS = frozenset({"low", "high", "from", "to", "at_level", "keys"})
_LIMITS_OF = frozenset({"change_within", "saturates_at"})
_DECIDED = frozenset({"holds", "does not hold"})


@dataclass(frozen=True)
class Question:
    """A sentence of each study about the same. ``same`` says whether they claim the same, ``levels`` whether at the same levels.

    ``exclude``: they claim what cannot be both.
    """

    one: Finding
    other: Finding
    same: bool
    concluded: bool
    """A conclusion of the studies; else something that was expected."""
    levels: bool = True
    exclude: bool = True

    @property
    def answered(self) -> str:
        """How our data of both studies answer it: alike, otherwise, or undecided in one or both; or that the claims are not the same."""
        if not self.same:
            return OTHER_CLAIM if self.exclude else OTHER_QUESTION
        decided = len([one for one in (self.one, self.other) if one.verdict in _DECIDED])
        if decided < 2:
            return IN_ONE if decided else UNDECIDED
        if self.one.verdict == self.other.verdict:
            return ALIKE
        return OTHERWISE if self.levels else OTHER_LEVELS


@dataclass(frozen=True)
class _Asked:
    """A sentence with its rule."""

    finding: Finding
    ruled: Ruled
    kind: str
    concluded: bool
    tail: str

    @property
    def contrast(self) -> tuple[object, ...]:
        """Rule, and what it compares: texts name that, numbers are levels and margins."""
        return self.ruled.rule, *sorted(
            (k, v) for k, v in self.ruled.args.items() if isinstance(v, str) and k != "file"
        )

    @property
    def levels(self) -> tuple[object, ...]:
        """At which settings, and between which levels, where the set names them."""
        left_out = {"low", "high"} if self.ruled.rule in _LIMITS_OF else set()
        named = {name: value for name, value in self.ruled.args.items() if name in _LEVELS - left_out}
        return tuple(sorted((name, str(value)) for name, value in [*self.ruled.at.items(), *named.items()]))

    def excludes(self, other: _Asked) -> bool:
        """Whether not both can hold: both name one thing alone, of the same data, and not the same."""
        key = _ONE_ALONE.get(self.ruled.rule)
        rest, others = (
            {name: value for name, value in one.args.items() if isinstance(value, str) and name != key}
            for one in (self.ruled, other.ruled)
        )
        return key is not None and self.ruled.rule == other.ruled.rule and (rest, self.levels) == (others, other.levels)

    @property
    def asks(self) -> tuple[object, ...]:
        """What has to be the same where names are not."""
        return self.kind, self.concluded, self.contrast, tuple(sorted((k, str(v)) for k, v in self.ruled.at.items()))


def set_of(whole: Whole) -> StudySet:
    """The set that a report was made of, which lies beside it."""
    return load_set(whole.path.parent / "studies" / f"{whole.name}.set.toml")


def pair_questions(one: Whole, one_set: StudySet, other: Whole, other_set: StudySet) -> list[Question]:
    """Every question that both studies asked and our data were held against, in the order of the first study."""
    asked, others = _asked(one, one_set), _asked(other, other_set)
    left = {id(item): item for item in others}
    partner: dict[int, _Asked] = {}
    by_tail = {item.tail: item for item in others}
    for item in asked:
        found = by_tail.get(item.tail)
        if found is not None:
            partner[id(item)] = left.pop(id(found))
    for item in asked:
        if id(item) in partner or not item.ruled.rule:
            continue
        alike = [found for found in left.values() if found.ruled.rule and found.asks == item.asks]
        if len(alike) == 1:
            partner[id(item)] = left.pop(id(alike[0]))
    return [_question(item, partner[id(item)]) for item in asked if id(item) in partner]


def unpaired(whole: Whole, questions: Sequence[Question]) -> list[tuple[bool, Finding]]:
    """What only this one of two studies concluded (true) or expected, and our data were held against, in its order."""
    paired = {id(finding) for item in questions for finding in (item.one, item.other)}
    return [
        (concluded, finding)
        for part in whole.parts
        for concluded, found in ((True, part.findings), (False, part.expectations))
        for finding in found
        if id(finding) not in paired
    ]


def _question(one: _Asked, other: _Asked) -> Question:
    same = bool(one.ruled.rule) and one.contrast == other.contrast
    return Question(
        one.finding, other.finding, same, one.concluded, one.levels == other.levels, exclude=one.excludes(other)
    )


def _asked(whole: Whole, study_set: StudySet) -> list[_Asked]:
    """Sentences of the report that the set knows, conclusions first in each section."""
    specs = {spec.name: spec for spec in study_set.sections}
    found = []
    for part in whole.parts:
        spec = specs.get(part.name)
        ruled: dict[str, Ruled] = (
            {one.name: one for one in (*spec.claims, *spec.hypotheses)} if spec is not None else {}
        )
        groups: Sequence[tuple[bool, Sequence[Finding]]] = ((True, part.findings), (False, part.expectations))
        found += [
            _Asked(finding, ruled[finding.name], spec.kind, concluded, finding.name.removeprefix(f"{whole.name}-"))
            for concluded, findings in groups
            for finding in findings
            if spec is not None and finding.name in ruled
        ]
    return found
