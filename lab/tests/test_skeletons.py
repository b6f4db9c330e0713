"""The studies that `weir-lab new` writes run as they are; so do the examples of the docs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from test_run import WEIR, needs_programs
from test_targets import Memcached
from weir_lab import cli
from weir_lab.bench.planning import doubts, estimate, shape_of
from weir_lab.bench.running import Executables
from weir_lab.bench.running.attempts import Bench, make_attempt, new_folder
from weir_lab.bench.testbeds import TestbedKind, open_testbed
from weir_lab.design import Settings, cells_of, load_study, parse_study, schedule
from weir_lab.design.files.skeletons import SkeletonKind, skeleton
from weir_lab.records import read_run

if TYPE_CHECKING:
    from weir_lab.records import Run

PAGES = [Path(__file__).parents[2] / "docs" / "measure" / name for name in ("own-system.md", "lab.md", "find.md")]
PROGRAMS = {SkeletonKind.TWEMPROXY: "nutcracker", SkeletonKind.HAPROXY: "haproxy"}


def run_of(folder: Path, text: str) -> Run:
    """One valid run of the study's first cell, with short phases; a machine that is too busy may need several attempts."""
    for old, new in (("warmup_s = 0.5", "warmup_s = 0.1"), ("measured_s = 2.0", "measured_s = 0.4")):
        assert old in text
        text = text.replace(old, new)
    study = parse_study(text)
    chosen = next(run for run in schedule(study) if run.cell.settings.clients == 1 and "direct" not in run.cell.name)
    with open_testbed(TestbedKind.LOCAL, study.topology, shape_of(cells_of(study))) as testbed:
        bench = Bench(testbed, Executables(WEIR, "memcached"), {"memcached": "any"}, None, profile=False)
        reasons = []
        for attempt in range(1, 11):
            made = new_folder(folder, chosen.name)
            meta = make_attempt(study, chosen, attempt, made, bench)
            if meta.verdict.valid:
                return read_run(made)
            reasons += meta.verdict.reasons
    raise AssertionError(reasons)


@pytest.mark.parametrize("kind", SkeletonKind)
def test_a_skeleton_is_sound_and_names_every_setting_with_its_default(kind: SkeletonKind) -> None:
    text = skeleton(kind, "mine", "mine.toml")
    made = parse_study(text)
    assert made.name == "mine"
    assert not re.search(r"\d", made.title)  # it would be wrong as soon as the levels are changed
    assert estimate(made).seconds_max < 120
    assert [doubt for doubt in doubts(made) if "repetitions" not in doubt] == []
    if kind is not SkeletonKind.RUNNING:
        given = {*made.fixed, *made.factors}
        commented = set(re.findall(r"^# ([a-z_]+) = ", text, re.MULTILINE))
        assert set(Settings.model_fields) <= given | commented
    # What stands in comments may be used: without its sign each line is a setting that the study takes.
    for line in re.findall(r"^# ([a-z_]+ = .*?) +# .*$", text, re.MULTILINE):
        name = line.split(" = ")[0]
        if name not in {"workers", "readers", "clients_per_thread", "multiget", "attempts", "seed"}:
            assert parse_study(text.replace("[fixed]", f"[fixed]\n{line}\n#", 1)).fixed[name] is not None


@needs_programs
@pytest.mark.parametrize(
    "kind", [kind for kind in SkeletonKind if kind not in (SkeletonKind.WEIR, SkeletonKind.RUNNING)]
)
def test_a_skeleton_runs_as_it_is(tmp_path: Path, kind: SkeletonKind) -> None:
    program = PROGRAMS.get(kind, "memcached")
    if shutil.which(program) is None:
        pytest.skip(f"needs {program} (scripts/setup bench installs haproxy)")
    text = skeleton(kind, "mine", "mine.toml")
    if kind is SkeletonKind.MEMCACHED:
        text = text.replace("clients = [1", "server_threads = [1, 2]\nclients = [1")
    run = run_of(tmp_path, text)
    assert run.load is not None
    assert run.load.requests > 0
    started = [command.argv[0] for command in run.meta.commands if command.role == "proxy"]
    assert started == ([program] if kind in PROGRAMS else [])
    if kind is SkeletonKind.TWEMPROXY:
        written = (run.folder / "proxy.nutcracker.yml").read_text()
        assert len(re.findall(r"^    - 127\.0\.0\.1:\d+:1$", written, re.MULTILINE)) == 3
        assert "{" not in written


@needs_programs
def test_the_skeleton_for_what_runs_already_measures_it(tmp_path: Path) -> None:
    server = Memcached()
    try:
        run = run_of(tmp_path, skeleton(SkeletonKind.RUNNING, "mine", "mine.toml", [server.address]))
        assert run.load is not None
        assert run.load.config.targets == [server.address]
        assert server.count("curr_items") == 1
    finally:
        server.popen.kill()
        server.popen.wait()


def test_new_writes_a_file_once_and_says_what_is_next(tmp_path: Path) -> None:
    file = tmp_path / "My study.toml"
    said = CliRunner().invoke(cli.app, ["new", str(file), "--of", "twemproxy"])
    assert said.exit_code == 0, said.output
    assert "Next: weir-lab run" in said.output
    assert load_study(file).name == "my-study"
    before = file.read_text()
    again = CliRunner().invoke(cli.app, ["new", str(file)])
    assert "is there already" in str(again.exception)
    assert file.read_text() == before


def test_new_for_a_target_names_it_and_leaves_no_file_that_cannot_run(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    assert CliRunner().invoke(cli.app, ["new", str(file), "--target", "10.0.0.5:11211"]).exit_code == 0
    assert load_study(file).targets == ["10.0.0.5:11211"]
    other = tmp_path / "b.toml"
    assert '"host:port" is wanted' in str(
        CliRunner().invoke(cli.app, ["new", str(other), "--target", "10.0.0.5"]).exception
    )
    assert not other.exists()


def test_the_studies_of_the_docs_are_sound() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"```toml\n(schema.*?)```", text, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        assert doubts(parse_study(block)) == []


def test_a_plan_without_the_binary_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "mine.toml").write_text(skeleton(SkeletonKind.MEMCACHED, "mine", "mine.toml"))
    said = CliRunner().invoke(cli.app, ["plan", "mine.toml"])
    assert said.exit_code == 0
    assert (
        "target/release/weir is not there, and weir is neither installed with weir-lab nor on the PATH" in said.output
    )
    assert "Build it with `make build`" in said.output
    assert "or name it with --bin." in said.output
