"""What stands once on a page, near its end, though several sections have it; and what of a page is on paper."""

from __future__ import annotations

import re
from html import unescape
from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest

from weir_lab.report.page.arranging import ERRORS, arrange, gathered
from weir_lab.report.page.blocks import Finding, Report, Section, Table, Text
from weir_lab.report.page.html import html_page, markdown_page
from weir_lab.report.sets.assembling import _basis_points, _gates_lines
from weir_lab.report.sets.terms import terms_section

STYLE = resources.files("weir_lab.report.page").joinpath("templates/report.html.j2").read_text(encoding="utf-8")


def page_of(*sections: Section, about: str = "") -> Report:
    return Report("s9", "A study", about, "night", "local", ("One sentence.",), sections, (), {}, intervals="")


def part(name: str, *blocks: Text | Table, findings: tuple[Finding, ...] = ()) -> Section:
    return Section(name, f"Part {name}", "What?", "This.", blocks=blocks, findings=findings)


def wrong(name: str, *places: str) -> Table:
    columns = ("Where", "What", "Printed", "Right", "Why")
    rows = tuple((place, "mean", "17", "24", "another table has it") for place in places)
    return Table(
        f"{name}-known-errors", "Printed wrongly in the study, with what is right.", columns, rows, folded=True
    )


def words(name: str, *rows: tuple[str, str]) -> Table:
    return Table(f"{name}-words", "Words and letters of this page.", ("Word", "Meaning"), rows, folded=True)


def terms_of(*sections: Section, about: str = "") -> list[str]:
    (table,) = terms_section(page_of(*sections, about=about)).blocks
    assert isinstance(table, Table)
    return [str(row[0]) for row in table.rows]


def test_what_is_printed_wrongly_and_what_words_mean_stand_once_near_the_end() -> None:
    """Seven sections had a table of errors, two of them with the same rows, and words were explained at two places."""
    measured, other = ("N", "clients"), ("cell", "a combination")
    report = page_of(
        part("system", Text("It."), words("system", measured)),
        part("one", wrong("one", "table 8", "table 9")),
        part("two", Text("That."), wrong("two", "table 8", "table 10")),
        Section("terms", "Words and letters", "", "", blocks=(words("terms", other),)),
    )
    found = gathered(report)
    assert [one.name for one in found.sections] == ["system", "one", "two", ERRORS, "terms"]
    names = [[one.name for one in section.blocks if isinstance(one, Table)] for section in found.sections]
    assert names == [[], [], [], ["page-known-errors"], ["terms-words"]]
    (errors,), (meanings,) = (section.blocks for section in found.sections[3:])
    assert isinstance(errors, Table)
    assert isinstance(meanings, Table)
    assert errors.columns[0] == "Section"
    assert [row[:2] for row in errors.rows] == [
        ("Part one; Part two", "table 8"),
        ("Part one", "table 9"),
        ("Part two", "table 10"),
    ]
    assert meanings.rows == (measured, other)
    # The report, and so its twin, keeps what each section has.
    assert [one.name for one in report.sections[1].blocks if isinstance(one, Table)] == ["one-known-errors"]
    # Neither opens under more evidence.
    assert all(arrange(one).more == () for one in found.sections[3:])
    page, text = unescape(html_page(report)), markdown_page(report)
    assert page.count("<td>table 8<") == text.count("| table 8 | mean |") == 1
    led = 'what is right: <a href="#known-errors">a table near the end of this page</a> (3).</p>'
    assert led in page
    assert "what is right: a table near the end of this page (3)." in text
    assert page.index('id="printed-wrongly"') < page.index('<h2 id="known-errors">') < page.index('<h2 id="terms">')


def test_a_page_without_such_tables_is_as_it_was() -> None:
    report = page_of(part("one", Text("It.")), part("terms", words("terms", ("N", "clients"))))
    assert gathered(report) is report
    assert "printed-wrongly" not in html_page(report)


