"""The proxy under test: its command line and files, from the settings of a cell; what is filled into them, `filling` knows.

Also knows what a given ``weir`` binary can do, so that a study that asks for more is refused before it runs. Pure but for
`abilities_of`, which asks the binary. Read `proxy_command` and `refusals` first.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weir_lab.bench.machine.facts import executable_output
from weir_lab.bench.programs.filling import Filling
from weir_lab.bench.programs.generators import MEMCASLAP, generator_refusals
from weir_lab.bench.programs.installed import is_there, not_there
from weir_lab.design import Engine, RequestPath

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.design import Settings, Study, Subject

__all__ = [
    "CONFIG",
    "NUTCRACKER",
    "WEIR",
    "Abilities",
    "ProxyPlace",
    "abilities_of",
    "asks_for_more",
    "file_names",
    "proxy_command",
    "proxy_files",
    "proxy_records",
    "refusals",
    "subject_files",
]

NUTCRACKER = "nutcracker"
CONFIG = "conf"
"""Name of the file that ``{config}`` means: ``proxy.conf`` in the folder of the run."""
WEIR = "weir"
# Name of its pool, under which its counters stand.
_NUTCRACKER_POOL = "studied"
# Without ejection: a server that is slow for a moment must not lose its keys. Connections are made before the first request.
_NUTCRACKER_CONFIG = """{pool}:
  listen: {listen}
  hash: fnv1a_64
  distribution: {distribution}
  auto_eject_hosts: false
  preconnect: true
  timeout: {timeout_ms}
  server_connections: 1
  servers:
{servers}
"""
_NUTCRACKER_PLACEMENTS = {None: "ketama", "twemproxy/ketama": "ketama", "twemproxy/modula": "modula"}
# How long proxies wait for a server, as `weir load` waits for them. A run with errors is invalid: with the 500 ms of weir's own default,
# a machine that stalls for a moment would decide what is counted, and so would a study at a fifth of its speed.
_TIMEOUT_MS = 5000
# How often it sums up its counters: often enough that its answer at the end of a run is soon complete.
_NUTCRACKER_STATS_MS = 100
_FLAG = re.compile(r"^\s+(?:-\w, )?(--[a-z-]+)", re.MULTILINE)
_OWN_FLAGS = {
    "--engine": "engine",
    "--workers": "workers",
    "--readers": "readers",
    "--replicas": "replicas",
    "--crew": "crew",
    "--multiget": "multiget",
    "--placement": "placement",
}


@dataclass(frozen=True)
class Abilities:
    """What the help of ``weir proxy`` says: its flags, and the engines among the values of ``--engine``."""

    flags: frozenset[str]
    engines: frozenset[Engine]


@dataclass(frozen=True)
class ProxyPlace:
    """Where a proxy listens, where it answers questions about itself, and the servers behind it."""

    listen: str
    admin: str
    servers: tuple[str, ...]


def abilities_of(weir: Path) -> Abilities:
    """Ask a binary. `TestbedError` where there is none: a path that is not absolute begins in the working directory."""
    if not is_there(weir) and shutil.which(weir) is None:
        raise not_there(weir)
    return _abilities(executable_output([str(weir), "proxy", "--help"]))


def asks_for_more(settings: Sequence[Settings]) -> bool:
    """Whether a cell needs a flag of ``weir proxy`` that an early binary may not have."""
    return any(cell.path is RequestPath.PROXY and cell.subject == WEIR and _own_flags(cell) for cell in settings)


def refusals(study: Study, settings: Sequence[Settings], abilities: Abilities | None) -> list[str]:
    """Why these cells cannot run with this binary and the programs of this machine; ``None`` leaves the binary out."""
    found: dict[str, None] = {}
    proxied = [cell for cell in settings if cell.path is RequestPath.PROXY]
    for cell in proxied:
        if cell.subject == WEIR:
            found.update(dict.fromkeys(_missing_in_weir(cell, abilities) if abilities else []))
        elif cell.subject in study.subjects:
            found.update(dict.fromkeys(_missing_program(study.subjects[cell.subject].program)))
        elif cell.subject == NUTCRACKER:
            found.update(dict.fromkeys(_missing_program(NUTCRACKER)))
        else:
            known = ", ".join([WEIR, NUTCRACKER, *study.subjects])
            found[f"there is no subject {cell.subject}: there are {known}; others stand under [subjects.NAME]"] = None
        if cell.subject != WEIR:
            found.update(dict.fromkeys(_settings_of_weir_alone(cell)))
    for cell in settings:
        found.update(dict.fromkeys(generator_refusals(cell)))
        if cell.generator == MEMCASLAP:
            found.update(dict.fromkeys(_missing_program(MEMCASLAP)))
    return list(found)


def proxy_command(
    weir: Path, settings: Settings, subject: Subject | None, place: ProxyPlace, files: Mapping[str, str]
) -> list[str]:
    """Command line of the proxy; `files` are the paths of what `proxy_files` gives, by name."""
    if settings.subject == WEIR:
        return _weir_proxy(weir, settings, place)
    if subject is None:
        host, _, port = place.admin.rpartition(":")
        stats = ["-a", host, "-s", port, "-i", str(_NUTCRACKER_STATS_MS)]
        config = files[CONFIG]
        return [NUTCRACKER, "-c", config, "-o", f"{config}.log", "-p", f"{config}.pid", *stats]
    return _filling(settings, place, files).argv(subject)


def proxy_files(
    settings: Settings, subject: Subject | None, place: ProxyPlace, files: Mapping[str, str]
) -> dict[str, str]:
    """Texts of the proxy's files by name, which may tell each other's paths; `CONFIG` is its configuration."""
    if settings.subject == WEIR:
        return {}
    if subject is None:
        servers = "\n".join(f"    - {server}:1" for server in place.servers)
        distribution = _NUTCRACKER_PLACEMENTS[settings.placement]
        text = _NUTCRACKER_CONFIG.format(
            pool=_NUTCRACKER_POOL,
            listen=place.listen,
            distribution=distribution,
            servers=servers,
            timeout_ms=_TIMEOUT_MS,
        )
        return {CONFIG: text}
    filling = _filling(settings, place, files)
    return {name: filling.text(text) for name, text in subject_files(subject).items()}


def subject_files(subject: Subject) -> dict[str, str]:
    """Texts of a subject's files by name, before anything is filled in."""
    return {**({} if subject.config is None else {CONFIG: subject.config}), **subject.files}


