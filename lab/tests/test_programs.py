"""A run's content hash knows every program that takes part in it: changed ones make their runs stale, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synthetic import STUDY_TEXT
from test_report_subjects import study_text
from test_sweep import Bench
from weir_lab.bench.programs.identity import files_named, identify_programs
from weir_lab.bench.running import Executables
from weir_lab.bench.running import attempts as attempts_module
from weir_lab.bench.sweep import run as run_module
from weir_lab.bench.sweep.run import run_study
from weir_lab.design import content_sha256, parse_study, schedule

if TYPE_CHECKING:
    from weir_lab.design import Study

BOTH = study_text('path = "proxy"\n', 'clients = [1]\nsubject = ["weir", "wrapper"]\n')


class Machine:
    """A folder with programs that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("weir", "memcached", "nutcracker", "memcaslap", "wrapper"):
            self.install(name, f"#!/bin/sh\necho {name} 1.0 $*\n")
        (folder / "wrapper.py").write_text("print('once')\n")
        (folder / "settings.conf").write_text("depth 1\n")

    def install(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def hashes(self, study: Study, memcached: str = "memcached") -> dict[str, str]:
        """Content hashes of the runs of a study, by run."""
        found = identify_programs(study, self.folder / "weir", memcached)
        return {run.name: content_sha256(study, run, found) for run in schedule(study)}

    def wrapped(self, *argv: str, text: str = BOTH) -> Study:
        listed = ", ".join(f'"{word}"' for word in argv)
        return parse_study(
            text.replace('argv = ["/bin/sh", "wrapper.sh", "{listen}", "{servers}"]', f"argv = [{listed}]")
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("argv", "changed"),
    [
        (("wrapper", "{listen}"), "wrapper"),
        (("./wrapper", "{listen}"), "wrapper"),
        (("python3", "wrapper.py", "{listen}"), "wrapper.py"),
        (("sh", "-c", "exec python3 wrapper.py {listen}"), "wrapper.py"),
        (("wrapper", "-c", "settings.conf"), "settings.conf"),
        (("wrapper", "--config=settings.conf"), "settings.conf"),
        (("wrapper", "@settings.conf"), "settings.conf"),
    ],
)
def test_a_changed_program_makes_its_own_runs_stale(machine: Machine, argv: tuple[str, ...], changed: str) -> None:
    study = machine.wrapped(*argv)
    before = machine.hashes(study)
    assert machine.hashes(study) == before
    with (machine.folder / changed).open("a") as file:
        file.write("# another line\n")
    after = machine.hashes(study)
    assert {name for name in before if before[name] != after[name]} == {name for name in before if "wrapper" in name}
    assert any("wrapper" in name for name in before)


def test_what_a_program_writes_is_no_part_of_it(machine: Machine) -> None:
    (machine.folder / "own.log").write_text("")
    study = machine.wrapped("wrapper", "--log=own.log", "-o", "own.log")
    before = machine.hashes(study)
    (machine.folder / "own.log").write_text("a run\n")
    assert machine.hashes(study) == before


@pytest.mark.parametrize("program", ["nutcracker", "memcaslap"])
@pytest.mark.parametrize("change", ["version", "build"])
def test_peers_are_known_by_version_and_file(machine: Machine, program: str, change: str) -> None:
    peers = study_text('path = "proxy"\nkey_size_bytes = 16\n', 'clients = [1]\nsubject = ["weir", "nutcracker"]\n')
    generators = study_text(
        'path = "proxy"\nkey_size_bytes = 16\n', 'clients = [1]\ngenerator = ["weir", "memcaslap"]\n'
    )
    study = parse_study(peers if program == "nutcracker" else generators)
    before = machine.hashes(study)
    machine.install(program, f"#!/bin/sh\necho {program} {'1.1' if change == 'version' else '1.0'} $*\n# built again\n")
    after = machine.hashes(study)
    assert {name for name in before if before[name] != after[name]} == {name for name in before if program in name}
    assert any(program in name for name in before)


def test_a_memcached_of_ones_own_is_known_by_its_file(machine: Machine) -> None:
    study = parse_study(STUDY_TEXT)
    path = str(machine.folder / "memcached")
    named, before = machine.hashes(study), machine.hashes(study, path)
    machine.install("memcached", "#!/bin/sh\necho memcached 1.0 $*\n# patched\n")
    assert machine.hashes(study) == named
    assert set(machine.hashes(study, path).values()).isdisjoint(before.values())


def test_without_other_programs_a_run_keeps_the_hash_it_always_had(machine: Machine) -> None:
    study = parse_study(STUDY_TEXT)
    found = identify_programs(study, machine.folder / "weir", "memcached")
    assert set(found) == {"weir", "memcached"}
    more = {**found, "[subjects.wrapper] wrapper": "f" * 64, "nutcracker": "0.5", "memcaslap": "1.0"}
    assert [content_sha256(study, run, more) for run in schedule(study)] == list(machine.hashes(study).values())


def test_a_changed_wrapper_is_run_again(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(attempts_module, "make_run", bench.make_run)
    monkeypatch.setattr(run_module, "abilities_of", lambda _weir: None)
    text = BOTH.replace('argv = ["/bin/sh", "wrapper.sh", "{listen}", "{servers}"]', 'argv = ["wrapper", "{listen}"]')
    given = tmp_path / "given.toml"
    given.write_text(text)
    programs = Executables(tmp_path / "weir", "memcached")

    def made() -> int:
        return run_study(given, tmp_path / "sweep", programs, ["test"], bench).made

    assert made() == 6
    assert made() == 0
    machine.install("wrapper", "#!/bin/sh\necho slower\n")
    assert made() == 3
    assert made() == 0


def test_words_that_may_be_files() -> None:
    assert set(files_named("sh 'two words' --x=y@z")) >= {"two words", "y", "z"}
    assert list(files_named("it's")) == ["it's"]
