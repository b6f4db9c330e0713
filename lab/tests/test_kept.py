"""Kept records: a report and the gallery are rebuilt from them alone, a planted change is found, and they do not go stale."""

from __future__ import annotations

import copy
import csv
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from synthetic_whole import Truth, write_whole
from test_run import WEIR, needs_programs
from weir_lab.bench.machine.facts import commit_of
from weir_lab.bench.sweep.sets import take_files
from weir_lab.cli import app
from weir_lab.design import content_sha256
from weir_lab.errors import RecordError, ReportError
from weir_lab.records import write_json
from weir_lab.records.sharing.files import read_kept, write_kept
from weir_lab.records.sharing.numbers import histogram_of, numbers_of, plain_histogram, text_of
from weir_lab.records.sharing.unpacking import unpack
from weir_lab.report.page.data import data_of
from weir_lab.report.page.numbers import pages_compared
from weir_lab.report.sets import Sources, assemble, gallery, write_report
from weir_lab.report.sets import kept as kept_module
from weir_lab.report.sets.gallery import build_gallery
from weir_lab.report.sets.kept import bring_back, holds_records, keep, verify_kept, verify_page
from weir_lab.report.sets.twin import SCHEMA as TWIN
from weir_lab.report.sets.twin import values_compared
from weir_lab.theory.histogram import Bounds, Histogram

if TYPE_CHECKING:
    from weir_lab.report.sets.gallery import Shown

DATA = Path(__file__).parent / "data" / "whole"
SET = """
schema = "weir.set/1"
name = "small"
title = "A small study"
about = "Reads and writes through one proxy"
engine = "event"
[[sections]]
name = "curve"
title = "Curve"
kind = "clients"
files = ["small-curve.toml"]
[[sections.claims]]
name = "law"
claim = "The interactive law holds on every cell."
rule = "law"
args = { percent = 90.0 }
"""
STUDY = """
schema = "weir.study/1"
name = "small-curve"
[fixed]
keys = 200
servers = 2
write_ratio = 0.3
[factors]
clients = [1, 2, 4]
[plan]
repetitions = 2
warmup_s = 0.1
measured_s = 0.4
attempts = 10
[paces.quick]
repetitions = 2
warmup_s = 0.1
measured_s = 0.4
"""


@given(st.lists(st.integers(0, 2**62)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert numbers_of(text_of(numbers)) == numbers


@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 10**9)), max_size=60))
def test_histograms_come_back(filled: list[tuple[int, int]]) -> None:
    counts = np.zeros(max((place for place, _ in filled), default=-1) + 1, dtype=np.int64)
    for place, count in filled:
        counts[place] += count
    histogram = Histogram(Bounds(1, 3_600_000_000_000, 3), counts)
    found = histogram_of(plain_histogram(histogram))
    assert found.bounds == histogram.bounds
    assert found.counts.tolist() == counts.tolist()


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 1000)), min_size=1, max_size=60))
def test_a_coarser_histogram_has_the_same_values_in_wider_steps(filled: list[tuple[int, int]]) -> None:
    counts = np.zeros(max(place for place, _ in filled) + 1, dtype=np.int64)
    for place, count in filled:
        counts[place] += count
    fine = Histogram(Bounds(1, 3_600_000_000_000, 3), counts)
    coarse = fine.coarser(2)
    assert coarse.total == fine.total
    for place in np.flatnonzero(counts).tolist():
        value = int(fine._highest_equivalents(np.array([place]))[0])
        step = int(
            coarse._highest_equivalents(
                np.array([int(np.searchsorted(np.cumsum(coarse.counts), fine.counts[: place + 1].sum()))])
            )[0]
        )
        # Its step ends at or behind it, by less than 0.8 %; and it holds all that lie before.
        assert value <= step <= value * (1 + 1 / 128) + 1


