"""Curves that were expected before there were data, drawn dashed into the figures of their section: `with_expected`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weir_lab.report.numbers.maxima import listed
from weir_lab.report.page.blocks import Figure
from weir_lab.report.page.charts import Line, Look, Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design.whole.sets import ExpectedCurve
    from weir_lab.report.common import Task
    from weir_lab.report.page.blocks import Block
    from weir_lab.report.page.charts import Panel

__all__ = ["with_expected"]

# Of a curve with this metric nothing but the shape was expected.
_SHAPE = "relative"
_LOOKS = {"study": ("expected by the study", Look("c6", "", "9 5")), "ours": ("expected by us", Look("c5", "", "3 5"))}


def with_expected(blocks: Sequence[Block], task: Task) -> list[Block]:
    """The blocks of a section, with the curves that its hypotheses expected in the figures and panels that they name.

    Rates are brought to the speed of the machines (times the speed factor), times too (divided by it). A curve that has no unit begins at
    what was measured at its first level, and the caption says so.
    """
    curves = [(one.from_, curve) for one in task.spec.hypotheses for curve in one.expected]
    found: list[Block] = []
    for block in blocks:
        own = [one for one in curves if isinstance(block, Figure) and block.name == f"{task.spec.name}-{one[1].figure}"]
        found.append(_drawn(block, own, task.first.speed) if isinstance(block, Figure) and own else block)
    return found


def _drawn(figure: Figure, curves: Sequence[tuple[str, ExpectedCurve]], speed: float) -> Figure:
    panels = []
    for panel in figure.panels:
        added = []
        for whose, curve in curves:
            line = _line(panel, curve, whose, speed) if curve.panel in panel.title else None
            added += [line] if line is not None else []
        panels.append(replace(panel, lines=(*panel.lines, *added)))
    text = f" Long dashes: what was expected before the measurement{_shape_text(figure, curves)}."
    notes = "".join(f" {note}." for note in dict.fromkeys(curve.note for _, curve in curves if curve.note))
    return replace(figure, panels=tuple(panels), method=f"{figure.method}{text}{notes}")


def _shape_text(figure: Figure, curves: Sequence[tuple[str, ExpectedCurve]]) -> str:
    """``; their level is ours at replicas R = 1, and the study gave the shape alone``; empty where all have a unit of their own."""
    shapes = [(whose, curve) for whose, curve in curves if curve.metric == _SHAPE]
    if not shapes:
        return ""
    axis = figure.panels[0].x.label.partition(" (")[0]
    first = listed([f"{level:g}" for level in dict.fromkeys(curve.levels[0] for _, curve in shapes)])
    which = "their level" if len(shapes) == len(curves) else "the level of those without a unit"
    given = "the study gave" if all(whose == "study" for whose, _ in shapes) else "what was expected is"
    return f"; {which} is ours at {axis[:1].lower()}{axis[1:]} = {first}, and {given} the shape alone"


def _line(panel: Panel, curve: ExpectedCurve, whose: str, speed: float) -> Line | None:
    scale = {"throughput": speed, "response_time": 1.0 / speed}.get(curve.metric)
    if scale is None:
        measured = [mark for line in panel.lines if line.kind == "line" for mark in line.marks]
        scale = next((mark.y for mark in measured if mark.x == curve.levels[0]), None)
        if scale is None:
            return None
    name, look = _LOOKS[whose]
    marks = tuple(Mark(x, scale * y) for x, y in zip(curve.levels, curve.values, strict=True))
    return Line(name, marks, look, "plain")
