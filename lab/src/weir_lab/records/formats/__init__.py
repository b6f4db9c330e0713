"""What programs write, read into checked records.

``weir``           ``weir.load/1`` and ``weir.proxy/1``; exact differences of snapshots. Start here
``proxy_records``  windows and traces that a proxy appends to its files
``merging``        several generators of one run, as one
``peers``          what proxies other than ours tell of themselves
``foreign``        a run of another load generator in the form of ours
"""

from weir_lab.records.formats.weir import (
    STAGE_DIGITS,
    STAGES,
    Count,
    Distribution,
    LoadConfig,
    LoadCpu,
    LoadFailures,
    LoadOperation,
    LoadRecord,
    LoadSchedule,
    LoadWindow,
    MergedDistribution,
    Phase,
    Record,
    Snapshot,
    SnapshotDifference,
    SnapshotOperation,
    SnapshotProcess,
    load_name,
    merge_snapshots,
    subtract_snapshots,
)

__all__ = [
    "STAGES",
    "STAGE_DIGITS",
    "Count",
    "Distribution",
    "LoadConfig",
    "LoadCpu",
    "LoadFailures",
    "LoadOperation",
    "LoadRecord",
    "LoadSchedule",
    "LoadWindow",
    "MergedDistribution",
    "Phase",
    "Record",
    "Snapshot",
    "SnapshotDifference",
    "SnapshotOperation",
    "SnapshotProcess",
    "load_name",
    "merge_snapshots",
    "subtract_snapshots",
]
