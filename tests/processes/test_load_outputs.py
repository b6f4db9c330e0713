"""What `weir load` leaves behind: its answer, its record against the published schema, its log as HdrHistogram's tools
read it, its exit status."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from tests.harness.processes import LIVENESS_S, ROOT, Address, Memcached, weir_binary

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "weir.load-1.json").read_text())

LOADS: dict[str, Sequence[str]] = {
    "closed": (),
    "thinking": ("--think-time", "exp:2ms"),
    "open": ("--rate", "500 100ms, 500..1500 400ms", "--arrivals", "bursts:5", "--assign", "random"),
    "content": ("--preset", "facebook-etc", "--reconnect-after", "10-20", "--one-writer"),
    "unanswered": ("--no-prefill", "--timeout", "10ms"),
}


def load(address: Address, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(weir_binary()), "load", "--target", str(address), "--keys", "100", "--warmup", "0", *options]
    if "--rate" not in options:
        command += ["--duration", "500ms"]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)


@pytest.mark.parametrize("name", LOADS)
def test_a_record_keeps_to_the_published_schema(name: str, servers: list[Memcached], tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    if name == "unanswered":
        servers[0].freeze()
    done = load(servers[0].address, *LOADS[name], "--json", str(record), "--fail-if", "get.p99>1h")
    if name == "unanswered":
        servers[0].thaw()
    # A target that never answers is an error.
    assert done.returncode == (1 if name == "unanswered" else 0), done.stderr
    jsonschema.validate(json.loads(record.read_text()), SCHEMA)


def test_the_end_begins_with_the_answer_and_its_numbers_are_those_of_the_record(
    servers: list[Memcached], tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    done = load(servers[0].address, "--rate", "400 1s", "--json", str(path))
    record = json.loads(path.read_text())
    reached, trust, heads, *_ = done.stdout.splitlines()
    offered, answered = record["scheduled"]["offered_rate_rps"], record["throughput_rps"]
    assert reached.startswith(f"Offered {offered:.0f} requests/s, answered {answered:.0f}, no error replies; p50 ")
    # A busy machine lets the generator be late, and that is said. Whether its own delay is much depends on it, too.
    doubted = record["scheduled"]["unsent"] > 0 or (record["bottleneck"] or {}).get("who") in ("generator", "target")
    own_delay = "Look before you trust this: the generator's own delay is much of the times: "
    assert trust.startswith("Look before you trust this: " if doubted else ("You can trust this: ", own_delay))
    assert heads.split()[:3] == ["requests", "rate/s", "mean"]


@pytest.mark.parametrize(("late_after", "said"), [("1us", "the generator was the bottleneck: "), ("1m", "")])
def test_who_set_the_pace_is_said_where_the_table_is(late_after: str, said: str, servers: list[Memcached]) -> None:
    done = load(servers[0].address, "--rate", "400 500ms", "--late-after", late_after)
    last = done.stdout.splitlines()[-1]
    assert last.startswith(said), done.stdout
    verdicts = ("bottleneck", "set the pace")
    assert any(verdict in last for verdict in verdicts), done.stdout
    assert not any(verdict in done.stderr for verdict in verdicts), done.stderr


def test_a_server_that_never_answers_is_no_result(servers: list[Memcached]) -> None:
    servers[0].freeze()
    done = load(servers[0].address, *LOADS["unanswered"])
    servers[0].thaw()
    reached, trust, *_ = done.stdout.splitlines()
    assert reached == "Nothing was answered in the measured phase."
    assert trust.startswith("Look before you trust this: ")
    assert "failure" in trust


def test_the_schema_refuses_what_is_no_record(servers: list[Memcached], tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    load(servers[0].address, "--json", str(path))
    record = json.loads(path.read_text())
    damaged: list[dict[str, Any]] = [
        {**record, "schema": "weir.load/2"},
        {name: value for name, value in record.items() if name != "scheduled"},
        {**record, "bottleneck": {"who": "network"}},
        {**record, "windows": [{"index": -1}]},
    ]
    for damage in damaged:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(damage, SCHEMA)


def test_the_log_is_read_by_hdrhistograms_own_reader(servers: list[Memcached], tmp_path: Path) -> None:
    log, record = tmp_path / "run.hlog", tmp_path / "record.json"
    done = load(servers[0].address, "--rate", "400 1500ms", "--hdr", str(log), "--json", str(record))
    assert done.returncode == 0, done.stderr
    untagged = "".join(line for line in log.read_text().splitlines(keepends=True) if not line.startswith("Tag="))
    log.write_text(untagged)
    total = HdrHistogram(1, 2**40 - 1, 3)
    reader = HistogramLogReader(str(log), total)
    seconds = 0
    with closing(reader):
        while (interval := reader.get_next_interval_histogram()) is not None:
            total.add(interval)
            seconds += 1
    operations = json.loads(record.read_text())["operations"].values()
    assert seconds >= 2
    assert total.get_total_count() == sum(operation["response_time"]["count"] for operation in operations)
    largest = max(operation["response_time"]["max_ns"] or 0 for operation in operations)
    assert total.get_max_value() == pytest.approx(largest, rel=0.001)


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (("p50>1h", "misses>0"), 0),
        (("p50>1h", "requests>0"), 3),
        (("p99.99<1h",), 3),
        (("p98>1h",), 2),
    ],
)
def test_the_exit_status_tells_whether_a_condition_came_about(
    conditions: Sequence[str], status: int, servers: list[Memcached]
) -> None:
    flags = [word for condition in conditions for word in ("--fail-if", condition)]
    done = load(servers[0].address, "--rate", "200 500ms", *flags)
    assert done.returncode == status, done.stderr
    assert (status == 3) == (f"--fail-if {conditions[-1]}:" in done.stderr)
