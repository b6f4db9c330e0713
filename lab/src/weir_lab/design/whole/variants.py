"""The same design with another engine: `with_event_engine` turns the text of a study file into that of its sibling."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from weir_lab.errors import StudyError

__all__ = ["with_event_engine"]

# Threads that only the threaded engines have.
_THREADS = ("workers", "readers", "crew")


def with_event_engine(text: str) -> str | None:
    """A study with ``engine = "event"``, named ``NAME-event``; ``None`` where no proxy takes part.

    Levels of workers and readers go away with their engine, and so do expected points: they were another engine's. What the earlier
    study assumed of them goes, too.
    """
    data = tomllib.loads(text)
    fixed, factors = dict(data.get("fixed", {})), dict(data.get("factors", {}))
    if fixed.get("engine", "event") == "event" or fixed.get("path") == "direct":
        return None
    if data.get("cells") or "engine" in factors:
        raise StudyError(f"{data.get('name')}: only designs whose factors are listed, with one engine, have a sibling.")
    for name in _THREADS:
        fixed.pop(name, None)
        factors.pop(name, None)
    if not factors:
        factors["proxy_threads"] = [fixed.pop("proxy_threads", 1)]
    data |= {
        "name": f"{data['name']}-event",
        "title": f"{data['title']} (event engine)",
        "fixed": {**fixed, "engine": "event"},
        "factors": factors,
    }
    if data.get("design") == "2k" and len(factors) < 2:
        data["design"] = "full"
    data.pop("expected", None)
    if "paces" in data:
        data["paces"] = {name: _without_threads(changes) for name, changes in data["paces"].items()}
    data["assumed"] = [name for name in data.get("assumed", []) if name not in _THREADS]
    return _toml(data)


def _without_threads(changes: dict[str, Any]) -> dict[str, Any]:
    """What a pace changes, but for factors that are gone."""
    kept = {name: levels for name, levels in changes.get("factors", {}).items() if name not in _THREADS}
    return {**{key: value for key, value in changes.items() if key != "factors"}, **({"factors": kept} if kept else {})}


def _toml(data: dict[str, Any]) -> str:
    """Keys, then tables: what a study file can hold, and no more."""
    plain = [
        f"{key} = {_value(value)}" for key, value in data.items() if not isinstance(value, dict) and not _tables(value)
    ]
    lines = [*plain, ""]
    for key, value in data.items():
        if isinstance(value, dict):
            lines += _table(key, value)
        elif _tables(value):
            for one in value:
                lines += [f"[[{key}]]", *(f"{name} = {_value(part)}" for name, part in one.items()), ""]
    return "\n".join(lines)


def _table(name: str, content: dict[str, Any]) -> list[str]:
    lines = [
        f"[{name}]",
        *(f"{key} = {_value(part)}" for key, part in content.items() if not isinstance(part, dict)),
        "",
    ]
    for key, part in content.items():
        if isinstance(part, dict):
            lines += _table(f"{name}.{key}", part)
    return lines


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
