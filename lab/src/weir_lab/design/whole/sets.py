"""A whole study as data: which sections its report has, and which study files each of them needs.

The files ``studies/*.set.toml`` hold one set each. Start with `load_set`.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DEFAULT_MARGINS",
    "EVENT_SUFFIX",
    "HEADLINES",
    "KINDS",
    "Built",
    "Claim",
    "ExpectedCurve",
    "Hypothesis",
    "Lack",
    "Margins",
    "More",
    "OwnStop",
    "PublishedSource",
    "Ruled",
    "SectionSpec",
    "StudySet",
    "known_sets",
    "load_set",
    "sweep_folder",
]

EVENT_SUFFIX = "-event"
"""Of the folder that has the runs with the event engine."""
KINDS = (
    "links",
    "hash",
    "clients",
    "overhead",
    "replication",
    "writes",
    "multigets",
    "trace",
    "effects",
    "models",
    "micro",
    "beside",
)
"""What a section looks at; each has a module of its own."""
HEADLINES = ("effects", "replication", "writes", "multigets", "beside")
"""Sections all of whose cells are headline cells at the pace `night`."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Margins(_Strict):
    """What counts as reached, as met and as held, in percent: fixed in the file before there are data.

    ``maximum``: a level of clients is at the maximum where it reaches the plateau but for so much. ``prediction_throughput`` and
    ``prediction_response``: a prediction is met where what was measured lies so near to it.
    """

    maximum: Annotated[float, Field(gt=0.0, lt=50.0)] = 5.0
    prediction_throughput: Annotated[float, Field(gt=0.0, lt=50.0)] = 5.0
    prediction_response: Annotated[float, Field(gt=0.0, lt=50.0)] = 10.0


DEFAULT_MARGINS = Margins()


class Ruled(_Strict):
    """A sentence, by its name, with the rule that holds it against data (`claims`); ``at`` keeps the cells with these settings."""

    name: str
    rule: str
    at: dict[str, int | float | str] = Field(default_factory=dict)
    args: dict[str, str | float | int | bool] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        raise NotImplementedError

    @property
    def no_rule(self) -> str:
        """Why no rule can answer it here; empty where one can."""
        return ""


class Claim(Ruled):
    """A sentence that the earlier study concluded; ``after_data`` where its rule was chosen when the data were known."""

    claim: Annotated[str, Field(min_length=10)]
    after_data: bool = False

    @property
    def text(self) -> str:
        """The sentence."""
        return self.claim


class ExpectedCurve(_Strict):
    """Points of a curve that was expected, drawn dashed in a figure of the section: ``values`` at ``levels`` of the figure's x axis.

    ``figure`` is the name of the figure, ``panel`` a part of the titles of its panels (all without it). ``metric`` says how the values are
    brought to the speed of the machines: rates in requests/s, times in ms, or, of ``relative``, multiples of what was measured at the
    first level, where the study gave its axis no unit. ``note`` is what else is to be known of it: the caption has it, without its stop.
    """

    figure: str
    panel: str = ""
    metric: Literal["throughput", "response_time", "relative"]
    levels: Annotated[list[float], Field(min_length=2)]
    values: Annotated[list[float], Field(min_length=2)]
    note: str = ""

    @model_validator(mode="after")
    def _pairs(self) -> ExpectedCurve:
        if len(self.levels) != len(self.values):
            raise ValueError(f"{len(self.levels)} levels and {len(self.values)} values: give one value for each level")
        if sorted(set(self.levels)) != self.levels:
            raise ValueError("give the levels once each, in ascending order")
        return self


class Hypothesis(Ruled):
    """What was expected before there were data: by the earlier study, in our words with its numbers, or by us.

    ``study_found`` is what the study itself concluded. Where no rule can hold it against our data, ``why_not`` says why, and there is no
    ``rule``.
    """

    hypothesis: Annotated[str, Field(min_length=10)]
    from_: Annotated[Literal["study", "ours"], Field(alias="from")]
    rule: str = ""
    why_not: str = ""
    study_found: str = ""
    expected: list[ExpectedCurve] = Field(default_factory=list)

    @model_validator(mode="after")
    def _answered_or_why_not(self) -> Hypothesis:
        if bool(self.rule) == bool(self.why_not):
            raise ValueError("give either the rule that answers it, or why_not")
        return self

    @property
    def text(self) -> str:
        """The sentence."""
        return self.hypothesis

    @property
    def no_rule(self) -> str:
        """Why no rule can answer it here."""
        return self.why_not


