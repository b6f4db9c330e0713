"""The order of a run: `make_run`.

Writes the measurements into the run's folder and says what went wrong; it judges nothing::

    memcached servers -> proxies -> prefill -> load generators: warm-up | measured | drain -> all stop
                                                    first edge _________|          |____ second edge

At an edge the CPU time of every role is read, and the proxy's counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.machine.watching import Watch, glance
from weir_lab.bench.programs.generators import shares_of
from weir_lab.bench.running.edges import Edge, cpu_between, is_here, take_edge
from weir_lab.bench.running.loads import Fleet, fill, start_loads, watch
from weir_lab.bench.running.profiling import Profiling
from weir_lab.bench.running.proxies import RunningProxy, save_all, save_ends, seen_inside, start_proxies
from weir_lab.bench.running.starting import Executables, Running, Starter, keep_awake, read_settings, start_servers
from weir_lab.bench.running.targets import delete_keys, own_keys
from weir_lab.design import RequestPath, Role
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import Command, write_json
from weir_lab.records.formats.seconds import SECONDS_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from weir_lab.bench.machine.watching import Glance
    from weir_lab.bench.programs.subjects import Abilities
    from weir_lab.bench.testbeds import Testbed, Yardstick
    from weir_lab.design import Plan, Settings, Subject

__all__ = ["Job", "RunOutcome", "make_run"]

# In runs that are as long as this the machine is looked at each second: spikes of a trace are held against it.
_WATCHED_S = 30.0


@dataclass(frozen=True)
class Job:
    """What a run is made of: the settings of its cell and the plan of its study."""

    settings: Settings
    plan: Plan
    seed: int
    targets: tuple[str, ...] = ()
    """What runs already and is asked in place of anything that is started."""
    subject: Subject | None = None
    """The proxy's command line, where the study gives one."""
    abilities: Abilities | None = None
    """What the binary can do; ``None`` for as little as any can."""
    profile: bool = False
    """Whether to record where the proxies spend their CPU time."""


@dataclass(frozen=True)
class RunOutcome:
    """What was started, and what went wrong."""

    commands: list[Command]
    problems: list[str]


def make_run(testbed: Testbed, folder: Path, executables: Executables, job: Job) -> RunOutcome:
    """Make one run with fresh processes. Problems with a role end the run and are returned, not raised."""
    problems: list[str] = []
    with Processes(folder) as processes:
        try:
            if job.targets:
                keys = own_keys(job.plan)
                _measure_targets(Starter(processes, testbed, executables, folder, keys), job, problems)
            else:
                _measure(Starter(processes, testbed, executables, folder), job, problems)
        except (TestbedError, RecordError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"the operating system refused: {error}")
    commands = [
        Command(role=process.role, name=process.name, argv=list(process.argv), exit_status=process.popen.returncode)
        for process in processes.started
    ]
    return RunOutcome(commands, problems)


def _measure(starter: Starter, job: Job, problems: list[str]) -> None:
    settings = job.settings
    servers, addresses = start_servers(starter, settings)
    roles: dict[Role, list[Running]] = {Role.SERVERS: servers}
    proxies: list[RunningProxy] = []
    targets = addresses
    if settings.path is RequestPath.PROXY:
        proxies = start_proxies(starter, settings, job.subject, job.abilities, addresses)
        roles[Role.PROXY] = [proxy.running for proxy in proxies]
        targets = [proxy.listen for proxy in proxies]
    _load(starter, job, roles, proxies, targets, problems, addresses)


def _measure_targets(starter: Starter, job: Job, problems: list[str]) -> None:
    """Load what runs already, and delete what was written there, whatever happens."""
    try:
        _load(starter, job, {}, [], list(job.targets), problems)
    finally:
        starter.processes.stop()  # a generator that still runs would write again what is deleted
        problems += delete_keys(starter, job.settings, job.targets, job.seed)


def _load(
    starter: Starter,
    job: Job,
    roles: dict[Role, list[Running]],
    proxies: list[RunningProxy],
    targets: list[str],
    problems: list[str],
    addresses: Sequence[str] = (),
) -> None:
    """Fill, load, watch, and write down what was seen."""
    settings = job.settings
    shares = shares_of(settings, targets, job.seed)
    overhead_s = fill(starter, settings, targets, addresses, job.seed)
    fleet = start_loads(starter, settings, job.plan, shares, addresses, overhead_s)
    edges = _watched(starter, job, fleet, roles, proxies)
    for members in roles.values():
        for one in members:
            one.process.require_alive()
    problems += fleet.collect()
    save_ends(proxies, fleet.answered())
    if Role.SERVERS in roles:
        # Not where targets run already: their settings are not ours.
        write_json(starter.folder / "servers.json", read_settings(roles[Role.SERVERS], addresses))
    for proxy in proxies:
        proxy.collect()
    if len(edges) == 2:
        record = fleet.record(job.plan, edges[0], edges[1])
        write_json(starter.folder / "generators.json", record)
        client_ns = fleet.cpu_ns(record)
        used = cpu_between(edges[0], edges[1], client_ns, starter.testbed.cores)
        write_json(starter.folder / "cpu.json", seen_inside(used, edges[0].unix_ns, edges[1].unix_ns, proxies))


def _watched(
    starter: Starter, job: Job, fleet: Fleet, roles: dict[Role, list[Running]], proxies: list[RunningProxy]
) -> list[Edge]:
    """Both edges; CPU time is read inside the interval between the two snapshots, so that the cost of a snapshot is in neither."""
    edges: list[Edge] = []
    profiled = [proxy.running for proxy in proxies] if job.profile else []
    awake = {process.popen.pid for process in keep_awake(starter)}
    with (
        Profiling(starter, profiled) as profiling,
        starter.testbed.yardstick() as yardstick,
        _watch(starter, job, fleet, roles, yardstick, awake) as machine,
    ):

        def first_edge() -> None:
            save_all(proxies, "before")
            edges.append(take_edge(starter.testbed, roles, fleet.running, yardstick, awake))
            profiling.begin(job.plan.measured_s)
            machine.begin()

        def second_edge() -> None:
            seconds = machine.end()
            if seconds is not None:
                write_json(starter.folder / SECONDS_FILE, seconds)
            edges.append(take_edge(starter.testbed, roles, fleet.running, yardstick, awake))
            save_all(proxies, "after")

        watch(fleet, job.plan, first_edge, second_edge)
    return edges


def _watch(
    starter: Starter,
    job: Job,
    fleet: Fleet,
    roles: dict[Role, list[Running]],
    yardstick: Yardstick,
    awake: Collection[int],
) -> Watch:
    """Of a long run on this machine; of others it does nothing. Both edges are read while it does not look."""
    testbed = starter.testbed
    if job.plan.measured_s < _WATCHED_S or not is_here(testbed):
        return Watch(None, testbed.cores)
    running = [one for members in (*roles.values(), fleet.running) for one in members]
    ours = {one.process.popen.pid for one in running} | testbed.own_processes()
    machines = {one.machine.name: one.machine for one in running}

    def look() -> Glance:
        stalled = {name: machine.state().throttled_ns for name, machine in machines.items()}
        pieces = list(yardstick.read().values())
        return glance(
            ours,
            {name: held_ns for name, held_ns in stalled.items() if held_ns is not None},
            (sum(one.count for one in pieces), sum(one.cpu_ns for one in pieces)),
            awake,
        )

    return Watch(look, testbed.cores)
