"""Uniformity of placements: verdicts on counts whose truth is known, and the binary's own placements."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from weir_lab.bench.programs.placing import count_placement, known_placements, read_keys
from weir_lab.cli import app
from weir_lab.errors import StudyError, TestbedError
from weir_lab.theory.placements.hashing import (
    KeyForm,
    PlacementCounts,
    PlacementRule,
    Spread,
    generate_keys,
    judge_placements,
)
from weir_lab.theory.stats import same_shares

if TYPE_CHECKING:
    from typer.testing import Result

ROOT = Path(__file__).parents[2]
WEIR = Path(os.environ.get("WEIR_BIN", ROOT / "target/release/weir"))
EVEN, RING = PlacementRule("even", by_points=False), PlacementRule("ring", by_points=True)
needs_weir = pytest.mark.skipif(not WEIR.exists(), reason=f"needs {WEIR} (build it, or name another in WEIR_BIN)")


def even(*keys: int) -> PlacementCounts:
    return PlacementCounts(EVEN, keys, None)


def test_verdicts_on_counts() -> None:
    counts = [
        even(100_047, 100_172, 99_590, 99_714, 100_506, 100_081, 99_962, 100_221, 99_809, 99_898),  # S3's test
        even(51_500, 48_500),
        even(50_010, 49_990),
        PlacementCounts(RING, (60_000, 40_000), (60_100, 39_900)),
        PlacementCounts(RING, (60_000, 40_000), (55_000, 45_000)),
    ]
    checks = judge_placements(counts)
    assert [check.spread for check in checks] == [
        Spread.EVEN,
        Spread.UNEVEN,
        Spread.EVEN,
        Spread.BY_POINTS,
        Spread.KEYS_CLUSTER,
    ]
    assert checks[0].uniformity.chi_square == pytest.approx(6.41456, rel=1e-9)
    assert checks[3].ring_distance == pytest.approx(0.101)
    assert "20.0 % off" in checks[3].reason


def test_the_family_decides_not_the_single_check() -> None:
    """p = 0.013 alone is news; the best of forty such checks is not."""
    rng = np.random.default_rng(3)
    doubtful = even(50_393, 49_607)
    assert judge_placements([doubtful])[0].spread is Spread.UNEVEN
    crowd = [even(*rng.multinomial(100_000, [0.5, 0.5]).tolist()) for _ in range(39)]
    assert judge_placements([doubtful, *crowd])[0].spread is Spread.EVEN


def test_perfect_hashing_is_called_uneven_as_often_as_promised() -> None:
    rng = np.random.default_rng(20_161_118)
    families, wrong = 400, 0
    for _ in range(families):
        counts = [even(*rng.multinomial(20_000, np.full(size, 1 / size)).tolist()) for size in range(2, 11)]
        wrong += any(check.spread is Spread.UNEVEN for check in judge_placements(counts))
    # At most one family in twenty, plus four standard deviations.
    assert wrong <= families * 0.05 + 4 * np.sqrt(families * 0.05 * 0.95)


def test_keys_that_take_turns_are_distinguished_from_chance() -> None:
    checks = judge_placements([even(*[10_000] * 10), even(10_050, 9_960, 9_990)])
    assert [check.spread for check in checks] == [Spread.IN_SEQUENCE, Spread.EVEN]


def test_weights_are_the_shares() -> None:
    (check,) = judge_placements([even(10_020, 29_950, 60_030)], [0.1, 0.3, 0.6])
    assert check.spread is Spread.EVEN
    (equal,) = judge_placements([even(10_020, 29_950, 60_030)])
    assert equal.spread is Spread.UNEVEN


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=8))
def test_equal_proportions_are_the_same_shares(counts: list[int]) -> None:
    assert same_shares(counts, [3 * count for count in counts]) == pytest.approx(1.0)
    assert same_shares([*counts, 0], [*counts, 0]) == pytest.approx(1.0)


def test_homogeneity_of_random_keys_is_uniform_in_p() -> None:
    rng = np.random.default_rng(5)
    shares = [0.5, 0.2, 0.2, 0.1]
    p = [same_shares(rng.multinomial(4000, shares), rng.multinomial(9000, shares)) for _ in range(2000)]
    assert np.quantile(p, [0.05, 0.5, 0.95]) == pytest.approx([0.05, 0.5, 0.95], abs=0.04)


def test_forms_of_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    random = generate_keys(KeyForm.RANDOM, 1000, rng)
    assert len(set(random)) == 1000
    assert {len(key) for key in random} == {16}
    assert all(key.isalnum() for key in random)
    assert generate_keys(KeyForm.NUMBERED, 2, rng) == [b"user:0", b"user:1"]
    with pytest.raises(StudyError, match="1 to 10,000,000 keys, not 0"):
        generate_keys(KeyForm.RANDOM, 0, rng)
    file = tmp_path / "keys"
    file.write_bytes(b"a\nb\n\na\n\xff\xfe\nb")
    assert read_keys(file) == [b"a", b"b", b"\xff\xfe"]
    file.write_bytes(b"\n")
    with pytest.raises(StudyError, match="0 keys"):
        read_keys(file)
    with pytest.raises(StudyError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_a_missing_binary_is_named(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="is not there"):
        known_placements(tmp_path / "weir")


@needs_weir
def test_every_placement_of_the_binary() -> None:
    rules = known_placements(WEIR)
    assert len(rules) >= 22
    keys = generate_keys(KeyForm.RANDOM, 10_000, np.random.default_rng(1))
    reference = generate_keys(KeyForm.RANDOM, 10_000, np.random.default_rng(2))
    servers = [f"10.0.0.{number}:11211" for number in range(1, 6)]
    checks = judge_placements([count_placement(WEIR, rule, servers, keys, reference) for rule in rules])
    assert {check.rule.name: check.spread for check in checks} == {
        rule.name: Spread.BY_POINTS if rule.by_points else Spread.EVEN for rule in rules
    }
    assert all(check.keys == 10_000 for check in checks)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["hash", "--bin", str(WEIR), *arguments])


@needs_weir
def test_the_command_names_a_hash_that_keeps_the_order_of_keys() -> None:
    chosen = ["--placement", "jump", "--placement", "twemproxy/ketama", "--servers", "4", "--count", "10000"]
    bad = invoke(*chosen, "--form", "numbered", "--json")
    assert bad.exit_code == 3
    verdicts = {check["placement"]: check["verdict"] for check in json.loads(bad.output)["checks"]}
    assert verdicts == {"jump": "even", "twemproxy/ketama": "keys cluster"}
    good = invoke(*chosen)
    assert good.exit_code == 0
    assert "uneven by design" in good.output


@needs_weir
def test_the_command_with_a_fleet_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\n".join(generate_keys(KeyForm.RANDOM, 5000, np.random.default_rng(1))))
    fleet = ["--server", "a:1:1", "--server", "b:1:3", "--keys", str(file)]
    result = invoke(*fleet, "--placement", "rendezvous", "--placement", "jump")
    assert result.exit_code == 0
    assert "5,000 keys" in result.output
    assert "not asked: jump" in result.output
    assert "knows no weights" in result.output


@pytest.mark.parametrize(
    "arguments",
    [["--servers", "1-5"], ["--servers", "x"], ["--placement", "nosuch"], ["--server", "a:1:0"], ["--count", "0"]],
)
@needs_weir
def test_impossible_questions_are_answered_in_words(arguments: list[str]) -> None:
    result = invoke("--count", "100", *arguments)
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "StudyError"
