"""Reads what callgrind writes: what calls into some functions cost, and what a library does itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

NAME = re.compile(r"\((\d+)\)(?: (.*))?$")
# A line of the source, as it is or relative to the one before, and a count.
COST = re.compile(r"(?:[+-]?\d+|\*) \d+$")


def spent_in(profile: Path, functions: re.Pattern[str]) -> int:
    """Instructions of all calls into functions whose names match, from functions whose names do not.

    What the functions call counts, too. The format: valgrind's manual, "Callgrind Format Specification". A name is
    written out once, and named by its number from then on.
    """
    with profile.open() as lines:
        return sum(
            cost for caller, callee, cost in calls(lines) if functions.search(callee) and not functions.search(caller)
        )


def spent_by(profile: Path, objects: re.Pattern[str]) -> int:
    """Instructions of the program or libraries whose path matches; what they call does not count."""
    names: dict[str, str] = {}
    spent, is_meant, is_cost_of_call = 0, False, False
    with profile.open() as lines:
        for line in lines:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                is_meant = bool(objects.search(named(names, value)))
            elif key == "cob":
                named(names, value)
            elif is_meant and COST.match(line) and not is_cost_of_call:
                spent += int(line.split()[1])
            is_cost_of_call = key == "calls"
    return spent


def calls(lines: Iterable[str]) -> Iterable[tuple[str, str, int]]:
    """Who calls, who is called, and what the calls from this line of the caller cost in all."""
    names: dict[str, str] = {}
    caller = callee = ""
    is_cost_of_call = False
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        if is_cost_of_call:
            is_cost_of_call = False
            yield caller, callee, int(line.split()[1])
        elif key == "fn":
            caller = named(names, value)
        elif key == "cfn":
            callee = named(names, value)
        elif key == "calls":
            is_cost_of_call = True


def named(names: dict[str, str], written: str) -> str:
    found = NAME.match(written)
    if found is None:
        return written
    number, name = found.groups()
    if name is not None:
        names[number] = name
    return names[number]
