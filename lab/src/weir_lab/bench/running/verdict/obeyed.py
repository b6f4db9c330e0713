"""Whether a run had in force what its cell sets: read back from proxies, generators and servers at its end. Start with `disobeyed`. Pure.

Settings that a program ignores, changes or never got make a factor that was not varied. What a program does not tell is not checked:
records of other generators, other proxies, and of versions that did not report it yet.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weir_lab.bench.programs.subjects import WEIR
from weir_lab.design import Engine, RequestPath

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weir_lab.design import Settings
    from weir_lab.records import Run
    from weir_lab.records.formats import LoadRecord, Snapshot

__all__ = ["disobeyed"]

# Rates of several generators are shares of the whole, written as text.
_RATE_TOLERANCE = 1e-6
# Stations of the threaded engines whose threads a study sets.
# Queues in front of them.
_QUEUES = ("queue", "read-queue")
_CREWS = {Engine.POOL: ("workers", "workers"), Engine.SPLIT: ("readers", "readers")}


def disobeyed(run: Run) -> list[str]:
    """What differs from the cell, a sentence each; empty where all that is reported agrees."""
    settings = run.meta.settings
    found: list[str] = []
    for record in run.generators or ([run.load] if run.load is not None else []):
        found += _differences("the load generator", _of_load(record, settings))
    found += _rate(run, settings)
    if settings.path is RequestPath.PROXY and settings.subject == WEIR and run.end is not None:
        for snapshot in (run.end, *run.end.beside):
            found += _differences("the proxy", _of_proxy(snapshot, settings))
    for server in run.servers.servers if run.servers is not None else ():
        memory = settings.server_memory_mib << 20
        asked = (("threads", settings.server_threads, server.threads), ("bytes of memory", memory, server.memory_bytes))
        found += _differences(f"memcached at {server.address}", asked)
    return list(dict.fromkeys(found))


def _differences(who: str, reported: Iterable[tuple[str, object, object]]) -> list[str]:
    """``reported`` are names, what the cell sets, and what was in force (``None`` where that is not reported)."""
    return [
        f"{who} ran with {name} {was}, and the cell sets {wanted}"
        for name, wanted, was in reported
        if was not in (None, wanted)
    ]


def _of_load(record: LoadRecord, settings: Settings) -> list[tuple[str, object, object]]:
    config = record.config
    reported: list[tuple[str, object, object]] = [
        ("depth", settings.depth, config.depth),
        ("keys", settings.keys, config.keys),
    ]
    if config.pacing is not None:
        reported.append(("loop", "open" if settings.is_open else "closed", config.pacing.loop))
        reported.append(("arrivals", settings.arrivals, config.pacing.arrivals if settings.is_open else None))
    if settings.preset is not None:
        return reported  # it says the rest
    reported.append(("value size", settings.value_size_bytes, config.value_size_bytes))
    if settings.key_size_bytes:
        reported.append(("key size", settings.key_size_bytes, config.key_size_bytes))
    if settings.mix is None:
        reported.append(("keys per get", settings.multiget_keys, config.multiget_keys))
        share = config.write_ratio
        same = share is None or math.isclose(share, settings.write_ratio, abs_tol=1e-9)
        reported.append(("write ratio", settings.write_ratio, None if same else share))
    return reported


def _rate(run: Run, settings: Settings) -> list[str]:
    """The rate is shared out to the generators; a schedule of several steps is none that a study gives."""
    rates = [record.config.pacing.rate for record in run.generators if record.config.pacing is not None]
    if settings.rate is None or not rates or None in rates:
        return []
    try:
        offered = sum(float(rate) for rate in rates if rate is not None)
    except ValueError:
        return [f"the load generator ran with the rate {rates[0]}, and the cell sets {settings.rate:g}"]
    if math.isclose(offered, settings.rate, rel_tol=_RATE_TOLERANCE):
        return []
    return [f"the load generators ran with a rate of {offered:g} in all, and the cell sets {settings.rate:g}"]


def _of_proxy(snapshot: Snapshot, settings: Settings) -> list[tuple[str, object, object]]:
    config = snapshot.config
    if config is None:
        return []
    reported: list[tuple[str, object, object]] = [
        ("engine", str(settings.engine), config.engine),
        ("replicas", settings.replicas, config.replicas),
        ("servers", settings.servers, len(config.servers) if config.servers is not None else None),
    ]
    if settings.placement is not None:
        reported.append(("placement", settings.placement, config.placement))
    if settings.multiget is not None:
        reported.append(("multiget", settings.multiget, config.multiget))
    if settings.engine is Engine.EVENT:
        return [*reported, ("threads", settings.proxy_threads, config.threads)]
    if settings.crew is not None:
        reported.append(("crew", settings.crew, config.settings.crew or "not reported"))
    name, setting = _CREWS[settings.engine]
    crews = {one.threads for one in snapshot.stations if one.station == name}
    reported += ((name, getattr(settings, setting), threads) for threads in sorted(crews))
    return (
        reported if settings.crew == "adaptive" else [*reported, *_shrunk(snapshot, name, getattr(settings, setting))]
    )


def _shrunk(snapshot: Snapshot, name: str, wanted: object) -> list[tuple[str, object, object]]:
    """Queues of a crew some of which had to rest: of 64 workers 8 may have been at work. A writer has no crew."""
    least = [one.crew.least for one in snapshot.stations if one.crew is not None and one.station in _QUEUES]
    return [(f"at times as few {name} at once as", wanted, min(least))] if least else []
