"""Kept records on disk: JSON, compressed by zstd. Read `read_kept` and `write_kept`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import zstandard

from weir_lab.errors import RecordError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_kept", "write_kept"]

# Slow and small: written once, read often.
_LEVEL = 19
_BYTES_MAX = 1 << 30


def write_kept(path: Path, content: dict[str, Any]) -> int:
    """Write a record whole or not at all; its bytes on disk. The same content gives the same bytes."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(text.encode("utf-8"))
    part = path.with_name(path.name + ".part")
    part.write_bytes(packed)
    part.replace(path)
    return len(packed)


def _unpacked(packed: bytes) -> bytes:
    if not 0 <= zstandard.frame_content_size(packed) <= _BYTES_MAX:
        raise ValueError("its size is missing, or too large")
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    text: bytes = unpacker.decompress(packed)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("cut short, or something behind its end")
    return text


def read_kept(path: Path, schema: str | None = None) -> dict[str, Any]:
    """Read a record, and check its schema where one is asked for."""
    try:
        found = json.loads(_unpacked(path.read_bytes()))
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be read ({error.strerror}). Give a folder made by `weir-lab keep`."
        ) from error
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise RecordError(f"{path}: damaged ({error}). Bring the file back.") from error
    if not isinstance(found, dict) or (schema is not None and found.get("schema") != schema):
        raise RecordError(f"{path}: no record of the kind {schema}. Give a folder made by `weir-lab keep`.")
    return found
