"""The load of each cell of the comparison. Everything that is not named here is `weir load`'s default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

KEYS = 10_000
UNIFORM, ZIPF = "uniform", "zipf:0.99"


@dataclass(frozen=True)
class Cell:
    """One load: how many connections, how many requests each keeps outstanding, how large values and gets are."""

    name: str
    connections: int
    depth: int = 1
    multiget: int = 1
    value_size_bytes: int = 128
    writes: float = 0.1
    """Share of the requests that are `set`."""
    replicas: int = 1
    """Servers that a `set` goes to; only proxies that replicate have such cells."""
    own_core: bool = False
    """The proxy has a core of its own, servers and load share another; otherwise all share all cores."""
    popularity: str = UNIFORM
    """How requests are spread over the keys, as `weir load` takes it."""
    newest: bool = False
    """In front of the memcached that MEMCACHED_NEW names; otherwise of the distribution's."""
    rate_rps: int | None = None
    """Requests per second, sent whether or not others are answered; without it, as fast as they are answered."""

    @property
    def read_operation(self) -> str:
        """The operation whose response times stand in the table."""
        if self.writes == 1:
            return "set"
        return "multiget" if self.multiget > 1 else "get"

    def flags(self) -> list[str]:
        flags = {
            "--connections": self.connections,
            "--depth": self.depth,
            "--multiget": self.multiget,
            "--value-size": self.value_size_bytes,
            "--writes": self.writes,
            "--keys": KEYS,
            "--popularity": self.popularity,
        } | ({} if self.rate_rps is None else {"--rate": self.rate_rps})
        return [word for flag, value in flags.items() for word in (flag, str(value))]

    def describe(self) -> str:
        parts = [f"{self.connections} connection{'s' if self.connections > 1 else ''}"]
        if self.depth > 1:
            parts.append(f"{self.depth} requests deep")
        if self.multiget > 1:
            parts.append(f"{self.multiget}-key gets")
        if self.value_size_bytes != Cell.value_size_bytes:
            parts.append(f"{self.value_size_bytes} B values")
        if self.writes != Cell.writes:
            parts.append({0.0: "gets only", 1.0: "sets only"}[self.writes])
        if self.replicas > 1:
            parts.append(f"each set to {self.replicas} servers")
        if self.rate_rps is not None:
            parts.append(f"{self.rate_rps} requests/s together")
        if self.popularity != UNIFORM:
            parts.append(self.popularity.replace(":", " "))
        if self.newest:
            parts.append("newest memcached")
        if self.own_core:
            parts.append("proxy on its own core")
        return ", ".join(parts)


SHARED = (
    Cell("c1", 1),
    Cell("c8", 8),
    Cell("c64", 64),
    Cell("c384", 384),
    Cell("c64-d10", 64, depth=10),
    Cell("c384-d10", 384, depth=10),
    Cell("c64-k9", 64, multiget=9),
    Cell("c64-v4096", 64, value_size_bytes=4096),
    Cell("c64-d10-v4096", 64, depth=10, value_size_bytes=4096),
    Cell("c64-get", 64, writes=0.0),
    Cell("c384-get", 384, writes=0.0),
    Cell("c64-set", 64, writes=1.0),
    Cell("c384-set", 384, writes=1.0),
    Cell("c64-set3", 64, writes=1.0, replicas=3),
)

# Many clients that seldom ask, as application servers with pools of connections do.
FAN_IN = Cell("fan-in", 5000, rate_rps=5000)


def variants(cells: Sequence[Cell]) -> list[Cell]:
    """Each cell with all cores shared and with the proxy on its own, with uniform keys and with Zipf's, before the
    distribution's memcached and before the newest, under the name that these parts make: `new-own-c64-zipf`."""
    made = list(cells)
    made += [replace(cell, name=f"own-{cell.name}", own_core=True) for cell in made]
    made += [replace(cell, name=f"{cell.name}-zipf", popularity=ZIPF) for cell in made]
    return [*made, *(replace(cell, name=f"new-{cell.name}", newest=True) for cell in made)]


CELLS = {
    cell.name: cell for cell in (*variants(SHARED), FAN_IN, replace(FAN_IN, name=f"new-{FAN_IN.name}", newest=True))
}

_QUICK = ["own-c64", "own-c384", "own-c64-d10"]
_STANDARD = [
    *("own-c8", "own-c64", "own-c64-zipf", "own-c384", "own-c64-d10", "own-c64-d10-zipf", "own-c64-d10-v4096"),
    *("own-c64-k9", "c1", "c8", "c64", "c64-zipf", "c384", "c384-zipf", "c64-d10", "c64-d10-zipf", "c64-k9"),
    *("c64-v4096", "fan-in"),
]
# Before the newest memcached, where MEMCACHED_NEW names one.
_STANDARD_NEWEST = [
    *("new-own-c64-d10", "new-own-c64-k9", "new-c64", "new-c64-zipf", "new-c384", "new-c384-zipf"),
    *("new-c64-d10", "new-c64-d10-zipf", "new-fan-in"),
]
SETS = {"quick": _QUICK, "standard": [*_STANDARD, *_STANDARD_NEWEST], "full": list(CELLS)}


def cells_of_set(name: str, *, has_newest: bool) -> list[str]:
    """The names of a set's cells: those before the newest memcached only where there is one."""
    return [cell for cell in SETS[name] if has_newest or not CELLS[cell].newest]
