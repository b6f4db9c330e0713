"""``weir-lab hash``: how evenly placements spread keys, as a table or as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from weir_lab.bench.programs.installed import WEIR_DEFAULT, find_weir
from weir_lab.bench.programs.placing import count_placement, known_placements, read_keys
from weir_lab.errors import StudyError
from weir_lab.theory.placements.hashing import (
    KeyForm,
    PlacementCheck,
    PlacementCounts,
    PlacementRule,
    Spread,
    generate_keys,
    judge_placements,
)
from weir_lab.theory.placements.popularity import key_shares, read_popularity
from weir_lab.theory.units import percent_text, significant

__all__ = ["hash_keys"]

_SERVERS_MAX = 1024
_EXPLAINED = {
    Spread.EVEN: "chi-square shows no departure from the intended shares.",
    Spread.IN_SEQUENCE: "even, but not by chance: neighbouring keys take the servers in turn. Fine, if keys stay in such a sequence.",
    Spread.BY_POINTS: "a ring: each server has the arcs behind its points, so shares differ by the luck of some hundred points, "
    "whatever the keys. Judged by whether these keys fall as random ones do; 'ring' is the distance of the random ones. "
    "A fleet that exists keeps its ring; jump and rendezvous are even.",
    Spread.KEYS_CLUSTER: "a ring on which these keys fall otherwise than random ones: the hash keeps some of their order.",
    Spread.UNEVEN: "this placement should be even, and these keys are not spread so.",
}


def hash_keys(
    keys: Annotated[Path | None, typer.Option(help="A file with a key per line; generated keys without it")] = None,
    form: Annotated[KeyForm, typer.Option(help="Form of the generated keys")] = KeyForm.RANDOM,
    count: Annotated[
        int, typer.Option(help="How many keys to generate. More of them find smaller differences")
    ] = 100_000,
    servers: Annotated[
        str, typer.Option(metavar="N|N-M", help="Numbers of servers, named 10.0.0.1:11211 and on")
    ] = "2-10",
    server: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT[:WEIGHT]", help="The servers of a fleet instead; repeat it")
    ] = None,
    placement: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this placement; repeat it. All without it")
    ] = None,
    key_hash: Annotated[str, typer.Option("--hash", metavar="NAME", help="Hash of keys, where there is a choice")] = "",
    popularity: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="How requests are spread over the keys, as for weir load; the first key is the hottest"
        ),
    ] = "",
    seed: Annotated[
        int, typer.Option(help="Seed of the generated keys and of the rings' random keys. Change it to test other keys")
    ] = 20161118,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON")] = False,
    binary: Annotated[Path | None, typer.Option("--bin", help="The weir binary", show_default=WEIR_DEFAULT)] = None,
) -> None:
    """Test whether placements spread keys evenly. Status 3 if one that should does not, or keys cluster on a ring."""
    random, weir = np.random.default_rng(seed), find_weir(binary)
    asked = read_keys(keys) if keys is not None else generate_keys(form, count, random)
    reference = generate_keys(KeyForm.RANDOM, len(asked), random)
    weights = _popularity(popularity, len(asked))
    rules = _chosen(known_placements(weir), placement or [])
    pools = [server] if server else [_named(size) for size in _sizes(servers)]
    options = ["--hash", key_hash] if key_hash else []

    def count_one(job: tuple[PlacementRule, list[str]]) -> PlacementCounts | str:
        try:
            return count_placement(weir, job[0], job[1], asked, reference, options, weights)
        except StudyError as error:
            return f"{job[0].name}: {error}"

    jobs = [(rule, pool) for rule in rules for pool in pools]
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as workers:
        answers = list(workers.map(count_one, jobs))
    counted = [answer for answer in answers if isinstance(answer, PlacementCounts)]
    refused = list(dict.fromkeys(answer for answer in answers if isinstance(answer, str)))
    if not counted:
        raise StudyError("; ".join(refused))
    try:
        checks = judge_placements(counted, _shares(server))
    except ValueError as error:
        raise StudyError(str(error)) from error
    if as_json:
        reported: dict[str, object] = {
            "schema": "weir.hash/1",
            "checks": [_plain(c) for c in checks],
            "refused": refused,
        }
        if weights is not None:
            reported |= {"popularity": popularity, "hottest_share": max(weights)}
        typer.echo(json.dumps(reported, indent=1))
    else:
        _show(checks, refused, len(asked))
        if weights is not None:
            _show_requests(checks, popularity, max(weights))
    if any(check.spread in (Spread.UNEVEN, Spread.KEYS_CLUSTER) for check in checks):
        raise typer.Exit(3)


def _show(checks: list[PlacementCheck], refused: list[str], keys: int) -> None:
    typer.echo(
        f"{keys:,} keys. distance: share of the keys that would have to move; expected: its mean under perfect hashing; "
        f"worst: largest deviation of a server\nfrom its share; p: after Holm for {len(checks)} checks"
    )
    typer.echo(
        f"{'placement':30}{'servers':>8}{'chi-square':>12}{'distance':>10}{'expected':>10}{'ring':>9}{'worst %':>9}{'p':>9}  verdict"
    )
    for check in checks:
        fit = check.uniformity
        ring = "-" if check.ring_distance is None else f"{check.ring_distance:.5f}"
        typer.echo(
            f"{check.rule.name:30}{check.servers:>8}{fit.chi_square:>12.1f}{fit.distance:>10.5f}{fit.expected_distance:>10.5f}"
            f"{ring:>9}{fit.largest_deviation_percent:>9.2f}{check.p_holm:>9.2g}  {check.spread}"
        )
    for spread, text in _EXPLAINED.items():
        found = [check for check in checks if check.spread is spread]
        if found:
            typer.echo(f"{spread} ({len(found)}): {text}")
    for spread in (Spread.UNEVEN, Spread.KEYS_CLUSTER):
        for check in checks:
            if check.spread is spread:
                typer.echo(f"  {check.rule.name}, {check.servers} servers: {check.reason}")
    for reason in refused:
        typer.echo(f"not asked: {reason}")


def _show_requests(checks: list[PlacementCheck], popularity: str, hottest: float) -> None:
    typer.echo(f"requests by {popularity}: the hottest key gets {percent_text(hottest)} of them, wherever it lies")
    typer.echo(f"{'placement':30}{'servers':>8}{'busiest server':>16}{'over its share':>16}")
    for check in checks:
        if check.busiest_share is not None and check.imbalance is not None:
            over = f"{significant(check.imbalance)} x"
            typer.echo(f"{check.rule.name:30}{check.servers:>8}{percent_text(check.busiest_share):>16}{over:>16}")


def _popularity(text: str, keys: int) -> list[float] | None:
    """Shares of the requests, in the order of the keys."""
    if not text:
        return None
    try:
        found: list[float] = key_shares(read_popularity(text), keys).tolist()
    except ValueError as error:
        raise StudyError(f"--popularity: {error}") from error
    return found


def _plain(check: PlacementCheck) -> dict[str, object]:
    return {
        "placement": check.rule.name,
        "by_points": check.rule.by_points,
        "servers": check.servers,
        "keys": check.keys,
        **dataclasses.asdict(check.uniformity),
        "ring_distance": check.ring_distance,
        "p_asked": check.p,
        "p_holm": check.p_holm,
        "verdict": check.spread.value,
        "reason": check.reason,
        "busiest_share_of_requests": check.busiest_share,
        "imbalance_of_requests": check.imbalance,
    }


def _chosen(known: list[PlacementRule], names: list[str]) -> list[PlacementRule]:
    by_name = {rule.name: rule for rule in known}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise StudyError(f"Unknown placement {', '.join(unknown)}: use one of {', '.join(by_name)}.")
    return [by_name[name] for name in dict.fromkeys(names)] if names else known


def _sizes(text: str) -> list[int]:
    match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 2 <= first <= last <= _SERVERS_MAX:
        raise StudyError(f"--servers takes a number or a range such as 2-10, from 2 to {_SERVERS_MAX}, not {text!r}.")
    return list(range(first, last + 1))


def _named(size: int) -> list[str]:
    return [f"10.0.{number // 256}.{number % 256}:11211" for number in range(1, size + 1)]


def _shares(servers: list[str] | None) -> list[float] | None:
    """Intended shares of servers with weights; None for equal ones."""
    if not servers:
        return None
    weights = []
    for server in servers:
        match = re.fullmatch(r"[^\s:]+:[0-9]{1,5}(?::([0-9]{1,9}(?:\.[0-9]{1,9})?))?", server)
        if match is None or float(match[1] or 1) <= 0.0:
            raise StudyError(f"--server takes HOST:PORT or HOST:PORT:WEIGHT with a positive weight, not {server!r}.")
        weights.append(float(match[1] or 1))
    return [weight / sum(weights) for weight in weights]
