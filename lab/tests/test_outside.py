"""What lies outside of a proxy's stamps: its parts by the records, and aloud what no record tells."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from synthetic_whole import Truth, write_whole
from weir_lab.bench.sweep.sets import take_files
from weir_lab.design.whole.sets import load_set
from weir_lab.report.common import Task
from weir_lab.report.numbers.readings import Reading, read_cells
from weir_lab.report.page.blocks import Table, Value
from weir_lab.report.sections.claims import explained_of, what_limits
from weir_lab.report.sections.claims.limits.signs import Outside, open_text, outside_table

if TYPE_CHECKING:
    from weir_lab.report.numbers.readings import SweepReadings
    from weir_lab.report.page.blocks import Entry

ONE = Path(__file__).parent / "data" / "whole" / "small.set.toml"
QUOTA = "proxy CPU quotas"


def outside(**given: Any) -> Outside:
    """Of 10 ms 1.2 in sockets and 1 on the way, as S4 had them with 12 readers."""
    return Outside(**({"whole_s": 0.010, "sockets_s": 0.0012, "way_s": 0.001, "runs": 10} | given))


def test_what_is_left_outside_of_the_proxy_is_named_with_what_the_records_tell_of_it() -> None:
    """“Of the 10.02 ms outside of the proxy, 1.22 ms …” left 8.8 ms without a word."""
    found = outside(
        ready=0.67, known=4, held=0.0, core_used=0.88, sharers=("the servers", "the delay device"), late=" It waits."
    )
    assert found.left_s == pytest.approx(0.0078)
    assert found.text(QUOTA) == (
        "Of the 10.00 ms outside of the proxy, 1.20 ms are those in which bytes lie in its sockets until the network thread reads them. "
        "It waits. The way there and back was built to take 1.00 ms; 7.80 ms are left. No client machine was held by its CPU quota. The "
        "generators' threads were ready and not let run for 67 % of the time (4 of 10 runs tell): with the servers and the delay device "
        "they used 88 % of the core that they share."
    )
    assert "CPU quota for as much as 1 % of the time. The" in outside(ready=0.5, known=10, held=0.004).text(QUOTA)
    assert "were held by their CPU quotas for 12 % of the time" in outside(held=0.12).text(QUOTA)
    # What all runs tell needs no count, and what none tells is said.
    assert outside(ready=0.5, known=10).text(QUOTA).endswith("not let run for 50 % of the time.")
    assert outside().text(QUOTA).endswith("were ready and not let run, none of these runs tells.")


@pytest.mark.parametrize(
    ("given", "station", "parts"),
    [
        pytest.param({}, "client uplinks", False, id="what waits for a link is outside"),
        pytest.param({}, "workers", False, id="nothing waits outside for workers"),
        pytest.param({"way_s": 0.0}, QUOTA, False, id="no way was built"),
        pytest.param({"way_s": 0.0085}, QUOTA, False, id="little is left"),
        pytest.param({}, "", True, id="no station is full"),
        pytest.param({"sockets_s": 0.0001}, QUOTA, True, id="little in sockets, much left"),
    ],
)
def test_parts_are_named_where_something_is_left_that_no_station_explains(
    given: dict[str, float], station: str, *, parts: bool
) -> None:
    found = outside(**given)
    assert found.leaves(station) == parts
    assert (" ms are left." in found.text(station)) == parts
    assert found.text(station).startswith("Of the 10.00 ms outside of the proxy, ")
    assert outside(sockets_s=0.0001, way_s=0.0).text(QUOTA) == ""


def a_sweep(*, way_ms: float = 1.0) -> Any:
    machines = [SimpleNamespace(name=name, delay_ms=way_ms / 2.0) for name in ("client-0", "proxy-0", "server-0")]
    return SimpleNamespace(testbed=SimpleNamespace(machines=machines))


def a_cell(*runs: tuple[float, float | None]) -> Any:
    """Runs whose left time in ms and share of the generators' waiting are given."""
    return SimpleNamespace(
        runs=[
            SimpleNamespace(
                response_s=0.020 + left / 1e3, residence_s=0.0185, socket_wait_s=0.0005, generators_wait=ready
            )
            for left, ready in runs
        ]
    )


def test_between_runs_of_a_cell_what_is_left_goes_with_the_generators_waiting_or_it_stays_open() -> None:
    """Cells differ in much else: only what runs of one cell differ by counts."""
    rising = [a_cell((1.0, 0.40), (4.0, 0.61), (8.0, 0.79)), a_cell((0.7, 0.45), (3.0, 0.58), (6.1, 0.70), (9.0, None))]
    said = open_text(rising, a_sweep())
    assert (
        "is the longer, the more of the time generators were ready and not let run (correlation +0.99). That is between runs of one cell, "
        "of 6 runs in 2 cells."
    ) in said
    assert said.endswith("no run has measured: the kernel's stamp of its arrival there would tell.")
    # Two cells whose means rise together, and whose runs do not.
    level = [a_cell((1.0, 0.40), (1.1, 0.40), (1.0, 0.41)), a_cell((9.0, 0.80), (8.9, 0.80), (9.0, 0.81))]
    assert "is not shown to go with the time for which generators were ready" in open_text(level, a_sweep())
    few = [a_cell((1.0, 0.40), (4.0, 0.61)), a_cell((1.0, 0.5))]
    assert "stays open: too few runs tell how long generators were not let run." in open_text(few, a_sweep())
    alike = [a_cell(*[(1.0, 0.4)] * 6)]
    assert "stays open: too few runs" in open_text(alike, a_sweep())


