"""Commands about testbeds: ``weir-lab testbeds``, ``links`` and ``clean``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir_lab.bench.links import REACHED_MIN, VALUE_BYTES, LinksRecord, measure_bounds, read_bounds
from weir_lab.bench.network import clean as remove_leftovers
from weir_lab.bench.network import find_program, probe
from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_weir
from weir_lab.bench.running import Executables
from weir_lab.bench.testbeds.enoslib import emulation_plan, hosts_file_text, load_reservation
from weir_lab.bench.testbeds.enoslib import reserve as reserve_with_enoslib
from weir_lab.design import load_study
from weir_lab.design.topology import Topology
from weir_lab.errors import TestbedError
from weir_lab.records import write_text

__all__ = ["clean", "links", "reserve", "testbeds"]


def testbeds() -> None:
    """Try what each testbed needs on this machine. Status 1 if netns cannot be used."""
    typer.echo("local: usable; processes of this machine")
    typer.echo("hosts: usable with a file of hosts" if find_program("ssh") else "hosts: ssh is not installed")
    kernel = probe()
    typer.echo("netns: " + ("not usable" if kernel.missing else "usable"))
    for facility in kernel.facilities:
        mark = "yes" if facility.there else "NO " if facility.needed else "no "
        typer.echo(f"  {mark} {facility.name}: {facility.words}")
    if kernel.missing:
        raise typer.Exit(1)


def clean() -> None:
    """Remove namespaces and control groups that a killed weir-lab left behind; those of a running one stay."""
    removed = remove_leftovers()
    for name in removed:
        typer.echo(f"removed {name}")
    typer.echo(f"{len(removed)} removed" if removed else "nothing was left behind")


def reserve(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Provider of EnOSlib, and its configuration")],
    out: Annotated[Path, typer.Option(help="The file of hosts to write, for --hosts")] = Path("hosts.toml"),
    study: Annotated[Path | None, typer.Option(help="Show how EnOSlib would emulate this study's links")] = None,
) -> None:
    """Let EnOSlib reserve machines, and write them down for the testbed hosts."""
    if out.exists():
        raise TestbedError(f"{out}: is there already, and nothing is overwritten. Name another with --out.")
    hosts = reserve_with_enoslib(load_reservation(file))
    write_text(out, hosts_file_text(hosts))
    for entry in hosts.host:
        typer.echo(f"{entry.machine:12}{entry.login}")
    for link in emulation_plan(load_study(study).topology, hosts) if study is not None else []:
        typer.echo(f"not set: {link.machine:12}{link.options}")
    typer.echo(f"{out}: weir-lab run STUDY --testbed hosts --hosts {out}")


def links(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="For the record and everything measured")],
    study: Annotated[
        Path | None, typer.Option(help="Study whose topology is measured; the default topology without it")
    ] = None,
    binary: Annotated[
        Path | None,
        typer.Option("--bin", help="The weir binary. Give another to measure another build", show_default=WEIR_DEFAULT),
    ] = None,
    memcached: Annotated[
        str, typer.Option(help="The memcached program. Give a path to measure another version")
    ] = "memcached",
    seconds: Annotated[
        float,
        typer.Option(help="Measured seconds of each trial. More of them give steadier rates", min=1.0, max=3600.0),
    ] = 5.0,
    repetitions: Annotated[int, typer.Option(help="Times that each trial is repeated", min=1, max=100)] = 3,
    show: Annotated[bool, typer.Option("--show", help="Measure nothing, and show what is in FOLDER")] = False,
) -> None:
    """Load memcached through the links of netns, and hold throughput against what they carry. Status 1 if a bound is not reached."""
    if show:
        record = read_bounds(folder)
    elif folder.exists():
        raise TestbedError(
            f"{folder}: is there already, and nothing is overwritten. Name another folder, or --show it."
        )
    else:
        topology = load_study(study).topology if study else Topology()
        programs = Executables(find_weir(binary).absolute(), memcached)
        record = measure_bounds(folder, programs, topology, seconds, repetitions, typer.echo)
    _show(record)
    typer.echo(f"{folder}/links.json")
    if not record.reached:
        raise typer.Exit(1)


def _show(record: LinksRecord) -> None:
    typer.echo(f"\n{'machine':10}{'link Mbit/s':>12}{'wire':>10}{'payload':>10}   sends to")
    for machine in record.testbed.machines:
        sends = machine.sends
        if sends is not None and sends.wire_mbit_s is not None and machine.link_mbit_s is not None:
            typer.echo(
                f"{machine.name:10}{machine.link_mbit_s:>12.1f}{sends.wire_mbit_s:>10.1f}{sends.payload_mbit_s:>10.1f}   {sends.to}"
            )
    for trip in record.testbed.round_trips:
        typer.echo(
            f"{' to '.join(trip.between)} and back: {1e3 * trip.min_ms:.0f} µs at least, median {1e3 * trip.median_ms:.0f} µs"
        )
    if record.testbed.delayed_by:
        typer.echo(f"packets are delayed by {record.testbed.delayed_by}")
    if record.pairs:
        _show_pairs(record)
    for note in record.testbed.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"\n{'trial':48}{'bound':>10}{'measured':>10}{'of bound':>10}")
    for bound in record.bounds:
        verdict = (
            "reached" if bound.reached else f"NOT reached: every repetition needs {100 * REACHED_MIN:.0f} to 100 %"
        )
        typer.echo(
            f"{bound.trial:48}{bound.bound_rps:>10,.0f}{bound.mean_rps:>10,.0f}{100 * bound.share:>8.1f} %   {verdict}"
        )


def _show_pairs(record: LinksRecord) -> None:
    """Every direction; times in ms."""
    columns = ("link", "wire", "payload", "wire bytes", "values/s", "asked ms", "one way", "p99", "lost", "round trip")
    typer.echo(f"\n{'direction':24}" + "".join(f"{column:>12}" for column in columns))
    for pair in record.pairs:
        numbers = (
            (pair.asked_mbit_s, ".1f"),
            (pair.wire_mbit_s, ".1f"),
            (pair.payload_mbit_s, ".1f"),
            (pair.wire_bytes, ",d"),
            (pair.values_per_s(VALUE_BYTES), ",.0f"),
            (pair.asked_delay_ms, ".3f"),
            (pair.one_way_median_ms, ".3f"),
            (pair.one_way_p99_ms, ".3f"),
            (pair.one_way_lost, "d"),
            (pair.median_ms, ".3f"),
        )
        cells = "".join(f"{'–' if value is None else format(value, form):>12}" for value, form in numbers)
        typer.echo(f"{pair.sender + ' to ' + pair.receiver:24}{cells}")
