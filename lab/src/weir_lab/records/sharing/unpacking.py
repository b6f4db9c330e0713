"""From a kept record back to the folder of a sweep, which gives the same reports as the one that was kept. Start with `unpack`.

Content hashes are written anew: kept runs belong to their study whatever programs are here today, and however hashes are made by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir_lab.design import cells_of, content_sha256, load_study, scheduled_like
from weir_lab.errors import RecordError
from weir_lab.records.formats.seconds import SECONDS_FILE
from weir_lab.records.runs import RunMeta, SweepMeta, runs_folder, snapshot_name, write_json, write_text
from weir_lab.records.sharing.numbers import histogram_of, numbers_of
from weir_lab.records.sharing.packing import WHOLE_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from weir_lab.design import Study

__all__ = ["seconds_of_plain", "unpack"]

_EMPTY = {"count": 0, "sum_ns": 0, "histogram": None}
_COLUMNS = ("start_ns", "length_ns", "requests", "response_time_sum_ns")


def unpack(kept: Mapping[str, Any], sweep: Path) -> None:
    """Write the folder of the sweep; it must not be there yet. Nothing is written outside of it, whatever the record names."""
    try:
        runs_folder(sweep).mkdir(parents=True)
    except FileExistsError as error:
        raise RecordError(f"{sweep} is there already. Unpack into a new folder.") from error
    try:
        _write(kept, sweep)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        # pydantic's errors are ValueErrors, too.
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordError(
            f"not as this weir-lab keeps records ({type(error).__name__}: {what}). Use the version that made them."
        ) from error


def _write(kept: Mapping[str, Any], sweep: Path) -> None:
    write_text(sweep / "study.toml", kept["study"])
    made_by = SweepMeta.model_validate(kept["sweep"])
    write_json(sweep / "sweep.json", made_by)
    study = load_study(sweep / "study.toml")
    known = {cell.name for cell in cells_of(study)}
    for run in kept["runs"]:
        plain = {**run["meta"], **{name: values[run["meta"][name]] for name, values in kept["common"].items()}}
        meta = RunMeta.model_validate(plain)
        folder = runs_folder(sweep) / _plain_name(run["name"])
        folder.mkdir()
        if study.find is None and meta.cell in known:
            meta = meta.model_copy(update={"content_sha256": _content(study, meta, made_by.executables)})
        _write_measurements(folder, run, meta.settings.proxies)
        write_json(folder / "run.json", meta)


def _plain_name(name: object) -> str:
    """The name of a run's folder: a name, and no way to another place."""
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise RecordError(f"a run is called {str(name)!r}, which is no name of a folder. Bring the file back.")
    return name


def _content(study: Study, meta: RunMeta, executables: dict[str, str]) -> str:
    found = scheduled_like(study, [meta])
    if not found:
        raise RecordError(
            f"The study does not ask for the kept run {meta.cell}-r{meta.repetition}. Bring the file back."
        )
    return content_sha256(study, found[0], executables)


def _write_measurements(folder: Path, run: Mapping[str, Any], proxies: int) -> None:
    if "load" in run:
        write_json(folder / "load.json", _load(run["load"]))
    if "spreads" in run:
        write_json(folder / "spreads.json", dict(run["spreads"]))
    if "cpu" in run:
        write_json(folder / "cpu.json", dict(run["cpu"]))
    if "seconds" in run:
        write_json(folder / SECONDS_FILE, seconds_of_plain(run["seconds"]))
    for name, text in run.get("files", {}).items():
        if name not in WHOLE_FILES:
            raise RecordError(f"a run has a file {name!r}, which no run leaves. Bring the file back.")
        write_text(folder / name, text)
    if "proxy" not in run:
        return
    for moment, snapshot in _snapshots(run["proxy"]).items():
        write_json(folder / snapshot_name(moment, 0), snapshot)
        # The proxies were added up: those beside the first bring nothing more.
        idle = {**snapshot, "operations": {}, "process": {"cpu_user_ns": 0, "cpu_system_ns": 0}}
        for place in range(1, proxies):
            write_json(folder / snapshot_name(moment, place), idle)


def seconds_of_plain(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What the machine did second by second, from columns as text."""
    columns = {name: numbers_of(text) for name, text in plain.items() if name.endswith("_us") and isinstance(text, str)}
    stalled = {name: numbers_of(text) for name, text in plain["stalled_us"].items()}
    return {**plain, **columns, "piece_ns": numbers_of(plain["piece_ns"]), "stalled_us": stalled}


def _load(plain: Mapping[str, Any]) -> dict[str, Any]:
    columns = [numbers_of(plain["windows"][name]) for name in _COLUMNS]
    operations = {
        name: {**part, "response_time": _times(part["response_time"])} for name, part in plain["operations"].items()
    }
    windows = [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
    return {**plain, "operations": operations, "windows": windows}


def _snapshots(plain: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Before: nothing yet. After: what the measured phase brought. End: counts alone, and what was in force."""
    operations = {
        name: {
            **part,
            "stages": {stage: _times(times) for stage, times in part["stages"].items()},
            "total": _times(part["total"]),
        }
        for name, part in plain["operations"].items()
    }
    at_end = {
        name: {"requests": requests, "errors": errors, "stages": {}, "total": _EMPTY}
        for name, (requests, errors) in plain["requests"].items()
    }
    return {
        "before": {**plain["before"], "operations": {}},
        "after": {**plain["after"], "operations": operations},
        "end": {**plain["end"], **plain["in_force"], "operations": at_end},
    }


def _times(plain: Mapping[str, Any]) -> dict[str, Any]:
    histogram = plain["histogram"]
    return {**plain, "histogram": histogram_of(histogram).encode() if histogram is not None else None}
