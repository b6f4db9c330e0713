"""Which weir binary and which study are meant: that of a clone, that of a wheel, that on the PATH, or the one that is named."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir_lab import cli
from weir_lab.bench.programs import installed
from weir_lab.bench.programs.installed import find_study, find_weir, not_there


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Where weir may be. The working directory is the root of a clone in which nothing is built."""
    clone, wheel, path = (tmp_path / name for name in ("clone", "wheel", "path"))
    for folder in (clone / "target/release", clone / "studies", wheel / "studies", path):
        folder.mkdir(parents=True)
    monkeypatch.chdir(clone)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(wheel) if name == "scripts" else "")
    monkeypatch.setattr(installed, "_STUDIES_OF_WHEEL", wheel / "studies")
    return {"clone": Path("target/release/weir"), "wheel": wheel / "weir", "path": path / "weir"}


def make(program: Path) -> None:
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


def test_the_build_of_a_clone_comes_first_then_the_wheel_then_the_path(places: dict[str, Path]) -> None:
    for place in reversed(places.values()):
        make(place)
        assert find_weir() == place


def test_a_binary_that_is_named_is_meant_even_if_it_is_not_there(places: dict[str, Path]) -> None:
    for place in places.values():
        make(place)
    assert find_weir(Path("other/weir")) == Path("other/weir")
    assert "other/weir is not there" in str(not_there(Path("other/weir")))


@pytest.mark.usefixtures("places")
def test_without_any_the_error_says_how_to_get_one() -> None:
    for weir in (find_weir(), find_weir().absolute()):
        said = str(not_there(weir))
        assert said.startswith("target/release/weir is not there")
        assert all(remedy in said for remedy in ("make build", "docs/operate/install.md", "--bin"))


def test_a_study_that_comes_along_is_known_by_its_name(places: dict[str, Path]) -> None:
    clone, wheel = Path("studies/demo.toml"), places["wheel"].parent / "studies" / "demo.toml"
    assert find_study(Path("demo")) == Path("demo")
    wheel.write_text("of the wheel")
    assert find_study(Path("demo")) == wheel
    clone.write_text("of the clone")
    assert find_study(Path("demo")) == clone
    assert find_study(Path("other/demo")) == Path("other/demo")
    Path("demo").write_text("named so")
    assert find_study(Path("demo")) == Path("demo")


def test_commands_take_the_name_of_a_study(places: dict[str, Path]) -> None:
    demo = Path(__file__).parents[2] / "studies" / "demo.toml"
    shutil.copy(demo, places["wheel"].parent / "studies" / "demo.toml")
    checked = CliRunner().invoke(cli.app, ["check", "demo"])
    assert checked.exit_code == 0
    assert "demo.toml: sound" in checked.output
