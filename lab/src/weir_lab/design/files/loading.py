"""A study file becomes a `Study`, or a list of what its author has to mend, by line."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from weir_lab.design.cells import cells_of
from weir_lab.design.files.paces import at_pace
from weir_lab.design.settings import Settings
from weir_lab.design.study import PACES, FaultsError, Study, keys_of_tables
from weir_lab.design.text.lines import key_lines, line_of
from weir_lab.design.text.mistakes import plain_words, repaired, without_types
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design.cells import Cell
    from weir_lab.design.settings import Level
    from weir_lab.design.text.lines import KeyPath

__all__ = ["amended", "load_study", "parse_study", "study_schema"]

# How often faulty keys are left out and the rest is checked again.
_STAGES = 4
# What the cells are made of: where one of these was changed, nothing is said about cells.
_DECIDE_CELLS = {"fixed", "factors", "design", "cells", "refined", "kind", "targets"}
_SCHEMA_LINE = re.compile(r"^\s*schema\s*=.*$", re.MULTILINE)


def load_study(path: Path, pace: str | None = None) -> Study:
    """Read and check a study file at its own pace, or at another. `StudyError` names file, line, key and remedy."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: the study file cannot be read ({error}). Give the path of a TOML file.") from error
    try:
        return parse_study(text, pace)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not valid TOML: {error}. Mend the line.{_line_shown(text, error)}") from error
    except FaultsError as error:
        raise StudyError(_explain(str(path), text, error.faults)) from error


def parse_study(text: str, pace: str | None = None) -> Study:
    """Check the text of a study file; raises what tomllib raises, and `FaultsError` with all that is wrong with it."""
    data = tomllib.loads(text)
    if pace is not None:
        if pace not in PACES:
            raise FaultsError([(("pace",), f"there is no pace {pace!r}: there are {', '.join(PACES)}")])
        data["pace"] = pace
    study, faults = _checked(data)
    if study is None:
        raise FaultsError(faults)
    cells = cells_of(study)  # all levels as written must be sound, not only those of the pace
    _require_points_on_cells(study, cells)
    return at_pace(study)


def _checked(data: dict[str, Any]) -> tuple[Study | None, list[tuple[KeyPath, str]]]:
    """The study; or none, and its faults, also those that stand behind the first: the faulty keys are left out, and it is checked again."""
    faults: dict[tuple[KeyPath, str], None] = {}
    changed: set[str] = set()
    for _ in range(_STAGES):
        try:
            study = Study.model_validate(data)
            if not faults:
                return study, []
            if not changed & _DECIDE_CELLS:
                cells_of(study)
            break
        except FaultsError as error:
            faults.update(dict.fromkeys(error.faults))
            break
        except ValidationError as error:
            found = _faults(error)
            faults.update(dict.fromkeys(found))
            if any(isinstance(problem.get("ctx", {}).get("error"), FaultsError) for problem in error.errors()):
                break  # all parts have the right form, and what does not agree is known
            data, more = repaired(data, [where for where, _ in found])
            changed |= more
    faults.update(dict.fromkeys(_level_faults(data)))
    return None, list(faults)


def _level_faults(data: dict[str, Any]) -> list[tuple[KeyPath, str]]:
    """Levels that no setting may have, each looked at by itself; what depends on other settings is left for the cells."""
    found: list[tuple[KeyPath, str]] = []
    for table in ("fixed", "factors"):
        values = data.get(table)
        for name, given in values.items() if isinstance(values, dict) else ():
            for level in given if isinstance(given, list) else [given]:
                if name not in Settings.model_fields or (isinstance(level, str) and level.startswith("=")):
                    continue
                try:
                    Settings.model_validate({name: level})
                except ValidationError as error:
                    found += [((table, name), plain_words(one, {})) for one in error.errors() if one["loc"]]
    return found