def test_a_damaged_text_or_file_is_refused(tmp_path: Path) -> None:
    for text in ("g", "!"):
        with pytest.raises(RecordError, match="damaged"):
            numbers_of(text)
    file = tmp_path / "x.kept.zst"
    write_kept(file, {"schema": "weir.kept/1"})
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RecordError, match="damaged"):
        read_kept(file)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a study with every kind of section, whose run folders are gone; tests must not change them."""
    root = tmp_path_factory.mktemp("kept") / "small-quick-netns"
    study_set = take_files(DATA / "small.set.toml", root)
    write_whole(root, study_set, Truth())
    write_report(assemble(study_set, Sources(root, root / "studies"), "quick", "netns"), root)
    made = keep(root, root.parent / "records")
    assert made.runs == 121
    shutil.rmtree(root)
    return made.folder


def test_every_kind_of_section_is_rebuilt_from_the_records_alone(kept: Path) -> None:
    found = verify_kept(kept)
    assert found.verified.differences == ()
    assert found.verified.numbers > 1000
    assert found.runs == 121
    assert holds_records(kept)


def test_what_was_brought_back_is_kept_as_it_was(kept: Path, tmp_path: Path) -> None:
    """Nights go on from records, and are kept again: nothing may be lost or added on the way."""
    root = tmp_path / "root"
    found = bring_back(kept, root)
    assert found.runs == 121
    write_json(root / f"{found.twin['name']}.json", found.twin)
    again = keep(root, tmp_path / "again")
    files = sorted(file.relative_to(kept) for file in kept.rglob("*") if file.is_file())
    assert sorted(file.relative_to(again.folder) for file in again.folder.rglob("*") if file.is_file()) == files
    for file in files:
        assert (again.folder / file).read_bytes() == (kept / file).read_bytes(), file
    with pytest.raises(RecordError, match="is there already"):
        bring_back(kept, root)


def test_keeping_over_a_folder_of_something_else_is_refused(little: Path, tmp_path: Path) -> None:
    """`keep --out records` removed the kept records of all studies, and `--out .` whatever lay there."""
    root = tmp_path / "root"
    found = bring_back(little, root)
    write_json(root / f"{found.twin['name']}.json", found.twin)
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for place in (out, out / "thesis.txt"):
        with pytest.raises(RecordError, match="holds other files than kept records"):
            keep(root, place)
    assert (out / "thesis.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    # The last two are one place: what `keep` wrote it may write again.
    for place in (tmp_path / "empty", tmp_path / "new", tmp_path / "new"):
        assert keep(root, place).runs > 0
        assert holds_records(place)


def test_records_are_there_again_where_new_ones_cannot_take_their_place(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, made = tmp_path / "out", tmp_path / "made"
    shutil.copytree(kept, out)
    made.mkdir()
    before = sorted(file.name for file in out.iterdir())
    move = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self == made:
            raise OSError(28, "No space left on device")
        return move(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="No space left"):
        kept_module._put_in_place(made, out, tmp_path / "aside")
    assert sorted(file.name for file in out.iterdir()) == before


@pytest.mark.parametrize("name", ["../out", "/tmp/weir-out", "..", "", "a/b", 7])
def test_a_record_writes_no_run_outside_of_its_sweep(kept: Path, tmp_path: Path, name: object) -> None:
    """`verify` of somebody's records made folders and replaced files wherever these said."""
    content = read_kept(kept / "t-direct.kept.zst")
    content["runs"][0]["name"] = name
    with pytest.raises(RecordError, match="no name of a folder"):
        unpack(content, tmp_path / "inside" / "sweep")
    assert [file.name for file in tmp_path.iterdir()] == ["inside"]


@pytest.mark.parametrize("name", ["../../../x", "/tmp/weir-x", "run.json", "load.json"])
def test_a_record_writes_only_files_that_runs_leave(kept: Path, tmp_path: Path, name: str) -> None:
    content = read_kept(kept / "t-direct.kept.zst")
    next(run for run in content["runs"] if run["meta"]["verdict"]["valid"])["files"] = {name: "owned"}
    with pytest.raises(RecordError, match="which no run leaves"):
        unpack(content, tmp_path / "inside" / "sweep")
    assert [file.name for file in tmp_path.iterdir()] == ["inside"]


def without(content: dict[str, Any], *place: Any) -> dict[str, Any]:
    """The content without what stands at a place."""
    found = copy.deepcopy(content)
    at: Any = found
    for step in place[:-1]:
        at = at[step]
    del at[place[-1]]
    return found


def test_a_record_of_another_version_is_an_error_and_no_traceback(kept: Path, tmp_path: Path) -> None:
    content = read_kept(kept / "t-direct.kept.zst")
    wrong = [
        without(content, "study"), without(content, "common"), without(content, "runs", 0, "meta", "verdict"),
        {**content, "runs": [7]}, {**content, "runs": [{**content["runs"][0], "load": []}]}, {**content, "sweep": []},
    ]  # fmt: skip
    for place, one in enumerate(wrong):
        with pytest.raises(RecordError, match="Use the version that made them"):
            unpack(one, tmp_path / str(place))


