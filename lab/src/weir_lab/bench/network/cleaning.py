"""Removes what processes left behind that could not do it themselves, because they were killed.

Only what bears our names, and only if the process in the name is gone.
"""

from __future__ import annotations

from weir_lab.bench.network.namespaces import NAMESPACES, remove_namespace
from weir_lab.bench.network.owners import owner_of
from weir_lab.bench.network.quotas import CpuGroups, find_cpu_groups, remove_group

__all__ = ["clean"]


def clean() -> list[str]:
    """Remove namespaces and control groups of owners that are gone, and end what runs in them. Returns their names."""
    removed = []
    if NAMESPACES.is_dir():
        for file in sorted(NAMESPACES.iterdir()):
            if _is_orphaned(file.name):
                remove_namespace(file.name)
                removed.append(f"namespace {file.name}")
    groups = find_cpu_groups()
    if isinstance(groups, CpuGroups):
        for folder in sorted(groups.folder.iterdir()):
            if folder.is_dir() and _is_orphaned(folder.name):
                remove_group(folder)
                removed.append(f"control group {folder.name}")
    return removed


def _is_orphaned(name: str) -> bool:
    owner = owner_of(name)
    return owner is not None and not owner.alive
