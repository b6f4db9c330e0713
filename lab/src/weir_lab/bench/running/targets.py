"""Servers and proxies that run already: nothing of them is started, flushed or stopped.

A run writes keys of its own, which begin with a prefix that no other run has, and deletes them at its end, however it ends. If the
laboratory is killed, they expire by themselves (`OwnKeys`).
"""

from __future__ import annotations

import secrets
import string
import subprocess
from typing import TYPE_CHECKING

from weir_lab.bench.programs.generators import PREFIX_LENGTH, OwnKeys, delete_argv, keys_written
from weir_lab.bench.testbeds.agent import version_of
from weir_lab.design import Role
from weir_lab.errors import RecordError, TestbedError
from weir_lab.records import read_json
from weir_lab.records.formats import LoadRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir_lab.bench.running.starting import Starter
    from weir_lab.design import Plan, Settings

__all__ = ["delete_keys", "own_keys", "target_versions"]

_DELETE_S = 120.0
# Longer than two runs and what stands around them: a key must not expire while it is still asked for.
_EXPIRY_LEAST_S = 900


def own_keys(plan: Plan) -> OwnKeys:
    """Keys of one run: a prefix drawn at random, and when they expire if nobody deletes them."""
    letters = string.ascii_lowercase + string.digits
    drawn = "".join(secrets.choice(letters) for _ in range(PREFIX_LENGTH - 2))
    length_s = plan.warmup_s + plan.measured_s + plan.cooldown_s
    return OwnKeys(f"w{drawn}-", _EXPIRY_LEAST_S + round(2 * length_s))


def target_versions(targets: Sequence[str], ask: Callable[[str], str] = version_of) -> dict[str, str]:
    """What each target answers to ``version``; `TestbedError` for those that accept no connection, all in one.

    ``ask`` puts the question, from where the load will come; it raises `OSError` or `TestbedError` without a connection.
    """
    found, silent = {}, []
    for target in targets:
        try:
            found[f"target {target}"] = ask(target)
        except OSError as error:
            silent.append(f"{target} ({error.strerror or error})")
        except TestbedError as error:
            silent.append(f"{target} ({error})")
    if silent:
        raise TestbedError(
            f"no connection to {', '.join(silent)}. Start what the study's targets name, or mend targets in the study."
        )
    return found


def delete_keys(starter: Starter, settings: Settings, targets: Sequence[str], seed: int) -> list[str]:
    """Delete what the run wrote, on every target; what could not be deleted, in words."""
    keys, problems = starter.own_keys, []
    if keys is None:
        return []
    for place, target in enumerate(targets):
        name, machine = f"delete-{place}", starter.machine("client-0")
        record = starter.folder / f"{name}.json"
        argv = [*delete_argv(starter.executables.weir, settings, target, seed, keys), "--json", machine.file(record)]
        try:
            process = starter.start(machine, Role.CLIENT, name, argv).process
            process.popen.wait(_DELETE_S)
            if process.popen.returncode != 0:
                raise TestbedError(process.last_words())
            machine.collect(record)
            deleted = read_json(record, LoadRecord).requests_of_all_phases
            if deleted < keys_written(settings):
                raise TestbedError(f"{deleted} of {keys_written(settings)} were asked to be deleted")
        except (TestbedError, RecordError, subprocess.TimeoutExpired) as error:
            problems.append(
                f"keys that begin with {keys.prefix} were not all deleted from {target}: {error}. "
                f"They expire by themselves within {keys.expiry_s} s"
            )
    return problems
