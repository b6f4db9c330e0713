"""Cells of a study, and the order in which their runs are made.

A *cell* is one combination of levels with every setting resolved; a *run* is one cell once. Start with `cells_of` and `schedule`.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import ValidationError

from weir_lab.design.settings import SYMBOLS, Level, Settings
from weir_lab.design.study import FaultsError, Study, unknown_setting
from weir_lab.design.text.expressions import Expression, ExpressionError
from weir_lab.design.text.mistakes import plain_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weir_lab.design.text.lines import KeyPath

__all__ = [
    "CELLS_MAX",
    "Cell",
    "Made",
    "ScheduledRun",
    "block",
    "cells_of",
    "levels_of_clients",
    "schedule",
    "scheduled_like",
]

CELLS_MAX = 10_000
"""More combinations than this are refused before they are built."""

_UNSAFE = re.compile(r"[^A-Za-z0-9.]+")
# What a study of another kind than load need not say, so that its cells can be described with the same settings.
_NO_LOAD: dict[str, Level] = {
    "path": "direct",
    "clients": 1,
    "depth": 1,
    "keys": 1,
    "value_size_bytes": 1,
    "write_ratio": 0.0,
    "client_threads": 1,
    "proxy_threads": 1,
    "servers": 1,
    "server_threads": 1,
    "server_memory_mib": 64,
}


@dataclass(frozen=True)
class Cell:
    """One combination of levels, with every setting resolved."""

    levels: tuple[tuple[str, Level], ...]
    settings: Settings
    label: str

    def has(self, assignment: Mapping[str, Level]) -> bool:
        """Whether its settings are these."""
        return all(getattr(self.settings, name) == level for name, level in assignment.items())

    @property
    def name(self) -> str:
        """Folder-safe name that encodes the levels as the studies did: ``writes-S5-R3-W10``."""
        return "-".join([self.label, *(_level_text(factor, level) for factor, level in self.levels)])


@dataclass(frozen=True)
class ScheduledRun:
    """One cell, its repetition (which is also its block) and its place in the order, all counted from 1.

    ``measured_s`` is its own measured phase, where it is not the plan's.
    """

    cell: Cell
    repetition: int
    position: int
    measured_s: float | None = None

    @property
    def name(self) -> str:
        """``writes-S5-R3-W10-r2``."""
        return f"{self.cell.name}-r{self.repetition}"


def cells_of(study: Study) -> list[Cell]:
    """The cells of the design in the order of the file, without those excluded or equal to an earlier one, and then the refined ones.

    Raises `FaultsError` where a level depends on something that has no value, or a combination is impossible.
    """
    exclusions = [_exclusion(index, text) for index, text in enumerate(study.exclude)]
    cells: dict[tuple[tuple[str, Level], ...], Cell] = {}
    faults: dict[tuple[KeyPath, str], None] = {}
    for raw in _combinations(study):
        try:
            values = _Resolver(study, raw)
            levels = tuple((name, values(name)) for name in study.factors)
            if levels in cells or any(bool(excluded.evaluate(values)) for excluded in exclusions):
                continue
            cells[levels] = Cell(levels, _settings(study, values), study.label or study.name)
        except FaultsError as found:
            faults.update(dict.fromkeys(found.faults))
        except ExpressionError as error:
            faults[(("exclude",), str(error))] = None
    if faults:
        raise FaultsError(list(faults))
    if not cells:
        raise FaultsError([(("exclude",), "every cell is excluded: nothing is left to run")])
    named = {cell.name for cell in cells.values()}
    if len(named) != len(cells):
        raise FaultsError(
            [(("factors",), "two cells have the same name: their levels differ only in signs that a name cannot hold")]
        )
    return list(cells.values())


def levels_of_clients(study: Study) -> list[int]:
    """Levels of ``clients``, ascending."""
    return sorted({cell.settings.clients for cell in cells_of(study)})


def schedule(study: Study) -> list[ScheduledRun]:
    """Every run that the study may ask for: randomised complete blocks, as many as its stop rule allows at most."""
    cells = cells_of(study)
    blocks = range(1, study.plan.repetitions_max + study.extended + 1)
    return [run for repetition in blocks for run in block(study, cells, repetition)]


class Made(Protocol):
    """What a run that is there says of itself."""

    @property
    def cell(self) -> str:
        """Name of its cell."""

    @property
    def repetition(self) -> int:
        """Its block."""

    @property
    def position(self) -> int:
        """Its place in the order."""

    @property
    def measured_s(self) -> float | None:
        """Its own measured phase, if not the plan's."""


