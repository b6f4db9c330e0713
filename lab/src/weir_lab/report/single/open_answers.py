"""What an open loop says: which rate is kept up with and what a response takes there (`answer`), and what limits it (`limits`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.report.numbers.comparing import response_of
from weir_lab.report.single.offered import (
    answered_percent,
    axis_of,
    busy_note,
    curves_of,
    label_of,
    late_runs,
    levels_along,
    limit_of,
    mean,
    nominal_rate,
    percentile_of,
    rate_words,
    with_all,
)
from weir_lab.theory.units import count_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings
    from weir_lab.report.single.offered import Curve

__all__ = ["answer", "limits"]

# More curves than this are not listed one by one.
_LISTED_MAX = 4


def answer(readings: SweepReadings) -> str:
    """At most two sentences: which rate is kept up with, and what a response takes there."""
    curves = curves_of(readings)
    return " ".join(one for one in (_kept_sentence(readings, curves), _time_sentence(readings, curves)) if one)


def limits(readings: SweepReadings) -> tuple[str, ...]:
    """What is full where the system fell behind, and who else used the machine."""
    return tuple(one for one in (_why_sentence(readings, curves_of(readings)), busy_note(readings)) if one)


def _kept_sentence(readings: SweepReadings, curves: Sequence[Curve]) -> str:
    if axis_of(readings) != "rate":
        return _kept_share(curves, axis_of(readings))
    if len(curves) == 1:
        return _one_kept(curves[0])
    found = [(one.name, _rate_kept(one)) for one in curves]
    if len(found) <= _LISTED_MAX:
        parts = "; ".join(_up_to(highest, one) for (_, highest), one in zip(found, curves, strict=True))
        return f"The highest offered rate that was kept up with: {parts}."
    best, worst = max(found, key=lambda one: one[1]), min(found, key=lambda one: one[1])
    return (
        f"The highest offered rate that was kept up with is {rate_words(best[1])} ({best[0]}), the lowest of {len(found)} such rates "
        f"{rate_words(worst[1])} ({worst[0]})."
    )


def _one_kept(curve: Curve) -> str:
    kept, above = curve.highest_kept, curve.first_above
    if above is None and kept is not None:
        return f"Every offered rate was kept up with, up to {rate_words(nominal_rate(kept))}: the capacity lies above."
    share = _share_text(above) if above is not None else ""
    if above is not None and kept is None:
        return f"Not even {rate_words(nominal_rate(above))}, the lowest rate, was kept up with: {share} % of it was answered."
    if above is None or kept is None:
        return ""
    return (
        f"Up to {rate_words(nominal_rate(kept))} were kept up with; of {rate_words(nominal_rate(above))} offered, {share} % were answered, "
        "so the capacity lies between."
    )


def _kept_share(curves: Sequence[Curve], axis: str) -> str:
    """Where the rate is the same everywhere."""
    cells = [cell for one in curves for cell in one.cells]
    kept = [cell for one in curves for cell in one.kept]
    offered = rate_words(nominal_rate(cells[0]))
    if len(kept) == len(cells):
        return f"The offered {offered} were kept up with at every level."
    least = min(cells, key=lambda cell: mean(cell.of(answered_percent)))
    return (
        f"The offered {offered} were kept up with at {len(kept)} of {len(cells)} levels; {label_of(least, axis)} answered least, "
        f"{_share_text(least)} % of them."
    )


def _up_to(kept: float, curve: Curve) -> str:
    if kept == 0.0:
        return f"{curve.name} none, not even {rate_words(nominal_rate(curve.cells[0]))}"
    return f"{curve.name} {rate_words(kept)}" + (" (the highest that was offered)" if curve.first_above is None else "")


def _time_sentence(readings: SweepReadings, curves: Sequence[Curve]) -> str:
    """Of all curves at the highest rate that all kept up with, so that they can be compared; one curve beside its lowest rate."""
    cells, over_rates = _common(readings, curves), axis_of(readings) == "rate"
    if not cells:
        return ""
    where = f"At {label_of(cells[0][1], axis_of(readings))}"
    lowest = curves[0].cells[0]
    beside = [lowest] if len(cells) == 1 and over_rates and lowest.cell != cells[0][1].cell else []
    value, what = percentile_of(99.0), "99 of 100 requests were answered within"
    if not all(with_all(cell, value) for cell in [*(cell for _, cell in cells), *beside]):
        value, what = response_of, "a request took on average"
    if len(cells) == 1:
        against = f", against {_time_text(lowest, value)} at {rate_words(nominal_rate(lowest))}" if beside else ""
        return f"{where}, {what} {_time_text(cells[0][1], value)}{against}."
    shown = cells[:_LISTED_MAX]
    reported = "; ".join(f"{_time_text(cell, value)} ({name})" for name, cell in shown)
    more = f", and {len(cells) - len(shown)} more below" if len(cells) > len(shown) else ""
    highest = ", the highest that all of them kept up with" if over_rates else ""
    return f"{where}{highest}, {what} {reported}{more}."


def _why_sentence(readings: SweepReadings, curves: Sequence[Curve]) -> str:
    """What is full where the first curve that fell behind did so; else what is busiest at its highest rate."""
    curve = next((one for one in curves if one.above), curves[0])
    cell = curve.first_above or curve.cells[-1]
    said, late = limit_of(readings, cell).sentence.split(". ")[0].rstrip("."), late_runs(cell)
    own = f"; the load generator itself was late in {late} of {count_text(len(cell.runs), 'run')} there" if late else ""
    where = f"At {label_of(cell, axis_of(readings))}"
    which = "" if len(curves) == 1 else f" ({curve.name})"
    return f"{where}{which}, {said[0].lower()}{said[1:]}{own}."


def _common(readings: SweepReadings, curves: Sequence[Curve]) -> list[tuple[str, CellReadings]]:
    """The cells of the highest level of the axis at which every curve kept up."""
    name = axis_of(readings)
    for level in reversed(levels_along(name, curves)):
        cells = [(one.name, cell) for one in curves for cell in one.kept if cell.level(name) == level]
        if len(cells) == len(curves):
            return cells
    return []


def _rate_kept(curve: Curve) -> float:
    return nominal_rate(curve.highest_kept) if curve.highest_kept is not None else 0.0


def _time_text(cell: CellReadings, value: Callable[[Reading], float | None]) -> str:
    return duration_text(mean(cell.of(value)))


def _share_text(cell: CellReadings) -> str:
    return f"{mean(cell.of(answered_percent)):.0f}"
