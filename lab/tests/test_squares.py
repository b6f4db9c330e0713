"""Sums of squares in the tables of 2^k r designs: what the raw values of the page give, added up by plain least squares."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import load_set
from weir_lab.report.common import Task
from weir_lab.report.numbers.readings import read_cells
from weir_lab.report.oracles import read_table
from weir_lab.report.page.arranging import arrange
from weir_lab.report.page.blocks import Section, Table, Text, Value
from weir_lab.report.sections import effects
from weir_lab.report.sections.effects import adds_up
from weir_lab.theory.factorial import analyse_factorial

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weir_lab.report.page.blocks import Block

DATA = Path(__file__).parent / "data" / "whole"
RESPONSES = ("throughput", "mean-response-time", "mean-time-in-the-proxies")
ADDITIVE, ON_LOGS = (3, 4), (6, 7)
"""Where a sum of squares and its share stand in a row."""


def small(
    root: Path,
    repetitions: int,
    without: dict[int, int] | None = None,
    truth: Truth | None = None,
) -> Task:
    """The small study; ``without`` names a repetition that the cell at this place of the writes does not have."""
    study_set = take_files(DATA / "small.set.toml", root)
    file = root / "studies" / "t-2k.toml"
    file.write_text(file.read_text().replace("repetitions = 2", f"repetitions = {repetitions}"))
    left_out = tuple(set(study_set.files) - {"t-2k.toml"})
    write_whole(root, study_set, truth or Truth(spread=0.02, slow_block=0.9), leave_out=left_out)
    for run in sorted((root / "t-2k" / "runs").iterdir()):
        meta = json.loads((run / "run.json").read_text())
        levels = meta["levels"]
        place = [levels["servers"] > 1, levels["proxies"] > 1, levels["workers"] > 8]
        corner = int("".join(str(int(one)) for one in place), 2)
        if levels["write_ratio"] == 1.0 and (without or {}).get(corner) == meta["repetition"]:
            shutil.rmtree(run)
    spec = next(one for one in load_set(DATA / "small.set.toml").sections if one.name == "effects")
    return Task(spec, (read_cells("t-2k.toml", root / "t-2k"),), (), "S3")


def built(root: Path, repetitions: int, without: dict[int, int] | None = None) -> list[Block]:
    """The section of the small study."""
    return effects.build(small(root, repetitions, without))


def table(blocks: list[Block], name: str) -> Table:
    return next(one for one in blocks if isinstance(one, Table) and one.name == name)


def raw_of(blocks: list[Block], name: str) -> NDArray[np.float64]:
    """The page's own raw values, a row for each cell."""
    rows = [[one.value for one in row if isinstance(one, Value)] for row in table(blocks, f"{name}-runs").rows]
    return np.array(rows)[:, :-1]


