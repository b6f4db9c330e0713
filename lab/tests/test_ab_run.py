"""`weir-lab ab` with real processes: few short lives, and differences that no neighbour hides."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from test_run import WEIR, needs_programs, processes_writing_into
from weir_lab.bench.running import Executables
from weir_lab.bench.turns.lives import ERRORS_ALLOWED, Bench, make_life
from weir_lab.bench.turns.sides import parse_side
from weir_lab.cli import app
from weir_lab.cli.ab.options import read_cores, read_flags, read_share, read_time_s
from weir_lab.design import RequestPath, Settings
from weir_lab.errors import LabError, StudyError, TestbedError
from weir_lab.records import read_json
from weir_lab.records.comparisons import ComparisonRecord, LifeRecord, errors_sentence, read_lives

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

SHORT = ["--pairs", "5", "--piece", "20ms", "--warmup", "5ms", "--keys", "100", "--clients", "4"]


def ab(folder: Path, a: str, b: str, *flags: str) -> Result:
    return CliRunner().invoke(app, ["ab", a, b, "--bin", str(WEIR), "--out", str(folder), *SHORT, *flags])


def bench(a: str, b: str, levels: tuple[int, ...] = (4,), **more: object) -> Bench:
    settings = Settings(
        path=RequestPath.DIRECT,
        clients=4,
        depth=1,
        keys=100,
        value_size_bytes=64,
        write_ratio=0.1,
        client_threads=1,
        proxy_threads=1,
        servers=2,
        server_threads=1,
        server_memory_mib=64,
    )
    sides = {"A": parse_side("A", a, WEIR), "B": parse_side("B", b, WEIR)}
    return Bench(sides, settings, Executables(WEIR, "memcached"), 1, 0.02, 0.005, levels, **more)  # type: ignore[arg-type]


@needs_programs
def test_half_the_throughput_is_slower_with_status_3(tmp_path: Path) -> None:
    """The direct path against one more hop: a difference of half, whatever else the machine does."""
    slower = ab(tmp_path / "1", "direct", "weir", "--lives", "30", "--budget", "10m", "--error", "20%", "--json")
    record = read_json(tmp_path / "1" / "comparison.json", ComparisonRecord)
    assert (record.verdict, slower.exit_code) == ("slower", 3), f"{slower.output}{slower.exception!r}"
    assert slower.output.count("A is direct; B is weir.") == 2
    assert record.levels[0].sentence in slower.output
    assert len(read_lives(tmp_path / "1")) == record.levels[0].looks[-1].lives
    assert record.levels[0].looks[-1].high_percent < 0.0
    assert processes_writing_into(tmp_path / "1") == []
    assert sorted(path.name for path in (tmp_path / "1").iterdir()) == [
        "comparison.html",
        "comparison.json",
        "lives.jsonl",
    ]


@needs_programs
def test_too_small_a_budget_cannot_tell_with_status_4(tmp_path: Path) -> None:
    found = ab(tmp_path / "1", "weir", "weir", "--budget", "1ms")
    assert found.exit_code == 4, f"{found.output}{found.exception!r}"
    assert "Cannot tell: 1 process life" in found.output
    again = ab(tmp_path / "1", "weir", "weir", "--budget", "1ms")
    assert isinstance(again.exception, TestbedError)
    assert "nothing is overwritten" in str(again.exception)


@needs_programs
def test_a_life_has_pieces_of_both_sides_in_turn_and_both_ask_for_the_same(tmp_path: Path) -> None:
    line = f"{WEIR} proxy --listen {{listen}} --server {{servers}}"
    life = make_life(bench("weir --threads 2", line, (1, 4)), 3, tmp_path / "life")
    assert [piece.pair for piece in life.pieces] == [0] * 4 + [1] * 4
    assert all(one.clients == other.clients for one, other in zip(life.pieces[::2], life.pieces[1::2], strict=True))
    assert {piece.clients for piece in life.pieces[4:]} == {1, 4}
    assert all(
        {one.side, other.side} == {"A", "B"} for one, other in zip(life.pieces[::2], life.pieces[1::2], strict=True)
    )
    assert all(piece.cpu_ns_per_request is None or piece.cpu_ns_per_request > 0 for piece in life.pieces)
    assert sum(piece.requests for piece in life.pieces) > 0
    assert len(life.yardstick_ns) == len(life.pieces) + 1
    assert processes_writing_into(tmp_path / "life") == []
    again = make_life(bench("weir --threads 2", line, (1, 4)), 3, tmp_path / "again")
    assert [piece.side for piece in again.pieces] == [piece.side for piece in life.pieces]


@needs_programs
def test_a_side_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"B \(weir --no-such-flag\): proxy ended early"):
        make_life(bench("weir", "weir --no-such-flag"), 1, tmp_path / "life")
    assert processes_writing_into(tmp_path / "life") == []


@needs_programs
def test_a_side_that_answers_wrongly_ends_the_comparison(tmp_path: Path) -> None:
    """Values above the limit of one side are refused by it: no verdict is made of errors."""
    with pytest.raises(TestbedError, match=r"the load on B|B \(weir --max-value 10b\) answered with errors"):
        make_life(bench("weir", "weir --max-value 10b"), 1, tmp_path / "life")


# Between clients and one memcached: the gets with these numbers are answered with an error. What sets the keys has one connection and many
# requests outstanding; it is left alone.
RELAY = """
import itertools, socket, sys, threading
listen, server, first, last = sys.argv[1].split(":"), sys.argv[2].split(":"), int(sys.argv[3]), int(sys.argv[4])
gets, clients = itertools.count(1), set()

