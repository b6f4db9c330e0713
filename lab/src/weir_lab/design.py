"""A study file becomes cells and an order to run them in.

Read `load_study` first. A *setting* is anything that a run can vary (`Settings`); the file gives each setting once, either one
value under ``[fixed]`` or several levels under ``[factors]``. A *cell* is one combination of levels; a *run* is one cell once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weir_lab.errors import StudyError
from weir_lab.topology import Topology

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Cell",
    "Gates",
    "Plan",
    "Prediction",
    "RequestPath",
    "Response",
    "Role",
    "ScheduledRun",
    "Settings",
    "Study",
    "cells_of",
    "content_sha256",
    "load_seed",
    "load_study",
    "parse_study",
    "schedule",
]

Level = int | float | str


class RequestPath(StrEnum):
    """The way of a request from the load generator to a memcached server."""

    DIRECT = "direct"
    PROXY = "proxy"


class Role(StrEnum):
    """Who uses the machine in a run."""

    CLIENT = "client"
    PROXY = "proxy"
    SERVERS = "servers"


class Response(StrEnum):
    """A measured answer that studies can predict and reports compare."""

    THROUGHPUT = "throughput"
    MEAN_RESPONSE_TIME = "mean_response_time"
    P99_RESPONSE_TIME = "p99_response_time"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Settings(_Strict):
    """Everything that a cell can vary; the titles are what reports print."""

    path: Annotated[RequestPath, Field(title="path")]
    clients: Annotated[int, Field(ge=1, le=4096, title="clients (connections)")]
    depth: Annotated[int, Field(ge=1, le=1024, title="depth (requests outstanding per connection)")]
    keys: Annotated[int, Field(ge=1, le=10_000_000, title="keys")]
    value_size_bytes: Annotated[int, Field(ge=1, le=1_000_000, title="value size (bytes)")]
    write_ratio: Annotated[float, Field(ge=0.0, le=1.0, title="writes (share of requests)")]
    client_threads: Annotated[int, Field(ge=1, le=64, title="load generator threads")]
    proxy_threads: Annotated[int, Field(ge=1, le=64, title="proxy threads")]
    servers: Annotated[int, Field(ge=1, le=64, title="memcached servers")]
    server_threads: Annotated[int, Field(ge=1, le=64, title="threads per memcached server")]
    server_memory_mib: Annotated[int, Field(ge=8, le=1_048_576, title="memory per memcached server (MiB)")]

    @property
    def population(self) -> int:
        """Requests that circulate in the closed system: N = clients x depth."""
        return self.clients * self.depth


class Plan(_Strict):
    """How often, in what order and for how long each cell runs."""

    repetitions: Annotated[int, Field(ge=2, le=1000)]
    order: Literal["randomised-blocks"]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    warmup_s: Annotated[float, Field(ge=0.0, le=3600.0)]
    measured_s: Annotated[float, Field(gt=0.0, le=86_400.0)]
    attempts: Annotated[int, Field(ge=1, le=10)]


class Gates(_Strict):
    """Limits whose crossing marks a run. Errors, misses and failed verifications always make it invalid."""

    client_cpu_share_max: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    other_cpu_share_max: Annotated[float, Field(gt=0.0, le=1.0)] = 0.10
    law_deviation_max: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05


class Prediction(_Strict):
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


class Study(_Strict):
    """One study file, checked."""

    schema_: Annotated[Literal["weir.study/1"], Field(alias="schema")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    title: Annotated[str, Field(min_length=3)]
    question: Annotated[str, Field(min_length=10)]
    hypothesis: Annotated[str, Field(min_length=10)]
    fixed: dict[str, Level]
    factors: Annotated[dict[str, Annotated[list[Level], Field(min_length=1)]], Field(min_length=1)]
    plan: Plan
    gates: Gates = Gates()
    topology: Topology = Topology()
    predictions: list[Prediction] = []

    @model_validator(mode="after")
    def _every_setting_once(self) -> Study:
        known = set(Settings.model_fields)
        both = self.fixed.keys() & self.factors.keys()
        given = self.fixed.keys() | self.factors.keys()
        if both:
            raise ValueError(f"{_listed(both)} under both [fixed] and [factors]: keep one")
        if given - known:
            raise ValueError(f"unknown setting {_listed(given - known)}: the settings are {_listed(known)}")
        if known - given:
            raise ValueError(f"{_listed(known - given)} is missing: add it under [fixed] or [factors]")
        for name, levels in self.factors.items():
            if len(set(levels)) != len(levels):
                raise ValueError(f"factors.{name} names a level twice: name each once")
        known_clients = self.levels_of_clients
        for index, prediction in enumerate(self.predictions):
            if prediction.clients not in known_clients:
                raise ValueError(
                    f"predictions[{index}].clients is {prediction.clients}, which is no level: {known_clients}"
                )
        return self

    @property
    def levels_of_clients(self) -> list[int]:
        """Levels of ``clients``, ascending."""
        return sorted({cell.settings.clients for cell in cells_of(self)})


@dataclass(frozen=True)
class Cell:
    """One combination of levels, with every setting resolved."""

    levels: tuple[tuple[str, Level], ...]
    settings: Settings

    @property
    def name(self) -> str:
        """Folder-safe name that encodes the levels: ``clients-16_path-proxy``."""
        return "_".join(f"{factor.replace('_', '-')}-{level}" for factor, level in self.levels)


@dataclass(frozen=True)
class ScheduledRun:
    """One cell, its repetition (which is also its block) and its place in the order, all counted from 1."""

    cell: Cell
    repetition: int
    position: int

    @property
    def name(self) -> str:
        """``clients-16_path-proxy_r2``."""
        return f"{self.cell.name}_r{self.repetition}"


def load_study(path: Path) -> Study:
    """Read and check a study file. `StudyError` names file, key and remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: the study file cannot be read ({error}). Give the path of a TOML file.") from error
    try:
        return parse_study(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not valid TOML: {error}. Mend the line.") from error
    except ValidationError as error:
        raise StudyError(_explain(str(path), error)) from error


def parse_study(text: str) -> Study:
    """Check the text of a study file; raises what tomllib and pydantic raise."""
    return Study.model_validate(tomllib.loads(text))


def cells_of(study: Study) -> list[Cell]:
    """Full factorial: every combination of levels, factors in the order of the file."""
    names = list(study.factors)
    combinations = itertools.product(*study.factors.values())
    return [_cell(study, tuple(zip(names, levels, strict=True))) for levels in combinations]


def schedule(study: Study) -> list[ScheduledRun]:
    """Randomised complete blocks: each repetition runs every cell once, in its own random order fixed by the seed."""
    cells = cells_of(study)
    runs: list[ScheduledRun] = []
    for repetition in range(1, study.plan.repetitions + 1):
        order = np.random.default_rng([study.plan.seed, repetition]).permutation(len(cells))
        runs += [
            ScheduledRun(cells[index], repetition, len(runs) + place)
            for place, index in enumerate(order.tolist(), start=1)
        ]
    return runs


def load_seed(study: Study, run: ScheduledRun) -> int:
    """Seed of the load generator: the same for all cells of a block, so that paired runs see the same requests."""
    return int(np.random.SeedSequence([study.plan.seed, run.repetition, 1]).generate_state(1)[0])


def content_sha256(study: Study, run: ScheduledRun, executables: dict[str, str]) -> str:
    """Hash of all that decides the outcome of a run: settings, plan, gates, repetition, and executables by their hashes or versions.

    Name, texts and order of the study are left out: rewording a question does not make measured data stale.
    """
    content: dict[str, Any] = {
        "settings": run.cell.settings.model_dump(mode="json"),
        "warmup_s": study.plan.warmup_s,
        "measured_s": study.plan.measured_s,
        "gates": study.gates.model_dump(mode="json"),
        "repetition": run.repetition,
        "seed": load_seed(study, run),
        "executables": executables,
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _cell(study: Study, levels: tuple[tuple[str, Level], ...]) -> Cell:
    return Cell(levels, Settings.model_validate({**study.fixed, **dict(levels)}))


def _explain(path: str, error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"]) or "the whole file"
        message = problem["msg"].removeprefix("Value error, ")
        given = problem["input"]
        shown = f" (given: {given!r})" if isinstance(given, str | int | float) else ""
        lines.append(f"  {key}: {message}{shown}")
    return "\n".join([f"{path}: the study cannot be run; change these keys (docs/lab.md lists all keys):", *lines])


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
