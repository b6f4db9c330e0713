from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import EXECUTABLES, STUDY_TEXT, study
from weir_lab.design import (
    FaultsError,
    amended,
    cells_of,
    content_sha256,
    load_seed,
    load_study,
    parse_study,
    schedule,
    study_schema,
)
from weir_lab.errors import StudyError
from weir_lab.report.numbers.analysis import compares_paths

if TYPE_CHECKING:
    pass

DEMO = Path(__file__).parents[2] / "studies" / "demo.toml"


def test_the_demo_study_is_sound() -> None:
    demo = load_study(DEMO)
    assert compares_paths(demo)
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


def test_what_belongs_together_runs_one_right_after_the_other_in_an_order_of_its_own() -> None:
    made = parse_study(STUDY_TEXT.replace("seed = 7", 'seed = 7\ntogether = ["path"]'))
    runs = schedule(made)
    assert {run.name for run in runs} == {run.name for run in schedule(study())}
    assert [run.position for run in runs] == list(range(1, len(runs) + 1))
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    for first, second in pairs:
        assert first.repetition == second.repetition
        assert first.cell.settings.clients == second.cell.settings.clients
        assert first.cell.settings.path != second.cell.settings.path
    assert len({first.cell.settings.path for first, _ in pairs}) == 2
    blocks = {tuple(one.cell.settings.clients for one, _ in pairs[at : at + 3]) for at in (0, 3, 6)}
    assert len(blocks) > 1
    with pytest.raises(ValueError, match="keys is no factor of this study"):
        parse_study(STUDY_TEXT.replace("seed = 7", 'seed = 7\ntogether = ["keys"]'))


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
    assert run.name == "tiny-C4-proxy-r1"
    assert content_sha256(study(), run, EXECUTABLES) == GOLDEN_HASH


GOLDEN_HASH = "50f6437fa0bffd844a4cfb1b243522c5a61f1f75f4e644cc0b8d2f7b8f12ebf6"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "tiny"', "", "name is required and missing"),
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


def test_paths_are_compared_where_they_and_clients_alone_vary() -> None:
    text = STUDY_TEXT.replace("depth = 1\n", "").replace("[factors]", "[factors]\ndepth = [1, 4]")
    only_proxy = STUDY_TEXT.replace('path = ["direct", "proxy"]', 'path = ["proxy"]')
    assert compares_paths(parse_study(STUDY_TEXT))
    for other in (text, only_proxy):
        assert not compares_paths(parse_study(other))


def changed(*changes: tuple[str, str]) -> str:
    text = STUDY_TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def names_of(*changes: tuple[str, str]) -> list[str]:
    return [cell.name for cell in cells_of(parse_study(changed(*changes)))]


ONE_CLIENT = ("clients = [1, 4, 16]", "clients = [4]")
ONLY_PROXY = ('path = ["direct", "proxy"]', 'path = ["proxy"]')
NO_PREDICTION = (STUDY_TEXT[STUDY_TEXT.index("[[predictions]]") :], "")


def test_levels_may_depend_on_other_levels_and_equal_cells_are_one() -> None:
    levels = ("servers = 3\n", "")
    factors = ("[factors]", '[factors]\nservers = [1, 3, 5]\nreplicas = [1, "=ceil(servers / 2)", "=servers"]')
    assert names_of(levels, factors, ONE_CLIENT, ONLY_PROXY, NO_PREDICTION) == [
        "tiny-S1-R1-C4-proxy",
        "tiny-S3-R1-C4-proxy",
        "tiny-S3-R2-C4-proxy",
        "tiny-S3-R3-C4-proxy",
        "tiny-S5-R1-C4-proxy",
        "tiny-S5-R3-C4-proxy",
        "tiny-S5-R5-C4-proxy",
    ]


def test_cells_can_be_excluded_listed_or_found_later() -> None:
    exclude = ("[fixed]", "exclude = [\"clients > 4 and path == 'direct'\"]\n[fixed]")
    assert "tiny-C16-direct" not in names_of(exclude)
    assert len(names_of(exclude)) == 5
    listed = '[[cells]]\nclients = 2\npath = "proxy"\n[[cells]]\nclients = 8\npath = "direct"\n[plan]'
    factors = ('[factors]\nclients = [1, 4, 16]\npath = ["direct", "proxy"]\n', "")
    design = ("[fixed]", 'design = "cells"\n[fixed]')
    assert names_of(design, factors, ("[plan]", listed), NO_PREDICTION) == ["tiny-C2-proxy", "tiny-C8-direct"]
    refined = amended(STUDY_TEXT, refined=[{"clients": 6, "path": "proxy"}, {"clients": 4, "path": "proxy"}])
    assert [cell.name for cell in cells_of(parse_study(refined))][6:] == ["tiny-C6-proxy"]


def test_what_the_laboratory_adds_to_its_copy_is_read_back() -> None:
    text = amended(amended(STUDY_TEXT, pace="quick", extended=2), pace="standard", extended=3)
    made = parse_study(text)
    assert (made.pace, made.extended) == ("standard", 3)
    assert text.count("pace = ") == 1
    assert parse_study(amended(STUDY_TEXT)) == study()