def kept_section(tree: Path, name: str) -> Path:
    """Records of a study with one section, in a tree laid out like the repository."""
    root = tree / "runs" / "small-quick-netns"
    study_set = take_files(DATA / "small.set.toml", root)
    one = study_set.model_copy(update={"sections": [part for part in study_set.sections if part.name == name]})
    head, *parts = (root / "studies" / "small.set.toml").read_text().split("[[sections]]\n")
    (part,) = (text for text in parts if text.startswith(f'name = "{name}"'))
    (root / "studies" / "small.set.toml").write_text(f"{head}[[sections]]\n{part}")
    write_whole(root, one, Truth())
    write_report(assemble(one, Sources(root, root / "studies"), "quick", "netns"), root)
    return keep(root, tree / "records" / "small-quick-netns").folder


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records without a proxy; tests must not change them."""
    return kept_section(tmp_path_factory.mktemp("little"), "baseline")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a proxy; tests must not change them."""
    return kept_section(tmp_path_factory.mktemp("proxied"), "full")


@pytest.fixture(scope="module")
def shown(little: Path) -> tuple[Path, list[Shown]]:
    """The gallery of these records; tests must not change it."""
    folder = little.parents[1] / "docs" / "gallery"
    folder.parent.mkdir()
    return folder, build_gallery([little], folder, ["s1", "small"])


def test_a_gallery_is_built_from_records_and_each_page_verifies_in_its_tree(shown: tuple[Path, list[Shown]]) -> None:
    folder, (page,) = shown
    assert {file.name for file in folder.iterdir()} == {"small.html", "small.md", "small-data", "index.html"}
    assert page.numbers > 300
    assert page.made.startswith("pace quick, testbed netns, 24 runs of commit ")
    text = page.page.read_text()
    assert f"weir-lab verify docs/gallery/{page.page.name}" in text
    assert "records/small-quick-netns/t-direct.kept.zst" in text
    assert "data:text/csv" not in text
    linked = re.findall(r'href="(small-data/[^"]+)"', text)
    assert sorted(linked) == sorted(f"small-data/{file.name}" for file in (folder / "small-data").iterdir())
    assert all((folder / one).read_text().count("\n") > 1 for one in linked)
    listed = list(csv.DictReader((folder / "small-data" / "runs.csv").read_text().splitlines()))
    assert len({(one["sweep"], one["run"]) for one in listed}) == len(listed)
    assert [one["started"] for one in listed] == sorted(one["started"] for one in listed)
    assert sum(one["valid"] == "true" for one in listed) == 24
    assert all((float(one["throughput_rps"] or 0) > 0) == (one["valid"] == "true") for one in listed)
    assert "(small-data/runs.csv)" in (folder / "small.md").read_text()
    index = (folder / "index.html").read_text()
    assert '<a href="small.html">small</a>' in index
    assert "Missing: S1." in index
    found = CliRunner().invoke(app, ["verify", str(page.page)])
    assert found.exit_code == 0, found.output
    assert f"{page.numbers:,} numbers computed again, 0 differences" in found.output


def test_a_gallery_keeps_pages_without_records_and_its_index_leads_to_them(
    shown: tuple[Path, list[Shown]], little: Path, tmp_path: Path
) -> None:
    before, made = tmp_path / "before", tmp_path / "gallery"
    before.mkdir()
    earlier = shown[1][0].page.read_text()
    (before / "s1.html").write_text(earlier)
    (before / "small.html").write_text("its page is made anew")
    (page,) = build_gallery([little], made, ["s1", "s2", "small"], earlier=before)
    assert (made / "s1.html").read_text() == earlier
    assert page.page.read_text() == earlier
    index = (made / "index.html").read_text()
    assert '<a href="s1.html">S1</a>' in index
    assert "its runs are not here, so that nothing verifies it" in index
    assert "Missing: S2." in index


