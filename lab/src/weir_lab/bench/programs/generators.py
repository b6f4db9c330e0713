"""Load generators of a run: how its clients are shared out to them, and the command line of each. Pure.

A cell has `Settings.generators` generators: ``instances`` on each of ``client_machines``. Start with `shares_of`; then `weir_load_argv` and
`memcaslap_argv` make command lines of a `Share`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.records.formats import load_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import Plan, Settings

__all__ = [
    "MEMCASLAP",
    "PREFIX_LENGTH",
    "OwnKeys",
    "Share",
    "delete_argv",
    "generator_doubts",
    "generator_refusals",
    "keys_written",
    "memcaslap_argv",
    "memcaslap_config",
    "prefill_argv",
    "shares_of",
    "target_refusals",
    "weir_load_argv",
]

MEMCASLAP = "memcaslap"
# Generators that ask for the same keys at the same time are no two generators.
_SEED_STEP = 1_000
_PREFILL_DEPTH = 16
# Sizes of keys and values are drawn for each key, by the seed of the generator.
_SIZED_BY_SEED = {"facebook-etc"}
PREFIX_LENGTH = 8
"""Characters that `OwnKeys.prefix` takes of every key."""


@dataclass(frozen=True)
class OwnKeys:
    """Keys among those of others: what they begin with, and the seconds after which they expire if nobody deletes them."""

    prefix: str
    expiry_s: int


@dataclass(frozen=True)
class Share:
    """One generator: where it runs, and its part of the clients. Its connections go to ``targets`` in turn."""

    number: int
    machine: str
    connections: int
    threads: int
    targets: tuple[str, ...]
    seed: int

    @property
    def name(self) -> str:
        """Of its process and files: ``load`` for the first, ``load-1`` for the next."""
        return load_name(self.number)


def shares_of(settings: Settings, targets: Sequence[str], seed: int) -> list[Share]:
    """Share the clients of a cell out to its generators, as evenly as can be.

    Over all generators connections go to the targets in turn, as those of one generator would: each begins where the one before it
    ended. Otherwise generators of one connection each would all ask the first target.
    """
    least, more = divmod(settings.clients, settings.generators)
    shares, before = [], 0
    for number in range(settings.generators):
        connections = least + (number < more)
        first = before % len(targets)
        shares.append(
            Share(
                number=number,
                machine=f"client-{number // settings.instances}",
                connections=connections,
                threads=min(settings.client_threads, connections),
                targets=(*targets[first:], *targets[:first]),
                seed=seed + _SEED_STEP * number,
            )
        )
        before += connections
    return shares


def weir_load_argv(
    weir: Path,
    settings: Settings,
    plan: Plan,
    share: Share,
    *,
    prefilled: bool,
    start_at: float | None,
    keys: OwnKeys | None = None,
) -> list[str]:
    """``weir load`` of one share; the files of its record are added by who runs it."""
    argv = _weir_load(weir, settings, share.targets, share.seed, keys)
    argv += ["--connections", str(share.connections), "--depth", str(settings.depth), "--threads", str(share.threads)]
    argv += ["--warmup", f"{plan.warmup_s:g}s", "--duration", f"{plan.measured_s:g}s"]
    argv += _commands(settings)
    if settings.rate is not None:
        # A generator of more connections has more of the arrivals.
        argv += [
            "--rate",
            f"{settings.rate * share.connections / settings.clients:.10g}",
            "--arrivals",
            settings.arrivals,
        ]
    if settings.think_time_ms:
        argv += ["--think-time", f"exp:{settings.think_time_ms:g}ms"]
    if prefilled:
        argv.append("--no-prefill")
    if start_at is not None:
        argv += ["--start-at", f"{start_at:.6f}"]
    return argv


def prefill_argv(weir: Path, settings: Settings, target: str, seed: int, keys: OwnKeys | None = None) -> list[str]:
    """``weir load`` that sets every key, and ends."""
    argv = _weir_load(weir, settings, [target], seed, keys)
    argv += ["--connections", "1", "--depth", str(_PREFILL_DEPTH), "--threads", "1"]
    # Keys that are counted up are set for mixes that count, so the mix must be known; the millisecond in which it runs is left out.
    commands = ["--writes", "0"] if settings.mix is None and settings.preset is None else _commands(settings)
    return [*argv, "--warmup", "0s", "--duration", "1ms", *commands]


def delete_argv(weir: Path, settings: Settings, target: str, seed: int, keys: OwnKeys) -> list[str]:
    """``weir load`` that deletes every key of a run, one after the other, and ends."""
    count = keys_written(settings)
    # Of what the run sent only its keys matter: their prefix and their sizes, which may depend on preset and seed.
    argv = [str(weir), "load", "--target", target, "--keys", str(count), "--seed", str(seed)]
    argv += (
        ["--preset", settings.preset] if settings.preset is not None else ["--key-size", str(settings.key_size_bytes)]
    )
    argv += ["--key-prefix", keys.prefix, "--popularity", "sequential", "--mix", "delete=1"]
    argv += ["--connections", "1", "--depth", str(_PREFILL_DEPTH), "--threads", "1"]
    return [*argv, "--no-prefill", "--requests", str(count)]


def keys_written(settings: Settings) -> int:
    """Keys that a run may set: behind those of values a mix that counts has as many of numbers."""
    counts = settings.preset is not None or (settings.mix is not None and re.search(r"\b(incr|decr)=", settings.mix))
    return settings.keys * (2 if counts else 1)


def memcaslap_argv(plan: Plan, share: Share, config: str) -> list[str]:
    """``memcaslap`` of one share, a line of text at a time.

    It has no warm-up of its own: who reads its windows of one second leaves the first ones out. It asks one target only, because it
    binds its threads to servers, and none would ask the second one if there is one thread.
    """
    argv = ["stdbuf", "-oL", MEMCASLAP, "--servers", share.targets[0], "--threads", str(share.threads)]
    # A second more at least, so that its threads are still there when their CPU time is read.
    seconds = round(plan.warmup_s) + round(plan.measured_s) + max(1, round(plan.cooldown_s))
    argv += ["--concurrency", str(share.connections), "--cfg_cmd", config, "--time", f"{seconds}s"]
    return [*argv, "--stat_freq", "1s", "--win_size", "1k"]


def memcaslap_config(settings: Settings) -> str:
    """Its configuration file: sizes of keys and values, and the shares of set (0) and get (1)."""
    key, value, writes = settings.key_size_bytes, settings.value_size_bytes, settings.write_ratio
    return f"key\n{key} {key} 1\nvalue\n{value} {value} 1\ncmd\n0 {writes:g}\n1 {1.0 - writes:g}\n"


def generator_refusals(settings: Settings) -> list[str]:
    """What a cell asks of a generator that it cannot do."""
    if settings.generator == "weir":
        sized = settings.preset in _SIZED_BY_SEED and settings.generators > 1
        reported = f"preset {settings.preset}: sizes depend on the seed, and each of {settings.generators} generators has its own"
        return [f"{reported}: use one generator"] if sized else []
    name, found = settings.generator, []
    targets = settings.proxies if settings.path.value == "proxy" else settings.servers
    if settings.generators < targets:
        found.append(
            f"{name} asks one target, and there are {targets}: give it {targets} instances or machines, or more"
        )
    least, more = divmod(settings.clients, settings.generators)
    if more or least % min(settings.client_threads, least):
        found.append(
            f"{name} shares its connections out evenly: make clients a multiple of generators x client_threads"
        )
    return found


def target_refusals(settings: Settings) -> list[str]:
    """Why a cell cannot ask what runs already, whose keys are others'."""
    found = []
    if settings.generator != "weir":
        found.append(f"{settings.generator} has keys of its own, and cannot leave those of the targets alone: use weir")
    needed = PREFIX_LENGTH + len(str(settings.keys - 1))
    if 0 < settings.key_size_bytes < needed:
        found.append(
            f"keys on targets begin with {PREFIX_LENGTH} characters of their own: "
            f"{settings.keys:,} keys need key_size_bytes of {needed} or more"
        )
    return found


