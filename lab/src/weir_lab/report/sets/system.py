"""What was measured: the machines of a study, what they can send and use, the proxy's engine, and where the stamps lie. `system_section`.

The drawing shows the layout with the most machines that has a proxy, as it was built. Tables have every layout, and the machines of the
study.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weir_lab.design import Engine, RequestPath
from weir_lab.design.topology import tier_of
from weir_lab.records.formats import STAGES
from weir_lab.report.common import BARS_MEAN
from weir_lab.report.page.arranging import WORDS
from weir_lab.report.page.blocks import Figure, Section, Table, Text, Value, over
from weir_lab.report.page.drawings.machines import STAMPS, Tier, system_of
from weir_lab.report.sections.models.counted import burst_s
from weir_lab.theory.units import count_text, number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from weir_lab.design import Settings
    from weir_lab.design.topology import Topology
    from weir_lab.design.whole.sets import Built, Lack
    from weir_lab.records.places import MachineRecord
    from weir_lab.report.numbers.readings import CellReadings, SweepReadings
    from weir_lab.report.page.blocks import Block, Entry
    from weir_lab.report.page.drawings.machines import System

__all__ = ["SYSTEM", "system_section"]

SYSTEM = "system"
"""The section's name."""

_TIERS = ("client", "proxy", "server")
# Which event each stamp marks, by engine. docs/understand/timing.md has them in full.
_READ = "the read returned that brought the request's first byte"
_WHOLE = "the request is complete and parsed"
_RECEIVED = "the read returned that made its last reply complete"
_EVENTS = {
    Engine.EVENT: (
        _READ,
        _WHOLE,
        "put into the batch of its server",
        "its server's batch is about to be written, at the end of the loop's turn",
        "the write returned that took its last byte",
        _RECEIVED,
        "the write to the client returned that took the last byte of its reply",
    ),
    Engine.POOL: (
        _READ,
        _WHOLE,
        "put into the queue, when all earlier requests of its client are answered",
        "taken by a worker",
        "the worker's write returned that took the last byte of its last message",
        _RECEIVED,
        "the worker's write to the client returned that took the last byte of its reply",
    ),
    Engine.SPLIT: (
        _READ,
        _WHOLE,
        "put into the queue of reads or of writes of its server, when all earlier requests of its client are answered",
        "taken by a reader, or by the writer",
        "the write returned that took the last byte of its last message",
        _RECEIVED,
        "the write to the client returned that took the last byte of its reply",
    ),
}


def system_section(
    sweeps: Sequence[SweepReadings],
    lacks: Sequence[Lack] = (),
    added: Collection[str] = (),
    beside: Sequence[SweepReadings] = (),
    built: Sequence[Built] = (),
) -> Section | None:
    """The section, from sweeps that have runs under load; ``None`` where there are none.

    Files of ``added`` are not drawn, nor are sweeps with the event engine ``beside``; tables have both.
    """
    loaded = [sweep for sweep in sweeps if sweep.cells]
    if not loaded:
        return None
    shown = max([sweep for sweep in loaded if sweep.file not in added] or loaded, key=_size)
    system = _system(shown)
    engine = _cells(shown)[0].settings.engine
    figure = Figure(
        f"{SYSTEM}-drawing",
        "The system" + (" with the most machines" if len(loaded) > 1 else ""),
        f"As built for {shown.file.removesuffix('.toml')}: what the machines of a tier send at most together, and a packet's delay on the "
        f"way to one of them. Circles: the stamps of a request; between each two lies a stage.{_unmeasured(loaded)}",
        (system,),
    )
    named = {one.file.removesuffix(".toml"): one for one in loaded}
    named |= {f"{one.file.removesuffix('.toml')} beside": one for one in beside if one.cells}
    blocks: list[Block] = [
        figure,
        Text(system.sentence + _bursts_text(shown), note=True),  # a screen reader says the first of it with the drawing
        _machines(named),
        _layouts(named),
        *([_stamps(engine)] if system.stations else []),
        *([_built(built)] if built else []),
        _words(),
    ]
    # The drawing has what is wanted in passing.
    blocks = [replace(one, folded=True) if isinstance(one, Table) else one for one in blocks]
    return Section(SYSTEM, "The system", "", "", blocks=tuple(blocks), lacks=tuple(one.text for one in lacks))


