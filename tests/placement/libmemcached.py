"""The installed libmemcached, called through ctypes: only what tells where a key goes."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from types import TracebackType
from typing import Self

# Numbers of libmemcached-1.0/types: behavior.h, server_distribution.h and hash.h.
BEHAVIOR_HASH = 2
BEHAVIOR_KETAMA = 3
BEHAVIOR_DISTRIBUTION = 9
BEHAVIOR_KETAMA_WEIGHTED = 16
BEHAVIOR_KETAMA_HASH = 17
DISTRIBUTION_CONSISTENT = 1
DISTRIBUTION_CONSISTENT_KETAMA_SPY = 4
HASHES = {
    "one_at_a_time": 0,
    "md5": 1,
    "crc32": 2,
    "fnv1_64": 3,
    "fnv1a_64": 4,
    "fnv1_32": 5,
    "fnv1a_32": 6,
    "hsieh": 7,
    "murmur": 8,
    "jenkins": 9,
    "murmur3": 10,
}


class UnsupportedError(Exception):
    """The library was built without this."""


def load() -> ctypes.CDLL | None:
    """The shared library, or None where it is not installed."""
    name = ctypes.util.find_library("memcached") or "libmemcached.so.11"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    handle, key, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    library.memcached_create.restype = handle
    library.memcached_create.argtypes = [handle]
    library.memcached.restype = handle
    library.memcached.argtypes = [key, size]
    library.memcached_free.restype = None
    library.memcached_free.argtypes = [handle]
    library.memcached_behavior_set.argtypes = [handle, ctypes.c_int, ctypes.c_uint64]
    library.memcached_server_add_with_weight.argtypes = [handle, key, ctypes.c_uint16, ctypes.c_uint32]
    library.memcached_generate_hash.restype = ctypes.c_uint32
    library.memcached_generate_hash.argtypes = [handle, key, size]
    return library


class Client:
    """A libmemcached handle with some behaviours and servers. It connects to nobody."""

    def __init__(
        self, library: ctypes.CDLL, behaviors: Sequence[tuple[int, int]], servers: Sequence[tuple[str, int, int]]
    ) -> None:
        self._library = library
        self._handle = library.memcached_create(None)
        assert self._handle is not None
        for behavior, value in behaviors:
            if library.memcached_behavior_set(self._handle, behavior, value) != 0:
                self.close()
                raise UnsupportedError(f"behaviour {behavior} = {value}")
        for host, port, weight in servers:
            status = library.memcached_server_add_with_weight(self._handle, host.encode(), port, weight)
            assert status == 0, f"{host}:{port} refused with {status}"

    @classmethod
    def of_string(cls, library: ctypes.CDLL, string: str) -> Self:
        """A handle as a configuration string describes it."""
        client = cls.__new__(cls)
        client._library = library
        client._handle = library.memcached(string.encode(), len(string.encode()))
        if client._handle is None:
            raise UnsupportedError(f"the library does not take {string!r}")
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._library.memcached_free(self._handle)

    def places(self, keys: Sequence[bytes]) -> list[int]:
        """For each key, which of the servers the library would ask."""
        tell = self._library.memcached_generate_hash
        return [tell(self._handle, key, len(key)) for key in keys]