def scheduled_like(study: Study, made: Iterable[Made]) -> list[ScheduledRun]:
    """What the study would ask for in place of these runs, each once; runs of other cells, or beyond its plan, have none.

    At the pace `night` any number of repetitions is asked for, and each of the two lengths of a run.
    """
    cells, night = {cell.name: cell for cell in cells_of(study)}, study.plan.night
    last = study.plan.repetitions_max + study.extended
    lengths = {None} if night is None else {None, night.headline_s}
    found: dict[tuple[str, int, float | None], ScheduledRun] = {}
    for one in made:
        cell = cells.get(one.cell)
        if cell is None or one.measured_s not in lengths or (night is None and one.repetition > last):
            continue
        run = ScheduledRun(cell, one.repetition, one.position, one.measured_s)
        found.setdefault((one.cell, one.repetition, one.measured_s), run)
    return list(found.values())


def block(study: Study, cells: list[Cell], repetition: int) -> list[ScheduledRun]:
    """One repetition: every cell once, in a random order of its own, fixed by the seed; what belongs together, one after the other."""
    order = np.random.default_rng([study.plan.seed, repetition]).permutation(len(cells)).tolist()
    if study.plan.together:
        groups = [tuple(pair for pair in cell.levels if pair[0] not in study.plan.together) for cell in cells]
        # The order of the groups is that of their first cells; inside, cells stay in their order.
        places = {group: place for place, group in enumerate(dict.fromkeys(groups[index] for index in order))}
        order.sort(key=lambda index: places[groups[index]])
    before = (repetition - 1) * len(cells)
    return [ScheduledRun(cells[index], repetition, before + place) for place, index in enumerate(order, start=1)]


def _combinations(study: Study) -> list[dict[str, Level]]:
    if study.design == "cells":
        listed = [dict(cell) for cell in study.cells]
    else:
        size = int(np.prod([len(levels) for levels in study.factors.values()], dtype=np.float64))
        if size > CELLS_MAX:
            raise FaultsError([(("factors",), f"{size:,} combinations of levels; a study has at most {CELLS_MAX:,}")])
        names = list(study.factors)
        listed = [dict(zip(names, levels, strict=True)) for levels in itertools.product(*study.factors.values())]
    return [*listed, *(dict(cell) for cell in study.refined)]


class _Resolver:
    """The value of a setting in one combination of levels; follows dependencies and finds circles."""

    def __init__(self, study: Study, raw: dict[str, Level]) -> None:
        self._raw: dict[str, tuple[Level, KeyPath]] = {
            **{name: (value, ("fixed", name)) for name, value in study.fixed.items()},
            **{name: (value, ("factors", name)) for name, value in raw.items()},
        }
        # What a study need not say, because its runs have none of it.
        self._implied: dict[str, Level] = {} if study.kind.runs_load else dict(_NO_LOAD)
        if study.targets:
            self._implied = {"path": "direct", "servers": len(study.targets)}
        self._open: list[str] = []

    def __call__(self, name: str) -> Level:
        if name not in self._raw:
            return self._default(name)
        value, path = self._raw[name]
        if not (isinstance(value, str) and value.startswith("=")):
            return value
        if name in self._open:
            circle = " -> ".join([*self._open, name])
            raise FaultsError([(path, f"settings depend on each other in a circle: {circle}")])
        self._open.append(name)
        try:
            found = Expression.parse(value[1:].strip()).evaluate(self)
        except ExpressionError as error:
            raise FaultsError([(path, str(error))]) from error
        finally:
            self._open.pop()
        return found

    def given(self) -> dict[str, Level]:
        """All settings that have a value of their own."""
        return {**self._implied, **{name: self(name) for name in self._raw}}

    def _default(self, name: str) -> Level:
        if name in self._implied:
            return self._implied[name]
        field = Settings.model_fields.get(name)
        if field is None:
            where = self._raw[self._open[-1]][1] if self._open else ("exclude",)
            raise FaultsError([(where, unknown_setting(name))])
        value: Level | None = None if field.is_required() else field.default
        if value is None:
            where = self._raw[self._open[-1]][1] if self._open else ("exclude",)
            raise FaultsError([(where, f"{name} has no value here: add it under [fixed] or [factors]")])
        return value


def _settings(study: Study, values: _Resolver) -> Settings:
    try:
        return Settings.model_validate(values.given())
    except ValidationError as error:
        faults: list[tuple[KeyPath, str]] = []
        for problem in error.errors():
            name = str(problem["loc"][0]) if problem["loc"] else ""
            table = "factors" if name in study.factors or not name else "fixed"
            faults.append(((table, name) if name else (table,), plain_words(problem, {})))
        raise FaultsError(faults) from error


def _exclusion(index: int, text: str) -> Expression:
    try:
        expression = Expression.parse(text)
    except ExpressionError as error:
        raise FaultsError([(("exclude", index), str(error))]) from error
    for name in expression.names - set(Settings.model_fields):
        raise FaultsError([(("exclude", index), unknown_setting(name))])
    return expression


def _level_text(factor: str, level: Level) -> str:
    if isinstance(level, str):
        return _UNSAFE.sub("-", level).strip("-")
    number = level * 100 if factor == "write_ratio" else level
    return (
        f"{SYMBOLS.get(factor, factor)}{number:g}"
        if isinstance(number, float)
        else f"{SYMBOLS.get(factor, factor)}{number}"
    )
