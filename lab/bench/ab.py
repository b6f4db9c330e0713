"""How often `weir-lab ab` is right, by real recordings under a disturber; docs/measure/ab.md has the results.

    .venv/bin/python lab/bench/ab.py record FOLDER                  200 windows of 60 s of A against A: three and a half hours
    .venv/bin/python lab/bench/ab.py record FOLDER --windows 5      a quick look; the same command goes on where it ended
    .venv/bin/python lab/bench/ab.py judge FOLDER                   verdicts of the windows, of planted 5 %, and of a before/after
    .venv/bin/python lab/bench/ab.py real FOLDER                    20 comparisons with a planted cost, 20 of A with A: up to 2 h 40 min
    .venv/bin/python lab/bench/ab.py demos FOLDER                   ten times what `make demo` measures, against their pooled value
    .venv/bin/python lab/bench/ab.py extract FOLDER FILE.csv        a recording as the table that the tests simulate with
    .venv/bin/python lab/bench/ab.py pack FOLDER KEPT               windows that KEPT lacks, as one more small file in it
    .venv/bin/python lab/bench/ab.py unpack FOLDER KEPT             windows of all files in KEPT: `record` goes on behind them

The disturber is a process that is busy in bursts, 30 % of the time. The cost that `real` plants is a pause for each event of B's proxy
(lab/bench/spin.c, which needs a C compiler); how much it takes follows from all its comparisons together. All writes into FOLDER alone.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard
from scipy import stats

from weir_lab.bench.running import Executables
from weir_lab.bench.turns.comparing import compare
from weir_lab.bench.turns.lives import Bench, make_life
from weir_lab.bench.turns.sides import parse_side
from weir_lab.cli.ab.options import default_cores, read_time_s
from weir_lab.design import RequestPath, Settings
from weir_lab.records.comparisons import (
    Budget,
    LifeRecord,
    Metric,
    Outcome,
    Rule,
    append_life,
    pairs_of,
    read_lives,
    replay,
    value_of,
)
from weir_lab.theory.stats.stopping import SequentialPlan, Verdict, life_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
PLANTED = 1.05
JOINED = 6
CLIENTS = 16
DEMO_LEVELS = (1, 4, 16, 64)
RULE = Rule()
# Busy and idle in turn, each for an exponential time: 0.15 s and 0.35 s on average.
DISTURBER = """
import random, time
while True:
    end = time.monotonic() + random.expovariate(1 / 0.15)
    while time.monotonic() < end:
        pass
    time.sleep(random.expovariate(1 / 0.35))
