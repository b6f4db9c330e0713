"""The arithmetic of `bench/tls`: ratios within rounds, medians of them, and what they are held to."""

from __future__ import annotations

from typing import Any

import pytest

from bench.peers import tls


def record(
    comparison: str, round_number: int, subject: str, requests: int, cpu: dict[str, float], *problems: str
) -> dict[str, Any]:
    return {
        "comparison": comparison,
        "round": round_number,
        "subject": subject,
        "load": {"phases": {"measured": {"requests": requests, "duration_ns": 10**9}}},
        "cpu": {
            "per_request_ns": {role: cost * 1e3 for role, cost in cpu.items()},
            "proxy_cores": 0.9 if "proxy" in cpu else None,
        },
        "problems": list(problems),
    }


def rounds(comparison: str, ratios: list[float], proxy: float = 4.0) -> list[dict[str, Any]]:
    """Of one comparison, by round: Weir is at some multiple of 100,000/s. The other costs 4 us and 2 us."""
    made = []
    for number, ratio in enumerate(ratios):
        made.append(record(comparison, number, "weir", int(ratio * 1e5), {"proxy": proxy, "servers": 0.8, "load": 1}))
        other = {"servers": 2.0, "load": 1.0} | ({"proxy": 4.0} if comparison == "clients" else {})
        made.append(record(comparison, number, "other", 100_000, other))
    return made


def test_the_ratio_is_the_median_of_the_rounds_in_which_both_count() -> None:
    records = rounds("clients", [1.2, 2.0, 1.5])
    records += [
        record("clients", 3, "weir", 10**9, {"proxy": 1.0}),
        record("clients", 3, "other", 1, {"proxy": 1.0}, "disturbed"),
    ]
    assert tls.ratios(records, "clients", tls.THROUGHPUT) == [1.2, 2.0, 1.5]
    lines = tls.table(records).splitlines()
    assert "| clients: Weir beside TLS to HAProxy, requests/s | 1.5e+05 | 1e+05 | 1.50 (1.20 to 2.00) | 3 |" in lines
    assert not any(line.startswith("| servers") for line in lines)


def test_a_side_without_a_proxy_has_no_ratio_of_its_cost() -> None:
    records = rounds("servers", [2.0])
    assert tls.ratios(records, "servers", tls.PROXY_CPU) == []
    assert f"TLS to memcached, {tls.PROXY_CPU} | 4 | - | - | 1 |" in tls.table(records)
    assert tls.ratios(records, "servers", tls.SERVERS_CPU) == [0.4]


@pytest.mark.parametrize(
    ("ratios", "proxy", "wanted", "expected"),
    [
        ([1.31, 1.2, 1.4], 4.0, 3, True),
        ([1.31, 1.2, 1.25], 4.0, 3, False),
        ([1.31, 1.2, 1.4], 4.1, 3, False),
        ([1.4, 1.4], 4.0, 3, False),
        ([], 4.0, 3, False),
    ],
)
def test_what_is_wanted_is_met_by_the_medians_of_enough_rounds(
    ratios: list[float], proxy: float, wanted: int, expected: bool
) -> None:
    said, are_met = tls.verdicts(rounds("clients", ratios, proxy), ["clients"], wanted)
    assert are_met is expected
    assert ("met" in said and "missed" not in said and "open" not in said) is expected
    assert "servers" not in said


def test_the_targets_are_of_measures_and_comparisons_that_are_made() -> None:
    for target in tls.TARGETS:
        assert target.measure in tls.MEASURES
        assert tls.OTHERS[target.cell] == target.peer
    said, are_met = tls.verdicts(rounds("servers", [4.9]) + rounds("clients", [1.5]), ["servers", "clients"], 1)
    assert are_met
    assert said.count("| met |") == len(tls.TARGETS)
