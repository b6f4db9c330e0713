"""What the earlier studies printed, beside ours: maxima by configuration, and which of their numbers are known to be wrong.

All of it is read from ``oracles/data``; nothing is typed in again here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.report.oracles import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir_lab.design import Level
    from weir_lab.design.whole.sets import PublishedSource
    from weir_lab.report.numbers.readings import CellReadings

__all__ = ["TIMES_OVER_CLIENTS", "KnownError", "Printed", "errors_at", "printed_maxima"]

Row = dict[str, str]
TIMES_OVER_CLIENTS = "s3_response_time_per_client"
"""A table of response times, which has no maxima."""


@dataclass(frozen=True)
class Printed:
    """A printed maximum: the settings that it belongs to, and where it stands.

    ``clients`` is how many there were in all, ``per_thread`` how many on each thread of a load generator, where the study printed one.
    """

    at: tuple[tuple[str, Level], ...]
    throughput: float
    response_ms: float | None
    where: str
    clients: int | None = None
    per_thread: int | None = None

    def clients_of(self, cells: Sequence[CellReadings]) -> int | None:
        """How many clients that is in the layout of these cells; ``None`` where the study did not print it, or no cell has it."""
        if self.clients is not None or self.per_thread is None:
            return self.clients
        return next((one.settings.clients for one in cells if one.settings.clients_per_thread == self.per_thread), None)

    def fits(self, cell: CellReadings) -> bool:
        """Whether a cell has these settings."""
        return all(getattr(cell.settings, name) == level for name, level in self.at)


@dataclass(frozen=True)
class KnownError:
    """A wrong number or sentence of an earlier study, with what is right."""

    location: str
    quantity: str
    printed: str
    right: str
    explanation: str


def printed_maxima(study: str, source: PublishedSource) -> list[Printed]:
    """Maxima that the study printed for a section."""
    rows = [row for row in read_table(source.table) if row["study"] == study and _has(row, source.where)]
    if source.table == TIMES_OVER_CLIENTS:
        return []
    if source.table == "max_throughput_baseline":
        return [
            Printed(
                _workload(row),
                float(row["throughput_ops_s"]),
                None,
                f"{row['configuration']}, {row['total_clients_at_max']} clients{' if VC is per thread' if row['note'] else ''}",
                int(row["total_clients_at_max"]),
            )
            for row in rows
        ]
    if source.table == "max_throughput_middleware":
        return [
            Printed(
                _workload(row),
                float(row["throughput_ops_s"]),
                float(row["response_time_ms"]),
                f"at the {row['measured_at']}",
            )
            for row in rows
        ]
    if source.table == "max_throughput_full_system":
        return [
            Printed(
                (("workers", int(row["worker_threads"])),),
                float(row["value"]),
                None,
                row["quantity"].replace("_", " "),
                per_thread=int(row["clients_per_thread_at_max"] or 0) or None,
            )
            for row in rows
            if row["unit"] == "ops/s"
        ]
    if source.table in ("s1_quoted", "s4_quoted"):
        return [_quoted(row) for row in rows if row["quantity"] == "throughput"]
    raise ValueError(f"No maxima are known in {source.table}.")


def errors_at(study: str, locations: list[str]) -> list[KnownError]:
    """Known errors at these places of a study."""
    return [
        KnownError(row["location"], row["quantity"], row["published"], row["correct"], row["explanation"])
        for row in read_table("known_errors")
        if row["study"] == study and row["location"] in locations
    ]


def _has(row: Row, where: dict[str, str]) -> bool:
    return all(row[name] == value for name, value in where.items())


def _workload(row: Row) -> tuple[tuple[str, Level], ...]:
    return (("write_ratio", 1.0 if row["workload"] == "write" else 0.0),)


def _quoted(row: Row) -> Printed:
    threads = row.get("read_threads") or row.get("threads_per_pool") or "0"
    reported = [f"{row['total_clients']} clients", row.get("note"), row.get("experiment")]
    where = ", ".join(one.replace("_", " ") for one in reported if one)
    clients = int(row["total_clients"] or 0) or None
    return Printed((("readers", int(threads)),), float(row["value"]), None, where, clients)
