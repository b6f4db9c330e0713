"""2^k r tables: printed cell means, effects, sums of squares and shares against the raw observations."""

from __future__ import annotations

import contextlib
import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from weir_lab.report.audit.printed import printed, whole_number
from weir_lab.report.audit.rules import Finding, Severity
from weir_lab.theory.factorial import FactorialAnalysis, analyse_factorial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weir_lab.report.audit.tables import Table

__all__ = ["audit_factorial", "void_designs"]

_KEY = ("study", "workload", "response")
# Printed sums and shares are often made from printed, rounded effects.
_INTERMEDIATE = 1e-3
Key = tuple[str, ...]


def audit_factorial(tables: Iterable[Table]) -> Iterator[Finding]:
    """Compare every printed number of a design with the one its raw values give; needs both in the audited files.

    Raw: columns row, x1.., rep, value. Printed: columns row, mean; or term, effect, sum_of_squares, percent_of_sst. Terms are named
    after the factors in the order of the columns: the letters of the single-letter terms, in order of appearance.
    """
    listed = list(tables)
    letters = _letters(listed)
    designs: dict[Key, FactorialAnalysis] = {}
    for table in listed:
        if {"row", "rep", "value", "x1"} <= set(table.columns):
            designs |= _designs(table, letters)
    void = void_designs(listed)
    for key in sorted(void):
        name = " ".join(key)
        message = "the raw values are those of another response of the same study: one of the two tables is a copy"
        mean = float(designs[key].predicted.mean()) if key in designs else 0.0
        yield Finding(
            name,
            dict(zip(_KEY, key, strict=True)) | {"location": "raw values"},
            "raw values",
            "2^k r",
            Severity.BROKEN,
            mean,
            mean,
            mean,
            message,
        )
        designs.pop(key, None)
    for table in listed:
        if "mean" in table.columns and "row" in table.columns:
            yield from _means(table, designs)
        if {"term", "effect"} <= set(table.columns):
            yield from _effects(table, designs)


def void_designs(tables: Iterable[Table]) -> frozenset[Key]:
    """Designs whose raw values repeat those of another design and do not give their own printed grand mean."""
    listed = list(tables)
    values: dict[Key, list[str]] = defaultdict(list)
    grand: dict[Key, float] = {}
    for table in listed:
        for _, row in table.rows:
            if {"row", "rep", "value"} <= set(table.columns):
                values[_key(row)].append(row.get("value", ""))
            elif row.get("term") == "I":
                shown = printed(row.get("effect", ""))
                if shown is not None:
                    grand[_key(row)] = shown.value
    return frozenset(
        key
        for key, own in values.items()
        if key in grand
        and any(own == other and key != name for name, other in values.items())
        and _is_not_mean_of(own, grand[key])
    )


def _is_not_mean_of(texts: list[str], mean: float) -> bool:
    """Whether all of the texts are numbers, and their mean is another one."""
    known = [value.value for value in map(printed, texts) if value is not None]
    return len(known) == len(texts) and abs(sum(known) / len(known) - mean) > 0.01 * abs(mean)


def _letters(tables: Iterable[Table]) -> dict[Key, str]:
    found: dict[Key, list[str]] = defaultdict(list)
    for table in tables:
        if "term" in table.columns:
            for _, row in table.rows:
                if len(term := row.get("term", "")) == 1 and term != "I":
                    found[_key(row)].append(term)
    return {key: "".join(names) for key, names in found.items()}


def _designs(table: Table, letters: dict[Key, str]) -> dict[Key, FactorialAnalysis]:
    """Designs that are complete; the others leave nothing to compare with."""
    cells: dict[Key, dict[str, tuple[list[float], list[float]]]] = defaultdict(dict)
    factors = [name for name in table.columns if re.fullmatch(r"x[0-9]{1,2}", name)]
    broken: set[Key] = set()
    for _, row in table.rows:
        level = [printed(row.get(name, ""), count=True) for name in factors]
        value = printed(row.get("value", ""), count=True)
        if value is None or None in level:
            broken.add(_key(row))
            continue
        own = cells[_key(row)].setdefault(row.get("row", ""), ([one.value for one in level if one], []))
        own[1].append(value.value)
    designs = {}
    for key, found in cells.items():
        if key not in broken:
            with contextlib.suppress(ValueError):  # not all combinations, or not equally often
                designs[key] = analyse_factorial(
                    [cell[0] for cell in found.values()], [cell[1] for cell in found.values()], letters.get(key, "")
                )
    return designs


def _means(table: Table, designs: dict[Key, FactorialAnalysis]) -> Iterator[Finding]:
    for line, row in table.rows:
        design, place = designs.get(_key(row)), whole_number(row.get("row", ""))
        if design is not None and place is not None and 1 <= place <= design.predicted.size:
            value = float(design.predicted[place - 1])
            yield from _compare(table, line, row, f"mean of row {place}", row.get("mean", ""), value)


def _effects(table: Table, designs: dict[Key, FactorialAnalysis]) -> Iterator[Finding]:
    for line, row in table.rows:
        design, term = designs.get(_key(row)), row.get("term", "")
        if design is None or term not in {effect.term for effect in design.effects}:
            continue
        effect = design[term]
        yield from _compare(table, line, row, f"effect {effect.term}", row.get("effect", ""), effect.effect)
        squares = row.get("sum_of_squares", "")
        yield from _compare(table, line, row, f"sum of squares {effect.term}", squares, effect.sum_of_squares)
        if effect.percent_of_variation is not None:
            share, shown = effect.percent_of_variation, row.get("percent_of_sst", "")
            yield from _compare(table, line, row, f"percent of variation {effect.term}", shown, share)


def _compare(table: Table, line: int, row: dict[str, str], what: str, text: str, value: float) -> Iterator[Finding]:
    shown = printed(text)
    if shown is None or shown.meets(value, value, math.copysign(_INTERMEDIATE, value)):
        return
    hint = (
        "the sign is wrong"
        if shown.meets(0.0, 0.0) is False and shown.low < -value < shown.high
        else f"the raw values give {value:.6g}"
    )
    key = {name: row.get(name, "") for name in ("study", "location", "workload", "response")}
    where = f"{table.name}:{line} " + " ".join(key.values())
    yield Finding(where, key, what, "2^k r", Severity.BROKEN, shown.value, value, value, hint)


def _key(row: dict[str, str]) -> Key:
    return tuple(row.get(name, "") for name in _KEY)