def squares_left(columns: list[NDArray[np.float64]], y: NDArray[np.float64]) -> float:
    """What least squares leave."""
    design = np.column_stack(columns)
    return float(((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum())


def expected(raw: NDArray[np.float64], terms: list[str], *, blocks: bool, backwards: bool) -> dict[str, float]:
    """Sequential sums of squares: what each term takes off, entered in order or in the opposite one; blocks come first."""
    cells, repetitions = raw.shape
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    y, ones = raw.ravel(), np.ones(raw.size)
    columns = [ones]
    if blocks:
        columns += [np.tile(np.arange(repetitions) == block, cells).astype(float) for block in range(1, repetitions)]
    left = squares_left(columns, y)
    found = {"total": float(((y - y.mean()) ** 2).sum())}
    found |= {"blocks": found["total"] - left} if blocks else {}
    for term in reversed(terms) if backwards else terms:
        column = signs[:, ["ABC".index(letter) for letter in term]].prod(axis=1)
        columns.append(np.repeat(column, repetitions))
        now = squares_left(columns, y)
        found[term], left = left - now, now
    return found | {"error": left}


def shown(found: Table, places: tuple[int, int]) -> dict[str, tuple[Value, Value]]:
    """By term, or by name where there is none, the sum of squares and the share."""
    pairs = {str(row[0] or row[1]): (row[places[0]], row[places[1]]) for row in found.rows if row[0] != "I"}
    return cast("dict[str, tuple[Value, Value]]", pairs)


def as_printed(value: Value) -> float:
    return float(value.text.replace(",", "").replace("−", "-"))


def power_of(heading: str) -> float:
    """What a column is over: ``SS (10⁶ µs²)``."""
    return 1e12 if "10¹²" in heading else 1e6 if "10⁶" in heading else 1.0


def check(blocks: list[Block], workload: str, *, whole: bool) -> None:
    """Each table of a workload, on both scales, against what its raw values give."""
    for response in RESPONSES:
        name = f"effects-{workload}-{response}"
        found, raw = table(blocks, name), raw_of(blocks, name)
        for places, values in ((ADDITIVE, raw), (ON_LOGS, np.log(raw))):
            by_name = shown(found, places)
            terms = [term for term in by_name if term.isupper()]
            assert len(terms) == 7
            over = power_of(found.columns[places[0]])
            digits = {squares.digits for squares, _ in by_name.values()}
            assert len(digits) == 1
            half = 0.5001 * 10.0 ** -(digits.pop() or 0)
            for backwards in (False, True):
                wanted = expected(values, terms, blocks=whole, backwards=backwards)
                assert set(wanted) == set(by_name), name
                for term, value in wanted.items():
                    assert by_name[term][0].value == pytest.approx(value / over, rel=1e-6, abs=1e-9 * wanted["total"])
            total = as_printed(by_name["total"][0])
            parts = [as_printed(squares) for term, (squares, _) in by_name.items() if term != "total"]
            assert sum(parts) == pytest.approx(total, abs=half * len(by_name))
            # A total of six digits or more: its share can be worked out from what is printed.
            for squares, share in by_name.values():
                assert as_printed(share) == pytest.approx(
                    100.0 * as_printed(squares) / total, abs=0.0051 + 100 * half / total
                )
                assert 100.0 * half / total < 0.001


def test_sums_of_squares_add_up_to_the_total_and_shares_are_theirs(tmp_path: Path) -> None:
    """Tables had shares of the variation, and not the sums of squares that these are shares of."""
    blocks = built(tmp_path, 2)
    for workload in ("reads", "writes"):
        check(blocks, workload, whole=True)
    found = table(blocks, "effects-writes-throughput")
    assert found.columns[3].startswith("SS (")
    assert "(requests/s)²" in found.columns[3]
    assert found.columns[6] == "SS on logs"
    assert [row[1] for row in found.rows[-3:]] == ["blocks", "error", "total"]
    assert "Blocks are not in the error. Read: " in found.caption


def test_without_whole_blocks_there_is_no_row_of_them_and_the_error_has_what_they_differ_by(tmp_path: Path) -> None:
    blocks = built(tmp_path, 3, without={0: 1, 5: 2})
    check(blocks, "writes", whole=False)
    check(blocks, "reads", whole=True)
    found = table(blocks, "effects-writes-throughput")
    assert [row[1] for row in found.rows[-2:]] == ["error", "total"]
    assert "Its runs are from blocks that not all cells have; what blocks differ by is in the error." in found.caption


def test_how_to_read_the_tables_is_said_once_before_the_first(tmp_path: Path) -> None:
    blocks = built(tmp_path, 2)
    places = [place for place, one in enumerate(blocks) if isinstance(one, Text) and "How to read" in one.text]
    assert len(places) == 1
    note = cast("Text", blocks[places[0]])
    assert note.note
    following = blocks[places[0] + 1]
    assert isinstance(following, Table)
    assert following.name == "effects-reads-throughput"
    assert (
        "sequential and partial sums of squares are the same. They add up to the total: a partition of it." in note.text
    )
    # It opens together with the tables that it explains; the shares stay open.
    page = arrange(Section("effects", "Effects", "", "", blocks=tuple(blocks)))
    assert note in page.more
    assert following in page.more
    assert next(one.name for one in page.evidence if isinstance(one, Table)) == "effects-shares"


NAMES = (
    "servers",
    "proxies",
    "workers",
    "servers × proxies",
    "servers × workers",
    "proxies × workers",
    "servers × proxies × workers",
)


def test_one_table_has_the_shares_of_all_responses_as_the_raw_values_give_them(tmp_path: Path) -> None:
    """Six paragraphs of a hundred words named three shares each, and nobody could look up that of another factor."""
    found = {}
    for links in (True, False):
        blocks = effects.build(small(tmp_path / str(links), 2, truth=Truth(spread=0.02, links=links)))
        shares = table(blocks, "effects-shares")
        assert shares.columns == ("Requests", "Response", *NAMES, "Error", "Not significant")
        assert len(shares.rows) == 2 * len(RESPONSES)
        assert not shares.opens_on_demand
        for row in shares.rows:
            response = str(row[1]).removesuffix(", on logarithms")
            name = f"effects-{row[0]}-{response}".replace(" ", "-")
            terms = {str(one[0]): one for one in table(blocks, name).rows if one[0] not in ("", "I")}
            raw = raw_of(blocks, name)
            values = raw if row[1] == response else np.log(raw)
            wanted = expected(values, list(terms), blocks=True, backwards=False)
            parts = [100.0 * wanted[one] / wanted["total"] for one in (*terms, "error")]
            assert [one.value for one in row if isinstance(one, Value)] == pytest.approx(parts, rel=1e-6, abs=1e-6)
            weak = {one[1] for one in terms.values() if one[5] == "no"}
            assert set(str(row[-1]).split(", ")) == (weak or {"none"})
        found[links] = [one.value for one in shares.rows[0] if isinstance(one, Value)]
    assert found[True] != pytest.approx(found[False], abs=1.0)


def test_the_head_of_a_page_names_at_most_three_shares_of_the_table_and_calls_none_significant(tmp_path: Path) -> None:
    """“The largest share comes from proxies (significant)” stood beside “servers explain most: cannot tell”."""
    task = small(tmp_path, 2)
    said, blocks = effects.summary(task), effects.build(task)
    assert "significant" not in said
    assert isinstance(blocks[0], Text)
    assert said.lower().endswith(f": {blocks[0].text.lower()}")
    rows = {
        str(row[0]): {
            name: entry.text for name, entry in zip(NAMES, row[2:-2], strict=True) if isinstance(entry, Value)
        }
        for row in table(blocks, "effects-shares").rows
        if str(row[1]).startswith("throughput")
    }
    parts = said.split("shares of the variation of throughput: ")[1].removesuffix(".").split("; ")
    assert len(parts) == len(rows) == 2
    for part in parts:
        shares, workload = part.split(" (")
        named = {name: size for name, _, size in (one.removesuffix(" %").rpartition(" ") for one in shares.split(", "))}
        assert 1 <= len(named) <= 3
        row = rows[workload.removesuffix(")").removesuffix(", on logarithms")]
        assert named.items() <= row.items()
        sizes = [float(size) for size in named.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == max(float(one) for one in row.values())


def test_of_many_factors_the_interactions_are_one_column() -> None:
    levels = list(itertools.product((-1, 1), repeat=4))
    fit = analyse_factorial(levels, np.random.default_rng(3).standard_normal((16, 2)), "ABCD")
    design: Any = SimpleNamespace(read=fit, name_of=lambda term: term)
    found = effects._percents(design)
    assert list(found) == ["A", "B", "C", "D", "interactions"]
    assert sum(found.values()) + fit.percent_error == pytest.approx(100.0)


def test_a_difference_has_three_digits_and_its_unit() -> None:
    """“15.675 requests/s each” and “703.746 µs each” could not be found in any figure."""
    rates, times = (SimpleNamespace(on_logarithms=False, unit=unit) for unit in ("requests/s", "µs"))
    logs: Any = SimpleNamespace(on_logarithms=True, unit="µs")
    said = [effects._size(cast("Any", one), value) for one, value in ((rates, 18.12), (times, 812.4), (times, 1148.2))]
    assert said == ["18.1 requests/s", "812 µs", "1.15 ms"]
    assert effects._size(logs, 0.02641) == "0.0264 on the logarithm"
    assert effects._size(logs, 0.0002, least=0.001) == "below 0.001 on the logarithm"


def test_only_sums_that_add_up_are_called_a_partition() -> None:
    levels = [[a, b] for a in (-1, 1) for b in (-1, 1)]
    fit = analyse_factorial(levels, [[1.0, 2.0], [4.0, 6.0], [3.0, 3.5], [9.0, 8.0]], blocked=True)
    assert adds_up(fit)
    wrong = replace(fit, sse=1.01 * fit.sse)
    assert not adds_up(wrong)
    one: Any = type("Design", (), {"choice": type("Choice", (), {"additive": fit, "logarithmic": wrong})})
    assert "a partition" not in effects._reading_text([one])
    assert "They do not add up to the total in every table." in effects._reading_text([one])


@pytest.mark.parametrize(("study", "letters"), [("S3", "ABC"), ("S5", "XYZ")])
def test_the_studies_printed_runs_have_the_recomputed_sums(study: str, letters: str) -> None:
    rows = [row for row in read_table("twok_r_observations") if row["study"] == study]
    for key in dict.fromkeys((row["workload"], row["response"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["response"]) == key]
        cells = sorted({int(row["row"]) for row in own})
        signs = [next([int(r[x]) for x in ("x1", "x2", "x3")] for r in own if int(r["row"]) == cell) for cell in cells]
        fit = analyse_factorial(
            signs, [[float(r["value"]) for r in own if int(r["row"]) == cell] for cell in cells], letters
        )
        squares = effects._Squares.of(fit)
        wanted = {
            row["term"]: (float(row["sum_of_squares"]), float(row["percent_of_sst"]))
            for row in read_table("recomputed_twok_r_effects")
            if (row["study"], row["workload"], row["response"]) == (study, *key) and row["percent_of_sst"]
        }
        if not wanted:
            continue
        for effect in fit.effects[1:]:
            found = cast("tuple[Value, Value]", squares.entries(effect))
            assert (found[0].value * 10.0**squares.power, found[1].value) == pytest.approx(
                wanted[effect.term], rel=1e-9
            )
        summary = next(
            row
            for row in read_table("recomputed_twok_r_summary")
            if (row["study"], row["workload"], row["response"]) == (study, *key)
        )
        rest = cast("dict[str, tuple[Value, Value]]", squares.rest(fit))
        assert list(rest) == ["error", "total"]
        assert rest["error"][0].value * 10.0**squares.power == pytest.approx(float(summary["sse"]))
        assert rest["total"][0].value * 10.0**squares.power == pytest.approx(float(summary["sst"]))


def test_squares_of_large_numbers_are_shown_in_millions() -> None:
    levels = [[a, b] for a in (-1, 1) for b in (-1, 1)]
    values = np.array([[1.0, 2.0], [4.0, 6.0], [3.0, 3.5], [9.0, 8.0]])
    headings = [effects._Squares.of(analyse_factorial(levels, scale * values)).heading("µs") for scale in (1, 1e3, 1e6)]
    assert headings == ["SS (µs²)", "SS (10⁶ µs²)", "SS (10¹² µs²)"]
    flat = effects._Squares.of(analyse_factorial(levels, np.ones((4, 2))))
    assert flat.heading("requests/s") == "SS ((requests/s)²)"