class More(_Strict):
    """Runs of our own in which one station alone was changed, so that what limits is shown by a change of it.

    ``changes`` names the station, ``times`` is what its capacity was multiplied by, ``file`` the study file. Its cells are held against
    the section's cells with the same settings, but for ``setting`` where the change is one (workers). It is confirmed that the station
    limits where throughput changes by more than ``percent`` (negative: falls by more).
    """

    changes: str
    times: Annotated[float, Field(gt=0.0)]
    file: str
    setting: str = ""
    percent: float
    at: dict[str, int | float | str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_direction(self) -> More:
        if self.times == 1.0 or (self.times > 1.0) != (self.percent > 0.0) or self.percent <= -100.0:
            raise ValueError("with more of a station (times > 1) percent is positive, with less of it negative")
        return self


class Lack(_Strict):
    """Something that the study has in this part and our page has not, with the reason, which the page says in a box."""

    item: Annotated[str, Field(min_length=5)]
    why: Annotated[str, Field(min_length=10)]

    @property
    def text(self) -> str:
        """As the page has it."""
        return f"{self.item}: {self.why}"


class Built(_Strict):
    """A part of the study's own program, and how the engine of our page does the same: a row of a table of the page."""

    part: Annotated[str, Field(min_length=3)]
    study: Annotated[str, Field(min_length=3)]
    here: Annotated[str, Field(min_length=3)]


class OwnStop(_Strict):
    """Until when the study repeated a setting: the 95 % interval of ``response`` over runs lies within ``percent`` of its mean."""

    percent: Annotated[float, Field(gt=0.0, lt=100.0)]
    response: Literal["throughput", "response_time", "time_in_proxy"] = "throughput"


class PublishedSource(_Strict):
    """Rows of a table in ``report/oracles/data`` that were printed for this section."""

    table: str
    where: dict[str, str] = Field(default_factory=dict)


class SectionSpec(_Strict):
    """One section. ``beside`` runs the same designs with the event engine at every pace; ``redraws`` says what our figures replace.

    ``fewer`` names study files of our own with fewer clients than the study measured, for the knees of its curves: they have the first
    level on the study's plateau, too, and are not run at the pace quick. ``windows_s`` are the widths of windows in which the same runs of
    a trace are looked at; without any, each study's own.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{1,40}$")]
    title: str
    kind: Literal[
        "links",
        "hash",
        "clients",
        "overhead",
        "replication",
        "writes",
        "multigets",
        "trace",
        "effects",
        "models",
        "micro",
        "beside",
    ]
    files: Annotated[list[str], Field(min_length=1)]
    fewer: list[str] = Field(default_factory=list)
    beside: bool = False
    windows_s: list[Annotated[int, Field(ge=1, le=600)]] = Field(default_factory=list)
    published: list[PublishedSource] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)
    redraws: dict[str, str] = Field(default_factory=dict)
    every_level: bool = False
    claims: list[Claim] = Field(default_factory=list)
    hypotheses: list[Hypothesis] = Field(default_factory=list)
    more: list[More] = Field(default_factory=list)
    lacks: list[Lack] = Field(default_factory=list)
    stop_rule: OwnStop | None = None
    """The study's own, which says how many of our cells meet it."""
    differs: str = ""
    """Why the study found otherwise, as far as what it printed says."""


class StudySet(_Strict):
    """A whole study. ``engine`` is its original one; ``published`` its label in the tables of printed numbers.

    ``without_network`` names study files that asked what happens on one machine without a network: they run on `local` whatever testbed
    the others have. ``limiting`` names the tiers that may use all of their CPU quotas, because they limited in the study: by study file,
    and under ``all`` for files that are not named.
    """

    schema_: Annotated[Literal["weir.set/1"], Field(alias="schema")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9]{1,20}$")]
    title: str
    about: str
    changed: str = ""
    """What of its sentences was changed when data were known."""
    engine: Literal["event", "pool", "split"]
    published: str = ""
    without_network: list[str] = Field(default_factory=list)
    margins: Margins = DEFAULT_MARGINS
    limiting: dict[str, list[Literal["client", "proxy", "server"]]] = Field(default_factory=dict)
    lacks: list[Lack] = Field(default_factory=list)
    """Of the study as a whole; sections have their own."""
    built: list[Built] = Field(default_factory=list)
    sections: Annotated[list[SectionSpec], Field(min_length=1)]

    @property
    def files(self) -> list[str]:
        """Every study file, once, in the order in which the sections need it; those of `added` come last."""
        return list(dict.fromkeys([*self.designs, *self.added]))

    @property
    def designs(self) -> list[str]:
        """The study files that sections are made of."""
        return list(dict.fromkeys(file for section in self.sections for file in section.files))

    @property
    def confirming(self) -> list[str]:
        """The study files in which one station alone was changed."""
        return list(dict.fromkeys(one.file for section in self.sections for one in section.more))

    @property
    def added(self) -> list[str]:
        """The study files that no section is made of: those in which a station was changed, and those with fewer clients."""
        return list(dict.fromkeys([*self.confirming, *(file for section in self.sections for file in section.fewer)]))

    def planned(self, pace: str) -> list[str]:
        """The study files that are run at a pace: at the pace quick none with fewer clients, whose minutes are not to be had there."""
        fewer = {file for section in self.sections for file in section.fewer} if pace == "quick" else set()
        return [file for file in self.files if file not in fewer]

    def engines_beside(self, file: str, pace: str) -> bool:
        """Whether a file is run with the event engine, too: for one figure at the paces quick and night, for every figure at the others.

        At the pace night no hours go to traces of another engine.
        """
        if self.engine == "event":
            return False
        everywhere = pace not in ("quick", "night")
        return any(
            file in section.files
            and (section.beside or everywhere)
            and not (pace == "night" and section.kind == "trace")
            for section in self.sections
        )

    def limiting_of(self, file: str) -> list[str]:
        """The tiers that may use all of their CPU quotas in a study file."""
        return list(self.limiting.get(file, self.limiting.get("all", [])))

    def headline(self, file: str) -> bool:
        """Whether all cells of a file are numbers that will be quoted; of the others those at the maximum of a curve are."""
        return file in self.added or any(
            file in section.files and section.kind in HEADLINES for section in self.sections
        )


def load_set(path: Path) -> StudySet:
    """Read and check a set, and that its study files stand beside it."""
    try:
        found = StudySet.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StudyError(
            f"{path}: no such set ({error.strerror}). There are: {', '.join(known_sets(path.parent))}."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: not valid TOML: {error}. Mend the line.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise StudyError(
            f"{path}: {key}: {first['msg']}. docs/measure/whole-studies.md lists the keys of a set."
        ) from error
    for section in found.sections:
        if section.fewer and section.kind != "clients":
            raise StudyError(
                f"{path}: {section.name}: fewer: only a section over clients has knees. Take the key away."
            )
    twice = sorted(set(found.designs) & {file for section in found.sections for file in section.fewer})
    if twice:
        raise StudyError(f"{path}: fewer: {', '.join(twice)} is among the files of a section. Give a file of its own.")
    strangers = sorted(set(found.without_network) - set(found.files))
    if strangers:
        raise StudyError(f"{path}: without_network: {', '.join(strangers)} stands in no section. Mend the names.")
    strangers = sorted(set(found.limiting) - {"all", *found.files})
    if strangers:
        raise StudyError(f"{path}: limiting: {', '.join(strangers)} stands in no section. Mend the names.")
    absent = [file for file in found.files if not (path.parent / file).exists()]
    if absent:
        raise StudyError(f"{path}: no such study beside it: {', '.join(absent)}. Mend the names.")
    return found


def known_sets(folder: Path) -> list[str]:
    """Names of the sets of a folder."""
    return sorted(path.name.removesuffix(".set.toml") for path in folder.glob("*.set.toml"))


def sweep_folder(root: Path, file: str, *, event: bool = False) -> Path:
    """Where the sweep of a study file lies in the folder of a whole study."""
    return root / (file.removesuffix(".toml") + (EVENT_SUFFIX if event else ""))