def test_a_number_that_was_changed_on_a_page_or_in_its_data_is_found(
    shown: tuple[Path, list[Shown]], tmp_path: Path
) -> None:
    folder = shutil.copytree(shown[0], tmp_path / "gallery")
    text = (folder / "small.html").read_text()
    assert list(pages_compared(text, text, folder)) == []
    worded = text.replace("<caption>", "<caption>In other words: ").replace("<p>", "<p>42 times ")
    assert list(pages_compared(worded, text, folder)) == []
    table = re.search(r'<table id="baseline-maxima">.*?<td>(\d)', text, re.DOTALL)
    assert table is not None
    changed = f"{text[: table.end() - 1]}{(int(table[1]) + 1) % 10}{text[table.end() :]}"
    (found,) = pages_compared(changed, text, shown[0])
    assert found.startswith("in baseline-maxima: ")
    held = re.sub(r">holds</td>", ">does not hold</td>", text, count=1)
    assert held != text
    assert len(list(pages_compared(held, text, shown[0]))) == 1
    data = next(file for file in (folder / "small-data").iterdir() if file.name != "runs.csv")
    data.write_text(data.read_text()[:-2] + "7\n")
    assert data_of(text, shown[0]) != ""
    again = re.sub(r'href="small-data', f'href="{shown[0].absolute()}/small-data', text)
    assert [one.split(":")[0] for one in pages_compared(text, again, folder)] == [f"in fig-{data.stem}"]
    data.unlink()
    with pytest.raises(RecordError, match=r"\.csv: cannot be read .*Bring it back"):
        list(pages_compared(text, again, folder))


