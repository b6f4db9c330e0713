"""Archives whose bytes depend on nothing but what is in them: in order, of one time, owned by root."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file and its mode. The folders above it come along."""

    content: bytes
    mode: int = 0o644


def tar(entries: Mapping[str, Entry], epoch: int) -> bytes:
    """A tar archive of these paths."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folders = {"/".join(path.split("/")[:depth]) for path in entries for depth in range(1, path.count("/") + 1)}
        for path in sorted({*entries, *folders}):
            info = tarfile.TarInfo(path)
            info.mtime = epoch
            if path in folders:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            else:
                info.size, info.mode = len(entries[path].content), entries[path].mode
                archive.addfile(info, io.BytesIO(entries[path].content))
    return written.getvalue()


def gzipped(content: bytes) -> bytes:
    """Compressed as far as it goes, without a name and a time."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()