def test_a_page_explains_the_terms_that_it_uses_and_no_other() -> None:
    """S3's page explained USL, MSER-5, spike and lag 1, and had none of them."""
    assert terms_of(part("one", Text("All cells have two runs; every plateau was reached."))) == ["cell", "plateau"]
    assert terms_of(part("one", Text("It.", ("Plateaus are flat.",)))) == ["plateau"]
    table = Table("one-maxima", "Maxima.", ("Knee (clients)", "USL"), (("the proxy's stations", 3),))
    assert terms_of(part("one", table)) == ["maximum", "knee", "station", "USL"]
    assert terms_of(part("one"), about="S3 had a spike.") == ["S1 to S5", "spike, burst"]
    # A part of a word, a capital letter and what programs call a table use no term; nor do words that have another meaning, too.
    said = Text("Cellars, M/M/10, P and p90. A share of CPU time; a burst may pass by the power of two, as is seen.")
    assert terms_of(part("one", said, Table("knee", "It.", ("A",), (("cell",),)))) == ["cell"]
    judged = Finding("flat", "It is flat.", "cannot tell", "too few runs", 0.2)
    assert terms_of(Section("one", "One", "", "", findings=(judged,))) == ["p", "cannot tell"]


def test_a_section_with_shares_of_the_variation_shows_its_cells_beside_them() -> None:
    def table(name: str, rows: int = 2) -> Table:
        return Table(f"full-{name}", "Some.", ("A",), tuple((row,) for row in range(rows)))

    shares, reads, writes = table("shares"), table("reads-by-cell"), table("writes-by-cell")
    effects, more = table("effects", 40), table("residuals")
    assert arrange(part("full", shares, effects, reads, writes, more)).evidence == (shares, reads, writes)
    assert arrange(part("full", shares, table("reads-by-cell", 40), more)).evidence == (shares,)
    assert arrange(part("full", effects, more)).evidence == (more,)


def test_responses_of_which_the_same_is_said_share_a_point() -> None:
    runs, same = "8 runs of 2 cells", "error 1.0 %, spreads of the cells agree (p = 0.86)"
    joined = (f"{runs}.", f"Throughput and mean response time: {same}.")
    assert _basis_points(f"{runs}. throughput: {same}. mean response time: {same}") == joined
    parted = _basis_points(f"{runs}. throughput: {same}. 7 runs of 2 cells. mean response time: {same}, or so")
    assert parted == (f"{runs}.", f"Throughput: {same}.", "7 runs of 2 cells.", f"Mean response time: {same}, or so.")


@pytest.mark.parametrize("off", [0.15, None])
def test_the_gate_of_the_yardstick_is_said_as_it_is(off: float | None) -> None:
    """“Off its median of the study” would leave out all runs of a machine that is slower than the others (decision 36)."""
    gates = SimpleNamespace(other_cpu_share_max=0.1, yardstick_off_max=off)
    sweep: Any = SimpleNamespace(invalid=2, dropped=2, too_full={}, study=SimpleNamespace(gates=gates))
    (line,) = _gates_lines([sweep])
    assert line.startswith("All 2 attempts left out met a busy machine: more than 10 % of its CPU time went elsewhere")
    usual = "was more than 15 % off its usual time, which is that of the last attempts and of the same cell, so that"
    assert (usual in line) is (off is not None)
    assert "median" not in line


def test_on_paper_more_evidence_stays_closed_and_what_explains_a_page_is_open() -> None:
    """A page of S3 had 49 sheets: every figure that opens on demand was printed."""
    table = Table("one-long", "Long.", ("A",), tuple((row,) for row in range(20)))
    basis = Text("What the intervals rest on", ("8 runs of 2 cells.",), note=True, folded=True)
    page = html_page(page_of(part("one", Text("It."), table, basis), part("terms", words("terms", ("N", "clients")))))
    assert re.search(r'<details class="more"><summary>More evidence: 1 table</summary>.*id="one-long"', page, re.DOTALL)
    assert (
        "<details><summary>What the intervals rest on</summary><ul><li>8 runs of 2 cells.</li></ul></details>" in page
    )
    assert '<details class="kept"><summary>Words and letters of this page</summary>' in page
    opened = re.findall(r"([^{}]*)\{ display: block; content-visibility: visible; \}", STYLE)
    assert [one.strip() for one in opened] == ["details.kept::details-content"]
    assert "(on the screen; the Markdown has its tables)" in STYLE
