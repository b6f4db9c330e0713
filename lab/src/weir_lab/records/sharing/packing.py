"""A sweep's runs as one small record, ``weir.kept/1``: what reports use of them, and nothing else. Start with `pack`.

Settings, counts, merged histograms, the difference of the proxies' snapshots, CPU time, the machine. Generators and proxies side by side
are one. What many runs have in common (versions, machine, testbed) stands once. Attempts that failed a gate are named with their reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir_lab.design import content_sha256, load_study, scheduled_like
from weir_lab.errors import RecordError
from weir_lab.records.formats import STAGE_DIGITS, subtract_snapshots
from weir_lab.records.runs import read_run, read_run_metas, read_sweep
from weir_lab.records.sharing.numbers import plain_histogram, text_of
from weir_lab.records.windows import WIDTHS_S, spreads_of

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design import Study
    from weir_lab.records.formats import Distribution, LoadRecord, Snapshot
    from weir_lab.records.formats.seconds import MachineSeconds
    from weir_lab.records.runs import Run, RunMeta
    from weir_lab.theory.histogram import Histogram

__all__ = ["SCHEMA", "pack", "plain_load", "plain_seconds", "plain_snapshots"]

SCHEMA = "weir.kept/1"
# The same in most runs of a sweep.
_COMMON = ("executables", "versions", "machine", "testbed")
# Files of runs without load: small as they are.
WHOLE_FILES = ("keys.json", "pairs.json", "stats-end.json", "servers.json")


def pack(sweep: Path) -> dict[str, Any]:
    """All runs of a sweep that its reports use, and the attempts that they leave out."""
    study, made_by = load_study(sweep / "study.toml"), read_sweep(sweep)
    metas = read_run_metas(sweep)
    current = _current(study, made_by.executables, metas)
    common: dict[str, list[Any]] = {name: [] for name in _COMMON}
    runs = []
    for folder, meta in metas:
        if meta.content_sha256 not in current:
            continue
        plain = _plain_meta(meta, common)
        measured = _plain_run(read_run(folder), study) if meta.verdict.valid else {}
        runs.append({"name": folder.name, "meta": plain, **measured})
    if not runs:
        raise RecordError(f"{sweep}: no run of its study as it stands. Make them with `weir-lab run`, then keep them.")
    return {
        "schema": SCHEMA,
        "study": (sweep / "study.toml").read_text(encoding="utf-8"),
        "sweep": made_by.model_dump(mode="json", by_alias=True),
        "common": common,
        "runs": runs,
    }


def _current(study: Study, executables: dict[str, str], metas: list[tuple[Path, RunMeta]]) -> set[str]:
    """Content of the runs that belong to the study and the programs as they stand; of a search all are."""
    if study.find is not None:
        return {meta.content_sha256 for _, meta in metas}
    made = [meta for _, meta in metas]
    return {content_sha256(study, run, executables) for run in scheduled_like(study, made)}


def _plain_meta(meta: RunMeta, common: dict[str, list[Any]]) -> dict[str, Any]:
    plain = meta.model_dump(mode="json", by_alias=True)
    plain["settings"] = meta.settings.model_dump(mode="json", exclude_defaults=True)
    # How processes were started follows from study and settings; the folders' names in it are nobody's business.
    plain["commands"] = []
    for name, known in common.items():
        if plain[name] not in known:
            known.append(plain[name])
        plain[name] = known.index(plain[name])
    return plain


def _plain_run(run: Run, study: Study) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    if run.load is not None:
        plain["load"] = plain_load(run.load)
        spreads = {width: spreads_of(run.folder, run.load, width) for width in {*WIDTHS_S, study.plan.window_s}}
        if study.kind.value == "trace":
            plain["spreads"] = {str(width): found for width, found in sorted(spreads.items()) if found is not None}
    if run.cpu is not None:
        plain["cpu"] = run.cpu.model_dump(mode="json", by_alias=True)
    if run.seconds is not None:
        plain["seconds"] = plain_seconds(run.seconds)
    if run.before is not None and run.after is not None and run.end is not None:
        plain["proxy"] = plain_snapshots(run.before, run.after, run.end)
    for name in WHOLE_FILES:
        if (run.folder / name).exists():
            plain.setdefault("files", {})[name] = (run.folder / name).read_text(encoding="utf-8")
    return plain


def plain_seconds(seconds: MachineSeconds) -> dict[str, Any]:
    """Columns as text."""
    plain = seconds.model_dump(mode="json", by_alias=True)
    texts = {name: text_of(column) for name, column in plain.items() if isinstance(column, list)}
    return {**plain, **texts, "stalled_us": {name: text_of(column) for name, column in seconds.stalled_us.items()}}


def plain_load(load: LoadRecord) -> dict[str, Any]:
    """The generators together. Windows are columns of text: requests, and sums of response times."""
    plain = load.model_dump(mode="json", by_alias=True, exclude={"operations", "windows"})
    plain["operations"] = {
        name: {
            "requests": part.requests,
            "misses": part.misses,
            "errors": part.errors,
            "response_time": _plain_times(part.response_time, part.response_time.decoded(name)),
        }
        for name, part in load.operations.items()
    }
    plain["windows"] = {
        name: text_of(getattr(window, name) for window in load.windows)
        for name in ("start_ns", "length_ns", "requests", "response_time_sum_ns")
    }
    return plain


def plain_snapshots(before: Snapshot, after: Snapshot, end: Snapshot) -> dict[str, Any]:
    """What the proxies did between the two, and how many requests they had in all."""
    subtract_snapshots(after, before)  # refuses what cannot be subtracted
    operations = {}
    for name, now in after.operations.items():
        earlier = before.operations.get(name)
        stages = {
            stage: _difference(times, earlier.stages.get(stage) if earlier else None)
            for stage, times in now.stages.items()
        }
        operations[name] = {
            "requests": now.requests - (earlier.requests if earlier else 0),
            "errors": now.errors - (earlier.errors if earlier else 0),
            "stages": stages,
            "total": _difference(now.total, earlier.total if earlier else None),
        }
    heads = {
        moment: one.model_dump(mode="json", by_alias=True, exclude={"operations", "beside", "config", "stations"})
        for moment, one in (("before", before), ("after", after), ("end", end))
    }
    return {
        **heads,
        "operations": operations,
        "requests": {name: [part.requests, part.errors] for name, part in end.operations.items()},
        "in_force": end.model_dump(mode="json", by_alias=True, include={"config", "stations"}),
    }


def _difference(now: Distribution, before: Distribution | None) -> dict[str, Any]:
    later = now.decoded("snapshot")
    earlier = before.decoded("earlier snapshot") if before is not None else None
    times = later - earlier if later is not None and earlier is not None else later
    times = times.coarser(STAGE_DIGITS) if times is not None else None
    count, sum_ns = now.count - (before.count if before else 0), now.sum_ns - (before.sum_ns if before else 0)
    return {
        "count": count,
        "sum_ns": sum_ns,
        "histogram": plain_histogram(times) if times is not None and count else None,
    }


def _plain_times(times: Distribution, histogram: Histogram | None) -> dict[str, Any]:
    plain: dict[str, Any] = {"count": times.count, "sum_ns": times.sum_ns}
    plain["histogram"] = plain_histogram(histogram) if histogram is not None else None
    return plain | ({"without_histogram": True} if times.without_histogram else {})
