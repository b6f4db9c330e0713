"""Which cells a cell is compared with, and which two connect all blocks: `contrast_partners`, `anchors_of`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.cells import Cell
    from weir_lab.design.settings import Level
    from weir_lab.design.study import Study

__all__ = ["anchors_of", "contrast_partners", "neighbours"]

_ANCHORS = 2
# A 2^k design of this number of cells is repeated whole: its effects are taken from repetitions that all its cells
# have.
_WHOLE_MAX = 16


def contrast_partners(study: Study, cells: Sequence[Cell]) -> dict[str, list[list[str]]]:
    """By the name of each cell, groups of names; of each group one takes part in its blocks.

    A group has the cells that differ in one factor alone, by one level up or down. Cells that the plan keeps together, and all cells of a
    2^k design, take part each.
    """
    found = {}
    for cell in cells:
        if study.design == "2k" and len(cells) <= _WHOLE_MAX:
            found[cell.name] = [[other.name] for other in cells if other is not cell]
            continue
        together = [
            [other.name] for other in cells if other is not cell and _differ(cell, other) <= set(study.plan.together)
        ]
        groups = [neighbours(cells, cell, factor) for factor in study.factors if factor not in study.plan.together]
        found[cell.name] = [*together, *([other.name for other in group] for group in groups if group)]
    return found


def neighbours(cells: Sequence[Cell], cell: Cell, factor: str) -> list[Cell]:
    """Cells that differ in this factor alone: of numbers the next level below and above, of texts every other."""
    own = dict(cell.levels)[factor]
    others = {dict(other.levels)[factor]: other for other in cells if _differ(cell, other) == {factor}}
    if isinstance(own, str) or any(isinstance(level, str) for level in others):
        return list(others.values())
    below = [level for level in others if level < own]  # type: ignore[operator]
    above = [level for level in others if level > own]  # type: ignore[operator]
    return [others[level] for level in (*_at_most_one(below, max), *_at_most_one(above, min))]


def anchors_of(study: Study, cells: Sequence[Cell]) -> list[str]:
    """Two cells that stand in every incomplete block, drawn by the study's seed: all cells of small studies are as good."""
    order = np.random.default_rng([study.plan.seed, 2]).permutation(len(cells)).tolist()
    return [cells[number].name for number in order[:_ANCHORS]]


def _differ(one: Cell, other: Cell) -> set[str]:
    levels = dict(other.levels)
    return {name for name, level in one.levels if levels[name] != level}


def _at_most_one(levels: list[Level], best: object) -> list[Level]:
    return [best(levels)] if levels else []  # type: ignore[operator]