def file_names(settings: Settings, subject: Subject | None) -> list[str]:
    """Names of the files that the proxy of a cell needs."""
    if settings.subject == WEIR:
        return []
    return [CONFIG] if subject is None else list(subject_files(subject))


def proxy_records(abilities: Abilities, windows: str, trace: str) -> list[str]:
    """Flags that make ``weir proxy`` write its windows and a sample of its requests, as far as this binary can."""
    argv = ["--windows", windows] if "--windows" in abilities.flags else []
    if "--trace" in abilities.flags:
        argv += ["--trace", trace]
    return argv


def _weir_proxy(weir: Path, settings: Settings, place: ProxyPlace) -> list[str]:
    argv = [str(weir), "proxy", "--listen", place.listen, "--admin", place.admin, "--timeout", f"{_TIMEOUT_MS}ms"]
    if settings.engine is Engine.EVENT:
        argv += ["--threads", str(settings.proxy_threads)]
    elif settings.engine is Engine.POOL:
        argv += ["--engine", "pool", "--workers", str(settings.workers)]
    else:
        argv += ["--engine", "split", "--readers", str(settings.readers)]
    if settings.crew is not None and settings.engine is not Engine.EVENT:
        argv += ["--crew", settings.crew]
    if settings.replicas > 1:
        argv += ["--replicas", str(settings.replicas)]
    if settings.placement is not None:
        argv += ["--placement", settings.placement]
    if settings.multiget is not None:
        argv += ["--multiget", settings.multiget]
    for server in place.servers:
        argv += ["--server", server]
    return argv


def _abilities(text: str) -> Abilities:
    flags = frozenset(_FLAG.findall(text))
    described = re.search(r"^\s+--engine\b(.*?)(?=^\s+(?:-\w, )?--[a-z]|\Z)", text, re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"[a-z]+", described[1])) if described else set()
    return Abilities(flags, frozenset({Engine.EVENT, *(engine for engine in Engine if engine.value in words)}))


def _missing_in_weir(cell: Settings, abilities: Abilities) -> list[str]:
    if cell.engine not in abilities.engines:
        return [f"this weir has no engine {cell.engine}: build one that has (weir proxy --help lists them)"]
    return [
        f"this weir has no {flag}, which {_OWN_FLAGS[flag]} asks for: build one that has"
        for flag in _own_flags(cell)
        if flag not in abilities.flags
    ]


def _own_flags(cell: Settings) -> list[str]:
    return [word for word in _weir_proxy(Path("weir"), cell, ProxyPlace("", "", ())) if word in _OWN_FLAGS]


def _missing_program(program: str) -> list[str]:
    return [] if shutil.which(program) else [f"{program} is not installed, or not on PATH: install it"]


def _settings_of_weir_alone(cell: Settings) -> list[str]:
    others = {
        "engine": cell.engine is not Engine.EVENT,
        "replicas": cell.replicas > 1,
        "crew": cell.crew is not None,
        "multiget": cell.multiget is not None,
        "placement": cell.placement is not None and cell.subject != NUTCRACKER,
    }
    found = [
        f"{name} is a setting of weir; {cell.subject} knows nothing of it" for name, used in others.items() if used
    ]
    if cell.subject == NUTCRACKER and cell.placement not in _NUTCRACKER_PLACEMENTS:
        known = " and ".join(filter(None, _NUTCRACKER_PLACEMENTS))
        found.append(f"nutcracker knows no placement {cell.placement}: there are {known}")
    return found


def _filling(settings: Settings, place: ProxyPlace, files: Mapping[str, str]) -> Filling:
    return Filling(place.listen, place.admin, place.servers, settings, files)
