"""``weir-lab hold-out``: whether a closed network, fitted to some numbers of clients of a sweep, predicts the others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir_lab.design import Role
from weir_lab.errors import StudyError
from weir_lab.records import write_json
from weir_lab.report.numbers.readings import read_cells
from weir_lab.theory.fitting.holdout import BOUND_BEATEN, HoldOut
from weir_lab.theory.fitting.holdout import hold_out as predict_held_out
from weir_lab.theory.fitting.holdout_forms import R_ERROR_MAX_PERCENT, X_ERROR_MAX_PERCENT, Measured
from weir_lab.theory.fitting.meeting import tally_text

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import CellReadings, Reading, SweepReadings

__all__ = ["hold_out"]


def hold_out(
    sweep: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep over clients")],
    clients: Annotated[
        str,
        typer.Option(
            metavar="N,N,...", help="Numbers of clients to hold out; by default every second one but the ends"
        ),
    ] = "",
) -> None:
    """Fit a closed network to some numbers of clients, predict the others, and hold it against the asymptotic bounds.

    Writes hold-out.json into the folder. Status 3 unless every prediction is met: the interval of observed over predicted lies within
    5 % (throughput) and 10 % (response time).
    """
    readings = read_cells(sweep.name, sweep)
    measured = _measured(readings)
    held = _numbers(clients) or [one.population for one in measured][1:-1:2]
    workers = readings.cells[0].settings.workers
    try:
        found = predict_held_out(measured, held, workers)
    except ValueError as error:
        raise StudyError(f"{sweep}: {error}") from error
    for line in _lines(found):
        typer.echo(line)
    file = sweep / "hold-out.json"
    write_json(file, _record(found, readings))
    typer.echo(file)
    if not found.met:
        raise typer.Exit(3)


def _measured(readings: SweepReadings) -> list[Measured]:
    others = [name for name in readings.varied if name not in ("clients", "clients_per_thread", "depth")]
    if others:
        raise StudyError(f"{readings.folder}: {', '.join(others)} vary, too; this takes a sweep over clients alone.")
    if not readings.cells:
        raise StudyError(f"{readings.folder}: no valid run. Make some with `weir-lab run`.")
    return [
        Measured(
            cell.settings.population,
            tuple(cell.throughputs),
            tuple(cell.of(lambda run: run.response_s)),
            _cpu_s(cell),
            tuple(cell.of(_slowness)),
        )
        for cell in sorted(readings.cells, key=lambda cell: cell.settings.population)
    ]


def _cpu_s(cell: CellReadings) -> dict[str, tuple[float, ...]]:
    """CPU time per request of each role in each run, of the roles that were there in all."""
    spent = {role: cell.of(lambda run, role=role: _per_request(run, role)) for role in Role}  # type: ignore[misc]
    return {role.value: tuple(found) for role, found in spent.items() if len(found) == len(cell.runs)}


def _per_request(run: Reading, role: Role) -> float | None:
    cores = run.cores(role)
    return cores / run.throughput if cores else None


def _slowness(run: Reading) -> float | None:
    """What the yardstick showed where the proxies ran, if they were pinned; else on all cores."""
    machines = run.run.meta.testbed.machines if run.run.meta.testbed else []
    cores = [core for machine in machines if machine.name.startswith("proxy-") for core in machine.cores]
    return run.run.cpu.slowness_ns(cores) if run.run.cpu else None


def _lines(found: HoldOut) -> list[str]:
    model = found.model
    listed = ", ".join(f"{name} {_parameter(name, value)}" for name, value in model.parameters.items())
    lines = [
        f"fitted to {', '.join(map(str, found.kept))} clients; the asymptotes cross at N* = {found.knee:.1f}",
        f"model: think time {1e3 * model.think_s:.3f} ms, then {model.name} ({listed})",
        "kinds tried, by error on kept populations left out one by one (1 = as much as is allowed; * cannot show within that what it "
        "was fitted to): "
        + "; ".join(
            f"{_short(tried.name)} {tried.score:.2f}{'' if tried.shows_what_it_saw else '*'}" for tried in found.models
        ),
        "",
        f"{'':>8} {'throughput (requests/s)':^44}   {'mean response time (ms)':^44}",
        f"{'clients':>8} {'observed':>10} {'predicted':>10} {'error':>7} {'bound':>9} {'error':>6}  "
        f"{'observed':>9} {'predicted':>10} {'error':>7} {'bound':>9} {'error':>6}",
    ]
    for row in found.rows:
        rates = f"{row.x:>10,.0f} {row.x_predicted:>10,.0f} {row.x_error:>+6.1f}% {row.x_bound:>9,.0f} {row.x_bound_error:>+5.1f}%"
        times = f"{1e3 * row.r:>9.3f} {1e3 * row.r_predicted:>10.3f} {row.r_error:>+6.1f}% {1e3 * row.r_bound:>9.3f}"
        lines.append(f"{row.population:>8} {rates}  {times} {row.r_bound_error:>+5.1f}%")
    lines += ["", *_verdicts(found)]
    lines += [f"not met at {row.population} clients: {row.reason}" for row in found.rows if row.reason]
    return lines


def _verdicts(found: HoldOut) -> list[str]:
    worst_x = max(found.rows, key=lambda row: abs(row.x_error))
    worst_r = max(found.rows, key=lambda row: abs(row.r_error))
    lines = [
        f"throughput within {X_ERROR_MAX_PERCENT:g} %: {tally_text(row.x_meeting for row in found.rows)}; "
        f"mean error {found.x_mape:.1f} %, largest {abs(worst_x.x_error):.1f} % at {worst_x.population}",
        f"response time within {R_ERROR_MAX_PERCENT:g} %: {tally_text(row.r_meeting for row in found.rows)}; "
        f"mean error {found.r_mape:.1f} %, largest {abs(worst_r.r_error):.1f} % at {worst_r.population}",
        f"asymptotic bounds off at least {BOUND_BEATEN:g} times as far: {_word(found.beats_bound)}; "
        f"throughput {found.x_bound_mape:.1f} %, response time {found.r_bound_mape:.1f} % "
        f"({found.x_bound_mape / found.x_mape:.1f} and {found.r_bound_mape / found.r_mape:.1f} times)",
    ]
    if not found.both_sides:
        lines.append(f"populations held out lie on one side of N* = {found.knee:.1f} only: hold out others (--clients)")
    return lines


def _record(found: HoldOut, readings: SweepReadings) -> dict[str, object]:
    return {
        "schema": "weir.hold-out/1",
        **asdict(found),
        "x_mape": found.x_mape,
        "r_mape": found.r_mape,
        "x_bound_mape": found.x_bound_mape,
        "r_bound_mape": found.r_bound_mape,
        "both_sides": found.both_sides,
        "met": found.met,
        "beats_bound": found.beats_bound,
        "runs": list(readings.run_names),
    }


def _short(name: str) -> str:
    """Without what explains the station."""
    station, _, times = name.partition("; ")
    return station.partition(":")[0] + (f", {times}" if times else "")


def _parameter(name: str, value: float) -> str:
    return f"{1e6 * value:.1f} µs" if name.endswith("_s") else f"{value:.3g}"


def _word(held: bool) -> str:
    return "yes" if held else "NO"


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise StudyError(f"--clients takes whole numbers with commas between them, not {text!r}.") from None