def _bursts_text(sweep: SweepReadings) -> str:
    """That links of netns let a burst pass after a pause, and how long sending would take on real ones; empty without such links."""
    testbed = sweep.testbed
    rates = [(one.link_mbit_s, tier_of(one.name)) for one in testbed.machines if one.link_mbit_s] if testbed else []
    if testbed is None or testbed.kind != "netns" or not rates:
        return ""
    slowest, tier = min(rates)
    size = max(one.settings.value_size_bytes for one in sweep.cells)
    sending = 8e-3 * size / slowest
    return (
        " A link lets a burst pass at once after a pause: what it carries in "
        f"{number(1e3 * burst_s(slowest), 1)} ms. So at light load, where it often pauses, sending takes no time. On a real link of "
        f"{number(slowest, 0)} Mbit/s (that of a {tier}) a value of {size:,} bytes would take {number(sending, 2)} ms more."
    )


def _cells(sweep: SweepReadings) -> list[CellReadings]:
    """Those with a proxy of ours, or all where there are none."""
    proxied = [one for one in sweep.cells if _proxied(one.settings)]
    return proxied or list(sweep.cells)


def _proxied(settings: Settings) -> bool:
    return settings.path is RequestPath.PROXY and settings.subject == "weir"


def _size(sweep: SweepReadings) -> tuple[bool, int, int, int]:
    """With a proxy, most machines, in all cells as in the largest, most cells."""
    cells = _cells(sweep)
    machines = [one.settings.client_machines + one.settings.proxies + one.settings.servers for one in cells]
    return _proxied(cells[0].settings), max(machines), min(machines), len(cells)


def _system(sweep: SweepReadings) -> System:
    all_settings = [one.settings for one in _cells(sweep)]
    most = max(all_settings, key=lambda one: (one.servers, one.proxies, one.client_machines))
    has_proxy = _proxied(most)
    clients = Tier(
        count_text(most.client_machines, "client machine"),
        most.client_machines,
        (
            f"{_levels(one.clients for one in all_settings)} clients on all of them together",
            f"{_generators(most)}{_cpu_text(sweep, 'client')}",
        ),
        *_link(sweep, "client"),
    )
    servers = Tier(
        f"{_levels(one.servers for one in all_settings)} memcached server{'' if most.servers == 1 else 's'}",
        most.servers,
        (f"{count_text(most.server_threads, 'thread')} each{_cpu_text(sweep, 'server')}", _copies(all_settings)),
        *_link(sweep, "server"),
    )
    proxies = Tier(
        f"{count_text(most.proxies, 'proxy').replace('proxys', 'proxies')}, engine {most.engine}",
        most.proxies,
        (f"{'' if most.proxies == 1 else 'each: '}{_cpu_text(sweep, 'proxy').removeprefix(', ')}",),
        *_link(sweep, "proxy"),
    )
    title = "as built" if sweep.speed == 1.0 else f"as built, at {sweep.speed:g} of the study's speed"
    return system_of(
        title, clients, proxies if has_proxy else None, servers, _stations(all_settings) if has_proxy else None
    )


def _stations(settings: Sequence[Settings]) -> tuple[str, str, str]:
    """What reads a request, what it waits in, and what asks servers and answers."""
    engine = settings[0].engine
    if engine is Engine.POOL:
        workers = _levels(one.workers for one in settings)
        return "network thread", "one queue", f"{workers} {'worker' if workers == '1' else 'workers'}"
    if engine is Engine.SPLIT:
        readers = _levels(one.readers for one in settings)
        return "network thread", "queues of each server", f"{readers} readers, 1 writer"
    loops = _levels(one.proxy_threads for one in settings)
    return f"{loops} event {'loop' if loops == '1' else 'loops'}", "batch of each server", "the same loop"


def _generators(settings: Settings) -> str:
    instances = f"{settings.instances} generators of " if settings.instances > 1 else ""
    return f"{instances}{count_text(settings.client_threads, 'thread')} each"


def _copies(settings: Sequence[Settings]) -> str:
    """How large values are, and at how many servers each key is."""
    replicas = _levels(one.replicas for one in settings)
    sizes = _levels(one.value_size_bytes for one in settings)
    copies = "each key at one of them" if replicas == "1" else f"each key at {replicas} of them"
    return f"values of {sizes} bytes, {copies}"


def _levels(values: Iterable[int | None]) -> str:
    """``8`` or ``8 to 64``."""
    found = sorted({value for value in values if value is not None})
    if not found:
        return "0"
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _machine(sweep: SweepReadings, tier: str) -> MachineRecord | None:
    """The first machine of a tier as it was built."""
    machines = sweep.testbed.machines if sweep.testbed is not None else []
    return next((one for one in machines if tier_of(one.name) == tier), None)


