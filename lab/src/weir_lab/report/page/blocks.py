"""What a report is made of, before it is text: values with intervals, tables, figures, sections.

Everything that a reader sees passes through here, so that page, Markdown and twin show the same, and `verifying` can recompute it.
A `Value` refuses what is not a finite number: a missing number cannot reach a reader.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weir_lab.errors import ReportError
from weir_lab.theory.linear import interval_of
from weir_lab.theory.stats import Interval, mean_interval
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.report.page.charts import Panel

__all__ = [
    "KNOWN_ERRORS",
    "LIMITS",
    "RUNS",
    "TRUST",
    "Block",
    "Entry",
    "Expectation",
    "Figure",
    "Finding",
    "Report",
    "Section",
    "Table",
    "Text",
    "Value",
    "over",
]


@dataclass(frozen=True)
class Value:
    """A number with the digits to show, and its 95 % interval, or the two ``runs`` of which it is the mean.

    Two runs that have no error but their own tell nothing of a third: their interval reaches 13 times their distance. Both are shown.
    """

    value: float
    low: float | None = None
    high: float | None = None
    digits: int | None = None
    signed: bool = False
    runs: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for part in (self.value, self.low, self.high, *(self.runs or ())):
            if part is not None and not math.isfinite(part):
                raise ReportError(f"A number of the report is not finite ({part!r}). Look for a run without data.")

    @classmethod
    def of(cls, interval: Interval, digits: int | None = None) -> Value:
        """An interval over runs."""
        return cls(interval.mean, interval.low, interval.high, digits)

    @property
    def text(self) -> str:
        """``12.3 ± 0.4``, or of two runs ``12.3 (12.1 and 12.5)``; digits that suit the number where none are given."""
        whole = self.low is None and self.runs is None and float(self.value).is_integer()
        places = self.digits if self.digits is not None else 0 if whole else _places(self.value)
        shown = self._part(self.value, places)
        if self.runs is not None:
            return f"{shown} ({self._part(self.runs[0], places)} and {self._part(self.runs[1], places)})"
        if self.low is None or self.high is None:
            return shown
        if abs((self.high + self.low) / 2 - self.value) > 1e-6 * max(1.0, abs(self.value)):
            return f"{shown} ({self._part(self.low, places)} to {self._part(self.high, places)})"
        return f"{shown} ± {number((self.high - self.low) / 2, places)}"

    def _part(self, value: float, places: int) -> str:
        """Where the number has a sign, the ends of its interval have one, too."""
        shown = number(value, places)
        return f"+{shown}" if self.signed and value > 0 and not shown.startswith("+") else shown


Entry = str | int | Value

KNOWN_ERRORS = "-known-errors"
"""How the names of tables end that say what a study printed wrongly."""

LIMITS, TRUST = "What limits this", "How far to trust this"
"""Titles of a report's limits: what limits the system, and what the data may not tell."""

RUNS = "Runs: "
"""How the note begins that says which runs a section rests on."""

# Nobody reads more rows than these in passing.
_ROWS_SHOWN_MAX = 12


@dataclass(frozen=True)
class Text:
    """A paragraph; ``points`` follow it as a list, which opens on demand where it is ``folded``.

    ``leads``: how much of each point a page shows at first, from its beginning; what follows opens on demand. Without them all is shown.
    """

    text: str
    points: tuple[str, ...] = ()
    note: bool = False
    folded: bool = False
    leads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pairs = zip(self.points, self.leads, strict=bool(self.leads))
        if any(not point.startswith(lead) for point, lead in pairs):
            raise ReportError(f"{self.text} A point does not begin with what a page shows of it.")


@dataclass(frozen=True)
class Table:
    """Rows under headings. ``folded`` tables stand behind a figure and open on demand; so does every table of more than twelve rows."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    folded: bool = False

    def __post_init__(self) -> None:
        if not self.rows or not self.caption:
            raise ReportError(f"Table {self.name} has no rows or no caption. Look at the records that should fill it.")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ReportError(f"Table {self.name}: a row has not as many entries as there are columns.")

    @property
    def opens_on_demand(self) -> bool:
        """Whether a page shows its name alone at first."""
        return self.folded or len(self.rows) > _ROWS_SHOWN_MAX


@dataclass(frozen=True)
class Figure:
    """Panels side by side under one caption; ``redraws`` names the earlier study's figures, ``method`` n, interval and source."""

    name: str
    title: str
    method: str
    panels: tuple[Panel, ...]
    redraws: str = ""
    runs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.panels or not self.title or not self.method:
            raise ReportError(f"Figure {self.name} has no panel, title or method.")
        if any(not panel.has_data for panel in self.panels):
            raise ReportError(f"Figure {self.name} has an empty panel. Look at the records that should fill it.")


