"""The units in deploy/systemd: systemd takes them, little is open to it, and the program knows what it is given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, ROOT, weir_binary

FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "weir.service"
SOCKET = FOLDER / "weir.socket"

# What `systemd-analyze security` may make of the unit, in tenths: 0 nothing is open to it, 100 everything. systemd 252
# makes 16 of it, most of which is the network; others count a little differently.
EXPOSURE_MAX = 25


def systemd(name: str, since: int) -> str:
    """A program of systemd, if it is installed and not older."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed, so nobody can say what systemd makes of the unit")
    version = re.search(r"^systemd (\d+)", run(found, "--version").stdout)
    assert version
    if int(version[1]) < since:
        pytest.skip(f"{name} is of systemd {version[1]}, and does not do this before {since}")
    return found


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with the program where it is now, instead of where it will be installed."""
    copy = tmp_path / UNIT.name
    text, count = re.subn(r"^(Exec\w+=)weir ", rf"\g<1>{weir_binary()} ", UNIT.read_text(), flags=re.MULTILINE)
    assert count == 2
    copy.write_text(text)
    return copy


def test_systemd_takes_the_unit(unit: Path) -> None:
    done = run(systemd("systemd-analyze", 247), "verify", "--man=no", unit)
    # It reads the units that this one names, too, and says what it finds there.
    said = [line for line in done.stderr.splitlines() if "weir" in line]
    assert (done.returncode, said) == (0, [])


def test_systemd_takes_the_socket_and_knows_its_service(unit: Path) -> None:
    copy = unit.parent / SOCKET.name
    copy.write_text(SOCKET.read_text())
    done = run(systemd("systemd-analyze", 247), "verify", "--man=no", copy)
    said = [line for line in done.stderr.splitlines() if "weir" in line]
    assert (done.returncode, said) == (0, [])
    copy.write_text(SOCKET.read_text().replace("Backlog=", "Backlogs="))
    assert "Backlogs" in run(systemd("systemd-analyze", 247), "verify", "--man=no", copy).stderr


def test_the_socket_has_the_defaults_of_the_settings_that_it_stands_for() -> None:
    """A file that says nothing of them fits to it."""
    text = known("proxy")
    for option, setting in [("ListenStream", "listen"), ("Backlog", "listen-backlog")]:
        default = re.search(rf"--{setting} [\s\S]*?\[default:\s+(\S+)\]", text)
        said = re.search(rf"^{option}=(.*)$", SOCKET.read_text(), re.MULTILINE)
        assert default, setting
        assert said, option
        assert said[1] == default[1]


def test_systemd_does_not_take_a_unit_with_a_slip(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("LimitNOFILE=", "LimitNOFILES="))
    done = run(systemd("systemd-analyze", 247), "verify", "--man=no", unit)
    assert "LimitNOFILES" in done.stderr


def exposure(unit: Path) -> int:
    """In tenths, as `systemd-analyze security` counts it."""
    done = run(systemd("systemd-analyze", 250), "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"exposure level for \S+: (\d+)\.(\d)", done.stdout)
    assert found, done.stdout + done.stderr
    return int(found[1]) * 10 + int(found[2])


def test_little_is_open_to_the_service(unit: Path) -> None:
    assert exposure(unit) <= EXPOSURE_MAX
    unit.write_text(unit.read_text().replace("SystemCallFilter=", "#SystemCallFilter="))
    assert exposure(unit) > EXPOSURE_MAX


def commands() -> list[list[str]]:
    """What the unit runs of weir: the words of each command."""
    lines = re.findall(r"^Exec\w+=weir (.*)$", UNIT.read_text(), re.MULTILINE)
    return [line.split() for line in lines]


def known(command: str) -> str:
    done = run(weir_binary(), command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_knows_each_flag_of_the_unit() -> None:
    assert [words[0] for words in commands()] == ["proxy", "check"]
    for command, *words in commands():
        flags = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert flags <= set(re.findall(r"--[\w-]+", known(command)))


def test_both_commands_of_a_reload_have_the_file_of_the_start() -> None:
    assert {word for words in commands() for word in words if word.startswith("/")} == {"/etc/weir/weir.toml"}


def test_the_program_knows_each_variable_of_the_defaults() -> None:
    given = re.findall(r"^#?(WEIR_\w+)=", (FOLDER / "weir.default").read_text(), re.MULTILINE)
    assert given
    flags = re.findall(r"--([\w-]+)", known("proxy"))
    assert set(given) <= {f"WEIR_{flag.replace('-', '_').upper()}" for flag in flags}


def test_a_stop_has_longer_than_the_drain() -> None:
    """With the delay that the defaults propose, too."""

    def seconds(pattern: str, text: str) -> int:
        found = re.search(pattern, text, re.MULTILINE)
        assert found, pattern
        return int(found[1])

    allowed = seconds(r"^TimeoutStopSec=(\d+)s$", UNIT.read_text())
    delay = seconds(r"^#WEIR_DRAIN_DELAY=(\d+)s$", (FOLDER / "weir.default").read_text())
    drain = seconds(r"--drain-timeout [\s\S]*?\[default:\s+(\d+)s\]", known("proxy"))
    assert allowed > delay + drain


def test_the_user_of_the_service_is_made(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("systemd-sysusers gives files away, which only root may do")
    (tmp_path / "etc").mkdir()
    done = run(systemd("systemd-sysusers", 247), f"--root={tmp_path}", FOLDER / "weir.sysusers")
    assert done.returncode == 0, done.stderr
    for name in re.findall(r"^(?:User|Group)=(\w+)$", UNIT.read_text(), re.MULTILINE):
        assert re.search(rf"^{name}:", (tmp_path / "etc" / "passwd").read_text(), re.MULTILINE)
        assert re.search(rf"^{name}:", (tmp_path / "etc" / "group").read_text(), re.MULTILINE)
