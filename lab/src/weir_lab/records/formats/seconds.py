"""What the machine did in each second of a long run: `MachineSeconds`. Columns of whole microseconds, so that an hour stays small.

A second in which a trace has a spike is held against the same second here: was the machine taken away, did a quota hold somebody, did
other processes run, was a core slow?
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from weir_lab.records.formats.weir import Count, Record

__all__ = ["SECONDS_FILE", "MachineSeconds"]

SECONDS_FILE = "seconds.json"


class MachineSeconds(Record):
    """``weir.seconds/1``: intervals of about a second, one after the other from the first edge of the measured phase on."""

    schema_: Annotated[Literal["weir.seconds/1"], Field(alias="schema")] = "weir.seconds/1"
    start_unix_ns: int
    cores: Annotated[int, Field(ge=1)]
    length_us: list[Count]
    busy_us: list[Count]
    """CPU time of all that ran, over all cores."""
    steal_us: list[Count]
    """What a virtual machine was not given."""
    others_us: list[Count]
    """CPU time of processes that are no role of the run, steal apart."""
    piece_ns: list[Count]
    """CPU time of the yardstick's piece of work, mean over cores; 0 where no piece ended in the interval."""
    stalled_us: dict[str, list[Count]] = Field(default_factory=dict)
    """By machine the time for which its CPU quota held it; machines without a quota are left out."""

    @model_validator(mode="before")
    @classmethod
    def _columns_are_as_long(cls, data: Any) -> Any:
        if isinstance(data, dict):
            columns = [
                value for name, value in data.items() if name.endswith(("_us", "_ns")) and isinstance(value, list)
            ]
            stalled = data.get("stalled_us")
            columns += stalled.values() if isinstance(stalled, dict) else []
            if len({len(column) for column in columns}) > 1:
                raise ValueError("columns have different lengths")
        return data

    @property
    def starts_s(self) -> list[float]:
        """When each interval began, in seconds from the first on."""
        found, sofar = [], 0
        for length in self.length_us:
            found.append(sofar / 1e6)
            sofar += length
        return found