def test_the_table_has_the_numbers_of_the_sentences() -> None:
    parts = outside(ready=0.67, known=4, held=0.0, core_used=0.88, together="+0.94 (14 runs)")
    table = outside_table("maximum", {"reads, 12 readers": parts})
    assert table is not None
    (row,) = table.rows
    assert [value(one) for one in row[1:5]] == pytest.approx([10.0, 1.2, 1.0, 7.8])
    assert [value(row[place]) for place in (5, 7, 8)] == pytest.approx([67.0, 0.0, 88.0])
    assert (row[6], row[9]) == ("4 of 10", "+0.94 (14 runs)")
    unknown = outside_table("maximum", {"reads": outside()})
    assert unknown is not None
    assert unknown.rows[0][5:] == ("–", "0 of 10", "–", "–", "–")
    assert outside_table("maximum", {}) is None


def value(entry: Entry) -> float:
    assert isinstance(entry, Value)
    return entry.value


def written(root: Path) -> SweepReadings:
    """A sweep whose records tell of sockets, generators' threads, quotas and delays."""
    study_set = take_files(ONE, root)
    write_whole(root, study_set, Truth(), leave_out=tuple(one for one in study_set.files if one != "t-full.toml"))
    for folder in (root / "t-full" / "runs").iterdir():
        if not (folder / "cpu.json").exists():
            continue
        cpu, meta = (json.loads((folder / f"{name}.json").read_text()) for name in ("cpu", "run"))
        spent, interval = cpu["roles"]["client"]["cpu_ns"], cpu["interval_ns"]
        thread = {"threads": 3, "cpu_ns": spent, "waited_ns": int(1.8 * interval), "busiest_ns": spent}
        cpu["threads"] = {"client": {"weir": thread}}
        cpu["kernel_wait"] = {"count": 10, "sum_ns": 500_000}
        cpu["machines"] = {f"client-{place}": {"throttled_ns": int(0.02 * interval)} for place in range(3)}
        (folder / "cpu.json").write_text(json.dumps(cpu))
        for machine in meta["testbed"]["machines"]:
            machine["delay_ms"] = 0.04
        (folder / "run.json").write_text(json.dumps(meta))
    return read_cells("t-full.toml", root / "t-full")


def test_the_parts_are_those_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = written(tmp_path)
    run = sweep.cells[0].runs[0]
    threads = run.settings.client_threads * run.settings.generators
    assert run.generators_wait == pytest.approx(min(1.0, 1.8 / threads), rel=1e-6)
    assert run.clients_held == pytest.approx(0.02, rel=1e-6)
    monkeypatch.setattr(importlib.import_module("weir_lab.report.sections.claims.limits.why"), "usages", lambda *_: [])
    spec = next(one for one in load_set(ONE).sections if one.name == "full")
    task = Task(spec, (sweep,))
    explained = explained_of(task, [])
    # The synthetic proxy sees all but 0.2 ms of a request; 0.05 ms of those are in sockets, and 0.08 ms were built.
    assert all(
        "The way there and back was built to take 0.08 ms; 0.07 ms are left. Client machines were held by their CPU quotas for 2 % of"
        in one.text
        for one in explained
    )
    why, table = what_limits(task, [], explained)
    assert isinstance(table, Table)
    assert table.name == "full-outside"
    assert [value(one) for one in table.rows[0][1:5]] == pytest.approx([0.2, 0.05, 0.08, 0.07], abs=0.005)
    # What stays open is said once.
    assert sum("What is left outside of the proxy" in one for one in vars(why)["points"]) == 1
    assert "would tell" in vars(why)["points"][-1]


def test_threads_of_generators_that_had_gone_tell_nothing(tmp_path: Path) -> None:
    """The main thread was there at the second edge, and not the threads that had sent: its waiting is not theirs."""
    sweep = written(tmp_path)
    for path in (tmp_path / "t-full" / "runs").glob("*/cpu.json"):
        cpu = json.loads(path.read_text())
        cpu["threads"]["client"]["weir"]["cpu_ns"] //= 20
        path.write_text(json.dumps(cpu))
    runs: list[Reading] = [run for cell in read_cells("t-full.toml", sweep.folder).cells for run in cell.runs]
    assert {run.generators_wait for run in runs} == {None}