def _link(sweep: SweepReadings, tier: str) -> tuple[float | None, float | None]:
    machine = _machine(sweep, tier)
    return (machine.link_mbit_s, machine.delay_ms) if machine is not None else (None, None)


def _cpu_text(sweep: SweepReadings, tier: str) -> str:
    machine = _machine(sweep, tier)
    if machine is None or machine.cpus is None:
        return ", shares the CPUs with all"
    cores = f", on core {', '.join(map(str, machine.cores))}" if machine.cores else ""
    return f", {machine.cpus:g} CPUs{cores}"


def _layouts(sweeps: Mapping[str, SweepReadings]) -> Table:
    """One row for each sweep by its name: how many of each there were."""
    rows: list[tuple[Entry, ...]] = []
    for name, sweep in sweeps.items():
        settings = [one.settings for one in sweep.cells]
        proxied = [one for one in settings if one.path is RequestPath.PROXY]
        crews = [one.workers or one.readers or _loops(one) for one in proxied]
        rows.append(
            (
                name,
                _levels(one.client_machines for one in settings),
                _levels(one.clients for one in settings),
                _levels(one.proxies for one in proxied) if proxied else "–",
                ", ".join(dict.fromkeys(str(one.engine) for one in proxied)) or "–",
                _levels(crews) if any(crews) else "–",
                _levels(one.servers for one in settings),
                _levels(one.replicas for one in settings),
                _levels(one.value_size_bytes for one in settings),
                Value(sweep.study.plan.warmup_s),
                _first_second(sweep),
            )
        )
    beside = (
        " Beside: the same sweep with the event engine." if any(name.endswith(" beside") for name in sweeps) else ""
    )
    return Table(
        f"{SYSTEM}-layouts",
        "What each sweep had. Workers are those of a proxy; of the split engine they are readers of each server, of the event engine its "
        f"loops.{beside}{_copies_text(sweeps)} First second: how far throughput in the first second that counts, behind the warm-up, is "
        "off that of the other seconds of its run, mean over the runs with its 95 % interval; what a run of n seconds has is off by the "
        "n-th part of it.",
        (
            *("Sweep", "Client machines", "Clients", "Proxies", "Engine", "Workers", "Servers"),
            *("Servers of a key", "Value (bytes)", "Warm-up (s)", "First second (%)"),
        ),
        tuple(rows),
    )


def _first_second(sweep: SweepReadings) -> Entry:
    """Whether the warm-up was long enough."""
    found = [100.0 * (one - 1.0) for cell in sweep.cells for one in cell.of(lambda run: run.first_second)]
    return replace(over(found, signed=True), digits=1, signed=True) if found else "–"


def _copies_text(sweeps: Mapping[str, SweepReadings]) -> str:
    """Where the copies of a key lie, of the placement of the studies."""
    settings = [one.settings for sweep in sweeps.values() for one in sweep.cells]
    if not any(one.placement == "modulo" and one.servers > 1 for one in settings):
        return ""
    return (
        " By the placement modulo a key's first server is its hash, that of Java's strings, modulo the number of servers; its others are "
        "the next ones in order, and behind the last comes the first."
    )


def _loops(settings: Settings) -> int | None:
    """Each loop of the event engine is a thread of its own."""
    return settings.proxy_threads if settings.engine is Engine.EVENT else None


def _machines(sweeps: Mapping[str, SweepReadings]) -> Table:
    """What a machine of each tier can do, in the study and as it was built; tiers that are the same in several sweeps stand once."""
    found: dict[tuple[Entry, ...], list[str]] = {}
    for name, sweep in sweeps.items():
        for tier in _TIERS:
            if tier == "proxy" and not any(one.settings.path is RequestPath.PROXY for one in sweep.cells):
                continue
            row = _machine_row(sweep, tier)
            found.setdefault(row, []).append(name)
    return Table(
        f"{SYSTEM}-machines",
        "One machine of each tier: what it sends at most, how long what it receives is on its way, and its CPUs. CPUs that the study does "
        f"not name are chosen: only tiers that are to limit can use them up.{_assumed_links(sweeps)}",
        (
            *("Tier", "Link (Mbit/s)", "Delay (ms)", "CPUs"),
            *(f"{_whose(sweeps, 'links')}: {one}" for one in ("link (Mbit/s)", "delay (ms)")),
            *(f"{_whose(sweeps, 'cpu')}: CPUs", "Speed", "Sweeps"),
        ),
        tuple(
            (*row, _sweeps_text(names, [one for other, own in found.items() if other[0] == row[0] for one in own]))
            for row, names in sorted(found.items(), key=lambda item: _TIERS.index(str(item[0][0])))
        ),
    )


