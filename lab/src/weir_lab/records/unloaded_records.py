"""What runs without load leave: keys per server (``keys.json``), and what links carry (``pairs.json``).

Read `KeysRecord` and `PairsRecord` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from weir_lab.records.formats import Count, Record
from weir_lab.records.places import PairRecord
from weir_lab.records.runs import read_json
from weir_lab.theory.placements.hashing import PlacementCounts, PlacementRule

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KeysRecord", "PairsRecord", "read_keys_record", "read_pairs_record"]


class KeysRecord(Record):
    """``weir.keys/1``: how many of a run's keys each server is the primary of."""

    schema_: Annotated[Literal["weir.keys/1"], Field(alias="schema")] = "weir.keys/1"
    placement: str
    by_points: bool
    """Whether the placement gives servers points on a ring: then its own shares are uneven, whatever the keys."""
    asked: Count
    keys: list[Count]
    """Per server, in the order of the servers."""
    reference: list[Count] | None = None
    """The same for random keys, asked for rings only."""
    key_size_bytes: Count
    seed: int

    @property
    def counts(self) -> PlacementCounts:
        """As `hashing` judges them."""
        reference = tuple(self.reference) if self.reference is not None else None
        return PlacementCounts(PlacementRule(self.placement, self.by_points), tuple(self.keys), reference)


class PairsRecord(Record):
    """``weir.pairs/1``: rate and round trips between the first machines of each two tiers, in both directions."""

    schema_: Annotated[Literal["weir.pairs/1"], Field(alias="schema")] = "weir.pairs/1"
    seconds: float
    """How long each rate was measured."""
    pairs: list[PairRecord]


def read_keys_record(folder: Path) -> KeysRecord:
    """Keys per server of a run."""
    return read_json(folder / "keys.json", KeysRecord)


def read_pairs_record(folder: Path) -> PairsRecord:
    """Rates and round trips of a run."""
    return read_json(folder / "pairs.json", PairsRecord)
