"""``weir-lab ab A B``: the command."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import ValidationError
from rich.console import Console

from weir_lab.bench.machine.facts import machine_facts
from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_weir
from weir_lab.bench.running import Executables
from weir_lab.bench.turns.comparing import compare
from weir_lab.bench.turns.lives import Bench, load_argv
from weir_lab.bench.turns.sides import Side, parse_side
from weir_lab.cli.ab.options import read_cores, read_flags, read_levels, read_share, read_time_s
from weir_lab.design import RequestPath, Settings
from weir_lab.errors import LabError, StudyError, TestbedError
from weir_lab.records import write_json, write_text
from weir_lab.records.comparisons import (
    LIVES,
    Budget,
    ComparisonRecord,
    LifeRecord,
    Metric,
    Outcomes,
    Rule,
    SideRecord,
    answer_lines,
    change_words,
    ended_record,
    limit_lines,
    worst,
)
from weir_lab.report.comparison import comparison_report
from weir_lab.report.page.html import html_page
from weir_lab.report.page.terminal import show_end
from weir_lab.theory.stats.stopping import SequentialPlan, Verdict
from weir_lab.theory.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXIT_STATUS", "ab"]

EXIT_STATUS = {Verdict.FASTER: 0, Verdict.SAME: 0, Verdict.SLOWER: 3, Verdict.CANNOT_TELL: 4}
_PIECE_MAX_S = 0.1
_RECORD = "comparison.json"


def ab(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="What there is: direct, nutcracker, weir or a weir binary with flags, or a command line"
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with, written like A")],
    metric: Annotated[
        Metric,
        typer.Option(help="What is compared. cpu is the proxy's CPU time per request; use p99 if tails matter to you"),
    ] = Metric.THROUGHPUT,
    same_within: Annotated[
        str, typer.Option(metavar="X%", help="Differences below this do not matter to you. A smaller one takes longer")
    ] = "2%",
    error: Annotated[
        str, typer.Option(metavar="X%", help="How often the verdict may be wrong. Less takes longer")
    ] = "2.5%",
    precision: Annotated[
        str, typer.Option(metavar="X%", help="Go on until the interval is +- this narrow, whatever the verdict")
    ] = "",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="Give up after this time, such as 90s or 6m. Raise it if ab cannot tell")
    ] = "2m",
    lives: Annotated[
        int | None, typer.Option(min=5, max=100_000, help="Give up after this number of process lives")
    ] = None,
    clients: Annotated[
        str,
        typer.Option(metavar="N,N,...", help="Connections of the load; several numbers side by side"),
    ] = "16",
    depth: Annotated[int, typer.Option(help="Requests that each connection keeps outstanding")] = 1,
    servers: Annotated[int, typer.Option(help="memcached servers behind A and B")] = 1,
    keys: Annotated[int, typer.Option(help="Number of keys")] = 10_000,
    value_size: Annotated[int, typer.Option(help="Bytes per value")] = 128,
    writes: Annotated[float, typer.Option(help="Share of requests that are set")] = 0.1,
    load: Annotated[
        str, typer.Option(metavar="FLAGS", help="More flags of weir load, such as '--popularity zipf:0.99'")
    ] = "",
    cores: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="Which cores each role has: auto, none, or such as 'client=0 proxy=1 servers=1'"
        ),
    ] = "auto",
    pairs: Annotated[int, typer.Option(min=2, max=1000, help="Pairs of pieces per life of the processes")] = 12,
    piece: Annotated[str, typer.Option(metavar="TIME", help="Length of a piece, at most 100ms with --warmup")] = "80ms",
    warmup: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Start of each piece that is not counted. Raise it for loads that take time to settle"
        ),
    ] = "15ms",
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the orders and of the load. Change it to repeat a comparison independently"),
    ] = 20161118,
    out: Annotated[Path | None, typer.Option(help="Folder of the record; runs/ab-DATE-TIME by default")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the page here; FOLDER/comparison.html by default")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON")] = False,
    binary: Annotated[
        Path | None,
        typer.Option(
            "--bin", help="The weir binary: the generator, and what `weir` stands for", show_default=WEIR_DEFAULT
        ),
    ] = None,
    memcached: Annotated[
        str, typer.Option(help="The memcached program. Give a path to measure another version")
    ] = "memcached",
) -> None:
    """Say whether B is faster, slower, or the same as A. Status 0 if not slower, 3 if slower, 4 if it cannot tell."""
    weir = find_weir(binary).absolute()
    sides: dict[Literal["A", "B"], Side] = {"A": parse_side("A", a, weir), "B": parse_side("B", b, weir)}
    rule = Rule(
        metric=metric,
        same_within=read_share("--same-within", same_within, 1.0),
        precision=read_share("--precision", precision, 1.0) if precision else None,
        plan=SequentialPlan(error=read_share("--error", error, 0.5)),
    )
    limit = Budget(read_time_s("--budget", budget), lives)
    piece_s, warmup_s = read_time_s("--piece", piece), read_time_s("--warmup", warmup)
    if piece_s + warmup_s > _PIECE_MAX_S + 1e-9:
        raise StudyError(
            f"--piece {piece} with --warmup {warmup} is longer than {1000.0 * _PIECE_MAX_S:g} ms. "
            "Longer pieces drift apart; ask for more --pairs instead."
        )
    if metric is Metric.CPU and any(side.direct for side in sides.values()):
        raise StudyError("--metric cpu is about proxies, and `direct` has none. Choose another metric.")
    levels = read_levels(clients)
    bench = Bench(
        sides=sides,
        settings=_settings(max(levels), depth, servers, keys, value_size, writes),
        executables=Executables(weir, memcached),
        pairs=pairs,
        piece_s=piece_s,
        warmup_s=warmup_s,
        levels=levels,
        cores=read_cores(cores, sorted(os.sched_getaffinity(0))),
        load_flags=read_flags(load),
        seed=seed,
    )
    if page is not None and not page.parent.is_dir():
        raise StudyError(f"--page {page}: there is no folder {page.parent}. Make it, or name another place.")
    folder = _new_folder(out)
    record = _begun(bench, rule, limit)
    write_json(folder / _RECORD, record)
    console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False, soft_wrap=True)
    named = f"A is {record.sides['A'].asked}; B is {record.sides['B'].asked}."
    console.print(named, markup=False)
    began = time.monotonic()
    try:
        outcomes = compare(bench, rule, limit, folder, _teller(console, rule, limit, began))
    except KeyboardInterrupt:
        console.print(
            f"weir-lab: interrupted; all processes are stopped. The lives so far are in {folder}.", markup=False
        )
        raise typer.Exit(130) from None
    except LabError:
        if (folder / LIVES).exists():
            console.print(f"weir-lab: the lives so far are in {folder}", markup=False)
        raise
    record = ended_record(record, outcomes, rule, time.monotonic() - began)
    write_json(folder / _RECORD, record)
    place = page or folder / "comparison.html"
    write_text(place, html_page(comparison_report(record, next(iter(outcomes.values())).lives)))
    # Behind the lines of many lives the first line is out of sight.
    show_end(console, [named, *answer_lines(record)], limit_lines(record), place)
    if as_json:
        typer.echo(record.model_dump_json(by_alias=True, indent=1))
    raise typer.Exit(EXIT_STATUS[worst(outcome.verdict for outcome in outcomes.values())])


def _settings(clients: int, depth: int, servers: int, keys: int, value_size: int, writes: float) -> Settings:
    try:
        return Settings(
            path=RequestPath.DIRECT,
            clients=clients,
            depth=depth,
            keys=keys,
            value_size_bytes=value_size,
            write_ratio=writes,
            client_threads=1,
            proxy_threads=1,
            servers=servers,
            server_threads=1,
            server_memory_mib=64,
        )
    except ValidationError as error:
        first = error.errors()[0]
        names = {"value_size_bytes": "value-size", "write_ratio": "writes"}
        flag = str(first["loc"][0]) if first["loc"] else "the load"
        raise StudyError(f"--{names.get(flag, flag)}: {first['msg']}.") from error


def _new_folder(out: Path | None) -> Path:
    folder = out or Path("runs") / time.strftime("ab-%Y%m%d-%H%M%S")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TestbedError(f"{folder}: is there already, and nothing is overwritten. Name another with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _teller(console: Console, rule: Rule, budget: Budget, began: float) -> Callable[[LifeRecord, Outcomes], None]:
    def tell(life: LifeRecord, outcomes: Outcomes) -> None:
        used = 100.0 * budget.used(time.monotonic() - began, life.number)
        line = f"life {life.number:>3}, {used:3.0f} % of the budget"
        reported = [
            (f"{count_text(clients, 'client')} " if len(outcomes) > 1 else "")
            + change_words(*outcome.judgement.change, 1.0 - rule.plan.error)
            for clients, outcome in outcomes.items()
            if outcome.judgement is not None and outcome.looks[-1].n == life.number
        ]
        console.print(f"{line}: {'; '.join(reported)}" if reported else line, markup=False)

    return tell


def _begun(bench: Bench, rule: Rule, budget: Budget) -> ComparisonRecord:
    """What is known before the first life."""
    return ComparisonRecord(
        sides={
            name: SideRecord(asked=side.asked, argv=list(side.argv), programs=side.programs())
            for name, side in bench.sides.items()
        },
        metric=rule.metric,
        same_within_percent=100.0 * rule.same_within,
        precision_percent=100.0 * rule.precision if rule.precision is not None else None,
        error=rule.plan.error,
        budget_s=budget.seconds,
        lives_max=budget.lives,
        pairs=bench.pairs,
        piece_s=bench.piece_s,
        warmup_s=bench.warmup_s,
        load=load_argv(bench, "{target}", bench.levels[0], 0),
        servers=bench.settings.servers,
        cores={name: list(cores) for name, cores in bench.cores.model_dump().items()},
        seed=bench.seed,
        machine=machine_facts(),
        begun_unix_ns=time.time_ns(),
        took_s=0.0,
        levels=[],
        verdict=Verdict.CANNOT_TELL,
    )
