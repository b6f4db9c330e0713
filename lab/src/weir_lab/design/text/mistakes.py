"""Mistakes of a study file in plain words, as many at once as can be distinguished: `plain_words`, `repaired`.

pydantic stops at the first stage that fails: a wrong number under ``[plan]`` hides a misspelled setting under ``[fixed]``. So
what failed is taken out, or replaced by its default, and the rest is looked at again. Pure.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from weir_lab.design.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

    from weir_lab.design.text.lines import KeyPath

__all__ = ["misplaced", "plain_words", "repaired", "without_types"]

# Names of types that pydantic puts into a place where several are possible.
_TYPES = {"int", "float", "str", "[key]", "list[str]"}
_PATTERNS = {
    r"^[a-z0-9][a-z0-9.-]{0,40}$": "lower-case letters, digits, '-' and '.', at most 41 of them, with no '-' or '.' at the start",
    r"^[a-z][a-z0-9-]{0,30}$": "lower-case letters, digits and '-', at most 31 of them, with a letter at the start",
    r"^[a-z0-9/-]{1,60}$": "lower-case letters, digits, '/' and '-', at most 60 of them",
    r"^(poisson|fixed|bursts:[1-9][0-9]{0,5})$": "'poisson', 'fixed' or 'bursts:N'",
    r"^[a-z]+=[0-9.]+(,[a-z]+=[0-9.]+)*$": "commands with weights, such as 'get=0.9,set=0.1',",
    r"^[a-z][a-z0-9-]{0,40}$": "names of `weir load --preset list`",
}
_WANTED = {
    "int_parsing": "a whole number is wanted",
    "int_type": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "float_parsing": "a number is wanted",
    "float_type": "a number is wanted",
    "bool_parsing": "true or false is wanted",
    "bool_type": "true or false is wanted",
    "string_type": "a text in quotes is wanted",
    "list_type": "a list is wanted, such as [1, 2]",
    "tuple_type": "a list is wanted, such as [1, 2]",
    "dict_type": "a table is wanted",
    "model_type": "a table is wanted",
    "model_attributes_type": "a table is wanted",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
# Lists of tables: an element without its faulty key would be called incomplete, so the whole list goes.
_WHOLE = {"cells", "expected", "predictions", "refine", "refined", "subjects", "targets"}
# How the heads of tables are written that are not one table of this name.
_HEADS = {
    **{"predictions": "[[predictions]]", "expected": "[[expected]]", "refine": "[[refine]]"},
    **{"subjects": "[subjects.NAME]", "paces": "[paces.NAME]"},
}
_REQUIRED_STAND_INS = {"schema": "weir.study/1", "name": "unnamed"}


def plain_words(problem: ErrorDetails, known: Mapping[str, Iterable[str]]) -> str:
    """What is wrong with a value, and what is wanted instead; ``known`` are the keys of each table, the file's own under ``""``."""
    kind, context, given = problem["type"], problem.get("ctx", {}), problem["input"]
    where = without_types(problem["loc"])
    if kind == "missing":
        return f"{where[-1]} is required and missing"
    if kind == "extra_forbidden":
        above = [str(part) for part in where[:-1] if isinstance(part, str)]
        # What is a table of tables by name has one kind of keys: [subjects.NAME], [paces.NAME].
        table = above[0] if above[:1] in (["subjects"], ["paces"]) else ".".join(above)
        return misplaced(str(where[-1]), table, known)
    shown = f", not {given!r}" if isinstance(given, str | int | float) else ""
    if where and where[0] == "factors" and kind == "list_type":
        return f"a factor has a list of levels, such as [{given!r}]; a setting with one value stands under [fixed]"
    if where and where[0] == "fixed" and isinstance(given, list):
        return "one value is wanted; a setting with several levels is a factor and stands under [factors]"
    if kind in _WANTED:
        return f"{_WANTED[kind]}{shown}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"{words} {context[key]:g} is wanted{shown}"
    if kind in ("literal_error", "enum"):
        return f"{context['expected']} is wanted{shown}"
    if kind == "string_pattern_mismatch":
        return f"{_PATTERNS.get(context['pattern'], 'a text of the form ' + context['pattern'])} are wanted{shown}"
    if kind in ("string_too_short", "too_short"):
        least = context["min_length"]
        what = "character" if kind == "string_too_short" else "level or entry"
        return f"at least {least} {what}{'s are' if least > 1 else ' is'} wanted{shown}"
    return f"{problem['msg'].removeprefix('Value error, ')}{f' (given: {given!r})' if shown else ''}"


def misplaced(name: str, table: str, known: Mapping[str, Iterable[str]]) -> str:
    """What to do about a key that its table does not have: where it belongs, or which name may be meant."""
    if name in Settings.model_fields:
        return f"{name} is a setting: it stands under [fixed] with one value, or under [factors] with a list of levels"
    homes = [home for home, names in known.items() if name in names and home != table]
    if homes:
        home = (
            f"under {_HEADS.get(homes[0], f'[{homes[0]}]')}"
            if homes[0]
            else "at the head of the file, before the first [table]"
        )
        return f"{name} belongs {home}"
    here = sorted(known.get(table, ()))
    if table in ("fixed", "factors"):
        here = sorted(Settings.model_fields)
    near = get_close_matches(name, here, n=1)
    what = "setting" if table in ("fixed", "factors") else "key"
    if near:
        return f"unknown {what} {name}: did you mean {near[0]}?"
    return f"unknown {what} {name}: there are {', '.join(here)}" if here else f"unknown {what} {name}"


def repaired(data: dict[str, Any], faults: Iterable[KeyPath]) -> tuple[dict[str, Any], set[str]]:
    """The same data with the faulty keys at their defaults, and the tables that were changed."""
    made = {name: dict(value) if isinstance(value, dict) else value for name, value in data.items()}
    changed: set[str] = set()
    for where in faults:
        if not where:
            continue
        first = str(where[0])
        changed.add(first)
        if first in _REQUIRED_STAND_INS:
            made[first] = _REQUIRED_STAND_INS[first]
        elif first == "factors" and first not in made:
            made[first] = {"clients": [1]}
        elif first in _WHOLE or len(where) == 1 or not isinstance(made.get(first), dict):
            made.pop(first, None)
        else:
            _mend(made[first], where[1:], listed=first == "factors")
    return made, changed


def _mend(table: dict[str, Any], where: KeyPath, *, listed: bool) -> None:
    """Make a setting's value one of the right shape, and take any other faulty key out."""
    name = str(where[0])
    value = table.get(name)
    if listed and not isinstance(value, list | dict) and value is not None:
        table[name] = [value]
    elif len(where) > 1 and isinstance(value, dict):
        table[name] = dict(value)
        _mend(table[name], where[1:], listed=listed)
    else:
        table.pop(name, None)


def without_types(loc: tuple[str | int, ...]) -> KeyPath:
    """A place in the file, without the names of types that pydantic adds where several are possible."""
    return tuple(part for part in loc if part not in _TYPES and not str(part).startswith("constrained-"))
