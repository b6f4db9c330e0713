"""The load of each cell of the comparison. Everything that is not named here is `weir load`'s default."""

from __future__ import annotations

from dataclasses import dataclass

WRITE_RATIO = 0.1
KEYS = 10_000


@dataclass(frozen=True)
class Cell:
    """One load: how many connections, how many requests each keeps outstanding, how large values and gets are."""

    name: str
    connections: int
    depth: int = 1
    multiget: int = 1
    value_size_bytes: int = 128

    @property
    def read_operation(self) -> str:
        """The operation whose response times stand in the table."""
        return "multiget" if self.multiget > 1 else "get"

    def flags(self) -> list[str]:
        flags = {
            "--connections": self.connections,
            "--depth": self.depth,
            "--multiget": self.multiget,
            "--value-size": self.value_size_bytes,
            "--writes": WRITE_RATIO,
            "--keys": KEYS,
        }
        return [word for flag, value in flags.items() for word in (flag, str(value))]

    def describe(self) -> str:
        parts = [f"{self.connections} connection{'s' if self.connections > 1 else ''}"]
        if self.depth > 1:
            parts.append(f"{self.depth} requests deep")
        if self.multiget > 1:
            parts.append(f"{self.multiget}-key gets")
        if self.value_size_bytes != Cell.value_size_bytes:
            parts.append(f"{self.value_size_bytes} B values")
        return ", ".join(parts)


CELLS = {
    cell.name: cell
    for cell in (
        Cell("c1", 1),
        Cell("c8", 8),
        Cell("c64", 64),
        Cell("c384", 384),
        Cell("c64-d10", 64, depth=10),
        Cell("c64-k9", 64, multiget=9),
        Cell("c64-v4096", 64, value_size_bytes=4096),
    )
}
