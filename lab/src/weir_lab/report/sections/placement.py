"""Whether keys fall evenly on servers: chi-square and statistical distance, beside what chance alone gives and what the study printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir_lab.records import read_json
from weir_lab.records.formats import Count, Record
from weir_lab.report.common import Task, figure, with_tables
from weir_lab.report.numbers.maxima import listed
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import Table, Text, Value
from weir_lab.report.page.charts import LOOKS, Axis, Line, Mark, Panel
from weir_lab.theory.stats import expected_distance_if_uniform, placement_uniformity
from weir_lab.theory.units import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weir_lab.report.page.blocks import Block, Entry

__all__ = ["Share", "build", "conclusions", "shares_of", "summary"]


@dataclass(frozen=True)
class Share:
    """Keys that one server got of all that were placed in all repetitions."""

    servers: int
    server: int
    keys: int
    total: int

    @property
    def part(self) -> float:
        """The equal part, 0 to 1."""
        return 1.0 / self.servers

    @property
    def equal(self) -> float:
        """Keys of an equal part."""
        return self.total / self.servers


class _Keys(Record):
    """The part of ``keys.json`` that is needed here."""

    placement: str
    keys: list[Count]


def build(task: Task) -> list[Block]:
    """One row per number of servers."""
    found = _counted(task)
    if not found:
        return [Text("No run has counted keys.")]
    rows: list[tuple[Entry, ...]] = []
    ours, chance = [], []
    printed = _printed(task)
    for servers, runs in found.items():
        fits = [placement_uniformity(run.keys) for run in runs]
        worst = max(fits, key=lambda fit: fit.distance)
        expected = expected_distance_if_uniform(sum(runs[0].keys), servers)
        rows.append(
            (
                Value(servers), runs[0].placement, Value(len(runs)), Value(sum(runs[0].keys), digits=0),
                Value(max(fit.chi_square for fit in fits), digits=2), Value(min(fit.p for fit in fits), digits=4),
                Value(worst.distance, digits=5), Value(expected, digits=5),
                Value(printed[servers], digits=5) if servers in printed else "–",
                _word(runs, found),
            )
        )  # fmt: skip
        ours.append(Mark(servers, worst.distance, note="largest of the repetitions"))
        chance.append(Mark(servers, expected))
    table = Table(
        f"{task.spec.name}-uniformity",
        "Keys per server against equal shares: largest chi-square, smallest p and largest distance of the repetitions, its mean by chance "
        "(each key at random), and what the study printed. The verdict allows for all that was counted.",
        (
            "Servers",
            "Placement",
            "Repetitions",
            "Keys",
            "Chi-square",
            "p",
            "Distance",
            "By chance",
            "Printed",
            "Verdict",
        ),
        tuple(rows),
    )
    ticks = tuple(mark.x for mark in ours)
    lines = (
        Line("largest distance", tuple(ours), LOOKS[0]),
        # A line through one point would be none.
        Line("mean distance by chance", tuple(chance), LOOKS[7], "plain" if len(chance) > 1 else "points"),
    )
    panel = Panel("keys", Axis("Servers", ticks=ticks), Axis("Statistical distance (share of keys)"), lines)
    drawn = figure(
        task,
        "distance",
        "Distance from equal shares",
        [panel],
        "The largest of the repetitions, against the mean that chance alone gives.",
    )
    return [Text(summary(task)), *with_tables([table, drawn, _counts(task)])]


def _counts(task: Task) -> Table | None:
    """Keys of each server, beside those that the study counted; ``None`` where it printed none for a number of servers that we have."""
    printed = [int(row["keys"]) for row in read_table("s3_hash_counts") if row["study"] == task.label]
    shares = [one for one in shares_of(task) if one.servers == len(printed)]
    if not shares:
        return None
    return Table(
        f"{task.spec.name}-counts",
        f"Keys of each of {len(printed)} servers, all repetitions together, and those that the study counted.",
        ("Server", "Keys", "Off its equal part (%)", "Study: keys", "Study: off its equal part (%)"),
        tuple(
            (
                Value(one.server + 1),
                Value(one.keys),
                Value(100.0 * (one.keys / one.equal - 1.0), digits=2, signed=True),
                Value(theirs),
                Value(100.0 * (theirs * len(printed) / sum(printed) - 1.0), digits=2, signed=True),
            )
            for one, theirs in zip(shares, printed, strict=True)
        ),
    )


def summary(task: Task) -> str:
    """Whether any number of servers is uneven."""
    counted = _counted(task)
    uneven = [servers for servers, runs in counted.items() if _word(runs, counted) != "even"]
    even = [servers for servers in counted if servers not in uneven]
    parts = []
    if uneven:
        parts.append(f"fall unevenly on {listed([str(one) for one in uneven])} servers")
    if even:
        worst = max(abs(one.keys / one.equal - 1.0) for one in shares_of(task) if one.servers in even)
        parts.append(
            f"are not shown to fall unevenly on {listed([str(one) for one in even])} servers: the most uneven share is "
            f"{number(100.0 * worst, 2)} % off its equal part"
        )
    alone = " (no other number of servers was counted)" if len(counted) == 1 else ""
    return f"Keys {' and '.join(parts)}{alone}."


def conclusions(task: Task) -> dict[str, str]:
    """Even or not, per number of servers."""
    counted = _counted(task)
    return {f"keys on {servers} servers": _word(runs, counted) for servers, runs in counted.items()}


def shares_of(task: Task) -> list[Share]:
    """Every server's share, for each number of servers. Repetitions place other keys, so that they count together."""
    found = []
    for servers, runs in _counted(task).items():
        total = sum(sum(run.keys) for run in runs)
        found += [Share(servers, server, sum(run.keys[server] for run in runs), total) for server in range(servers)]
    return found


def _p(runs: list[_Keys]) -> float:
    return min(placement_uniformity(run.keys).p for run in runs)


def _word(runs: list[_Keys], counted: Mapping[int, list[_Keys]]) -> str:
    """Bonferroni over all that was counted: the smallest p of many is small by chance."""
    return "even" if _p(runs) * sum(map(len, counted.values())) >= 0.05 else "uneven"


def _counted(task: Task) -> dict[int, list[_Keys]]:
    found: dict[int, list[_Keys]] = {}
    for sweep in task.sweeps:
        for run in sweep.unloaded:
            file = run.folder / "keys.json"
            if file.exists():
                found.setdefault(run.meta.settings.servers, []).append(read_json(file, _Keys))
    return dict(sorted(found.items()))


def _printed(task: Task) -> dict[int, float]:
    rows = read_table("s2_hash_distance") if task.label == "S2" else []
    column = next((name for name in (rows[0] if rows else {}) if "distance" in name), "")
    return {int(row["servers"]): float(row[column]) for row in rows if row.get(column)}
