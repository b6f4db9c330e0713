"""What runs leave on disk, and how it is read.

``runs``              folders of sweeps and runs, and what they hold. Start here
``formats``           what programs write: weir load, weir proxy, nutcracker, memcaslap
``importers``         results of other load generators
``places``            where a run ran
``unloaded_records``  what runs without load leave
``windows``           a run over time, and where its steady state begins
``progress``          how far each cell has come, and whether it needs more runs
``comparisons``       two systems in turn: lives, looks and the answer
``sharing``       runs that leave their folder: from other places into one sweep, and kept in small files
``tables``            the tables of a sweep, as CSV
"""

from weir_lab.records.runs import (
    Command,
    CpuRecord,
    RoleCpu,
    Run,
    RunMeta,
    ServerSettings,
    ServersRecord,
    SweepMeta,
    Verdict,
    placed_name,
    read_json,
    read_measurements,
    read_run,
    read_run_metas,
    read_runs,
    read_sweep,
    runs_folder,
    snapshot_name,
    write_json,
    write_text,
)

__all__ = [
    "Command",
    "CpuRecord",
    "RoleCpu",
    "Run",
    "RunMeta",
    "ServerSettings",
    "ServersRecord",
    "SweepMeta",
    "Verdict",
    "placed_name",
    "read_json",
    "read_measurements",
    "read_run",
    "read_run_metas",
    "read_runs",
    "read_sweep",
    "runs_folder",
    "snapshot_name",
    "write_json",
    "write_text",
]