def test_paces_change_repetitions_levels_and_lengths() -> None:
    many = ("clients = [1, 4, 16]", "clients = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]")
    long = ("measured_s = 2.0", "measured_s = 90.0\ncooldown_s = 20.0")
    text = changed(many, long, ("warmup_s = 0.5", "warmup_s = 20.0"))
    written, quick, standard, full = (parse_study(text, pace) for pace in (None, "quick", "standard", "full"))
    assert (written.plan.repetitions, written.plan.stop, len(cells_of(written))) == (3, None, 20)
    assert (quick.plan.repetitions, quick.plan.stop, quick.plan.measured_s, quick.plan.warmup_s) == (3, None, 5.0, 2.0)
    assert quick.factors["clients"] == [1, 4, 7, 10]
    assert standard.plan.stop is not None
    assert (standard.plan.repetitions, standard.plan.measured_s, len(cells_of(standard))) == (5, 20.0, 20)
    assert (full.plan.repetitions, full.plan.repetitions_max, full.plan.measured_s) == (5, 30, 90.0)
    assert parse_study(text.replace("[fixed]", "headline = true\n[fixed]", 1), "full").plan.repetitions == 10
    chosen = text + "[paces.quick]\nmeasured_s = 8.0\nfactors = { clients = [1, 10] }\n"
    made = parse_study(chosen, "quick")
    assert (made.plan.measured_s, made.factors["clients"], made.plan.repetitions) == (8.0, [1, 10], 3)


def test_with_a_stop_rule_the_schedule_holds_every_run_that_may_come() -> None:
    made = parse_study(STUDY_TEXT + "[plan.stop]\nrepetitions_max = 7\n")
    assert len(schedule(made)) == 7 * 6
    assert len(schedule(parse_study(amended(STUDY_TEXT, extended=2)))) == 5 * 6


def test_new_settings_at_their_default_make_no_data_stale_and_others_do() -> None:
    before = content_sha256(study(), schedule(study())[0], EXECUTABLES)
    same = parse_study(changed(("[fixed]", "[fixed]\nreplicas = 1")))
    assert content_sha256(same, schedule(same)[0], EXECUTABLES) == before
    for line in ("replicas = 2", 'placement = "modulo"', "proxies = 2"):
        other = parse_study(changed(("[fixed]", f"[fixed]\n{line}")))
        assert content_sha256(other, schedule(other)[0], EXECUTABLES) != before
    # Where it runs stands among the programs, as the testbed tells it; a topology that no testbed builds changes nothing.
    other = parse_study(changed(("[fixed]", "[topology.links]\nserver_mbit_s = 11.0\n[fixed]")))
    assert content_sha256(other, schedule(other)[0], EXECUTABLES) == before
    assert content_sha256(other, schedule(other)[0], {**EXECUTABLES, "testbed": "netns"}) != before


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("keys = 100", "kees = 100", "line 9, fixed.kees", "did you mean keys?"),
        ("keys = 100", 'keys = "=kees * 2"', "line 9, fixed.keys", "did you mean keys?"),
        ("keys = 100", 'keys = "=2 * keys"', "line 9, fixed.keys", "in a circle: keys -> keys"),
        ("keys = 100", 'keys = "=100 *"', "line 9, fixed.keys", "character 6"),
        ("keys = 100", 'keys = "=workers"', "line 9, fixed.keys", "workers has no value here"),
        ("clients = [1, 4, 16]", "clients = [1, 4, 0]", "line 18, factors.clients", "at least 1 is wanted, not 0"),
        ("servers = 3", "servers = 3\nreplicas = 4", "factors", "4 replicas need as many servers"),
        ("servers = 3", 'servers = 3\nengine = "pool"', "factors", "engine pool needs workers"),
        ("[fixed]", 'exclude = ["clients > 0"]\n[fixed]', "line 7, exclude", "nothing is left to run"),
        ("[fixed]", 'exclude = ["klients > 0"]\n[fixed]', "line 7, exclude", "did you mean clients?"),
        ("[fixed]", 'design = "2k"\n[fixed]', "line 19, factors.clients", "two levels of each factor, not 3"),
        ("[fixed]", 'design = "cells"\n[fixed]', "line 7, design", "go together"),
        ("[fixed]", 'assumed = ["sped"]\n[fixed]', "line 7, assumed", "sped is no setting"),
        ("[fixed]", 'pace = "slow"\n[fixed]', "line 7, pace", "slow"),
        ("[[predictions]]", '[[refine]]\nfactor = "depth"\noffsets = [1]\n[[predictions]]', "line 28, refine.0.factor", "no factor"),
        ("[[predictions]]", "[[expected]]\nat = { clients = 5 }\nthroughput_rps = 1\n[[predictions]]", "line 28, expected.0.at", "no cell"),
        ("clients = [1, 4, 16]", "clients = [" + ", ".join(map(str, range(1, 4000))) + "]\nkeys = [1, 2]", "", "keys under"),
    ],
)  # fmt: skip
def test_a_fault_is_shown_where_it_was_written(tmp_path: Path, old: str, new: str, line: str, says: str) -> None:
    file = tmp_path / "faulty.toml"
    file.write_text(changed((old, new)))
    with pytest.raises(StudyError) as caught:
        load_study(file)
    shown = [row for row in str(caught.value).splitlines() if line in row and says in row]
    assert shown, str(caught.value)


def test_all_faults_are_shown_at_once(tmp_path: Path) -> None:
    file = tmp_path / "faulty.toml"
    file.write_text(changed(("keys = 100", "kees = 100"), ("clients = [1, 4, 16]", "clients = [1, 1]")))
    with pytest.raises(StudyError) as caught:
        load_study(file)
    assert all(text in str(caught.value) for text in ("kees", "names a level twice"))


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    many = ", ".join(map(str, range(1, 300)))
    text = changed(
        ("clients = [1, 4, 16]", f"clients = [{many}]\nkeys = [{many}]"), ("keys = 100\n", ""), NO_PREDICTION
    )
    with pytest.raises(FaultsError, match="combinations of levels; a study has at most 10,000"):
        parse_study(text)


def test_the_schema_in_the_docs_is_that_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "schemas" / "weir.study-1.json"
    assert json.loads(page.read_text()) == study_schema(), (
        "write it anew: weir-lab check --schema > docs/schemas/weir.study-1.json"
    )