def _sweeps_text(names: Sequence[str], every: Sequence[str]) -> str:
    """Sweeps by name; of all that have machines of this tier those that are missing, where these are fewer.

    >>> _sweeps_text(["a", "b", "c"], ["a", "b", "c", "d"]), _sweeps_text(["d"], ["a", "b", "c", "d"]), _sweeps_text(["a"], ["a"])
    ('all but d', 'd', 'all')
    """
    missing = [one for one in every if one not in names]
    if not missing:
        return "all"
    return f"all but {', '.join(missing)}" if len(missing) + 1 < len(names) else ", ".join(names)


def _whose(sweeps: Mapping[str, SweepReadings], part: str) -> str:
    """How the head of a column begins: nobody is to take what is assumed for what the study measured."""
    assumed = any(f"topology.{part}" in one.study.assumed for one in sweeps.values())
    return "Study (assumed)" if assumed else "Study"


def _unmeasured(sweeps: Sequence[SweepReadings]) -> str:
    """The same beside the drawing, which stands open where the table does not."""
    assumed = any("topology.links" in one.study.assumed for one in sweeps)
    return " The study measured no links: their rates and delays are assumed." if assumed else ""


def _assumed_links(sweeps: Mapping[str, SweepReadings]) -> str:
    """That rates and delays are not those of the study's own machines."""
    assumed = any("topology.links" in one.study.assumed for one in sweeps.values())
    return " It measured no links." if assumed else ""


def _machine_row(sweep: SweepReadings, tier: str) -> tuple[Entry, ...]:
    machine, topology = _machine(sweep, tier), sweep.study.topology
    built = (machine.link_mbit_s, machine.delay_ms, machine.cpus) if machine is not None else (None, None, None)
    shown = [Value(one) if one is not None else "–" for one in built]
    return tier, *shown, *_asked(topology, tier), Value(sweep.speed)


def _asked(topology: Topology, tier: str) -> tuple[Entry, Entry, Entry]:
    """Rate, delay and CPUs of the study's own machine."""
    links, cpus = topology.links, getattr(topology.cpu, tier)
    return (
        Value(getattr(links, f"{tier}_mbit_s")),
        Value(getattr(links, f"{tier}_delay_ms")),
        Value(cpus) if cpus is not None else "–",
    )


def _stamps(engine: Engine) -> Table:
    return Table(
        f"{SYSTEM}-stamps",
        f"The seven stamps of a request in the {engine} engine, by one monotonic clock in nanoseconds, and the stage that begins with "
        "each. Every request has them. Time before the first is in no stage: bytes wait in the kernel until the proxy reads them.",
        ("", "Stamp", "Taken when", "Begins stage"),
        tuple(
            (place, stamp, event, stage)
            for place, (stamp, event, stage) in enumerate(
                zip(STAMPS, _EVENTS[engine], (*STAGES, "–"), strict=True), start=1
            )
        ),
    )


def _built(parts: Sequence[Built]) -> Table:
    """The study's own program beside the engine of this page."""
    return Table(
        f"{SYSTEM}-built",
        "How the study built its own program, as its text says, and what stands in its place here.",
        ("Part", "In the study", "Here"),
        tuple((one.part, one.study, one.here) for one in parts),
    )


def _words() -> Table:
    """What is measured, in the words and letters of the page, which shows them with its other terms (`sets.terms`)."""
    rows = (
        ("system under test", "the proxies with their servers and the links between; clients make the load"),
        ("N, clients", "connections, each with one request under way: a closed system"),
        ("X, throughput", "requests answered per second, counted at the clients; at the proxies where a table says so"),
        (
            "R, response time",
            "from just before a client hands a request's last byte to its kernel until it has read the last byte of the reply",
        ),
        ("time in the proxy", "from the stamp first_byte to the stamp answered"),
        ("outside", "response time less the time in the proxy: network, clients, bytes that no proxy has read yet"),
        ("interactive law", "N = X (R + Z), where Z is the clients' think time, 0 unless a section says so"),
        ("S, R with a number", "servers, and at how many of them a key is (1 is no copy)"),
        (
            "measured phase",
            "what is left of a run without its warm-up and its cool-down; every number is of this phase",
        ),
        ("bars, interval of a mean alone", f"its 95 % interval over runs, {BARS_MEAN}"),
    )
    return Table(f"{SYSTEM}{WORDS}", "Words and letters of this page.", ("Word", "Meaning"), rows, folded=True)