def generator_doubts(settings: Settings) -> list[str]:
    """What a generator other than ours cannot say of a run."""
    if settings.generator == "weir":
        return []
    return [
        f"{settings.generator} verifies no reply and gives no histogram: throughput and mean come from its windows of one second, "
        "and there are no percentiles"
    ]


def _weir_load(
    weir: Path, settings: Settings, targets: Sequence[str], seed: int, keys: OwnKeys | None = None
) -> list[str]:
    argv = [str(weir), "load"]
    for target in targets:
        argv += ["--target", target]
    argv += ["--keys", str(settings.keys)]
    if settings.preset is None:
        argv += ["--value-size", str(settings.value_size_bytes)]
    argv += ["--seed", str(seed)]
    if settings.preset is not None:
        argv += ["--preset", settings.preset]
    if settings.key_size_bytes != 16:
        argv += ["--key-size", str(settings.key_size_bytes)]
    if settings.multiget_keys > 1:
        argv += ["--multiget", str(settings.multiget_keys)]
    if settings.popularity is not None:
        argv += ["--popularity", settings.popularity]
    if keys is not None:
        argv += ["--key-prefix", keys.prefix]
    # Among others' keys ours expire in any case, at the latest when no run can need them any more.
    expiry_s = min(settings.ttl_s or keys.expiry_s, keys.expiry_s) if keys is not None else settings.ttl_s
    if expiry_s:
        argv += ["--ttl", str(expiry_s)]
    return argv


def _commands(settings: Settings) -> list[str]:
    if settings.mix is not None:
        return ["--mix", settings.mix]
    return [] if settings.preset is not None else ["--writes", f"{settings.write_ratio:g}"]
