"""The parts of a study file, checked: `Study` and what stands in its tables."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from weir_lab.design.settings import Level, Response, Settings, Strict
from weir_lab.design.text.goals import Goal, GoalError
from weir_lab.design.text.mistakes import misplaced
from weir_lab.design.topology import Cores, Cpus, Links, Topology
from weir_lab.theory.histogram import PERCENTILE_MIN_COUNTS

if TYPE_CHECKING:
    from weir_lab.design.text.lines import KeyPath

__all__ = [
    "FILE_NAME",
    "PACES",
    "SEARCH_RUNS_MIN",
    "STARTED_SETTINGS",
    "Expected",
    "FaultsError",
    "Gates",
    "Kind",
    "Night",
    "Observed",
    "PacePlan",
    "Plan",
    "Prediction",
    "Refinement",
    "Search",
    "Stop",
    "Study",
    "Subject",
    "keys_of_tables",
    "unknown_setting",
]

# What of the topology can be marked as assumed.
_TOPOLOGY_PARTS = {f"topology.{part}" for part in Topology.model_fields}
FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$"
"""Names of files that a subject is given: they lie in the run's folder."""
# host:port, with brackets around an IPv6 address.
_TARGET = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PORT_MAX = 65_535
STARTED_SETTINGS = (
    *("path", "subject", "servers", "server_threads", "server_memory_mib", "proxies", "proxy_threads", "engine"),
    *("workers", "readers", "crew", "replicas", "placement", "multiget"),
)
"""Settings of what a study with targets does not start."""
SEARCH_RUNS_MIN = 8
"""A search ends with fewer runs only if the capacity lies outside of its rates."""
_NOT_WRITTEN = "(none was written down before the runs)"
_NO_FACTOR: tuple[KeyPath, str] = (
    ("factors",),
    "factors is required and missing: a study varies something, or has find",
)
_SEARCH_WITHOUT_FIND: tuple[KeyPath, str] = (
    ("search",),
    "search says where find looks: give find, too, or leave search out",
)
PACES = ("quick", "standard", "full", "night")
_Assignment = Annotated[dict[str, Level], Field(min_length=1)]