"""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "judge", "real", "demos", "extract", "pack", "unpack"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("--metric", type=Metric, default=Metric.THROUGHPUT)
        command.add_argument("--weir", type=Path, default=ROOT / "target" / "release" / "weir")
        command.add_argument("--undisturbed", action="store_true")
    commands.choices["record"].add_argument("--windows", type=int, default=200)
    commands.choices["record"].add_argument("--seconds", type=float, default=60.0)
    for name in ("record", "real"):
        commands.choices[name].add_argument("--first", type=int, default=0)
    commands.choices["real"].add_argument("--comparisons", type=int, default=20)
    commands.choices["real"].add_argument("--only", choices=("planted", "equal"))
    commands.choices["real"].add_argument("--budget", default="6m")
    commands.choices["real"].add_argument("--equal-budget", default="2m")
    commands.choices["real"].add_argument("--spin-ns", type=int, default=1000)
    commands.choices["demos"].add_argument("--demos", type=int, default=10)
    commands.choices["extract"].add_argument("file", type=Path)
    commands.choices["extract"].add_argument("--lives", type=int, default=160)
    for name in ("pack", "unpack"):
        commands.choices[name].add_argument("kept", type=Path)
    chosen = parser.parse_args()
    does = {"record": record, "judge": judge_recording, "real": really, "demos": demos, "extract": extract}
    (does | {"pack": pack, "unpack": unpack})[chosen.command](chosen)


def bench_of(
    chosen: argparse.Namespace,
    a: str,
    b: str,
    seed: int,
    levels: tuple[int, ...] = (CLIENTS,),
    servers: int = 1,
    pairs: int = 12,
) -> Bench:
    """What `weir-lab ab` uses without options."""
    weir = chosen.weir.absolute()
    settings = Settings(
        path=RequestPath.DIRECT,
        clients=CLIENTS,
        depth=1,
        keys=10_000,
        value_size_bytes=128,
        write_ratio=0.1,
        client_threads=1,
        proxy_threads=1,
        servers=servers,
        server_threads=1,
        server_memory_mib=64,
    )
    cores = default_cores(sorted(os.sched_getaffinity(0)))
    sides = {"A": parse_side("A", a, weir), "B": parse_side("B", b, weir)}
    return Bench(sides, settings, Executables(weir, "memcached"), pairs, 0.08, 0.015, levels, cores, seed=seed)  # type: ignore[arg-type]


@contextlib.contextmanager
def disturbed(chosen: argparse.Namespace) -> Iterator[None]:
    """A neighbour in bursts, unless none is wanted; it ends with this process."""
    if chosen.undisturbed:
        yield
        return
    neighbour = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-c", DISTURBER])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


def window_folders(folder: Path) -> list[Path]:
    """Windows that are complete."""
    return sorted(path.parent for path in folder.glob("window-*/lives.jsonl") if path.parent.suffix != ".part")


def remove(folder: Path) -> None:
    """With all that is in it; what an earlier attempt left, or logs of processes that behaved."""
    shutil.rmtree(folder, ignore_errors=True)


def record(chosen: argparse.Namespace) -> None:
    """Windows of fresh lives, one after the other."""
    made = len(window_folders(chosen.folder))
    with disturbed(chosen):
        for number in range(chosen.first + made, chosen.first + chosen.windows):
            folder = chosen.folder / f"window-{number:03}.part"
            remove(folder)
            folder.mkdir(parents=True)
            bench, began, lives = bench_of(chosen, "weir", "weir", number), time.monotonic(), 0
            while lives == 0 or (time.monotonic() - began) * (1.0 + 1.0 / lives) <= chosen.seconds:
                lives += 1
                life = make_life(bench, lives, folder / "life")
                append_life(folder, life)
                remove(folder / "life")
            folder.rename(chosen.folder / f"window-{number:03}")
            print(f"window {number}: {lives} lives, load {os.getloadavg()[0]:.1f}", flush=True)


def slower_by(life: LifeRecord, factor: float) -> LifeRecord:
    """The life, had B been slower by this factor."""
    pieces = [
        piece.model_copy(
            update={
                "throughput_rps": piece.throughput_rps / factor,
                **{
                    name: value * factor
                    for name in ("mean_ns", "p50_ns", "p99_ns", "cpu_ns_per_request")
                    if (value := getattr(piece, name)) is not None
                },
            }
        )
        if piece.side == "B"
        else piece
        for piece in life.pieces
    ]
    return life.model_copy(update={"pieces": pieces})


def distinguished(outcomes: Sequence[Outcome]) -> int:
    """How many say that there is a difference."""
    return sum(outcome.verdict in (Verdict.FASTER, Verdict.SLOWER) for outcome in outcomes)


def before_after(lives: Sequence[LifeRecord], metric: Metric) -> bool:
    """What is usual: A in the first half of the time, B in the second, pieces taken for independent, Welch at the same error."""
    half = len(lives) // 2
    sides = [
        [
            math.log(value_of(piece, metric))
            for life in part
            for piece in life.pieces
            if piece.side == side and piece.pair > 0 and piece.requests
        ]
        for part, side in ((lives[:half], "A"), (lives[half:], "B"))
    ]
    return bool(stats.ttest_ind(sides[0], sides[1], equal_var=False).pvalue < RULE.plan.error)


def judge_recording(chosen: argparse.Namespace) -> None:
    """Verdicts of a recording, and what a before/after would have said of it."""
    windows = [read_lives(folder) for folder in window_folders(chosen.folder)]
    rule = Rule(metric=chosen.metric)
    alone = [replay(lives, rule, Budget(seconds=60.0), CLIENTS) for lives in windows]
    joined = [
        [slower_by(life, PLANTED) for lives in windows[at : at + JOINED] for life in lives]
        for at in range(0, len(windows) - JOINED + 1, JOINED)
    ]
    planted = [replay(lives, rule, Budget(seconds=60.0 * JOINED), CLIENTS) for lives in joined]
    usual = [before_after(lives, chosen.metric) for lives in windows]
    found = sum(outcome.verdict is Verdict.SLOWER for outcome in planted)
    usual_found = [before_after(lives, chosen.metric) for lives in joined]
    print(f"{chosen.metric}: {len(windows)} windows, {sum(map(len, windows))} lives")
    print(
        f"A against A distinguished: {distinguished(alone)} of {len(alone)}; by before/after {sum(usual)} of {len(usual)}"
    )
    same = sum(outcome.verdict is Verdict.SAME for outcome in alone)
    print(f"A against A the same within {100 * rule.same_within:g} %: {same} of {len(alone)}")
    print(
        f"planted {100 * (PLANTED - 1):g} %, {JOINED} windows joined: found {found} of {len(planted)}; "
        f"by before/after {sum(usual_found)} (right or wrong way) of {len(usual_found)}"
    )
    for outcome in planted:
        change, low, high = outcome.judgement.change if outcome.judgement else (math.nan, math.nan, math.nan)
        print(f"   {outcome.verdict}: {change:+.2f} % ({low:+.2f} to {high:+.2f}) after {len(outcome.lives)} lives")


def really(chosen: argparse.Namespace) -> None:
    """Comparisons from start to end, with a planted cost and without in turn; `results.jsonl` has one line per comparison."""
    chosen.folder.mkdir(parents=True, exist_ok=True)
    shim, results = (chosen.folder / "spin.so").absolute(), chosen.folder / "results.jsonl"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", str(shim), str(Path(__file__).with_name("spin.c"))], check=True
    )
    b = f"env LD_PRELOAD={shim} SPIN_NS={chosen.spin_ns} {chosen.weir.absolute()} proxy"
    b += " --listen {listen} --admin {admin} --server {servers}"
    made = len(results.read_text().splitlines()) if results.exists() else 0
    rule = Rule(metric=chosen.metric, plan=SequentialPlan())
    does = [("planted", b, chosen.budget), ("equal", "weir", chosen.equal_budget)]
    numbers = range(chosen.first, chosen.first + 2 * chosen.comparisons)
    wanted = [number for number in numbers if chosen.only in (None, does[number % 2][0])]
    with disturbed(chosen):
        for number in wanted[made:]:
            kind, side, budget = does[number % 2]
            folder = chosen.folder / f"comparison-{number:03}"
            remove(folder)
            folder.mkdir()
            began = time.monotonic()
            bench = bench_of(chosen, "weir", side, 1000 + number)
            limit = Budget(seconds=read_time_s("--budget", budget))
            outcome = compare(bench, rule, limit, folder, lambda _life, _outcomes: None)[CLIENTS]
            change = outcome.judgement.change if outcome.judgement else None
            row = {
                "kind": kind,
                "number": number,
                "spin_ns": chosen.spin_ns if kind == "planted" else None,
                "verdict": outcome.verdict,
                "change": change,
                "lives": len(outcome.lives),
                "took_s": round(time.monotonic() - began, 1),
            }
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for kind, verdicts in (("planted", ("slower",)), ("equal", ("slower", "faster"))):
        of_kind = [row for row in rows if row["kind"] == kind]
        print(f"{kind}: {sum(row['verdict'] in verdicts for row in of_kind)} of {len(of_kind)} {' or '.join(verdicts)}")


def demos(chosen: argparse.Namespace) -> None:
    """Whether intervals of demos hold what all demos together say: at least nine of ten at each number of clients."""
    chosen.folder.mkdir(parents=True, exist_ok=True)
    rule = Rule(precision=0.1, plan=SequentialPlan(error=0.05))
    with disturbed(chosen):
        for number in range(len(list(chosen.folder.glob("demo-*/changes.json"))), chosen.demos):
            folder = chosen.folder / f"demo-{number:02}"
            remove(folder)
            folder.mkdir()
            began = time.monotonic()
            bench = bench_of(chosen, "direct", "weir", 2000 + number, DEMO_LEVELS, servers=3, pairs=4)
            outcomes = compare(bench, rule, Budget(seconds=110.0), folder, lambda _life, _outcomes: None)
            changes = {str(clients): outcome.judgements[-1].change for clients, outcome in outcomes.items()}
            (folder / "changes.json").write_text(json.dumps(changes))
            print(f"demo {number + 1}: {time.monotonic() - began:.0f} s, {changes}", flush=True)
    folders = sorted(path.parent for path in chosen.folder.glob("demo-*/changes.json"))
    lives = [life for folder in folders for life in read_lives(folder)]
    for clients in DEMO_LEVELS:
        pooled = 100.0 * math.expm1(
            float(life_values([pairs_of(life, Metric.THROUGHPUT, clients) for life in lives]).mean())
        )
        found = [json.loads((folder / "changes.json").read_text())[str(clients)] for folder in folders]
        holding = sum(low <= pooled <= high for _, low, high in found)
        widest = max((high - low) / 2.0 for _, low, high in found)
        print(
            f"{clients} clients: pooled {pooled:+.1f} %, held by {holding} of {len(found)} intervals, half-widths at most {widest:.1f}"
        )


def extract(chosen: argparse.Namespace) -> None:
    """Log ratios of all pairs of a recording, in the order that they were made, with how slow the yardstick was."""
    lives = [
        life
        for folder in window_folders(chosen.folder)
        for life in read_lives(folder)
        if all(piece.requests for piece in life.pieces)
    ][: chosen.lives]
    with chosen.file.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["life", "first_log_rate", "second_log_rate", "first_is", "log_slowness"])
        for number, life in enumerate(lives, start=1):
            counted = [piece for piece in life.pieces if piece.pair > 0]
            pairs = pairs_of(life, Metric.THROUGHPUT, CLIENTS)
            for place, (one, other) in enumerate(zip(counted[::2], counted[1::2], strict=True)):
                logs = [f"{math.log(piece.throughput_rps):.3f}" for piece in (one, other)]
                rows.writerow([number, *logs, one.side, f"{pairs[place].log_slowness:.3f}"])


def kept_windows(kept: Path) -> dict[str, list[str]]:
    """Lives of the windows in all files of a folder, as lines of JSON."""
    found: dict[str, list[str]] = {}
    for file in sorted(kept.glob("windows-*.jsonl.zst")):
        for line in zstandard.decompress(file.read_bytes()).decode().splitlines():
            row = json.loads(line)
            found.setdefault(row["window"], []).append(json.dumps(row["life"], separators=(",", ":")))
    return found


def pack(chosen: argparse.Namespace) -> None:
    """One more file of the windows that are not kept yet."""
    chosen.kept.mkdir(parents=True, exist_ok=True)
    known = kept_windows(chosen.kept)
    new = [folder for folder in window_folders(chosen.folder) if folder.name not in known]
    if not new:
        print(f"{chosen.kept} has all {len(known)} windows")
        return
    rows = [
        json.dumps({"window": folder.name, "life": json.loads(line)}, separators=(",", ":")) + "\n"
        for folder in new
        for line in (folder / "lives.jsonl").read_text().splitlines()
    ]
    first, last = (folder.name.removeprefix("window-") for folder in (new[0], new[-1]))
    file = chosen.kept / f"windows-{first}-{last}.jsonl.zst"
    file.write_bytes(zstandard.compress("".join(rows).encode(), 19))
    print(f"{file}: {len(new)} windows, {len(rows)} lives, {file.stat().st_size / 1024:.0f} KiB")


def unpack(chosen: argparse.Namespace) -> None:
    """Windows as `record` leaves them."""
    for name, lines in kept_windows(chosen.kept).items():
        folder = chosen.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lives.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{chosen.folder} has {len(window_folders(chosen.folder))} windows")


if __name__ == "__main__":
    main()