Block = Text | Table | Figure


@dataclass(frozen=True)
class Finding:
    """A sentence of the earlier study held against our data: ``holds``, ``does not hold``, ``cannot tell`` or ``no data``.

    ``p`` is adjusted for all sentences of the study; None where nothing was tested. ``built``: it asks which link limits, and that follows
    from the rates that the links of the testbed were given. ``after_data``: its rule was chosen when the data were known.
    """

    name: str
    claim: str
    verdict: str
    evidence: str
    p: float | None = None
    built: bool = field(default=False, kw_only=True)
    after_data: bool = field(default=False, kw_only=True)

    @property
    def p_text(self) -> str:
        """For a table."""
        if self.p is None:
            return "–"
        return "< 0.001" if self.p < 0.001 else f"{self.p:.3f}"


@dataclass(frozen=True)
class Expectation(Finding):
    """What was expected before there were data, held against them. ``study_found`` is what the study itself concluded of it."""

    whose: str = "study"
    """``study`` or ``ours``."""
    study_found: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report about one question. ``missing`` says what is not there, and then there are no numbers.

    Where there are ``expectations``, each with its answer, they stand in the place of the ``hypothesis``.
    """

    name: str
    title: str
    question: str
    hypothesis: str
    design: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    runs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    conclusions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Attempts that failed a gate, by sweep folder: counted, and nothing is computed from them."""
    expectations: tuple[Expectation, ...] = ()
    lacks: tuple[str, ...] = ()
    """What the earlier study has here and this page has not, each with the reason."""

    def expected_by(self, whose: str) -> list[Expectation]:
        """Those of the study, or ours."""
        return [one for one in self.expectations if one.whose == whose]

    @property
    def missing_as(self) -> str:
        """How a heading says that something is missing."""
        return "in part" if self.runs else "not there"


@dataclass(frozen=True)
class Report:
    """One sweep, or a whole study.

    First comes the answer: ``summary`` with at most five sentences, or, of one sweep, ``answer`` with three. ``limiting`` has what limits
    in each section. ``limits`` say what limits it and what to mind, under a title that says which; ``doubts`` what its intervals may not
    hold. Question, hypothesis and ``under`` follow; ``details`` and the ``basis`` of the intervals open on demand. ``findings_text`` says
    how findings were judged.
    ``steps`` say how to make the page again, each with its command.
    """

    name: str
    title: str
    about: str
    pace: str
    testbed: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...]
    sweeps: dict[str, str]
    under: str = ""
    answer: str = ""
    limits: tuple[str, ...] = ()
    limits_title: str = LIMITS
    details: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    basis: tuple[str, ...] = ()
    question: str = ""
    hypothesis: str = ""
    steps: tuple[tuple[str, str], ...] = ()
    listing: str = ""
    """Where the list of all attempts lies, beside the page; empty without one."""
    findings_text: str = ""
    changed: str = ""
    """What of the sentences that are judged was changed when data were known."""
    limiting: Table | None = None
    of_earlier: bool = True
    """Whether an earlier study concluded what is judged; else it was claimed by us, before there were data."""
    intervals: str = (
        "Intervals are 95 % intervals over runs, t on logarithms, unless a caption says otherwise. Two runs stand in place of an interval "
        "where nothing else tells how far runs differ."
    )

    @property
    def findings_title(self) -> str:
        """What findings are."""
        return "Conclusions of the study on our data" if self.of_earlier else "Claims fixed before the data"

    @property
    def findings(self) -> list[Finding]:
        """All of all sections."""
        return [finding for section in self.sections for finding in section.findings]

    @property
    def expectations(self) -> list[Expectation]:
        """All of all sections."""
        return [one for section in self.sections for one in section.expectations]


def over(values: Sequence[float], scale: float = 1.0, digits: int | None = None, *, signed: bool = False) -> Value:
    """Mean over runs with its 95 % interval, times and divided by a factor, ± for what may have either sign; of two runs both."""
    if not values:
        raise ReportError("A mean over no runs was asked for. Look for a cell without valid runs.")
    if len(values) == 1:
        return Value(values[0] * scale, digits=digits)
    if len(values) == 2:
        return Value(sum(values) / 2 * scale, digits=digits, runs=(values[0] * scale, values[1] * scale))
    return Value.of((mean_interval(values) if signed else interval_of(values)).scaled(scale), digits)


def _places(value: float) -> int:
    """Decimals for three significant digits, none from 1,000 up."""
    size = abs(value)
    if size == 0.0 or size >= 100.0:
        return 0
    return min(4, 2 - math.floor(math.log10(size)))
