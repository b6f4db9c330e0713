"""Tables of studies without load: keys per server, and links. Start with `unloaded_tables`.

``summary.csv``  kind ``hash``: one row per cell, with the largest distance over its repetitions, as S2 printed it, and the verdict over all
                 cells together. Kind ``links``: one row per pair of tiers
``runs.csv``     one row per run
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from weir_lab.design import Kind, cells_of, content_sha256, scheduled_like
from weir_lab.records.unloaded_records import read_keys_record, read_pairs_record
from weir_lab.theory.placements.hashing import judge_placements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.records.places import PairRecord
    from weir_lab.records.runs import RunMeta
    from weir_lab.theory.placements.hashing import PlacementCheck

__all__ = ["unloaded_tables"]

_Row = dict[str, str | int | float | None]


def unloaded_tables(
    study: Study, executables: dict[str, str], metas: Sequence[tuple[Path, RunMeta]]
) -> dict[str, list[_Row]]:
    """Rows of ``summary.csv`` and ``runs.csv``."""
    wanted = {content_sha256(study, run, executables) for run in scheduled_like(study, [meta for _, meta in metas])}
    used: dict[str, tuple[Path, RunMeta]] = {}
    for folder, meta in sorted(metas, key=lambda pair: pair[1].started_unix_ns):
        if meta.verdict.valid and meta.content_sha256 in wanted:
            used.setdefault(meta.content_sha256, (folder, meta))
    make = _hash_tables if study.kind is Kind.HASH else _links_tables
    summary, details = make(study, list(used.values()))
    runs = [{**_run_row(folder, meta), **details.get(folder.name, {})} for folder, meta in metas]
    return {"summary.csv": summary, "runs.csv": runs}


def _run_row(folder: Path, meta: RunMeta) -> _Row:
    return {
        "run": folder.name,
        "cell": meta.cell,
        "repetition": meta.repetition,
        "attempt": meta.attempt,
        "valid": str(meta.verdict.valid).lower(),
        "reasons": "; ".join(meta.verdict.reasons),
        "flags": "; ".join(meta.verdict.flags),
        "content_sha256": meta.content_sha256,
    }


def _hash_tables(study: Study, used: list[tuple[Path, RunMeta]]) -> tuple[list[_Row], dict[str, _Row]]:
    """Verdicts hold for all runs of the study together (Holm), because each is one more chance to reject."""
    records = [read_keys_record(folder) for folder, _ in used]
    checks = judge_placements([record.counts for record in records]) if records else []
    by_cell: dict[str, list[PlacementCheck]] = {}
    details: dict[str, _Row] = {}
    for (folder, meta), record, check in zip(used, records, checks, strict=True):
        by_cell.setdefault(meta.cell, []).append(check)
        details[folder.name] = {
            "distance": check.uniformity.distance,
            "chi_square": check.uniformity.chi_square,
            "p": check.p,
            "p_holm": check.p_holm,
            "verdict": check.spread.value,
            **{f"keys_server_{number}": count for number, count in enumerate(record.keys, start=1)},
        }
    rows: list[_Row] = []
    for cell in cells_of(study):
        found = by_cell.get(cell.name, [])
        row: _Row = {"study": study.name, "cell": cell.name, **dict(cell.levels), "runs": len(found)}
        if found:
            distances = [check.uniformity.distance for check in found]
            row |= {
                "placement": found[0].rule.name,
                "keys": cell.settings.keys,
                "distance_max": max(distances),
                "distance_mean": statistics.fmean(distances),
                "distance_expected": found[0].uniformity.expected_distance,
                "chi_square_max": max(check.uniformity.chi_square for check in found),
                "freedom": found[0].uniformity.freedom,
                "worst_percent": max(check.uniformity.largest_deviation_percent for check in found),
                "p_holm_min": min(check.p_holm for check in found),
                "verdict": "; ".join(dict.fromkeys(check.spread.value for check in found)),
            }
        rows.append(row)
    return rows, details


def _links_tables(study: Study, used: list[tuple[Path, RunMeta]]) -> tuple[list[_Row], dict[str, _Row]]:
    by_pair: dict[tuple[str, str], list[PairRecord]] = {}
    details: dict[str, _Row] = {}
    for folder, _ in used:
        record = read_pairs_record(folder)
        details[folder.name] = {"pairs": len(record.pairs), "seconds": record.seconds}
        for pair in record.pairs:
            by_pair.setdefault((_tier(pair.sender), _tier(pair.receiver)), []).append(pair)
    rows: list[_Row] = []
    for (sender, receiver), pairs in by_pair.items():
        wire = [pair.wire_mbit_s for pair in pairs if pair.wire_mbit_s is not None]
        rows.append(
            {
                "study": study.name,
                "from": sender,
                "to": receiver,
                "runs": len(pairs),
                "asked_mbit_s": pairs[0].asked_mbit_s,
                "wire_mbit_s": statistics.fmean(wire) if wire else None,
                "payload_mbit_s": statistics.fmean(pair.payload_mbit_s for pair in pairs),
                "min_latency_ms": min(pair.min_ms for pair in pairs),
                "median_latency_ms": statistics.median(pair.median_ms for pair in pairs),
            }
        )
    return rows, details


def _tier(machine: str) -> str:
    return machine.rpartition("-")[0]