def amended(
    text: str,
    *,
    pace: str | None = None,
    testbed: str | None = None,
    extended: int = 0,
    refined: list[dict[str, Level]] | None = None,
) -> str:
    """The text of a study with what the command line or the data added to it, so that the copy beside the runs says it all."""
    inserted = {
        "pace": f'"{pace}"' if pace else None,
        "testbed": f'"{testbed}"' if testbed else None,
        "extended": str(extended) if extended else None,
    }
    head, _, tail = _split_at_first_table(text)
    for key, value in inserted.items():
        if value is not None:
            head = re.sub(rf"^\s*{key}\s*=.*\n", "", head, flags=re.MULTILINE)
            head = _SCHEMA_LINE.sub(lambda line, key=key, value=value: f"{line[0]}\n{key} = {value}", head, count=1)  # type: ignore[misc]
    listed = "".join(
        "\n[[refined]]\n" + "".join(f"{name} = {json.dumps(level)}\n" for name, level in cell.items())
        for cell in refined or []
    )
    return f"{head}{tail}{listed}"


def study_schema() -> dict[str, Any]:
    """JSON Schema of a study file, for editors; ``docs/schemas/weir.study-1.json`` is this."""
    schema = Study.model_json_schema(by_alias=True)
    schema["properties"].pop("refined")  # written by the laboratory alone
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "weir.study-1.json", **schema}


def _split_at_first_table(text: str) -> tuple[str, str, str]:
    """Head and tables of a file; a line of a long text that looks like a table's head is none."""
    tables = [line for path, line in key_lines(text).items() if len(path) == 1 or isinstance(path[-1], int)]
    lines = text.splitlines(keepends=True)
    starts = [number for number in sorted(tables) if lines[number - 1].lstrip().startswith("[")]
    first = starts[0] - 1 if starts else len(lines)
    return "".join(lines[:first]), "", "".join(lines[first:])


def _require_points_on_cells(study: Study, cells: list[Cell]) -> None:
    levels = {cell.settings.clients for cell in cells}
    faults: list[tuple[KeyPath, str]] = [
        (
            ("predictions", index, "clients"),
            f"predictions[{index}].clients is {prediction.clients}, which is no level: {sorted(levels)}",
        )
        for index, prediction in enumerate(study.predictions)
        if prediction.clients not in levels
    ]
    faults += [
        (("expected", index, "at"), "no cell of the study has these settings")
        for index, point in enumerate(study.expected)
        if not any(cell.has(point.at) for cell in cells)
    ]
    if faults:
        raise FaultsError(faults)


def _faults(error: ValidationError) -> list[tuple[KeyPath, str]]:
    found: dict[KeyPath, str] = {}
    whole: list[tuple[KeyPath, str]] = []
    known = keys_of_tables()
    for problem in error.errors():
        inner = problem.get("ctx", {}).get("error")
        if isinstance(inner, FaultsError):
            whole += inner.faults
        else:
            # A level may be a whole number, a number or a text: one fault of it is enough.
            found.setdefault(without_types(problem["loc"]), plain_words(problem, known))
    return [*found.items(), *whole]


def _line_shown(text: str, error: tomllib.TOMLDecodeError) -> str:
    place = re.search(r"at line (\d+)", str(error))
    lines = text.splitlines()
    if place is None or not 1 <= int(place[1]) <= len(lines):
        return ""
    return f"\n  line {place[1]}: {lines[int(place[1]) - 1].strip()}"


def _explain(path: str, text: str, faults: list[tuple[KeyPath, str]]) -> str:
    lines = key_lines(text)
    shown = []
    for where, message in sorted(faults, key=lambda fault: line_of(lines, fault[0]) or 0):
        number = line_of(lines, where)
        key = ".".join(str(part) for part in where) or "the whole file"
        shown.append(f"  line {number}, {key}: {message}" if number else f"  {key}: {message}")
    return "\n".join(
        [f"{path}: the study cannot be run; change these keys (docs/measure/study-file.md lists all keys):", *shown]
    )
