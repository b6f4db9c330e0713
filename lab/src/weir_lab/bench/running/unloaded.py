"""Runs without load: keys per server (kind ``hash``), and what links carry (kind ``links``).

`count_keys` and `measure_links` make one run each and leave one record in its folder, which `unloaded_records` reads back. `judge_unloaded`
is their gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weir_lab.bench.programs.placing import count_placement, known_placements
from weir_lab.design import Kind
from weir_lab.errors import LabError, RecordError, StudyError
from weir_lab.records import Verdict, write_json
from weir_lab.records.unloaded_records import KeysRecord, PairsRecord, read_keys_record, read_pairs_record
from weir_lab.theory.placements.hashing import KeyForm, generate_keys

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.bench.testbeds import Testbed
    from weir_lab.design import Plan, Settings
    from weir_lab.design.topology import Shape

__all__ = ["DEFAULT_PLACEMENT", "count_keys", "judge_unloaded", "measure_links"]

DEFAULT_PLACEMENT = "libmemcached/ketama-weighted"
"""What ``weir proxy`` takes without ``--placement``."""


def count_keys(folder: Path, weir: Path, settings: Settings, seed: int) -> list[str]:
    """Ask the binary for the server of random keys; problems are returned."""
    random = np.random.default_rng(seed)
    name = settings.placement or DEFAULT_PLACEMENT
    size = settings.key_size_bytes or 16
    servers = [f"10.0.0.{number}:11211" for number in range(1, settings.servers + 1)]
    try:
        rules = {rule.name: rule for rule in known_placements(weir)}
        if name not in rules:
            raise StudyError(f"this weir knows no placement {name}")
        asked = generate_keys(KeyForm.RANDOM, settings.keys, random, size)
        reference = generate_keys(KeyForm.RANDOM, settings.keys, random, size)
        found = count_placement(weir, rules[name], servers, asked, reference)
    except LabError as error:
        return [str(error)]
    record = KeysRecord(
        placement=name,
        by_points=found.rule.by_points,
        asked=settings.keys,
        keys=list(found.keys),
        reference=list(found.reference) if found.reference is not None else None,
        key_size_bytes=size,
        seed=seed,
    )
    write_json(folder / "keys.json", record)
    return []


def measure_links(folder: Path, testbed: Testbed, shape: Shape, plan: Plan) -> list[str]:
    """Measure every ordered pair of the first machines of the tiers; problems are returned."""
    firsts = [name for name in shape.machines if name.endswith("-0")]
    try:
        pairs = [
            testbed.measure_pair(one, other, plan.measured_s) for one in firsts for other in firsts if one != other
        ]
    except (LabError, OSError) as error:
        return [str(error)]
    write_json(folder / "pairs.json", PairsRecord(seconds=plan.measured_s, pairs=pairs))
    return []


def judge_unloaded(folder: Path, kind: Kind, problems: list[str]) -> Verdict:
    """Verdict on a run without load: whether its record is there and whole."""
    reasons = list(problems)
    flags: list[str] = []
    try:
        if kind is Kind.HASH:
            keys = read_keys_record(folder)
            if sum(keys.keys) != keys.asked:
                reasons.append(f"{sum(keys.keys)} keys have a server, and {keys.asked} were asked about")
        else:
            flags += _off_rate(read_pairs_record(folder))
    except RecordError as error:
        if not reasons:
            reasons.append(str(error))
    return Verdict(valid=not reasons, reasons=reasons, flags=flags)


# What the token bucket counts lies within this of its rate on a quiet machine.
_RATE_DEVIATION_MAX = 0.05


def _off_rate(record: PairsRecord) -> list[str]:
    found = []
    for pair in record.pairs:
        if pair.wire_mbit_s is None or pair.asked_mbit_s is None:
            continue
        off = pair.wire_mbit_s / pair.asked_mbit_s - 1.0
        if abs(off) > _RATE_DEVIATION_MAX:
            found.append(f"{pair.sender} sends {100 * off:+.0f} % off its link's rate to {pair.receiver}")
    return found
