"""The comparison's arithmetic: medians and ratios of counted runs only, and CPU time between two moments."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.peers import claims, measure, picture, subjects, table
from bench.peers.cells import CELLS, SETS, cells_of_set
from bench.peers.targets import TARGETS, Target, verdicts
from tests.harness.processes import Address, SocketPath


def record(subject: str, number: int, cpu_us: float, rps: float, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    answered = {"response_time": {"p50_ns": 100_000, "p99_ns": None}}
    return {
        "cell": "c8",
        "round": number,
        "subject": subject,
        "load": {"throughput_rps": rps, "operations": dict.fromkeys(("get", "multiget"), answered)},
        "cpu": {"per_request_ns": {"servers": 5000.0} | ({"proxy": cpu_us * 1e3} if subject != "direct" else {})},
        "problems": list(problems),
    }


def test_medians_and_paired_ratios() -> None:
    text = table.render(
        [
            record("weir", 1, 5, 30_000), record("nutcracker", 1, 10, 20_000), record("direct", 1, 0, 60_000),
            record("weir", 2, 6, 30_000), record("nutcracker", 2, 10, 30_000), record("direct", 2, 0, 60_000),
            record("weir", 3, 9, 30_000), record("nutcracker", 3, 10, 10_000), record("direct", 3, 0, 60_000),
        ]
    )  # fmt: skip
    assert "| 8 connections | weir | 3 | 6.00 | 30.0 | 100 | - | 5.00 |" in text
    assert "| 8 connections | direct | 3 | - | 60.0 | 100 | - | 5.00 |" in text
    costs = "0.60 (0.50 to 0.90) | 0.73 (0.67 to 0.93)"
    assert f"| 8 connections | 3 | {costs} | 1.50 (1.00 to 3.00) | 1.00 (1.00 to 1.00) | - |" in text
    assert "All 9 runs count." in text


def test_a_disturbed_run_takes_its_pair_along() -> None:
    text = table.render(
        [
            record("weir", 1, 50, 1, ("disturbed",)), record("nutcracker", 1, 10, 20_000),
            record("weir", 2, 5, 30_000), record("nutcracker", 2, 10, 20_000),
        ]
    )  # fmt: skip
    assert "| 8 connections | weir | 1 | 5.00 | 30.0 |" in text
    assert "| 8 connections | nutcracker | 2 | 10.00 | 20.0 |" in text
    assert "| 8 connections | 1 | 0.50 (0.50 to 0.50) |" in text
    assert "- c8, round 1, weir: disturbed" in text


def test_busy_shares_tell_which_core_had_no_time_left() -> None:
    run = record("weir", 1, 6, 100_000) | {"cell": "own-c8"}
    run["cpu"]["per_request_ns"]["load"] = 4500.0
    assert "| weir | 60 | 95 | 5.00 | 4.50 |" in table.render([run])


def test_the_kernels_part_of_direct_access_is_the_least_that_a_proxy_takes() -> None:
    used = {"servers_user_ticks": 25.0, "servers_kernel_ticks": 75.0, "proxy_user_ticks": 0.0}
    assert measure.kernel_share("servers", used) == 0.75
    assert measure.kernel_share("proxy", used) is None

    def made(cell: str) -> str:
        run = record("direct", 1, 0, 60_000) | {"cell": cell}
        run["cpu"]["kernel_share"] = {"servers": 0.75}
        return table.render([run])

    assert "| direct | - | - | 5.00 | 75 | 0.75 |" in made("c64")
    assert "| direct | - | - | 5.00 | 75 | 0.75 |" in made("new-c64-d10")
    # The distribution's memcached makes a call for each reply of a pipeline, and a proxy one for all.
    assert "| direct | - | - | 5.00 | 75 | - |" in made("c64-d10")
    assert "the kernel took" not in table.render([record("direct", 1, 0, 60_000)])


def test_user_and_kernel_ticks_are_those_of_the_process() -> None:
    times = os.times()
    ticks = os.sysconf("SC_CLK_TCK")
    assert abs(measure.user_ticks(os.getpid()) - times.user * ticks) <= 2
    assert abs(measure.kernel_ticks(os.getpid()) - times.system * ticks) <= 2


def test_shared_cores_have_no_busy_shares() -> None:
    assert "Shares of cores" not in table.render([record("weir", 1, 5, 30_000)])


@pytest.mark.parametrize(
    ("foreign_ns", "stolen_ns", "counts", "expected"),
    [
        (0.1e9, 0.0, {}, []),
        (0.3e9, 0.0, {}, ["disturbed: 0.30 cores were used by others"]),
        (0.1e9, 0.1e9, {}, ["disturbed: 0.20 cores were used by others"]),
        (0.0, 0.0, {"errors": 2, "misses": 1}, ["2 errors", "1 misses"]),
        (0.0, 0.0, {"requests": 0}, ["nothing was answered"]),
    ],
)
def test_what_makes_a_run_not_count(
    foreign_ns: float, stolen_ns: float, counts: dict[str, int], expected: list[str]
) -> None:
    measured = {"duration_ns": 10**9, "requests": 10, "errors": 0, "misses": 0, "failures": 0} | counts
    load = {"cpu": {"user_ns": 100, "system_ns": 200}}
    own = {"proxy": 300.0, "servers": 400.0, "bench": 500.0, "stolen": stolen_ns}
    used = own | {"machine": foreign_ns + 100 + 200 + 300 + 400 + 500}
    assert measure.problems(load, used, measured, 0.15) == expected


def test_cpu_time_between_two_moments_is_interpolated() -> None:
    sampler = measure.CpuSampler({"proxy": lambda: 0})
    start = 1_700_000_000 * 10**9
    sampler._samples = [(start, 1000), (start + 100, 1050), (start + 200, 1250)]
    assert sampler.used_ns(start + 50, start + 150) == {"proxy": 125.0}
    with pytest.raises(measure.RunError):
        sampler.used_ns(start + 50, start + 201)


def test_histograms_are_left_out_of_what_is_kept() -> None:
    kept = measure.without_histograms({"a": [{"histogram": "HIST", "p50_ns": 1}], "histogram": None})
    assert kept == {"a": [{"p50_ns": 1}]}


def test_folders_of_sockets_are_left_out_of_what_is_kept() -> None:
    load = {"config": {"targets": ["unix:/some/folder/clients.sock", "127.0.0.1:11211"], "depth": 1}}
    kept = measure.without_folders(load)
    assert kept == {"config": {"targets": ["unix:clients.sock", "127.0.0.1:11211"], "depth": 1}}


def test_a_target_is_met_by_the_median_of_the_rounds() -> None:
    throughput, p99 = [1.0, 1.16, 1.3], [1.2]
    beside = ("weir", "nutcracker")
    rows = verdicts({("own-c64", "throughput", *beside): throughput, ("own-c8", "p99", *beside): p99})
    assert [row[-2:] for row in rows] == [["1.20 (1.20 to 1.20)", "**missed**"], ["1.16 (1.00 to 1.30)", "met"]]


def test_every_target_of_a_run_is_judged() -> None:
    """Targets beside another peer than twemproxy, of another subject, and of no ratio, too."""
    cells = ("new-own-c64-k9", "c64-zipf", "c64-d10")
    made = [
        record(subject, 1, 5, 30_000) | {"cell": cell, "keys_per_message": 25.0}
        for cell in cells
        for subject in ("weir", "weir-near", "nutcracker", "haproxy", "direct")
    ]
    rows = verdicts(table.all_ratios(made, [CELLS[cell] for cell in cells]))
    judged = {(row[0], row[1]) for row in rows}
    assert (CELLS["new-own-c64-k9"].describe(), "throughput, weir / haproxy") in judged
    assert (CELLS["c64-zipf"].describe(), "both cpu, weir-near / direct") in judged
    assert (CELLS["c64-d10"].describe(), "keys per message, weir") in judged
    # Only p99 was not measured.
    wanted = [target for target in TARGETS if target.cell in cells and target.measure != "p99"]
    assert len(rows) == len(wanted)


def test_keys_per_message_are_of_gets_alone() -> None:
    operations = {"get": {"keys": 70}, "multiget": {"keys": 30}, "set": {"requests": 15}}
    snapshot = {
        "operations": operations,
        "servers": [{"requests": 70}, {"requests": 35}],
        "counters": {"gets_joined": 70},
    }
    assert measure.keys_per_message(snapshot) == 5.0
    assert measure.keys_per_message(snapshot | {"operations": {}}) is None


def test_other_cores_have_no_part_in_a_run() -> None:
    mine = os.sched_getaffinity(0)
    assert measure.jiffies({min(mine)})[3] > 0
    assert measure.jiffies(set()) == []


def test_targets_have_directions() -> None:
    assert Target("c64", "throughput", 1.15, "at least").is_met(1.15)
    assert not Target("c64", "throughput", 1.15, "at least").is_met(1.14)
    assert Target("c64", "proxy_cpu", 0.75, "at most").is_met(0.75)
    assert not Target("c64", "proxy_cpu", 0.75, "at most").is_met(0.76)


def test_the_usual_cells_have_every_target() -> None:
    assert {target.cell for target in TARGETS} <= set(SETS["standard"])
    assert set(SETS["quick"]) <= set(SETS["standard"]) <= set(CELLS)


ROOT = Path(__file__).resolve().parents[2]


def test_readme_says_what_its_run_says() -> None:
    found = claims.pattern().search((ROOT / "README.md").read_text())
    assert found is not None
    run = found.group(1)
    records = [json.loads(line) for line in (ROOT / run / "runs.jsonl").read_text().splitlines()]
    assert found.group(0) == claims.section(run, records), f"run bench/compare-peers --publish {run}"
    assert (ROOT / run / claims.PICTURE).is_file()
    assert (ROOT / run / claims.PICTURE_SHORT).is_file()
    lines = found.group(0).splitlines()
    assert sum(line.startswith("| ") for line in lines) <= 2 + claims.SHOWN_MAX


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > claims.COLUMNS] == []


def test_what_is_lost_is_said() -> None:
    rounds = [record("weir", 1, 12, 30_000), record("nutcracker", 1, 10, 20_000)]
    said = " ".join(claims.section("bench/runs/R", rounds).split())
    assert "Of the run's 1 loads Weir loses to twemproxy in 1 and to HAProxy in none: by throughput" in said
    assert "Worst load against twemproxy: 8 connections. Weir's CPU per request is 1.20 times twemproxy's." in said
    assert "Without a proxy" not in said
    better = [record("weir", 1, 8, 30_000), record("nutcracker", 1, 10, 20_000), record("haproxy", 1, 9, 40_000)]
    said = " ".join(claims.section("bench/runs/R", [*better, record("direct", 1, 0, 60_000)]).split())
    assert "Weir loses to twemproxy in none and to HAProxy in 1" in said
    assert "Worst load against HAProxy: 8 connections. Weir's throughput is 0.75 times HAProxy's." in said
    assert "Without a proxy, throughput is higher in 1 of 1 loads." in said


def test_readme_has_four_loads_and_the_worst_of_all() -> None:
    runs = [
        record(subject, 1, cpu, rps) | {"cell": cell}
        for cell in ("c8", "c64", "c64-d10", "c64-k9", "own-c8", "own-c64")
        for subject, cpu, rps in (("weir", 8, 30_000), ("nutcracker", 10, 20_000), ("haproxy", 9, 31_000))
    ]
    runs[0]["load"]["throughput_rps"] = 10_000
    text = claims.section("bench/runs/R", runs)
    assert [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:] == [
        CELLS[name].describe() for name in claims.SHOWN
    ]
    assert "Worst load against HAProxy: 8 connections. Weir's throughput is 0.32" in " ".join(text.split())
    assert {it["cell"] for it in claims.in_short(runs)} == set(claims.SHOWN)


def test_publishing_replaces_the_section_alone(tmp_path: Path) -> None:
    readme, rounds = tmp_path / "README.md", [record("weir", 1, 8, 30_000), record("nutcracker", 1, 10, 20_000)]
    readme.write_text(f"above\n{claims.BEGIN.format('bench/runs/OLD')}\nold\n{claims.END}\nbelow\n")
    claims.publish(readme, "bench/runs/NEW", rounds)
    text = readme.read_text()
    assert text.startswith(f"above\n{claims.BEGIN.format('bench/runs/NEW')}\n")
    assert text.endswith(f"{claims.END}\nbelow\n")
    assert "old" not in text


def test_a_file_without_a_section_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(ValueError, match="has no section"):
        claims.publish(tmp_path / "README.md", "bench/runs/NEW", [])


def test_the_picture_shows_every_load_on_its_side() -> None:
    rounds = [record("weir", 1, 8, 30_000), record("nutcracker", 1, 10, 20_000)]
    other = {"weir": "nutcracker", "nutcracker": "weir"}
    swapped = [it | {"cell": "own-c64", "subject": other[it["subject"]]} for it in rounds]
    drawn = picture.draw([*rounds, *swapped])
    loads = {cell.describe() for cell in table.cells_of([*rounds, *swapped])}
    assert len(loads) == 2
    assert loads <= set(ElementTree.fromstring(drawn).itertext())
    # No percentile was measured: two measures of each load. More requests and less CPU time are better.
    assert (drawn.count('<g class="better">'), drawn.count('<g class="worse">')) == (2, 2)
    assert "median 1.500, rounds 1.500" in drawn


def test_the_picture_puts_twice_and_half_at_the_same_distance() -> None:
    rounds = [record("weir", 1, 8, 30_000), record("nutcracker", 1, 10, 20_000)]
    ticks = re.findall(r'<path class="[ag]" d="M([\d.]+) ', picture.draw(rounds))[: len(picture.TICKS)]
    half, _, one, _, double = map(float, ticks)
    assert one - half == pytest.approx(double - one, abs=0.2)


def test_cells_before_the_newest_memcached_are_those_of_a_set_where_there_is_one() -> None:
    for name in SETS:
        without = cells_of_set(name, has_newest=False)
        assert without == [cell for cell in cells_of_set(name, has_newest=True) if not cell.startswith("new-")]
        assert all(CELLS[cell].newest == cell.startswith("new-") for cell in SETS[name])
    assert {target.cell for target in TARGETS if CELLS[target.cell].newest} != set()


def test_a_cell_says_in_its_name_and_its_words_what_it_is() -> None:
    cell = CELLS["new-own-c64-d10-zipf"]
    assert cell.describe() == "64 connections, 10 requests deep, zipf 0.99, newest memcached, proxy on its own core"
    assert cell.flags()[-2:] == ["--popularity", "zipf:0.99"]
    assert CELLS["fan-in"].flags()[-2:] == ["--rate", "5000"]
    assert len({cell.describe() for cell in CELLS.values()}) == len(CELLS)
    assert all(name == cell.name for name, cell in CELLS.items())


def test_clients_on_the_proxys_machine_reach_it_by_a_socket_and_the_servers_are_reached_by_tcp(tmp_path: Path) -> None:
    here, server = SocketPath(tmp_path / "clients.sock"), Address("10.0.0.1", 11211)
    assert subjects.Subject(here, None).target == f"unix:{tmp_path}/clients.sock"
    assert subjects.Subject(server, None).target == "10.0.0.1:11211"
    command = subjects.weir_command(Path("weir"), here, [server])
    assert command[command.index("--listen") + 1] == str(here.path)
    assert command[command.index("--server") + 1] == "10.0.0.1:11211"
    subjects.nutcracker_command(here, [server], tmp_path)
    assert f"listen: {here.path}\n" in (tmp_path / "nutcracker.yml").read_text()
    # Each is held against the same proxy at a port and against no proxy, where it has both.
    assert {(f"weir{subjects.BESIDE}", peer) for peer in ("weir", "direct")} <= set(table.RATIOS)
    assert {above.removesuffix(subjects.BESIDE) for above, _ in table.RATIOS} <= {"weir", subjects.NEAR}
