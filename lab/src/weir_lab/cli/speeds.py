"""``weir-lab speed``: at which speed a study runs here as it ran on its own machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_lab.design import Role
from weir_lab.design.speed import choose_speed
from weir_lab.errors import StudyError
from weir_lab.report.numbers.readings import read_cells

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import CellReadings, Reading

__all__ = ["speed"]

_TIERS = {"client": Role.CLIENT, "proxy": Role.PROXY, "server": Role.SERVERS}


def speed(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="Runs of the study here, on any testbed")],
    throughput: Annotated[float, typer.Option(help="The study's largest throughput, requests/s", min=1.0)],
    limit: Annotated[
        str | None, typer.Option(help="Tier whose CPUs were the limit in the study; none if a link or workers were")
    ] = None,
    network_us: Annotated[
        float, typer.Option(help="CPU time of the network per request, where the sweep had no delay device (µs)")
    ] = 40.0,
) -> None:
    """Print the speed and the CPU quotas for a study's topology, from the CPU time of a request in its busiest cell."""
    readings = read_cells(sweep.name, sweep)
    if not readings.cells:
        raise StudyError(f"{sweep}: no valid run. Make some with `weir-lab run`.")
    cell = max(readings.cells, key=lambda one: one.mean_throughput)
    spent = {tier: found for tier, role in _TIERS.items() if (found := _mean(cell, role)) is not None}
    network_s = _mean(cell, Role.NETWORK)
    kernel_s = _kernel_s(cell) if network_s is not None else 0.0
    settings = cell.settings
    machines = {"client": settings.client_machines, "proxy": settings.proxies, "server": settings.servers}
    cores = len(os.sched_getaffinity(0))
    choice = choose_speed(
        throughput,
        spent,
        machines,
        network_us / 1e6 if network_s is None else network_s + kernel_s,
        cores,
        limit,
    )
    for tier, seconds in spent.items():
        typer.echo(f"# {tier}: {1e6 * seconds:.1f} µs of CPU time per request in {cell.cell.name}")
    typer.echo(f"# network and kernel: {choice.network_cpus:.2f} of {cores} CPUs; no quota holds them")
    typer.echo(f"# largest throughput here: {throughput * choice.speed:,.0f} requests/s")
    for line in choice.lines():
        typer.echo(line)


def _mean(cell: CellReadings, role: Role) -> float | None:
    found = cell.of(lambda run: run.cpu_s(role))
    return sum(found) / len(found) if found else None


def _kernel_s(cell: CellReadings) -> float:
    """CPU time per request that no role was charged: the kernel's, and on a machine that others use, theirs."""

    def of(run: Reading) -> float | None:
        cpu = run.run.cpu
        return None if cpu is None else cpu.other_share * cpu.cores / run.throughput

    found = cell.of(of)
    return sum(found) / len(found) if found else 0.0