def test_a_list_of_attempts_that_was_changed_is_found(
    shown: tuple[Path, list[Shown]], little: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(shown[0], tmp_path / "gallery")
    listing = folder / "small-data" / "runs.csv"
    assert verify_page(folder / "small.html", little).verified.differences == ()
    lines = listing.read_text().splitlines(keepends=True)
    listing.write_text("".join([*lines[:3], lines[3].replace("true", "false"), *lines[4:]]))
    (found,) = verify_page(folder / "small.html", little).verified.differences
    assert found == "small-data/runs.csv: line 4 is not that of the records"
    listing.write_text("".join(lines[:-1]))
    (found,) = verify_page(folder / "small.html", little).verified.differences
    assert found == "small-data/runs.csv: 24 attempts, the records have 25"


def test_a_gallery_is_refused_where_a_page_is_large_or_numbers_are_not_those_that_were_kept(
    little: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(gallery, "PAGE_BYTES_MAX", 1000)
        with pytest.raises(ReportError, match="bytes, not less than 1,000"):
            build_gallery([little], tmp_path / "large", [])
    changed = shutil.copytree(little, tmp_path / "changed")
    (file,) = changed.glob("*.json.zst")
    twin = read_kept(file, TWIN)
    table_of(twin, "baseline-maxima")["rows"][0][3]["value"] *= 1.01
    write_kept(file, twin)
    with pytest.raises(ReportError, match="are not those of the report that was kept"):
        build_gallery([changed], tmp_path / "refused", [])


def planted(kept: Path, out: Path, change: Any) -> tuple[str, ...]:
    """What is found when one kept sweep is changed."""
    shutil.copytree(kept, out)
    file = next(out.glob("t-full.kept.zst"))
    content = read_kept(file)
    change(next(run for run in content["runs"] if "load" in run))
    write_kept(file, content)
    return verify_kept(out).verified.differences


def test_a_change_of_one_value_is_found(proxied: Path, tmp_path: Path) -> None:
    def faster(run: dict[str, Any]) -> None:
        run["load"]["throughput_rps"] *= 1.001

    def longer(run: dict[str, Any]) -> None:
        next(iter(run["proxy"]["operations"].values()))["stages"]["queue"]["sum_ns"] += 1_000_000_000

    assert any("the records give" in one for one in planted(proxied, tmp_path / "faster", faster))
    assert planted(proxied, tmp_path / "longer", longer)
    assert planted(proxied, tmp_path / "same", lambda _run: None) == ()


def test_records_do_not_go_stale_when_hashes_are_made_otherwise(proxied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run's hash is made of has grown before; kept runs belong to their study all the same."""
    for module in ("records.sharing.unpacking", "report.numbers.readings"):
        monkeypatch.setattr(f"weir_lab.{module}.content_sha256", lambda *given: f"later-{content_sha256(*given)}")
    assert verify_kept(proxied).verified.differences == ()


def test_records_do_not_go_stale_when_a_report_says_something_else(little: Path, tmp_path: Path) -> None:
    """Answers had five sentences, and neither limits nor details."""
    earlier = shutil.copytree(little, tmp_path / "earlier")
    (file,) = earlier.glob("*.json.zst")
    twin = read_kept(file, TWIN)
    assert twin.pop("limits")
    assert twin.pop("details")
    twin["summary"] += ["It had a fourth sentence.", "It had a fifth sentence."]
    write_kept(file, twin)
    found = verify_kept(earlier)
    assert found.verified.differences == ()
    del twin["sweeps"]
    assert values_compared(twin, found.report).differences == ("/sweeps: missing in the report",)


def table_of(twin: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        block for part in twin["sections"] for block in part["blocks"] if block.get("name") == name
    )
    return found


def test_a_later_report_may_say_more_and_must_say_what_an_earlier_one_did(little: Path, tmp_path: Path) -> None:
    """Sections, tables and columns came one after the other."""
    earlier = shutil.copytree(little, tmp_path / "earlier")
    (file,) = earlier.glob("*.json.zst")
    twin = read_kept(file, TWIN)
    assert twin["sections"].pop(0)["name"] == "system"
    assert twin["sections"].pop()["name"] == "terms"
    (part,) = twin["sections"]
    part["blocks"] = [one for one in part["blocks"] if one.get("name") != "baseline-laws"]
    maxima = table_of(twin, "baseline-maxima")
    place = maxima["columns"].index("Clients")
    for row in [maxima["columns"], *maxima["rows"]]:
        row.pop(place)
    write_kept(file, twin)
    assert verify_kept(earlier).verified.differences == ()
    maxima["rows"].pop()
    maxima["columns"][maxima["columns"].index("R (ms)")] = "Other (ms)"
    part["blocks"].append({"block": "table", "name": "gone", "caption": "", "columns": [], "rows": []})
    part["findings"].pop()
    write_kept(file, twin)
    found = [re.sub(r": .*", "", one) for one in verify_kept(earlier).verified.differences]
    at = "/sections/baseline/blocks/baseline-maxima/cells"
    others = {"/sections/baseline/blocks/gone", "/sections/baseline/findings"}
    assert {f"{at}/X (requests/s)", f"{at}/Other (ms)", *others} <= set(found)
    assert all(one.startswith(at) for one in found if one not in others)


def test_a_commit_is_that_of_the_checkout_or_unknown(tmp_path: Path) -> None:
    assert commit_of(tmp_path / "weir") == "unknown"
    assert commit_of(tmp_path / "weir", "weir 0.1.0 (0c45bdf1a2b3+changes)") == "0c45bdf1a2b3+changes"
    assert commit_of(tmp_path / "weir", "weir 0.1.0 (unknown)") == "unknown"
    here = commit_of(Path(__file__))
    assert here == "unknown" or len(here.removesuffix("+changes")) >= 40


@needs_programs
def test_a_real_study_is_recorded_kept_lost_and_verified(tmp_path: Path) -> None:
    studies, root, records = tmp_path / "studies", tmp_path / "root", tmp_path / "records"
    studies.mkdir()
    (studies / "small.set.toml").write_text(SET)
    (studies / "small-curve.toml").write_text(STUDY)
    asked = ["study", "small", "--studies", str(studies), "--out", str(root), "--bin", str(WEIR)]
    made = CliRunner().invoke(app, [*asked, "--runs-only"])
    assert made.exit_code == 0, made.output
    assert "No report was written" in made.output
    assert not list(root.glob("*.html"))
    both = CliRunner().invoke(app, [*asked, "--runs-only", "--report-only"])
    assert both.exit_code != 0
    reported = CliRunner().invoke(app, [*asked, "--report-only"])
    assert reported.exit_code == 0, reported.output
    written = CliRunner().invoke(app, ["keep", str(root), "--out", str(records)])
    assert written.exit_code == 0, written.output
    assert "6 runs" in written.output
    shutil.rmtree(root)
    found = CliRunner().invoke(app, ["verify", str(records)])
    assert found.exit_code == 0, found.output
    assert ", 0 differences" in found.output
    assert "6 runs of the programs of commit " in found.output
    back = CliRunner().invoke(app, ["unpack", str(records), "--out", str(root)])
    assert back.exit_code == 0, back.output
    assert f"{root}: 6 runs of the programs of commit " in back.output
    runs = {file: file.read_bytes() for file in root.rglob("run.json")}
    assert len(runs) == 6
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 0, again.output
    assert {file: file.read_bytes() for file in root.rglob("run.json")} == runs, "no run was made again"
    twice = CliRunner().invoke(app, ["unpack", str(records), "--out", str(root)])
    assert twice.exit_code != 0
    content = read_kept(records / "small-curve.kept.zst")
    run = next(one for one in content["runs"] if "load" in one)
    assert run["cpu"]["others_ns"] >= 0
    run["load"]["operations"]["get"]["response_time"]["sum_ns"] += (
        run["load"]["operations"]["get"]["response_time"]["sum_ns"] // 100
    )
    write_kept(records / "small-curve.kept.zst", content)
    changed = CliRunner().invoke(app, ["verify", str(records)])
    assert changed.exit_code == 3, changed.output
    assert "differs: " in changed.output
