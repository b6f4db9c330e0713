"""What if: ``weir-lab predict`` and ``weir-lab capacity``, as text or as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weir_lab.cli.checks import read_populations
from weir_lab.cli.models.tier_text import TIER_HELP, read_seconds, read_tier
from weir_lab.errors import StudyError
from weir_lab.theory.capacity import Answer, ClosedPlan, Plan, Tier, plan_capacity, predict_closed, predict_open
from weir_lab.theory.capacity.assumptions import assumptions
from weir_lab.theory.placements.popularity import hottest_share, read_popularity
from weir_lab.theory.units import duration_text, percent_text, rate_text, significant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["capacity", "predict"]

_Tiers = Annotated[list[str], typer.Option("--tier", metavar="TIER", help=TIER_HELP)]
_Delay = Annotated[str, typer.Option(help="Time outside the tiers per request (network, think time), such as 80us")]
_Value = Annotated[int, typer.Option("--value", help="Bytes per value, for tiers with per_kib= and for links")]
_Popularity = Annotated[
    str,
    typer.Option(metavar="HOW", help="How requests are spread over the keys, as for weir load; for tiers with :keyed"),
]
_Keys = Annotated[int, typer.Option(help="How many keys there are, with --popularity")]
_Json = Annotated[bool, typer.Option("--json", help="Print every number as JSON, in seconds and requests per second")]


def predict(
    tier: _Tiers,
    rate: Annotated[float | None, typer.Option(help="Open load: requests per second")] = None,
    clients: Annotated[str, typer.Option(metavar="N,N,...", help="Closed load: numbers of clients")] = "",
    delay: _Delay = "0s",
    value: _Value = 0,
    popularity: _Popularity = "",
    keys: _Keys = 0,
    as_json: _Json = False,
) -> None:
    """Predict throughput and response times of a system, for an open or a closed load."""
    tiers, outside = _tiers(tier, value, popularity, keys), read_seconds(delay)
    populations = read_populations(clients)
    if (rate is None) == (not populations):
        raise StudyError("Give either --rate for an open load or --clients for a closed one.")
    try:
        if rate is not None:
            _answer_open("weir.predict/1", predict_open(tiers, rate, outside), as_json, {})
        else:
            _answer_closed([predict_closed(tiers, n, outside) for n in populations], tiers, outside, as_json)
    except ValueError as error:
        raise StudyError(str(error)) from error


def capacity(
    tier: _Tiers,
    rate: Annotated[float, typer.Option(help="Requests per second")],
    p99: Annotated[str, typer.Option(help="Limit of the 99th percentile of the response time, such as 2ms")],
    delay: _Delay = "0s",
    load_max: Annotated[
        float, typer.Option(help="No unit may be busier than this share of the time. Lower it to keep more in reserve")
    ] = 0.8,
    value: _Value = 0,
    popularity: _Popularity = "",
    keys: _Keys = 0,
    as_json: _Json = False,
) -> None:
    """Say how many units of each tier a load needs to keep its 99th percentile."""
    tiers = _tiers(tier, value, popularity, keys)

    def planned(sign: float, *, worst_shape: bool = False) -> Plan:
        """At the times, or at one end of their intervals."""
        moved = [
            replace(one, service_time_s=one.service_time_s + sign * one.service_error_s, service_error_s=0.0)
            if sign
            else one
            for one in tiers
        ]
        limits = rate, 99.0, read_seconds(p99), read_seconds(delay), load_max
        return plan_capacity(moved, *limits, worst_shape=worst_shape)

    def units(make: Callable[[], Plan]) -> dict[str, int] | str:
        try:
            return {one.name: one.units for one in make().tiers}
        except ValueError as error:
            return str(error)

    try:
        plan = planned(0.0)
        others: dict[str, dict[str, int] | str] = {}
        if any(one.service_error_s > 0.0 for one in tiers):
            others["if all times are at their lower ends"] = units(lambda: planned(-1.0))
            others["if all times are at their upper ends"] = units(lambda: planned(1.0))
        if plan.shapes:
            others["with the worst shape of service times"] = units(lambda: planned(0.0, worst_shape=True))
        _answer_open("weir.capacity/1", plan, as_json, others)
    except ValueError as error:
        raise StudyError(str(error)) from error


def _tiers(texts: list[str], value: int, popularity: str, keys: int) -> list[Tier]:
    """Tiers as they were written, with the hottest key where requests go by keys."""
    if bool(popularity) != (keys > 0):
        raise StudyError("--popularity and --keys go together: how requests are spread, and over how many keys.")
    try:
        hottest = hottest_share(read_popularity(popularity), keys) if popularity else None
    except ValueError as error:
        raise StudyError(f"--popularity: {error}") from error
    tiers = [read_tier(text, value, hottest) for text in texts]
    if hottest is not None and not any(tier.hottest for tier in tiers):
        raise StudyError(
            "--popularity is for tiers whose units have keys of their own: write :keyed behind one, such as memcached:5us:keyed."
        )
    return tiers


def _answer_open(schema: str, plan: Plan, as_json: bool, others: dict[str, dict[str, int] | str]) -> None:
    said = assumptions(plan.tiers, closed=False)
    if as_json:
        _print_json(
            {
                "schema": schema,
                "load": "open",
                "rate_rps": plan.rate_per_s,
                "delay_s": plan.delay_s,
                "tiers": [_plain_tier(tier, busy) for tier, busy in zip(plan.tiers, plan.utilization, strict=True)],
                "bottleneck": plan.bottleneck.name,
                "mean_s": _plain(plan.mean),
                "percentiles_s": {f"p{percent:g}": _plain(answer) for percent, answer in plan.percentiles.items()},
                "shapes_s": {
                    f"p{percent:g}": {"low": low, "high": high} for percent, (low, high) in plan.shapes.items()
                },
                "units_otherwise": others,
                "assumptions": said,
            }
        )
        return
    typer.echo(f"open, units side by side, {rate_text(plan.rate_per_s)}; bottleneck {plan.bottleneck.name}")
    for tier, busy in zip(plan.tiers, plan.utilization, strict=True):
        typer.echo(
            f"  {tier.name}: {_units_text(tier)}, busiest unit {percent_text(busy)} busy{_hot_text(tier, plan.rate_per_s)}"
        )
    times = [f"mean {_interval(plan.mean, duration_text)}"]
    times += [f"p{percent:g} {_interval(answer, duration_text)}" for percent, answer in plan.percentiles.items()]
    typer.echo("  " + ", ".join(times))
    for percent, (low, high) in plan.shapes.items():
        typer.echo(
            f"  p{percent:g} lies between {duration_text(low)} and {duration_text(high)}, by the shape of service times of this cv²"
        )
    for when, units in others.items():
        text = units if isinstance(units, str) else ", ".join(f"{name} {count}" for name, count in units.items())
        typer.echo(f"  units {when}: {text}")
    _say_assumptions(said)


def _answer_closed(plans: list[ClosedPlan], tiers: list[Tier], delay_s: float, as_json: bool) -> None:
    busiest = max(range(len(tiers)), key=lambda index: plans[-1].utilization[index])
    said = assumptions(tiers, closed=True)
    if as_json:
        _print_json(
            {
                "schema": "weir.predict/1",
                "load": "closed",
                "delay_s": delay_s,
                "method": plans[-1].method,
                "bottleneck": tiers[busiest].name,
                "tiers": [_plain_tier(tier) for tier in tiers],
                "clients": [
                    {
                        "clients": plan.clients,
                        "throughput_rps": _plain(plan.throughput),
                        "response_time_s": _plain(plan.response_time),
                        "utilization": {tier.name: busy for tier, busy in zip(tiers, plan.utilization, strict=True)},
                    }
                    for plan in plans
                ],
                "assumptions": said,
            }
        )
        return
    typer.echo(f"closed, {plans[-1].method}; bottleneck {tiers[busiest].name}")
    typer.echo(f"{'clients':>9} {'requests/s':>32} {'mean in tiers':>34} {'bottleneck busy':>16}")
    for plan in plans:
        x, r = _interval(plan.throughput, significant), _interval(plan.response_time, duration_text)
        typer.echo(f"{plan.clients:>9} {x:>32} {r:>34} {percent_text(plan.utilization[busiest]):>16}")
    _say_assumptions(said)


def _say_assumptions(said: list[str]) -> None:
    typer.echo("assumed:")
    for sentence in said:
        typer.echo(f"  {sentence}")


def _units_text(tier: Tier) -> str:
    units = "1 unit" if tier.units == 1 else f"{tier.units:,} units"
    return units if tier.servers == 1 else f"{units} of {tier.servers:,} servers"


def _hot_text(tier: Tier, rate: float) -> str:
    """How much of that is one key's, where it is worth a word."""
    if not tier.hottest:
        return ""
    return f", {percent_text(tier.utilization_by_hottest(rate))} by the hottest key alone"


def _interval(answer: Answer, text: Callable[[float], str]) -> str:
    """A number, and its interval where the tiers' times have errors."""
    if answer.low == answer.high:
        return text(answer.value)
    high = text(answer.high) if math.isfinite(answer.high) else "no steady state"
    return f"{text(answer.value)} ({text(answer.low)} to {high})"


def _plain(answer: Answer) -> dict[str, float | None]:
    """JSON has no infinity: a high end that does not exist is null."""
    return {"value": answer.value, "low": answer.low, "high": answer.high if math.isfinite(answer.high) else None}


def _plain_tier(tier: Tier, busy: float | None = None) -> dict[str, Any]:
    reported = dataclasses.asdict(tier) | {"needed": tier.replicas_needed}
    return reported if busy is None else {**reported, "utilization": busy}


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=1, allow_nan=False))