class FaultsError(ValueError):
    """Everything that is wrong with a study as a whole, each with the key that its author should look at."""

    def __init__(self, faults: list[tuple[KeyPath, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


class Kind(StrEnum):
    """What a run of the study is."""

    LOAD = "load"
    TRACE = "trace"
    HASH = "hash"
    LINKS = "links"
    MICRO = "micro"

    @property
    def runs_load(self) -> bool:
        """Whether a run starts the topology and loads it."""
        return self in (Kind.LOAD, Kind.TRACE, Kind.MICRO)


class Observed(StrEnum):
    """What a study looks at, in the words of reports."""

    THROUGHPUT = "throughput"
    MEAN_RESPONSE_TIME = "mean_response_time"
    P99_RESPONSE_TIME = "p99_response_time"
    PERCENTILES = "percentiles"
    LOG2_DISTRIBUTION = "log2_distribution"
    WINDOWS = "windows"
    STAGE_TIMES = "stage_times"
    QUEUE_LENGTH = "queue_length"
    KEYS_PER_SERVER = "keys_per_server"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"


class Stop(Strict):
    """When enough runs of a cell are made: `stats.StopRule` on run means."""

    repetitions_max: Annotated[int, Field(ge=2, le=1000)] = 30
    relative_half_width: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    level: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    responses: Annotated[list[Response], Field(min_length=1)] = Field(
        default_factory=lambda: [Response.THROUGHPUT, Response.MEAN_RESPONSE_TIME]
    )


class Night(Strict):
    """How much each cell is to be known at the pace `night`: runs go where half-widths over these are largest.

    Headline cells are those of a study with ``headline``, of the sections that say so, and those at the maximum of a curve. Where other
    cells are to be as narrow as these, their runs are as long, too.
    """

    half_width: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    headline_runs: Annotated[int, Field(ge=2, le=1000)] = 5
    headline_s: Annotated[float, Field(gt=0.0, le=86_400.0)] = 10.0
    other_half_width: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.10
    other_runs: Annotated[int, Field(ge=2, le=1000)] = 3


class Plan(Strict):
    """How often, in what order and for how long each cell runs. With ``stop``, ``repetitions`` is the least number.

    Levels of the factors in ``together`` run one right after the other within a block: what is compared by pairs meets the machine in
    the same minute.
    """

    repetitions: Annotated[int, Field(ge=1, le=1000)] = 5
    order: Literal["randomised-blocks"] = "randomised-blocks"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    warmup_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 2.0
    measured_s: Annotated[float, Field(gt=0.0, le=86_400.0)] = 10.0
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    cooldown_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 0.0
    window_s: Annotated[int, Field(ge=1, le=600)] = 1
    cut: Literal["fixed", "mser-5"] = "fixed"
    stop: Stop | None = None
    budget_s: Annotated[float | None, Field(gt=0.0)] = None
    together: list[str] = Field(default_factory=list)
    night: Night | None = None

    @property
    def repetitions_max(self) -> int:
        """The most runs that a cell may take."""
        return max(self.repetitions, self.stop.repetitions_max) if self.stop else self.repetitions


class Gates(Strict):
    """Limits whose crossing marks a run. Errors, misses and failed verifications always make it invalid."""

    client_cpu_share_max: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    other_cpu_share_max: Annotated[float, Field(gt=0.0, le=1.0)] = 0.10
    law_deviation_max: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    busy_machine: Literal["flag", "invalid"] = "flag"
    """What a run is in which more than ``other_cpu_share_max`` went elsewhere."""
    yardstick_off_max: Annotated[float | None, Field(gt=0.0, lt=1.0)] = None
    """How far the yardstick of a run may be off the study's median; further away the run is invalid, and tried again."""
    miss_share_max: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Misses per request that a run may have; a mix that deletes, or keys that expire, make some."""


class Prediction(Strict):
    """A range for the change from direct to proxy, written down before the measurement."""

    response: Response
    clients: Annotated[int, Field(ge=1)]
    change_percent_min: float
    change_percent_max: float

    @model_validator(mode="after")
    def _range_is_ordered(self) -> Prediction:
        if not -100.0 <= self.change_percent_min < self.change_percent_max:
            raise ValueError("give -100 <= change_percent_min < change_percent_max")
        return self


class Expected(Strict):
    """A point that the hypothesis or an earlier study names, to be shown beside the observed one."""

    at: _Assignment
    throughput_rps: Annotated[float | None, Field(gt=0.0)] = None
    mean_response_time_us: Annotated[float | None, Field(gt=0.0)] = None
    p99_response_time_us: Annotated[float | None, Field(gt=0.0)] = None
    origin: Annotated[str, Field(min_length=1)] = "hypothesis"

    @model_validator(mode="after")
    def _names_a_number(self) -> Expected:
        if self.throughput_rps is self.mean_response_time_us is self.p99_response_time_us is None:
            raise ValueError("give throughput_rps, mean_response_time_us or p99_response_time_us")
        return self


class Subject(Strict):
    """A proxy by its command line and the files that are written for each run; `templates` says what is filled into both."""

    argv: Annotated[list[str | list[str]], Field(min_length=1)]
    """A list inside of it stands once per memcached server."""
    config: str | None = None
    files: dict[Annotated[str, Field(pattern=FILE_NAME)], str] = Field(default_factory=dict)

    @property
    def program(self) -> str:
        """What is started."""
        return self.words[0]

    @property
    def words(self) -> list[str]:
        """All words of the command line, before anything is filled in."""
        return [word for part in self.argv for word in ([part] if isinstance(part, str) else part)]

    @model_validator(mode="after")
    def _starts_something(self) -> Subject:
        if not self.words or not self.words[0] or isinstance(self.argv[0], list):
            raise ValueError("argv begins with the program to start, as a text")
        if self.config is not None and "conf" in self.files:
            raise ValueError('the text of config is the file "conf": give it another name under files')
        return self


class Search(Strict):
    """Where ``find`` looks, and how narrow the interval of its answer is to be."""

    rate_min: Annotated[float, Field(gt=0.0, le=100_000_000.0)] = 1_000.0
    rate_max: Annotated[float, Field(gt=0.0, le=100_000_000.0)] = 1_000_000.0
    half_width: Annotated[float, Field(ge=0.01, lt=1.0)] = 0.1
    level: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    runs_max: Annotated[int, Field(ge=SEARCH_RUNS_MIN, le=1000)] = 40

    @model_validator(mode="after")
    def _range_is_ordered(self) -> Search:
        if not self.rate_min < self.rate_max:
            raise ValueError("give rate_min < rate_max")
        return self


class Refinement(Strict):
    """After all cells before it: vary one factor around the best cell, as S4 did to find its optimum."""

    factor: str
    offsets: Annotated[list[int | float], Field(min_length=1)]
    response: Literal["throughput", "mean_response_time"] = "throughput"


class PacePlan(Strict):
    """What a pace changes, where its rule would not do."""

    repetitions: Annotated[int | None, Field(ge=1, le=1000)] = None
    measured_s: Annotated[float | None, Field(gt=0.0, le=86_400.0)] = None
    warmup_s: Annotated[float | None, Field(ge=0.0, le=3600.0)] = None
    cooldown_s: Annotated[float | None, Field(ge=0.0, le=3600.0)] = None
    factors: dict[str, Annotated[list[Level], Field(min_length=1)]] = Field(default_factory=dict)


class Study(Strict):
    """One study file, checked."""

    schema_: Annotated[Literal["weir.study/1"], Field(alias="schema")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,40}$")]
    title: Annotated[str, Field(min_length=1)] = ""
    question: Annotated[str, Field(min_length=10)] = _NOT_WRITTEN
    hypothesis: Annotated[str, Field(min_length=10)] = _NOT_WRITTEN
    label: Annotated[str | None, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,40}$")] = None
    kind: Kind = Kind.LOAD
    source: str | None = None
    assumed: list[str] = Field(default_factory=list)
    headline: bool = False
    pace: Literal["quick", "standard", "full", "night"] | None = None
    extended: Annotated[int, Field(ge=0, le=1000)] = 0
    testbed: Literal["local", "netns", "hosts"] = "local"
    topology: Topology = Topology()
    subjects: dict[str, Subject] = Field(default_factory=dict)
    targets: list[str] = Field(default_factory=list)
    fixed: dict[str, Level] = Field(default_factory=dict)
    factors: dict[str, Annotated[list[Level], Field(min_length=1)]] = Field(default_factory=dict)
    find: str | None = None
    search: Search = Search()
    design: Literal["full", "2k", "cells"] = "full"
    cells: list[_Assignment] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    apart: list[str] = Field(default_factory=list)
    refine: list[Refinement] = Field(default_factory=list)
    refined: list[_Assignment] = Field(default_factory=list)
    responses: Annotated[list[Observed], Field(min_length=1)] = Field(
        default_factory=lambda: [Observed.THROUGHPUT, Observed.MEAN_RESPONSE_TIME]
    )
    expected: list[Expected] = Field(default_factory=list)
    plan: Plan = Plan()
    paces: dict[Literal["quick", "standard", "full", "night"], PacePlan] = Field(default_factory=dict)
    gates: Gates = Gates()
    predictions: list[Prediction] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _title_is_the_name(cls, data: Any) -> Any:
        """A study without a title is called by its name."""
        if isinstance(data, dict) and "title" not in data and isinstance(data.get("name"), str):
            return {**data, "title": data["name"]}
        return data

    @model_validator(mode="before")
    @classmethod
    def _factors_of_listed_cells(cls, data: Any) -> Any:
        """A list of cells names its factors by itself."""
        if not isinstance(data, dict) or data.get("factors") or not isinstance(data.get("cells"), list):
            return data
        levels: dict[str, list[Level]] = {}
        for cell in data["cells"]:
            for name, level in cell.items() if isinstance(cell, dict) else ():
                if level not in levels.setdefault(name, []):
                    levels[name].append(level)
        return {**data, "factors": levels}

    @model_validator(mode="after")
    def _every_part_agrees(self) -> Study:
        faults = [
            *self._settings_once(),
            *self._sound_targets(),
            *self._sound_search(),
            *self._sound_design(),
            *self._enough_runs(),
        ]
        if faults:
            raise FaultsError(faults)
        return self

    def _settings_once(self) -> list[tuple[KeyPath, str]]:
        known = set(Settings.model_fields)
        given = self.fixed.keys() | self.factors.keys()
        faults: list[tuple[KeyPath, str]] = [
            (("fixed", name), f"{name} under both [fixed] and [factors]: keep one")
            for name in sorted(self.fixed.keys() & self.factors.keys())
        ]
        for table, names in (("fixed", self.fixed), ("factors", self.factors)):
            faults += [((table, name), unknown_setting(name, table)) for name in names if name not in known]
        for name, levels in self.factors.items():
            if len(set(levels)) != len(levels):
                faults.append((("factors", name), f"factors.{name} names a level twice: name each once"))
        faults += [
            (("assumed",), f"{name} is no setting of this study, so it cannot be marked as assumed")
            for name in self.assumed
            if name not in given and name not in Plan.model_fields and name not in _TOPOLOGY_PARTS
        ]
        return faults

    def _sound_targets(self) -> list[tuple[KeyPath, str]]:
        """What runs already is not started, so nothing can be set of it."""
        faults: list[tuple[KeyPath, str]] = []
        for index, target in enumerate(self.targets):
            found = _TARGET.fullmatch(target)
            if found is None or not 1 <= int(found[2]) <= _PORT_MAX:
                faults.append((("targets", index), f'"host:port" is wanted, such as "10.0.0.5:11211", not {target!r}'))
        if len(set(self.targets)) != len(self.targets):
            faults.append((("targets",), "a target stands twice: name each once"))
        if not self.targets:
            return faults
        if not self.kind.runs_load:
            faults.append((("kind",), f"kind {self.kind} asks no server anything: leave targets out"))
        for table, names in (("fixed", self.fixed), ("factors", self.factors)):
            faults += [
                ((table, name), f"{name} is a setting of what weir-lab starts; targets run already: leave it out")
                for name in names
                if name in STARTED_SETTINGS
            ]
        faults += [
            (("subjects", name), "targets run already: leave subjects out, or targets") for name in self.subjects
        ]
        return faults

    @property
    def goal(self) -> Goal | None:
        """What ``find`` asks for."""
        return None if self.find is None else Goal.parse(self.find)

    def _sound_search(self) -> list[tuple[KeyPath, str]]:
        """A goal that can be read, and runs in which its percentiles can be known; without one there is at least one factor."""
        faults: list[tuple[KeyPath, str]]
        if self.find is None:
            faults = [] if self.factors else [_NO_FACTOR]
            return faults + ([_SEARCH_WITHOUT_FIND] if self.search != Search() else [])
        try:
            goal = Goal.parse(self.find)
        except GoalError as error:
            return [(("find",), str(error))]
        faults = [
            ((table, "rate"), "find varies the rate: leave it out")
            for table, names in (("fixed", self.fixed), ("factors", self.factors))
            if "rate" in names
        ]
        if self.kind is not Kind.LOAD:
            faults.append((("kind",), f"kind {self.kind} has no rate to be found: leave out find"))
        given: dict[KeyPath, object] = {
            **{("predictions",): self.predictions, ("expected",): self.expected, ("refine",): self.refine},
            **{("plan", "stop"): self.plan.stop, ("plan", "cut"): self.plan.cut != "fixed"},
        }
        faults += [(key, f"find makes cells of its own: leave {key[-1]} out") for key, value in given.items() if value]
        needed = max(PERCENTILE_MIN_COUNTS.get(limit.percent or 0.0, 1) for limit in goal.limits)
        requests = self.search.rate_min * self.plan.measured_s
        if requests < needed:
            least = math.ceil(needed / self.plan.measured_s)
            reported = (
                f"at {self.search.rate_min:g} requests/s a run of {self.plan.measured_s:g} s has {requests:g} requests"
            )
            remedy = f"make rate_min {least} or plan.measured_s longer"
            faults.append((("search", "rate_min"), f"{reported}, and the goal needs {needed}: {remedy}"))
        return faults

    def _sound_design(self) -> list[tuple[KeyPath, str]]:
        faults: list[tuple[KeyPath, str]] = []
        if (self.design == "cells") != bool(self.cells):
            faults.append((("design",), 'design = "cells" and a list of [[cells]] go together'))
        for index, cell in enumerate(self.cells):
            if cell.keys() != self.factors.keys():
                wanted = ", ".join(self.factors)
                faults.append((("cells", index), f"every cell gives a level to each factor: {wanted}"))
        for name, levels in self.factors.items() if self.design == "2k" else ():
            if len(levels) != 2:
                faults.append((("factors", name), f"a 2^k design has two levels of each factor, not {len(levels)}"))
        for index, stage in enumerate(self.refine):
            if stage.factor not in self.factors:
                faults.append((("refine", index, "factor"), f"{stage.factor} is no factor of this study"))
        for key, names in ((("apart",), self.apart), (("plan", "together"), self.plan.together)):
            faults += [(key, f"{name} is no factor of this study") for name in names if name not in self.factors]
        for pace, changes in self.paces.items():
            faults += [
                (("paces", pace, "factors", name), f"{name} is no factor of this study")
                for name in changes.factors
                if name not in self.factors
            ]
        for index, point in enumerate(self.expected):
            faults += [
                (("expected", index, "at"), unknown_setting(name))
                for name in point.at
                if name not in Settings.model_fields
            ]
        return faults

    def _enough_runs(self) -> list[tuple[KeyPath, str]]:
        alone = self.kind in (Kind.TRACE, Kind.HASH, Kind.LINKS)
        if self.plan.repetitions < 2 and not alone:
            return [(("plan", "repetitions"), "plan.repetitions is at least 2: one run says nothing about the next")]
        return []


def unknown_setting(name: str, table: str = "fixed") -> str:
    """A sentence with the nearest setting that there is, or with the table that a key belongs to."""
    return misplaced(name, table, keys_of_tables())


def keys_of_tables() -> dict[str, list[str]]:
    """The keys of each table of a study file; those of its head under the empty name."""
    head = [field.alias or name for name, field in Study.model_fields.items()]
    parts: dict[str, type[BaseModel]] = {
        **{"topology.links": Links, "topology.cpu": Cpus, "topology.cores": Cores},
        **{"plan": Plan, "plan.stop": Stop, "plan.night": Night, "gates": Gates, "topology": Topology},
        "search": Search,
        **{"predictions": Prediction, "expected": Expected, "refine": Refinement},
        **{"subjects": Subject, "paces": PacePlan},
    }
    return {"": head} | {name: list(part.model_fields) for name, part in parts.items()}
