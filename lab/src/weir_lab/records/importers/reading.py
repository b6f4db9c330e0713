"""Tells results of other generators apart by their content, and reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.errors import RecordError
from weir_lab.records.importers.memaslap import parse_memaslap
from weir_lab.records.importers.memtier import parse_memtier_json, parse_memtier_text

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.records.importers.imported import ImportedRun

__all__ = ["read_results"]


def read_results(path: Path) -> list[ImportedRun]:
    """All runs of a file; `RecordError` if no importer knows it."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be read ({error.strerror}). Give the output of memtier_benchmark or memaslap."
        ) from error
    name = path.name
    if text.lstrip().startswith("{"):
        return parse_memtier_json(text, name)
    if "Net_rate:" in text or "windows size:" in text:
        return [parse_memaslap(text, name)]
    if "Ops/sec" in text:
        return parse_memtier_text(text, name)
    raise RecordError(f"{path}: neither the output of memtier_benchmark (text or JSON) nor that of memaslap.")
