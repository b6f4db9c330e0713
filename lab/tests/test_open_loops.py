"""Open loops, mixes, presets and expiry as settings of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthetic import STUDY_TEXT
from test_run import WEIR, needs_programs
from test_targets import Memcached
from test_unloaded import Silent
from weir_lab.bench.programs.generators import (
    OwnKeys,
    delete_argv,
    generator_refusals,
    keys_written,
    prefill_argv,
    shares_of,
    weir_load_argv,
)
from weir_lab.bench.running import Executables
from weir_lab.bench.sweep.run import run_study
from weir_lab.design import FaultsError, Plan, Settings, cells_of, content_sha256, parse_study, schedule
from weir_lab.records import read_runs
from weir_lab.records.formats import LoadSchedule
from weir_lab.records.formats.merging import merge_records
from weir_lab.records.tables.frames import load_sweep
from weir_lab.report.single.report import build_report, verify_sweep

PLAN = Plan(warmup_s=1, measured_s=2)


def argv_of(**changes: Any) -> list[list[str]]:
    cell = Settings.model_validate(changes)
    shares = shares_of(cell, ["a:1"], seed=7)
    return [weir_load_argv(WEIR, cell, PLAN, share, prefilled=True, start_at=None) for share in shares]


def value(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_a_rate_is_shared_out_by_connections() -> None:
    (one,) = argv_of(rate=5000, clients=4)
    assert (value(one, "--rate"), value(one, "--arrivals")) == ("5000", "poisson")
    several = argv_of(rate=9000.0, clients=3, instances=2, arrivals="fixed")
    assert [value(argv, "--rate") for argv in several] == ["6000", "3000"]
    assert value(several[0], "--arrivals") == "fixed"
    assert "--rate" not in argv_of(clients=4)[0]


def test_mixes_presets_and_expiry_are_what_weir_load_calls_them() -> None:
    (mixed,) = argv_of(mix="get=0.8,incr=0.2", ttl_s=60)
    assert (value(mixed, "--mix"), value(mixed, "--ttl")) == ("get=0.8,incr=0.2", "60")
    assert "--writes" not in mixed
    (preset,) = argv_of(preset="facebook-etc")
    assert value(preset, "--preset") == "facebook-etc"
    assert not {"--writes", "--mix", "--value-size", "--key-size", "--popularity"} & set(preset)
    assert value(argv_of(preset="largevalue", mix="set=1")[0], "--mix") == "set=1"
    assert argv_of()[0] == argv_of(arrivals="poisson", ttl_s=0)[0]


def test_what_is_set_before_has_the_sizes_and_counters_that_the_load_looks_for() -> None:
    counting = Settings.model_validate({"mix": "get=0.8,incr=0.2"})
    assert value(prefill_argv(WEIR, counting, "a:1", 7), "--mix") == "get=0.8,incr=0.2"
    assert prefill_argv(WEIR, Settings(), "a:1", 7)[-2:] == ["--writes", "0"]
    keys = OwnKeys("wabcdef-", 900)
    assert value(prefill_argv(WEIR, counting, "a:1", 7, keys), "--ttl") == "900"
    assert value(prefill_argv(WEIR, Settings(ttl_s=60), "a:1", 7, keys), "--ttl") == "60"
    assert keys_written(counting) == 20_000
    deleting = delete_argv(WEIR, Settings(preset="facebook-etc"), "a:1", 7, keys)
    assert (value(deleting, "--preset"), value(deleting, "--seed")) == ("facebook-etc", "7")
    several = Settings(preset="facebook-etc", clients=2, instances=2)
    assert "use one generator" in generator_refusals(several)[0]


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        ("rate = 0", "more than 0 is wanted"),
        ("rate = 10\nthink_time_ms = 1", "clients do not think"),
        ('rate = 10\ngenerator = "memcaslap"', "memcaslap knows no rate"),
        ('arrivals = "fixed"', "give a rate, too"),
        ('rate = 10\narrivals = "regular"', "'poisson', 'fixed' or 'bursts:N' are wanted, not 'regular'"),
        ('mix = "get"', "commands with weights"),
        ('mix = "get=1"\nwrite_ratio = 0.5', "leave out write_ratio"),
        ('preset = "smallvalue"\nvalue_size_bytes = 64', "says what value_size_bytes is"),
    ],
)
def test_what_cannot_be_meant_is_refused(fixed: str, says: str) -> None:
    text = f'schema = "weir.study/1"\nname = "a"\n[fixed]\n{fixed}\n[factors]\nclients = [1, 2]\n'
    with pytest.raises(FaultsError, match=says):
        parse_study(text)


def test_a_closed_loop_is_the_run_that_it_was() -> None:
    def hashed(fixed: str) -> str:
        made = parse_study(STUDY_TEXT.replace("[fixed]", f"[fixed]\n{fixed}"))
        return content_sha256(made, schedule(made)[0], {})

    assert hashed("") == hashed('arrivals = "poisson"\nttl_s = 0')
    assert len({hashed(""), hashed("rate = 10"), hashed('rate = 10\narrivals = "fixed"'), hashed("ttl_s = 9")}) == 4
    rates = parse_study('schema = "weir.study/1"\nname = "a"\n[factors]\nrate = [1000, 2500.5]\n')
    assert [cell.name for cell in cells_of(rates)] == ["a-X1000", "a-X2500.5"]


STUDY = """
schema = "weir.study/1"
name = "open"
[fixed]
path = "direct"
keys = 200
clients = 4
[factors]
rate = [500, 50_000_000]
[plan]
repetitions = 2
warmup_s = 0.1
measured_s = 0.5
attempts = 10
"""


@needs_programs
def test_an_offered_rate_is_kept_or_reported_as_above_the_capacity(tmp_path: Path) -> None:
    file, sweep = tmp_path / "open.toml", tmp_path / "sweep"
    # More than one connection can carry that waits for each answer, and yet so few that the backlog is soon sent.
    text = STUDY.replace("50_000_000", "100_000").replace("clients = 4", "clients = 1")
    file.write_text(text.replace("measured_s = 0.5", "measured_s = 0.2"))
    outcome = run_study(file, sweep, Executables(WEIR, "memcached"), ["test"], Silent())
    runs = [run for run in read_runs(sweep)[0] if run.meta.verdict.valid]
    assert outcome.given_up == [], [run.meta.verdict.reasons for run in read_runs(sweep)[0]]
    frame = load_sweep(sweep).query("valid").set_index("rate")
    assert frame.loc[500, "offered_rate_rps"].to_list() == pytest.approx([500, 500], rel=0.4)
    assert "law_deviation_percent" not in frame
    for run in runs:
        assert run.load is not None
        assert run.load.scheduled is not None
        over = any("it is above the capacity" in flag for flag in run.meta.verdict.flags)
        assert over or run.meta.settings.rate == 500
        assert all("interactive law" not in flag for flag in run.meta.verdict.flags)
    assert "requests/s" in build_report(sweep).answer
    assert not verify_sweep(sweep / "report.html").differences
    both = merge_records([run.load for run in runs[:1] * 2 if run.load is not None])
    assert runs[0].load is not None
    one = runs[0].load.scheduled
    assert isinstance(one, LoadSchedule)
    assert both.scheduled is not None
    assert both.scheduled.arrivals == 2 * one.arrivals


@needs_programs
@pytest.mark.parametrize("fixed", ['mix = "get=0.6,incr=0.2,delete=0.2"', 'preset = "facebook-etc"\nrate = 1000'])
def test_all_keys_of_a_mix_or_a_preset_are_deleted_from_a_target(tmp_path: Path, fixed: str) -> None:
    server = Memcached()
    try:
        text = (
            STUDY.replace('path = "direct"', fixed)
            .replace("clients = 4\n", "")
            .replace("rate = [500, 50_000_000]", "clients = [2]")
        )
        file = tmp_path / "open.toml"
        file.write_text(
            text.replace("[fixed]", f'targets = ["{server.address}"]\n[gates]\nmiss_share_max = 1.0\n[fixed]', 1)
        )
        outcome = run_study(file, tmp_path / "sweep", Executables(WEIR, "memcached"), ["test"], Silent())
        assert outcome.given_up == []
        assert server.count("cmd_get") > 100
        assert server.count("curr_items") == 1
    finally:
        server.popen.kill()
        server.popen.wait()


def test_misses_are_a_fault_unless_the_study_allows_them(tmp_path: Path) -> None:
    from synthetic import World, write_sweep

    text = STUDY_TEXT + "[gates]\nmiss_share_max = 0.001\n"
    write_sweep(tmp_path / "few", World(misses=3), text)
    write_sweep(tmp_path / "none", World(misses=3))
    assert load_sweep(tmp_path / "few")["valid"].all()
    assert not load_sweep(tmp_path / "none")["valid"].any()
