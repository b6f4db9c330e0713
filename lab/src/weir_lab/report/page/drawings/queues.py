"""A network of queues as a drawing: boxes with queues, arrows with visit ratios, a frame around what a worker or reader waits for.

::

    clients ─▶ ▥[ network thread ] ─▶ ▥[ workers:  ▥[ server CPUs ] ─▶ ▥[ server uplinks ] ] ─▶ clients

A diagram is a panel, so that its numbers stand in the table and the data of its figure like those of any other. Start with `Diagram`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape

from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.units import number

__all__ = ["Box", "Diagram", "diagram_of", "draw_diagram"]

_WIDTH = 720.0
_BOX, _HIGH, _GAP = 96.0, 66.0, 26.0
_MARGIN, _TOP, _ROW = 8.0, 34.0, 104.0
# Where arrows run down beside the rows.
_EDGE = 3.0
_PER_ROW = 6
_USED = 5.0
# Characters of a bold name that a box has room for.
_NAME = 12
# From this share on a station is drawn as full.
_FULL = 0.9


@dataclass(frozen=True)
class Box:
    """A station: its name, lines below it, the share of its time in use (``None`` for a delay, which has no queue), visits of a request.

    ``inside`` boxes stand in the frame of the ``frame`` box, the one that is held while a request is at them.
    """

    name: str
    texts: tuple[str, ...]
    share: float | None = None
    visits: float | None = None
    inside: bool = False
    frame: bool = False


@dataclass(frozen=True)
class Diagram(Panel):
    """A panel that is drawn as boxes; its line has the utilization of each station in percent."""

    boxes: tuple[Box, ...] = ()


def diagram_of(title: str, boxes: tuple[Box, ...]) -> Diagram:
    """The drawing of some boxes, in the order in which a request meets them."""
    queues = [box for box in boxes if box.share is not None]
    if not queues:
        raise ValueError(f"{title}: no station has a queue, so there is no network to draw.")
    marks = tuple(
        Mark(float(place), 100.0 * (box.share or 0.0), note=", ".join(box.texts)) for place, box in enumerate(queues)
    )
    return Diagram(
        title,
        Axis("Station", names=tuple(box.name for box in queues)),
        Axis("Utilization (%)"),
        (Line("fitted network", marks, LOOKS[0]),),
        boxes=boxes,
    )


def draw_diagram(diagram: Diagram, label: str) -> str:
    """The diagram as an SVG element; ``label`` is what a screen reader says."""
    outside = [box for box in diagram.boxes if not box.inside and not box.frame]
    frame = next((box for box in diagram.boxes if box.frame), None)
    inside = [box for box in diagram.boxes if box.inside]
    later = outside[_PER_ROW:]
    rows = [outside[:_PER_ROW], *(later[at : at + _PER_ROW - 1] for at in range(0, len(later), _PER_ROW - 1))]
    parts: list[str] = []
    ends: list[tuple[float, float]] = []
    y = _TOP
    for row in rows:
        ends.append((_row(parts, row, y, first=not ends), y + _HIGH / 2))
        y += _ROW
    if frame is not None:
        parts.append(_framed(frame, inside, y))
        ends.append((_MARGIN + _frame_width(inside), y + 14.0 + _HIGH / 2))
        y += _ROW + 22.0
    for (right, above), (_, below) in itertools.pairwise(ends):
        parts.append(_turn(right, above, below))
    parts.append(_back(*ends[-1]))
    height = y + 6.0
    return (
        f'<svg class="chart" role="img" aria-label="{escape(label, quote=True)}" viewBox="0 0 {_WIDTH:g} {height:g}">'
        f'<text class="t" x="{_MARGIN:g}" y="15">{escape(diagram.title)}</text>{"".join(parts)}</svg>'
    )


def _row(parts: list[str], boxes: list[Box], y: float, *, first: bool) -> float:
    """Boxes from left to right with arrows between them; where the last ends. A later row leaves room for the arrow into it."""
    x = _MARGIN if first else _MARGIN + _GAP
    for place, box in enumerate(boxes):
        if place or not first:
            parts.append(_arrow(x - _GAP if place else _EDGE, x, y + _HIGH / 2, box))
        parts.append(_box(box, x, y))
        x += _BOX + _GAP
    return x - _GAP


def _frame_width(inside: list[Box]) -> float:
    return 2.0 * _GAP + _BOX + len(inside) * (_BOX + _GAP)


def _framed(frame: Box, inside: list[Box], y: float) -> str:
    """Queue and workers (or readers), with what one of them waits for beside it, in one frame."""
    parts = [
        f'<rect class="g" x="{_MARGIN:g}" y="{y:g}" width="{_frame_width(inside):g}" height="{_HIGH + 34:g}" rx="6"/>',
        f'<text class="x" x="{_MARGIN + 10:g}" y="{y + _HIGH + 29:g}">a request holds its {frame.name.removesuffix("s")} in here</text>',
    ]
    x, top = _MARGIN + _GAP, y + 14.0
    parts.append(_arrow(_EDGE, x, top + _HIGH / 2, frame))
    parts.append(_box(frame, x, top))
    for box in inside:
        x += _BOX + _GAP
        parts.append(_arrow(x - _GAP, x, top + _HIGH / 2, box))
        parts.append(_box(box, x, top))
    return "".join(parts)


def _box(box: Box, x: float, y: float) -> str:
    """A station; three strokes before it are its queue, the bar below is the share of its time in use."""
    note = f"{box.name}: {', '.join(box.texts)}"
    parts = [f'<rect class="a" x="{x:g}" y="{y:g}" width="{_BOX:g}" height="{_HIGH:g}" rx="3"/>']
    if box.share is not None:
        parts.append(
            f'<path class="a" d="M{x - 12:g} {y + 24:g}h12M{x - 12:g} {y + 42:g}h12'
            f'M{x - 3.5:g} {y + 24:g}v18M{x - 7:g} {y + 24:g}v18M{x - 10.5:g} {y + 24:g}v18"/>'
        )
        used = min(1.0, max(0.0, box.share)) * (_BOX - 8)
        colour = "c1" if box.share >= _FULL else "c0"
        parts.append(
            f'<rect class="f {colour}" x="{x + 4:g}" y="{y + _HIGH - _USED - 3:g}" width="{used:.1f}" height="{_USED:g}"/>'
        )
    # A long name is set closer, so that it stays inside.
    close = f' textLength="{_BOX - 10:g}" lengthAdjust="spacingAndGlyphs"' if len(box.name) > _NAME else ""
    parts.append(f'<text class="t" x="{x + 5:g}" y="{y + 14:g}"{close}>{escape(box.name)}</text>')
    for place, text in enumerate(box.texts):
        parts.append(f'<text class="n" x="{x + 5:g}" y="{y + 27.5 + 12.5 * place:g}">{escape(text)}</text>')
    return f"<g><title>{escape(note)}</title>{''.join(parts)}</g>"


def _arrow(x: float, to: float, y: float, box: Box) -> str:
    """An arrow to a box that ends before its queue, with the visits of a request above."""
    end = to - (13.0 if box.share is not None else 1.0)
    head = f'<path class="a" d="M{x:g} {y:g}H{end:g}m-4 -3l4 3l-4 3"/>'
    if box.visits is None:
        return head
    # Beside the edge of a frame, not on it.
    middle = max((x + to) / 2, _MARGIN + _GAP / 2)
    return head + f'<text class="x" x="{middle:g}" y="{y - 14:g}" text-anchor="middle">{_ratio(box.visits)}</text>'


def _ratio(visits: float) -> str:
    return number(visits, 0) if visits == round(visits) else number(visits, 2 if visits >= 0.1 else 3).rstrip("0")


def _turn(right: float, above: float, below: float) -> str:
    """From the end of a row to the edge before the next."""
    return f'<path class="a" d="M{right:g} {above:g}h5V{above + _HIGH / 2 + 12:g}H{_EDGE:g}V{below:g}"/>'


def _back(right: float, y: float) -> str:
    """Behind the last box: requests go round."""
    return (
        f'<path class="a" d="M{right:g} {y:g}h14m-4 -3l4 3l-4 3"/>'
        f'<text class="x" x="{min(_WIDTH - 4, right + 76):g}" y="{y + 18:g}" text-anchor="end">to clients</text>'
    )
