"""What makes a run the same run: its seed and its content hash."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from weir_lab.design.settings import RequestPath, Settings
from weir_lab.design.study import Gates, Kind, Study

if TYPE_CHECKING:
    from weir_lab.design.cells import ScheduledRun

__all__ = ["content_sha256", "load_seed", "subject_program"]


def load_seed(study: Study, run: ScheduledRun) -> int:
    """Seed of the load generator: the same for all cells of a block, so that paired runs see the same requests."""
    return int(np.random.SeedSequence([study.plan.seed, run.repetition, 1]).generate_state(1)[0])


def content_sha256(study: Study, run: ScheduledRun, executables: dict[str, str]) -> str:
    """Hash of all that decides the outcome of a run: settings, plan, gates, repetition, programs, testbed (as its identity).

    Of the programs those count that this run starts: another subject of the same study may change without making this run stale.

    Name, texts and order of the study are left out: rewording a question does not make measured data stale. What a study leaves at
    its default is left out, too, so that a new setting makes no old run stale.
    """
    settings = run.cell.settings
    content: dict[str, Any] = {
        "settings": settings.model_dump(mode="json", exclude_defaults=True)
        | settings.model_dump(mode="json", include=_FIRST_SETTINGS),
        "warmup_s": study.plan.warmup_s,
        "measured_s": study.plan.measured_s if run.measured_s is None else run.measured_s,
        "gates": study.gates.model_dump(mode="json", include=_FIRST_GATES),
        "repetition": run.repetition,
        "seed": load_seed(study, run),
        "executables": {name: state for name, state in executables.items() if _takes_part(name, settings)},
    }
    later: dict[str, Any] = {
        "gates_added": study.gates.model_dump(mode="json", exclude=_FIRST_GATES, exclude_defaults=True),
        "cooldown_s": study.plan.cooldown_s,
        "cut": study.plan.cut if study.plan.cut != "fixed" else "",
        "kind": study.kind.value if study.kind not in (Kind.LOAD, Kind.MICRO) else "",
        # Several generators were once one process with all their connections.
        "generators": settings.generators if settings.generators > 1 else 0,
        "subject": _subject(study, settings),
        "targets": study.targets,
    }
    content |= {name: value for name, value in later.items() if value}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def subject_program(subject: str, word: str) -> str:
    """Name of a program or file of a study's subject among the executables of a sweep."""
    return f"[subjects.{subject}] {word}"


def _subject(study: Study, settings: Settings) -> dict[str, Any]:
    """A subject's command line and files; of what was added to subjects later, only what it uses."""
    subject = study.subjects.get(settings.subject)
    if subject is None:
        return {}
    added = {"files": subject.files} if subject.files else {}
    return subject.model_dump(mode="json", exclude={"files"}) | added


def _takes_part(name: str, settings: Settings) -> bool:
    """Whether a run starts a program. What stands for none (``weir``, ``memcached``, the testbed's identity) is everybody's."""
    proxied = settings.path is RequestPath.PROXY
    if name.startswith("[subjects."):
        return proxied and name.startswith(subject_program(settings.subject, ""))
    if name == "nutcracker":
        return proxied and settings.subject == name
    return name != "memcaslap" or settings.generator == name


# These stand in the hash whatever their values; settings and gates that were added later, only where they are used.
_FIRST_SETTINGS = {
    *("path", "clients", "depth", "keys", "value_size_bytes", "write_ratio", "client_threads", "proxy_threads"),
    *("servers", "server_threads", "server_memory_mib"),
}
assert set(Settings.model_fields) >= _FIRST_SETTINGS
_FIRST_GATES = {"client_cpu_share_max", "other_cpu_share_max", "law_deviation_max"}
assert set(Gates.model_fields) >= _FIRST_GATES
