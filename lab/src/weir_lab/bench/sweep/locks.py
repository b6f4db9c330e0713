"""Locks on folders: one weir-lab at a time makes runs in a sweep, and one `weir-lab study` in the folder of a whole study."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LockedError", "locked"]


class LockedError(TestbedError):
    """Another weir-lab works in a folder. That says nothing of what can run on this machine."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have a folder for oneself. The kernel lets go when the process ends, however it ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(
                f"{folder}: another weir-lab runs in this folder. Wait for it, or give another --out."
            ) from error
        yield