def copy(behind, client):
    while data := behind.recv(65536):
        client.sendall(data)

def serve(client):
    clients.add(client)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, socket.create_connection((server[0], int(server[1]))) as behind:
        behind.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=copy, args=(behind, client), daemon=True).start()
        while data := client.recv(65536):
            # Several requests may have come at once, each of which is to be answered.
            for line in data.splitlines(keepends=True):
                whole = line.startswith(b"get ") and line.endswith(b"\\n")
                if whole and len(clients) > 1 and first <= next(gets) <= last:
                    client.sendall(b"SERVER_ERROR planted\\r\\n")
                else:
                    behind.sendall(line)
        clients.discard(client)

listener = socket.create_server((listen[0], int(listen[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@needs_programs
def test_few_error_replies_are_counted_and_reported_and_many_end_the_comparison(tmp_path: Path) -> None:
    """A single error reply ended a comparison of hours."""
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)

    def line(first: int, last: int) -> str:
        return f"{sys.executable} {relay} {{listen}} {{server}} {first} {last}"

    def life(name: str, side: str) -> LifeRecord:
        made = bench("direct", side)
        settings = made.settings.model_copy(update={"servers": 1})
        return make_life(dataclasses.replace(made, settings=settings, piece_s=0.08), 1, tmp_path / name)

    few = life("few", line(3, 5))
    assert few.errors == {"B": {"SERVER_ERROR planted": 3}}
    assert few.asked["B"] > 3
    assert errors_sentence([few, few]) == (
        f"B answered 6 of {2 * few.asked['B']:,} requests with an error: 6 times 'SERVER_ERROR planted'."
    )
    assert errors_sentence([few.model_copy(update={"errors": {}})]) == ""
    many = (
        rf"B \(.*\) answered .* requests of a life with errors: .*planted.* More than {ERRORS_ALLOWED} and 0\.1 % end"
    )
    with pytest.raises(TestbedError, match=many):
        life("many", line(3, 1_000_000_000))
    assert processes_writing_into(tmp_path / "many") == []


@needs_programs
def test_interrupted_it_stops_everything_and_keeps_its_lives(tmp_path: Path) -> None:
    words = ["ab", "weir", "weir", "--bin", str(WEIR), "--out", str(tmp_path / "1"), *SHORT, "--budget", "10m"]
    code = "from weir_lab.cli import main; main()"
    running = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    lives = tmp_path / "1" / "lives.jsonl"
    deadline = time.monotonic() + 60.0
    while not (lives.exists() and lives.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGTERM)
    output, _ = running.communicate(timeout=60.0)
    assert running.returncode == 130, output
    assert "interrupted" in output
    assert read_lives(tmp_path / "1")
    assert processes_writing_into(tmp_path / "1") == []
    assert json.loads((tmp_path / "1" / "comparison.json").read_text())["levels"] == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: parse_side("A", "", WEIR), "A is empty"),
        (lambda: parse_side("A", "weir 'x", WEIR), "quotes"),
        (lambda: parse_side("B", "no-such-program -p {port}", WEIR), "B: no-such-program is not there"),
        (lambda: parse_side("A", "ls -l", WEIR), "where it shall listen"),
        (lambda: read_time_s("--budget", "6"), "not a time"),
        (lambda: read_time_s("--budget", "0s"), "not a time"),
        (lambda: read_share("--same-within", "2", 1.0), "percentage"),
        (lambda: read_share("--error", "50%", 0.5), "below 50 %"),
        (lambda: read_cores("client=7", [0, 1]), "no core 7"),
        (lambda: read_cores("clients=0", [0, 1]), "not a role"),
        (lambda: read_flags("--duration 5s"), "set by the comparison"),
        (lambda: read_flags("--depth=4"), "set by the comparison"),
        (lambda: read_flags("'"), "quotes"),
    ],
)
def test_mistakes_on_the_command_line_say_what_to_write(make: object, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--piece", "90ms", "--warmup", "20ms"], "longer than 100 ms"),
        (["--metric", "cpu"], "`direct` has none"),
        (["--clients", "0"], "numbers from 1"),
        (["--clients", "4,4"], "each number once"),
        (["--keys", "0"], "--keys: "),
        (["--writes", "1.5"], "--writes: "),
        (["--value-size", "0"], "--value-size: "),
        (["--page", "no/such/folder/page.html"], "there is no folder"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_starts(
    tmp_path: Path, flags: list[str], words: str
) -> None:
    found = CliRunner().invoke(app, ["ab", "direct", "direct", "--out", str(tmp_path / "1"), *flags])
    assert isinstance(found.exception, LabError)
    assert words in str(found.exception)
    assert not (tmp_path / "1").exists()
