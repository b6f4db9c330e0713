"""Hosts from EnOSlib: its providers reserve machines, `hosts_file_of` writes them down for the testbed ``hosts``.

EnOSlib (the optional extra ``hosts``) is asked for machines and nothing else; what runs on them, and what is measured, is this lab's.
`emulation_plan` is what its service ``Netem`` would need for the links of a topology; docs/decisions/0006-enoslib.md says why
that is a plan to be looked at and no button.
"""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir_lab.bench.testbeds.hosts import HostEntry, HostsFile
from weir_lab.errors import StudyError, TestbedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from weir_lab.design.topology import Topology

__all__ = [
    "EmulatedLink",
    "EnosHost",
    "Reservation",
    "emulation_plan",
    "hosts_file_of",
    "hosts_file_text",
    "load_reservation",
    "reserve",
]

_TIERS = ("client", "proxy", "server")
_MISSING = (
    "EnOSlib is not installed: install weir-lab with its extra hosts (pip install 'weir-lab[hosts]'), "
    "or write the file of hosts by hand."
)


class EnosHost(Protocol):
    """The part of ``enoslib.Host`` that is read."""

    address: str
    user: str | None
    keyfile: str | None
    port: int | None


class Reservation(BaseModel):
    """A file for EnOSlib: a provider, and its configuration as its own documentation has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["Static", "G5k", "VMonG5k", "Vagrant", "Distem"]
    conf: Annotated[dict[str, Any], Field(min_length=1)]


@dataclass(frozen=True)
class EmulatedLink:
    """Options of ``tc netem`` on everything that a machine sends."""

    machine: str
    options: str


def load_reservation(path: Path) -> Reservation:
    """Read and check a file for EnOSlib."""
    try:
        return Reservation.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise StudyError(f"{path}: {error}. docs/measure/testbeds.md has an example for EnOSlib.") from error


def reserve(reservation: Reservation) -> HostsFile:
    """Let EnOSlib's provider get the machines; they stay reserved until its own walltime or ``destroy``."""
    try:
        enoslib = importlib.import_module("enoslib")
    except ImportError as error:
        raise TestbedError(_MISSING) from error
    try:
        configuration = getattr(enoslib, f"{reservation.provider}Conf").from_dictionary(reservation.conf)
        roles, _networks = getattr(enoslib, reservation.provider)(configuration).init()
    except AttributeError as error:
        raise TestbedError(f"This EnOSlib has no provider {reservation.provider}: {error}.") from error
    except Exception as error:  # EnOSlib and what is below it raise all kinds
        raise TestbedError(f"EnOSlib's provider {reservation.provider} gave no machines: {error}") from error
    return hosts_file_of({tier: list(roles[tier]) for tier in _TIERS if tier in roles})


def hosts_file_of(roles: Mapping[str, Sequence[EnosHost]]) -> HostsFile:
    """Machines by EnOSlib's roles ``client``, ``proxy`` and ``server``, numbered in its order."""
    entries, options = [], dict[tuple[str, str], None]()
    for tier in _TIERS:
        for number, host in enumerate(roles.get(tier, ())):
            login = f"{host.user}@{host.address}" if host.user else host.address
            entries.append(HostEntry(machine=f"{tier}-{number}", address=host.address, login=login))
            options |= {("-i", host.keyfile): None} if host.keyfile else {}
            options |= {("-p", str(host.port)): None} if host.port else {}
    if not entries:
        raise StudyError(
            f"EnOSlib gave no machine with one of the roles {', '.join(_TIERS)}: name them in its configuration."
        )
    if len([flag for flag, _ in options if flag == "-p"]) > 1:
        raise StudyError("The hosts have SSH on different ports: name each in ~/.ssh/config, and leave port out.")
    return HostsFile(ssh_options=[word for pair in options for word in pair], host=entries)


def hosts_file_text(hosts: HostsFile) -> str:
    """The file that ``--hosts`` takes."""
    lines = [f"ssh_options = {_words(hosts.ssh_options)}"]
    for entry in hosts.host:
        lines += ["", "[[host]]"]
        lines += [f'{name} = "{_escaped(value)}"' for name, value in entry.model_dump().items()]
    return "\n".join(lines) + "\n"


def emulation_plan(topology: Topology, hosts: HostsFile) -> list[EmulatedLink]:
    """One rule per machine, on what it sends to anybody: the studies' links, whose limit is the sender's.

    The delay of both machines of a pair adds up to the round trip, as on ``netns``. A host that is two machines has one link and cannot
    be two.
    """
    logins = [entry.login for entry in hosts.host]
    twice = sorted({login for login in logins if logins.count(login) > 1})
    if twice:
        raise StudyError(f"{', '.join(twice)} is several machines, and has one link: links cannot be emulated there.")
    return [
        EmulatedLink(
            entry.machine, f"delay {topology.delay_ms(entry.machine):g}ms rate {topology.mbit_s(entry.machine):g}mbit"
        )
        for entry in hosts.host
    ]


def _words(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{_escaped(word)}"' for word in words) + "]"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
