"""Machines that EnOSlib reserved, as a file of hosts."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from weir_lab.bench.testbeds.enoslib import emulation_plan, hosts_file_of, hosts_file_text
from weir_lab.bench.testbeds.hosts import load_hosts
from weir_lab.cli import app
from weir_lab.design.topology import Topology
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

ASKED = """
provider = "Static"
[conf.resources]
networks = []
machines = [
  { roles = ["client"], address = "192.0.2.10", user = "weir", keyfile = "key" },
  { roles = ["server"], address = "192.0.2.12", user = "weir", keyfile = "key" },
  { roles = ["server", "other"], address = "192.0.2.13", user = "weir", keyfile = "key" },
]
"""


@dataclass
class Host:
    """What is read of EnOSlib's host."""

    address: str
    user: str | None = None
    keyfile: str | None = None
    port: int | None = None


def test_roles_become_machines_and_the_file_is_one_that_can_be_read(tmp_path: Path) -> None:
    roles = {"server": [Host("10.0.0.2", port=2222), Host("10.0.0.3")], "client": [Host("10.0.0.1", "me", 'a "key"')]}
    found = hosts_file_of(roles)
    assert [(entry.machine, entry.login) for entry in found.host] == [
        ("client-0", "me@10.0.0.1"),
        ("server-0", "10.0.0.2"),
        ("server-1", "10.0.0.3"),
    ]
    assert found.ssh_options == ["-i", 'a "key"', "-p", "2222"]
    (tmp_path / "hosts.toml").write_text(hosts_file_text(found))
    assert load_hosts(tmp_path / "hosts.toml") == found


def test_what_cannot_be_a_file_of_hosts_is_refused() -> None:
    with pytest.raises(StudyError, match="no machine with one of the roles client, proxy, server"):
        hosts_file_of({"other": [Host("10.0.0.1")]})
    with pytest.raises(StudyError, match="different ports"):
        hosts_file_of({"client": [Host("10.0.0.1", port=1), Host("10.0.0.2", port=2)]})


def test_a_rule_for_every_machine_is_planned() -> None:
    found = hosts_file_of({"client": [Host("10.0.0.1")], "proxy": [Host("10.0.0.2")], "server": [Host("10.0.0.3")]})
    plan = {link.machine: link.options for link in emulation_plan(Topology(), found)}
    assert plan == {
        "client-0": "delay 0.32ms rate 201mbit",
        "proxy-0": "delay 0.35ms rate 804mbit",
        "server-0": "delay 0.38ms rate 101mbit",
    }
    one = hosts_file_of({"client": [Host("10.0.0.1")], "server": [Host("10.0.0.1")]})
    with pytest.raises(StudyError, match=r"10.0.0.1 is several machines"):
        emulation_plan(Topology(), one)


def invoke(folder: Path, text: str) -> Any:
    file = folder / "asked.toml"
    file.write_text(text)
    return CliRunner().invoke(app, ["reserve", str(file), "--out", str(folder / "hosts.toml")])


def stand_in(**names: Any) -> types.ModuleType:
    module = types.ModuleType("enoslib")
    for name, value in names.items():
        setattr(module, name, value)
    return module


def test_a_provider_is_asked_and_its_failure_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class StaticConf:
        @staticmethod
        def from_dictionary(conf: dict[str, Any]) -> list[dict[str, Any]]:
            return list(conf["resources"]["machines"])

    class Static:
        def __init__(self, machines: list[dict[str, Any]]) -> None:
            self.machines = machines

        def init(self) -> tuple[dict[str, list[Host]], None]:
            roles: dict[str, list[Host]] = {}
            for machine in self.machines:
                for role in machine.pop("roles"):
                    roles.setdefault(role, []).append(Host(**machine))
            return roles, None

    monkeypatch.setitem(sys.modules, "enoslib", stand_in(StaticConf=StaticConf, Static=Static))
    done = invoke(tmp_path, ASKED.replace(', "other"', ""))
    assert done.exit_code == 0, done.output
    assert [entry.machine for entry in load_hosts(tmp_path / "hosts.toml").host] == ["client-0", "server-0", "server-1"]
    again = invoke(tmp_path, ASKED)
    assert "nothing is overwritten" in str(again.exception)
    (tmp_path / "hosts.toml").unlink()
    assert "has no provider G5k" in str(invoke(tmp_path, ASKED.replace("Static", "G5k")).exception)
    assert "gave no machines" in str(invoke(tmp_path, ASKED.replace("resources", "else")).exception)
    assert "docs/measure/testbeds.md" in str(invoke(tmp_path, ASKED.replace("Static", "Nothing")).exception)


def test_without_enoslib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "enoslib", None)
    assert "weir-lab[hosts]" in str(invoke(tmp_path, ASKED).exception)


@pytest.mark.filterwarnings("default")  # its own, and those of what it stands on
def test_the_real_one_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("enoslib", reason="the extra hosts is not installed")
    done = invoke(tmp_path, ASKED)
    assert done.exit_code == 0, done.output
    found = load_hosts(tmp_path / "hosts.toml")
    assert [entry.login for entry in found.host] == ["weir@192.0.2.10", "weir@192.0.2.12", "weir@192.0.2.13"]
    assert found.ssh_options == ["-i", "key"]
