"""The smaller sections: links, what placing a key costs, and what a study printed wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir_lab.design import Kind
from weir_lab.records.unloaded_records import read_pairs_record
from weir_lab.report.common import (
    STAGE_LOOKS,
    Task,
    figure,
    mark,
    method,
    speed_note,
    stage_bar,
    with_tables,
)
from weir_lab.report.numbers.published import errors_at
from weir_lab.report.numbers.readings import OPERATION_NAMES, stage_s, stage_times
from weir_lab.report.oracles import read_table
from weir_lab.report.page.blocks import KNOWN_ERRORS, Table, Text, Value, over
from weir_lab.report.page.charts import LOOKS, Axis, Line, Panel
from weir_lab.theory.histogram import merge_histograms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir_lab.records.places import PairRecord, TestbedRecord
    from weir_lab.report.numbers.readings import CellReadings
    from weir_lab.report.page.blocks import Block, Entry

__all__ = [
    "build_links",
    "build_micro",
    "error_table",
    "micro_summary",
]

# Of the studies that asked what their links carry.
_VALUE_BYTES = 4096


def build_links(task: Task, testbed: TestbedRecord) -> list[Block]:
    """What each machine may send and was measured to send, round trips, and what the links allow for each layout of the study."""
    rows: list[tuple[Entry, ...]] = []
    printed = {(row["from"], row["to"]): row for row in read_table("network") if row["study"] == task.label}
    for machine in testbed.machines:
        if machine.link_mbit_s is None:
            continue
        tier = machine.name.partition("-")[0]
        known = [
            float(row["bandwidth_mbit_s"])
            for (begin, _), row in printed.items()
            if begin == tier.replace("proxy", "middleware")
        ]
        rows.append(
            (
                machine.name,
                Value(machine.link_mbit_s, digits=0),
                Value(machine.sends.payload_mbit_s, digits=1) if machine.sends else "not measured",
                machine.sends.to if machine.sends else "–",
                Value(known[0], digits=0) if known else "–",
                *((Value(machine.link_mbit_s / testbed.speed, digits=0),) if testbed.speed != 1.0 else ()),
            )
        )
    blocks: list[Block] = [
        Table(
            f"{task.spec.name}-rates",
            "What each machine may send, what of it arrived as payload over TCP before the first run, and what the study measured."
            f"{speed_note(testbed.speed)}",
            (
                *("Machine", "Link (Mbit/s)", "Payload (Mbit/s)", "To", "Study (Mbit/s)"),
                *(("Link at the study's speed (Mbit/s)",) if testbed.speed != 1.0 else ()),
            ),
            tuple(rows),
        )
    ]
    if testbed.round_trips:
        trips = tuple(
            (
                " and ".join(trip.between),
                Value(trip.count),
                Value(trip.min_ms, digits=3),
                Value(trip.median_ms, digits=3),
            )
            for trip in testbed.round_trips
        )
        caption = "Round trips of one byte over an open TCP connection, one after the other."
        blocks.append(
            Table(f"{task.spec.name}-trips", caption, ("Between", "Round trips", "Least (ms)", "Median (ms)"), trips)
        )
    return [*_operations_text(task), *_pairs(task), *blocks]


def _pairs(task: Task) -> list[Table]:
    """What a study of kind links measured between each two tiers, in both directions; nothing where it was not run."""
    if task.first.study.kind is not Kind.LINKS or not task.first.unloaded:
        return []
    printed = {(row["from"], row["to"]): row for row in read_table("network") if row["study"] == task.label}
    found: dict[tuple[str, str], list[PairRecord]] = {}
    for run in task.first.unloaded:
        for pair in read_pairs_record(run.folder).pairs:
            found.setdefault((pair.sender, pair.receiver), []).append(pair)
    rows: list[tuple[Entry, ...]] = []
    speed = task.first.speed
    for (sender, receiver), pairs in found.items():
        known = printed.get((_printed_name(sender), _printed_name(receiver)))
        rows.append(
            (
                sender, receiver,
                Value(pairs[0].asked_mbit_s, digits=0) if pairs[0].asked_mbit_s is not None else "–",
                over([pair.payload_mbit_s for pair in pairs]),
                Value(float(known["bandwidth_mbit_s"]), digits=0) if known else "–",
                over([pair.min_ms for pair in pairs]), over([pair.median_ms for pair in pairs]),
                Value(float(known["min_latency_ms"]), digits=2) if known and known["min_latency_ms"] else "–",
                *_one_way(pairs),
                *_at_study_speed(pairs, speed),
            )
        )  # fmt: skip
    seconds = read_pairs_record(task.first.unloaded[0].folder).seconds
    caption = (
        f"Between each two tiers, measured by runs of their own ({seconds:g} s per rate): payload over one TCP connection, round trips of "
        "a byte, and what the study measured. One way: from the sender's link to the receiver's interface, by the kernel's stamps."
        f"{speed_note(speed)}"
    )
    heads = (
        "From",
        "To",
        "Link (Mbit/s)",
        "Payload (Mbit/s)",
        "Study (Mbit/s)",
        "Least (ms)",
        "Median (ms)",
        "Study, least (ms)",
        "One way asked (ms)",
        "One way, median (ms)",
        *(("Payload at the study's speed (Mbit/s)", "Least at the study's speed (ms)") if speed != 1.0 else ()),
    )
    return [_operations(task, found), Table(f"{task.spec.name}-pairs", caption, heads, tuple(rows))]


def _operations(task: Task, found: Mapping[tuple[str, str], Sequence[PairRecord]]) -> Table:
    """How many values a second each direction carries, beside what the study printed and what its own rate gives."""
    printed = {(row["from"], row["to"]): row for row in read_table("network") if row["study"] == task.label}
    right = {(row["from"], row["to"]): row for row in read_table("recomputed_bandwidth") if row["study"] == task.label}
    speed = task.first.speed
    rows: list[tuple[Entry, ...]] = []
    for (sender, receiver), pairs in found.items():
        ends = _printed_name(sender), _printed_name(receiver)
        rates = [pair.values_per_s(_VALUE_BYTES) for pair in pairs]
        wires = [pair.wire_mbit_s / pair.payload_mbit_s for pair in pairs if pair.wire_mbit_s is not None]
        rows.append(
            (
                sender,
                receiver,
                over(rates),
                *((over([rate / speed for rate in rates]),) if speed != 1.0 else ()),
                Value(float(printed[ends]["published_max_ops_s"])) if ends in printed else "–",
                Value(float(right[ends]["max_ops_s_measured_4096B"])) if ends in right else "–",
                over(wires, digits=3) if wires else "–",
            )
        )
    caption = (
        f"How many values of {_VALUE_BYTES:,} bytes a second each direction carries by its payload, beside the study's printed maximum and "
        "what its own rate gives. On the wire: bytes of a long stream; single values cost more."
        f"{speed_note(speed)}"
    )
    heads = (
        *("From", "To", "Values/s"),
        *(("Values/s at the study's speed",) if speed != 1.0 else ()),
        *("Study, printed (operations/s)", "By the study's rate (values/s)", "Wire over payload"),
    )
    return Table(f"{task.spec.name}-operations", caption, heads, tuple(rows))


def _operations_text(task: Task) -> list[Block]:
    """How far the directions are from what the study's rates give, in a sentence."""
    if task.first.study.kind is not Kind.LINKS or not task.first.unloaded:
        return []
    right = {(row["from"], row["to"]): row for row in read_table("recomputed_bandwidth") if row["study"] == task.label}
    shares = []
    for run in task.first.unloaded:
        for pair in read_pairs_record(run.folder).pairs:
            row = right.get((_printed_name(pair.sender), _printed_name(pair.receiver)))
            if row is not None:
                carried = pair.values_per_s(_VALUE_BYTES) / task.first.speed
                shares.append(100.0 * carried / float(row["max_ops_s_measured_4096B"]))
    if not shares:
        return []
    least, most = (Value(share, digits=1).text for share in (min(shares), max(shares)))
    between = f"{least} %" if least == most else f"{least} to {most} %"
    lead = (
        f"At the study's speed our directions carry {between} of the values a second that the study's own rates give: packets' headers "
        "take the rest."
    )
    behind = (
        "The study's rates are those of iperf, which counts payload; ours are rates on the wire. So our links carry less than the study's "
        "did, and maxima that a link sets lie below the printed ones by as much."
    )
    return [Text("What the data say:", (f"{lead} {behind}",), leads=(lead,))]


