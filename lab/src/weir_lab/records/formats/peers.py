"""What proxies other than ours tell of themselves: `read_nutcracker` for nutcracker's stats port. Pure.

Subjects that are only a command line tell nothing; of them a run knows what the client saw.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir_lab.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PeerCounts", "merge_peers", "read_nutcracker"]


@dataclass(frozen=True)
class PeerCounts:
    """Counters of another proxy since its start."""

    requests: int
    """Sent to servers. A multi-get is counted once per server that got a part of it."""
    responses: int
    fragments: int
    """Parts that multi-gets were split into."""
    troubles: dict[str, int]
    """What should be 0, by the proxy's own names."""


_SERVER_TROUBLES = ("server_err", "server_timedout")
_POOL_TROUBLES = ("client_err", "forward_error", "server_ejects")


def read_nutcracker(text: str, where: str) -> PeerCounts:
    """Read what nutcracker answers on its stats port: one JSON object, with one object per pool, with one per server."""
    try:
        whole = json.loads(text)
        pools = [value for value in whole.values() if isinstance(value, dict)]
    except (json.JSONDecodeError, AttributeError) as error:
        raise RecordError(f"{where}: not nutcracker's statistics ({error}). Repeat the run.") from error
    servers = [server for pool in pools for server in pool.values() if isinstance(server, dict)]
    if not servers:
        raise RecordError(f"{where}: nutcracker's statistics name no server. Repeat the run.")
    troubles = {name: sum(_count(pool, name, where) for pool in pools) for name in _POOL_TROUBLES}
    troubles |= {name: sum(_count(server, name, where) for server in servers) for name in _SERVER_TROUBLES}
    return PeerCounts(
        requests=sum(_count(server, "requests", where) for server in servers),
        responses=sum(_count(server, "responses", where) for server in servers),
        fragments=sum(_count(pool, "fragments", where) for pool in pools),
        troubles={name: count for name, count in troubles.items() if count},
    )


def merge_peers(counts: Sequence[PeerCounts]) -> PeerCounts:
    """Several proxies side by side."""
    names = dict.fromkeys(name for one in counts for name in one.troubles)
    return PeerCounts(
        requests=sum(one.requests for one in counts),
        responses=sum(one.responses for one in counts),
        fragments=sum(one.fragments for one in counts),
        troubles={name: sum(one.troubles.get(name, 0) for one in counts) for name in names},
    )


def _count(part: dict[str, Any], name: str, where: str) -> int:
    value = part.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RecordError(f"{where}: nutcracker's statistics have no {name}. Use nutcracker 0.4 or later.")
    return value
