"""Figures of a report as files of their own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from weir_lab.errors import ReportError
from weir_lab.report.page.blocks import Figure
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel, definitions
from weir_lab.report.page.drawings.standalone import figures_of, standalone_figure
from weir_lab.report.page.html import figure_html

STYLE = f"<style>:root {{ --paper: #fff; }} .l {{ fill: none; }}</style>{definitions()}"


def page(panels: int, names: tuple[str, ...] = ("one & two", "three")) -> str:
    lines = tuple(
        Line(name, (Mark(1.0, 2.0), Mark(2.0, 3.0 + place)), LOOKS[place]) for place, name in enumerate(names)
    )
    drawn = tuple(Panel(f"panel {n}", Axis("clients"), Axis("requests/s"), lines) for n in range(panels))
    figure = Figure(name="top", title="Throughput", method="n = 3.", panels=drawn)
    return STYLE + figure_html(figure, 1)


@pytest.mark.parametrize("panels", [1, 2, 3])
def test_a_figure_stands_alone_with_all_panels_and_its_legend(panels: int) -> None:
    text = standalone_figure(page(panels), "top")
    root = ElementTree.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    said = "".join(root.itertext())
    assert all(f"panel {n}" in said for n in range(panels))
    assert "one & two" in said
    assert "--paper" in said
    # What the style refers to is in the file.
    assert text.count('<marker id="dot-c0"') == 1
    moves = [part.attrib["transform"] for part in root if part.tag.endswith("}g")]
    moved = [tuple(map(float, move.removeprefix("translate(").rstrip(")").split())) for move in moves]
    assert len(moved) == panels + 1
    assert all(x < width and y < height for x, y in moved)
    assert len(set(moved)) == len(moved)


def test_a_long_legend_takes_several_rows() -> None:
    short = standalone_figure(page(1), "top")
    long = standalone_figure(page(1, tuple(f"a series with a long name, number {n}" for n in range(8))), "top")
    height = [float(re.search(r'height="([\d.]+)"', text)[1]) for text in (short, long)]  # type: ignore[index]
    assert height[1] > height[0] + 20.0


def test_a_figure_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert figures_of(page(1)) == ["top"]
    with pytest.raises(ReportError, match=r"no figure bottom\. It has: top"):
        standalone_figure(page(1), "bottom")