def _one_way(pairs: list[PairRecord]) -> tuple[Entry, Entry]:
    asked = pairs[0].asked_delay_ms
    medians = [pair.one_way_median_ms for pair in pairs if pair.one_way_median_ms is not None]
    return Value(asked, digits=2) if asked is not None else "–", over(medians) if medians else "–"


def _at_study_speed(pairs: list[PairRecord], speed: float) -> tuple[Entry, ...]:
    if speed == 1.0:
        return ()
    return over([pair.payload_mbit_s / speed for pair in pairs]), over([pair.min_ms * speed for pair in pairs])


def _printed_name(machine: str) -> str:
    return machine.partition("-")[0].replace("proxy", "middleware")


def build_micro(task: Task) -> list[Block]:
    """Dispatch: from the complete request to its queue, over servers."""
    rows: list[tuple[Entry, ...]] = []
    quoted = {
        int(row["servers"]): float(row["value"])
        for row in read_table("s4_quoted")
        if row["study"] == task.label and row["quantity"] == "hashing_time"
    }
    marks, bars = [], []
    for cell in task.first.cells:
        value = [1e6 * stages["dispatch"] for run in cell.runs if (stages := run.stages_s()) is not None]
        if not value:
            continue
        share = [
            100 * stages["dispatch"] / sum(stages.values())
            for run in cell.runs
            if (stages := run.stages_s()) is not None
        ]
        servers = cell.settings.servers
        rows.append(
            (
                Value(servers),
                over(value),
                Value(median) if (median := _median_us(cell)) is not None else "–",
                over(share),
                over(busy, digits=0)
                if (busy := [100.0 * one for one in cell.of(lambda run: run.machine_busy)])
                else "–",
                Value(quoted[servers], digits=1) if servers in quoted else "–",
                Value(len(cell.runs)),
            )
        )
        found = mark(cell, servers, stage_s("dispatch"), 1e6)
        marks += [found] if found else []
        bar = stage_bar(f"{servers} servers", cell)
        bars += [bar] if bar else []
    if not rows:
        return [Text("No run has the stages of a proxy.")]
    table = Table(
        f"{task.spec.name}-dispatch",
        "Time from the complete request to its queue (parsing, hashing, choosing a server): mean over runs, median of all requests, share "
        "of the time in the proxy, and what the study quoted for hashing alone.",
        (
            "Servers",
            "Dispatch (µs)",
            "Median (µs)",
            "Share (%)",
            "CPUs of this machine, used (%)",
            "Study (µs)",
            "Runs",
        ),
        tuple(rows),
    )
    ticks = tuple(one.x for one in marks)
    panels = [
        Panel(
            "dispatch", Axis("Servers", ticks=ticks), Axis("Dispatch (µs)"), (Line("measured", tuple(marks), LOOKS[0]),)
        ),
        Panel("all stages", Axis(""), Axis("Mean time (ms)"), bars=tuple(bars), parts=STAGE_LOOKS),
    ]
    return [
        Text(micro_summary(task)),
        table,
        Text(
            "The mean of dispatch has its 95 % interval where there are several runs. Where it is far above the median, a few requests "
            "took long: on CPUs that are full a thread waits for one between two stamps, too.",
            note=True,
        ),
        *with_tables([figure(task, "dispatch", "What placing a key costs", panels, method(list(task.first.cells)))]),
    ]


