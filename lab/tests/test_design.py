from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import EXECUTABLES, STUDY_TEXT, study
from weir_lab.analysis import compares_paths, require_reportable
from weir_lab.design import cells_of, content_sha256, load_seed, load_study, parse_study, schedule
from weir_lab.errors import ReportError, StudyError

if TYPE_CHECKING:
    from weir_lab.design import Study

DEMO = Path(__file__).parents[2] / "studies" / "demo.toml"


def test_the_demo_study_is_sound() -> None:
    demo = load_study(DEMO)
    require_reportable(demo)
    assert len(cells_of(demo)) == 8
    assert len(schedule(demo)) == 24


@given(st.integers(0, 2**63 - 1), st.integers(2, 6))
@settings(max_examples=40)
def test_each_block_is_a_permutation_of_all_cells(seed: int, repetitions: int) -> None:
    text = STUDY_TEXT.replace("seed = 7", f"seed = {seed}").replace("repetitions = 3", f"repetitions = {repetitions}")
    made = parse_study(text)
    runs = schedule(made)
    cells = Counter(cell.name for cell in cells_of(made))
    for block in range(repetitions):
        inside = runs[block * len(cells) : (block + 1) * len(cells)]
        assert {run.repetition for run in inside} == {block + 1}
        assert Counter(run.cell.name for run in inside) == cells
    assert [run.position for run in runs] == list(range(1, len(runs) + 1))
    assert schedule(made) == runs


def test_blocks_differ_in_order() -> None:
    runs = schedule(study())
    orders = {tuple(run.cell.name for run in runs if run.repetition == block) for block in (1, 2, 3)}
    assert len(orders) > 1


def test_cells_of_a_block_share_their_requests() -> None:
    made = study()
    seeds = {block: {load_seed(made, run) for run in schedule(made) if run.repetition == block} for block in (1, 2, 3)}
    assert all(len(group) == 1 for group in seeds.values())
    assert len(set.union(*seeds.values())) == 3


def test_content_hashes_tell_runs_apart_and_outlive_rewording() -> None:
    made = study()
    hashes = [content_sha256(made, run, EXECUTABLES) for run in schedule(made)]
    assert len(set(hashes)) == len(hashes)
    reworded = parse_study(STUDY_TEXT.replace("What does", "Tell me what does").replace("A tiny", "Another"))
    assert [content_sha256(reworded, run, EXECUTABLES) for run in schedule(reworded)] == hashes


@pytest.mark.parametrize(
    ("old", "new"),
    [("measured_s = 2.0", "measured_s = 3.0"), ("keys = 100", "keys = 101"), ("seed = 7", "seed = 8")],
)
def test_content_hashes_change_with_what_decides_the_outcome(old: str, new: str) -> None:
    made, other = study(), parse_study(STUDY_TEXT.replace(old, new))
    before = {content_sha256(made, run, EXECUTABLES) for run in schedule(made)}
    after = {content_sha256(other, run, EXECUTABLES) for run in schedule(other)}
    assert not before & after


def test_content_hashes_change_with_the_binary() -> None:
    made = study()
    run = schedule(made)[0]
    assert content_sha256(made, run, EXECUTABLES) != content_sha256(made, run, {**EXECUTABLES, "weir": "1" * 64})


def test_the_content_hash_is_the_same_on_every_machine() -> None:
    run = schedule(study())[0]
    assert run.name == "clients-4_path-proxy_r1"
    assert content_sha256(study(), run, EXECUTABLES) == GOLDEN_HASH


GOLDEN_HASH = "50f6437fa0bffd844a4cfb1b243522c5a61f1f75f4e644cc0b8d2f7b8f12ebf6"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("keys = 100", "", "keys is missing: add it under"),
        ("keys = 100", "kees = 100", "unknown setting kees"),
        ("keys = 100", "keys = 0", "keys"),
        ("clients = [1, 4, 16]", "clients = [1, 4, 4]", "factors.clients names a level twice"),
        ("clients = [1, 4, 16]", "clients = [1, 'x']", "clients"),
        ("clients = [1, 4, 16]", "clients = [1, 4]\ndepth = [1, 2]", "depth under both"),
        ("repetitions = 3", "repetitions = 1", "plan.repetitions"),
        ("measured_s = 2.0", "measured_s = 0", "plan.measured_s"),
        ('order = "randomised-blocks"', 'order = "as-i-like"', "plan.order"),
        ('schema = "weir.study/1"', 'schema = "weir.study/9"', "schema"),
        ("seed = 7", "seed = 7\nsped = 8", "plan.sped"),
        ("change_percent_min = -60", "change_percent_min = -10", "change_percent_min"),
        ("clients = 1\nchange", "clients = 2\nchange", "predictions"),
        ("[plan]", "[plan", "not valid TOML"),
    ],
)
def test_a_faulty_study_names_file_and_key(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in STUDY_TEXT
    file = tmp_path / "faulty.toml"
    file.write_text(STUDY_TEXT.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        load_study(file)
    assert str(file) in str(caught.value)
    assert says in str(caught.value)


def test_a_missing_study_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"absent\.toml.*Give the path"):
        load_study(tmp_path / "absent.toml")


def test_a_design_that_the_report_cannot_show_is_refused_early() -> None:
    """Any study of loads has a report; comparing paths is for studies of paths and clients alone."""
    text = STUDY_TEXT.replace("depth = 1\n", "").replace("[factors]", "[factors]\ndepth = [1, 4]")
    only_proxy = STUDY_TEXT.replace('path = ["direct", "proxy"]', 'path = ["proxy"]')
    assert compares_paths(parse_study(STUDY_TEXT))
    for other in (text, only_proxy):
        require_reportable(parse_study(other))
        assert not compares_paths(parse_study(other))
    without_load = cast("Study", SimpleNamespace(name="placement", kind="hash"))
    with pytest.raises(ReportError, match="kind hash has no loads"):
        require_reportable(without_load)
