"""What `predict`, `capacity` and `hash --popularity` print: digits, units, assumptions, and the same as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from test_run import WEIR, needs_programs
from weir_lab.cli import app
from weir_lab.theory import units

CAPACITY = ["capacity", "--p99", "2ms", "--delay", "80us"]


def said(*argv: str) -> str:
    result = CliRunner().invoke(app, list(argv))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def refused(*argv: str) -> str:
    result = CliRunner().invoke(app, list(argv))
    assert result.exit_code == 1
    return str(result.exception)


@pytest.mark.parametrize("rate", ["0.004", "0.3", "7", "123.456", "98765.4"])
def test_rates_of_any_size_have_three_digits(rate: str) -> None:
    text = said("predict", "--rate", rate, "--tier", "p:1us")
    assert f"{units.significant(float(rate))} requests/s" in text
    assert not re.search(r"\b0 requests/s", text)
    slow = said("predict", "--clients", "1,2", "--tier", "p:9s")
    assert "0.111" in slow


def test_numbers_have_three_significant_digits_and_one_way_of_units() -> None:
    text = said(
        *CAPACITY, "--rate", "123456", "--tier", "proxy:10us+-1us:servers=4", "--tier", "memcached:5us:hottest=0.05"
    )
    for number in re.findall(r"([0-9][0-9,.]*) (?:requests/s|s|ms|µs|ns|%)(?!\w)", text):
        digits = number.replace(",", "").replace(".", "").lstrip("0")
        assert len(digits.rstrip("0")) <= 3, number
        assert len(digits) >= 3, number
    assert "us" not in re.findall(r"[0-9] ?(us|usec|sec|/s)\b", text)


@pytest.mark.parametrize(
    ("tier", "what"),
    [
        (
            "m:5us",
            "exponential service times, all units get the same load: no key is hot (hottest=), and placement is even (imbalance=)",
        ),
        ("m:5us:hottest=0.02", "exponential service times, one key gets 2.00 % of the requests, the others are even"),
        ("m:5us:hottest=0.02:imbalance=1.1", "of the others a unit gets up to 1.1 times the mean"),
        ("m:5us:imbalance=1.2", "the busiest unit gets 1.2 times the mean"),
        ("m:5us:cv2=0", "constant service times"),
        ("m:5us:cv2=0.5", "gamma distributed service times with cv² = 0.500"),
        ("m:5us:cv2=4", "service times of unknown shape with cv² = 4.00"),
        ("m:5us:replicas=2:writes=0.1", "copies of a write are served independently"),
    ],
)
def test_what_is_assumed_is_said(tier: str, what: str) -> None:
    text = said(*CAPACITY, "--rate", "1e6", "--tier", tier)
    assert what in text
    assert "Arrivals are independent of each other (Poisson)" in text
    assert "No pauses" in text
    reported = json.loads(said(*CAPACITY, "--rate", "1e6", "--tier", tier, "--json"))
    assert any(what in sentence for sentence in reported["assumptions"])


def test_more_variable_service_comes_with_a_bracket() -> None:
    text = said(*CAPACITY, "--rate", "1e6", "--tier", "m:5us:cv2=8")
    assert re.search(r"p99 lies between [0-9.]+ .s and [0-9.]+ .s, by the shape of service times of this cv²", text)
    assert "units with the worst shape of service times: m " in text
    assert "lies between" not in said(*CAPACITY, "--rate", "1e6", "--tier", "m:5us:cv2=0.5")


def test_one_hot_key_is_reported() -> None:
    skewed = ["--rate", "4e6", "--popularity", "zipf:1", "--keys", "1000000"]
    assert "alone keeps a unit 195 % busy" in refused(*CAPACITY, *skewed, "--tier", "memcached:7us:keyed")
    text = said(*CAPACITY, *skewed, "--tier", "proxy:10us:servers=4", "--tier", "memcached:2us:keyed")
    assert "55.6 % by the hottest key alone" in text
    assert "go together" in refused(*CAPACITY, *skewed[:-2], "--tier", "memcached:2us:keyed")
    assert "write :keyed behind one" in refused(*CAPACITY, *skewed, "--tier", "memcached:2us")
    assert "keyed needs --popularity" in refused(*CAPACITY, "--rate", "1e6", "--tier", "memcached:2us:keyed")
    assert "is not a popularity" in refused(
        "predict", "--rate", "1", "--popularity", "odd", "--keys", "9", "--tier", "m:1us:keyed"
    )


def plain(*argv: str) -> dict[str, Any]:
    reported = json.loads(said(*argv, "--json"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(reported, dict)
    return reported


def test_json_has_the_numbers_of_the_text() -> None:
    tiers = ["--tier", "proxy:10us+-1us:servers=4", "--tier", "memcached:5us:hottest=0.1"]
    reported = plain(*CAPACITY, "--rate", "1e6", *tiers)
    text = said(*CAPACITY, "--rate", "1e6", *tiers)
    assert reported["schema"] == "weir.capacity/1"
    for tier in reported["tiers"]:
        assert f"{tier['name']}: {tier['units']} units" in text
        assert f"busiest unit {units.percent_text(tier['utilization'])} busy" in text
    p99 = reported["percentiles_s"]["p99"]
    assert f"p99 {units.duration_text(p99['value'])} ({units.duration_text(p99['low'])} to" in text
    assert set(reported["units_otherwise"]) == {
        "if all times are at their lower ends",
        "if all times are at their upper ends",
    }
    edge = plain("predict", "--rate", "90000", "--tier", "p:10us+-2us")
    assert edge["schema"] == "weir.predict/1"
    assert edge["mean_s"]["high"] is None
    closed = plain("predict", "--clients", "1,8", "--tier", "p:10us")
    assert [row["clients"] for row in closed["clients"]] == [1, 8]
    assert closed["clients"][0]["throughput_rps"]["value"] == pytest.approx(1e5)
    assert closed["assumptions"]


@needs_programs
def test_hash_tells_the_load_of_the_busiest_server() -> None:
    asked = [
        "hash",
        "--bin",
        str(WEIR),
        "--servers",
        "4",
        "--placement",
        "jump",
        "--count",
        "2000",
        "--popularity",
        "zipf:1",
    ]
    reported = plain(*asked)
    shares = [1.0 / rank for rank in range(1, 2001)]
    assert reported["hottest_share"] == pytest.approx(1.0 / sum(shares))
    (check,) = reported["checks"]
    assert reported["hottest_share"] < check["busiest_share_of_requests"] < 1.0
    assert check["imbalance_of_requests"] == pytest.approx(4.0 * check["busiest_share_of_requests"])
    assert "busiest server" in said(*asked)
    assert "busiest server" not in said(*asked[:-2])
    even = plain(*asked[:-1], "uniform")["checks"][0]
    assert even["imbalance_of_requests"] == pytest.approx(1.0 + even["largest_deviation_percent"] / 100.0, rel=0.2)
    assert "is not a popularity" in refused(*asked[:-1], "often")