def micro_summary(task: Task) -> str:
    """The range of dispatch times."""
    found = [
        1e6 * sum(values) / len(values)
        for cell in task.first.cells
        if (values := [stages["dispatch"] for run in cell.runs if (stages := run.stages_s()) is not None])
    ]
    if not found:
        return f"{task.spec.title}: no run has stages."
    half = [median for cell in task.first.cells if (median := _median_us(cell)) is not None]
    most = f"; half of the requests take {Value(max(half)).text} µs or less" if half else ""
    return (
        f"{task.spec.title}: dispatch takes {Value(min(found)).text} to {Value(max(found)).text} µs per request{most}."
    )


def _median_us(cell: CellReadings) -> float | None:
    """Of the stage `dispatch`, over all requests of all runs."""
    times = [found for name in OPERATION_NAMES if (found := cell.merged(stage_times(name, "dispatch"))) is not None]
    whole = merge_histograms(times)
    half_ns = whole.percentile(50.0) if whole is not None else None
    return None if half_ns is None else half_ns / 1e3


def error_table(task: Task) -> Table | None:
    """What the study is known to have printed wrongly in this section."""
    found = errors_at(task.label, task.spec.errors)
    if not found:
        return None
    return Table(
        f"{task.spec.name}{KNOWN_ERRORS}",
        "Printed wrongly in the study, with what is right.",
        ("Where", "What", "Printed", "Right", "Why"),
        tuple(
            (one.location, one.quantity, one.printed or "–", one.right or "–", one.explanation or "–") for one in found
        ),
        folded=True,
    )
