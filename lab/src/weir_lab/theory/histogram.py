"""HdrHistograms as counts in numpy arrays.

Reads the V2 compressed encoding (base64), which every HdrHistogram library writes, adds and subtracts exactly, and answers
percentiles. Recording values is left to the Rust side. Start with `Histogram.decode`.

The index layout is that of HdrHistogram: values are cut into buckets that double in width, each bucket into
``sub_bucket_count`` equal steps, so that the width of a step is at most ``10**-digits`` of its value.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from weir_lab.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = [
    "MODE_BINS",
    "MODE_SHARE",
    "PERCENTILE_MIN_COUNTS",
    "PERIOD_ERROR",
    "Bounds",
    "Histogram",
    "merge_histograms",
]

MODE_BINS = 2.0**0.25
"""In which `Histogram.modes` counts: upper end of a bin over its lower one."""
MODE_SHARE = 0.01
"""Of all values, what the bin of a mode has at least."""
# With fewer values nothing is said: a mode of the smallest share has then a hundred, and the valley beside it fifty at most.
_MODE_COUNTS = 10_000
# A mode has twice as many values as the fewest between it and any higher one: its prominence over its height.
_MODE_PROMINENCE = 0.5
# Below this number of the smallest steps bins would hold very different numbers of them.
_MODE_STEPS = 64
PERIOD_ERROR = 0.03
"""How far a period that is found may lie from the one that is asked for."""
# What is looked at lies between the period over this and times this: half of it and twice of it, with which values repeat as well, do not.
_PERIOD_RANGE = 1.6
_PERIOD_STEP = 0.005
# How far the length of the mean arrow must stand out: more than for values that are uniform between two ends, which is 0.217.
_PERIOD_PROMINENCE = 0.25

# A percentile is refused below this many samples: with fewer, the largest sample lies below the true percentile with a
# probability above 5 % (q**n > 0.05).
PERCENTILE_MIN_COUNTS = {50.0: 5, 90.0: 29, 95.0: 59, 99.0: 299, 99.9: 2_995, 99.99: 29_956}

_COOKIE_COMPRESSED = 0x1C849304
_COOKIE_PLAIN = 0x1C849303
_OUTER = struct.Struct(">II")
_INNER = struct.Struct(">IIIIqqd")
# Bounds of what a file may ask us to allocate: 3 digits over the whole 63-bit range need 55,296 counters.
_COUNTERS_MAX = 1 << 20
_PAYLOAD_BYTES_MAX = 16 << 20
_NUMBER_BYTES = 9


@dataclass(frozen=True)
class Bounds:
    """Lowest and highest value that is distinguished, and significant digits. Equal bounds make histograms additive."""

    lowest: int
    highest: int
    digits: int

    @property
    def unit_magnitude(self) -> int:
        """Power of two of the smallest step."""
        return self.lowest.bit_length() - 1

    @property
    def sub_bucket_half_magnitude(self) -> int:
        """Power of two of half the steps in a bucket."""
        return (2 * int(10**self.digits) - 1).bit_length() - 1


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many values fell into each step; ``counts`` ends at the last step that is not empty."""

    bounds: Bounds
    counts: NDArray[np.int64]

    @classmethod
    def decode(cls, text: str, where: str = "histogram") -> Histogram:
        """Read the base64 form of the V2 compressed encoding; `where` names the record in errors."""
        try:
            raw = base64.b64decode(text, validate=True)
            cookie, length = _OUTER.unpack_from(raw)
            if cookie & ~0xF0 != _COOKIE_COMPRESSED or length != len(raw) - _OUTER.size:
                raise ValueError("not a V2 compressed histogram")
            unpacker = zlib.decompressobj()
            payload = unpacker.decompress(raw[_OUTER.size :], _PAYLOAD_BYTES_MAX)
            if unpacker.unconsumed_tail or not unpacker.eof:
                raise ValueError("the compressed part is cut short or too large")
            cookie, length, offset, digits, lowest, highest, _ratio = _INNER.unpack_from(payload)
            if cookie & ~0xF0 != _COOKIE_PLAIN or length != len(payload) - _INNER.size:
                raise ValueError("damaged header")
            if offset != 0 or not 1 <= digits <= 5 or lowest < 1 or highest < 2 * lowest:
                raise ValueError("unsupported bounds")
            counts = _decode_counts(payload[_INNER.size :])
        except (binascii.Error, struct.error, zlib.error, ValueError) as error:
            raise RecordError(
                f"{where}: the histogram cannot be decoded ({error}). The record is damaged: repeat the run."
            ) from error
        return cls(Bounds(lowest, highest, digits), counts)

    def encode(self) -> str:
        """Write the form that `decode` reads."""
        body = _encode_counts(self.counts)
        bounds = self.bounds
        header = _INNER.pack(_COOKIE_PLAIN | 0x10, len(body), 0, bounds.digits, bounds.lowest, bounds.highest, 1.0)
        packed = zlib.compress(header + body)
        return base64.b64encode(_OUTER.pack(_COOKIE_COMPRESSED | 0x10, len(packed)) + packed).decode("ascii")

    @property
    def total(self) -> int:
        """Number of recorded values."""
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        self._require_same_bounds(other)
        size = max(self.counts.size, other.counts.size)
        return Histogram(self.bounds, _trim(_pad(self.counts, size) + _pad(other.counts, size)))

    def __sub__(self, earlier: Histogram) -> Histogram:
        self._require_same_bounds(earlier)
        size = max(self.counts.size, earlier.counts.size)
        difference = _pad(self.counts, size) - _pad(earlier.counts, size)
        if (difference < 0).any():
            raise RecordError(
                "The earlier histogram holds values that the later one does not. The two snapshots are "
                "swapped or from different processes: repeat the run."
            )
        return Histogram(self.bounds, _trim(difference))

    def coarser(self, digits: int) -> Histogram:
        """The same values distinguished by fewer significant digits: steps are joined, none is cut in two.

        >>> Histogram(Bounds(1, 3600, 3), np.ones(1000, dtype=np.int64)).coarser(2).percentile(50.0)
        499
        """
        if digits >= self.bounds.digits:
            return self
        bounds = Bounds(self.bounds.lowest, self.bounds.highest, digits)
        used = np.flatnonzero(self.counts)
        units = self._highest_equivalents(used) >> bounds.unit_magnitude
        half_magnitude = bounds.sub_bucket_half_magnitude
        lengths = np.frexp(units.astype(np.float64))[1].astype(np.int64)
        shifts = np.maximum(0, lengths - (half_magnitude + 1))
        places = (shifts << half_magnitude) + (units >> shifts)
        return Histogram(bounds, np.bincount(places, weights=self.counts[used]).astype(np.int64))

    def percentile(self, percent: float) -> int | None:
        """Smallest recorded step whose cumulative share reaches `percent`; its highest equivalent value.

        ``None`` if there are fewer values than `PERCENTILE_MIN_COUNTS` asks for.

        >>> Histogram(Bounds(1, 3600, 3), np.ones(1000, dtype=np.int64)).percentile(50.0)
        499
        """
        total = self.total
        if total < _count_needed(percent):
            return None
        # The small subtrahend undoes the rounding of percent/100*total above a whole number.
        rank = max(1, int(np.ceil(percent / 100.0 * total - 1e-9 * total)))
        return self._highest_equivalent(int(np.searchsorted(np.cumsum(self.counts), rank)))

    def modes(self) -> list[float] | None:
        """Where the values have peaks on a logarithmic axis, ascending; ``None`` for fewer than 10,000 values.

        Counted in bins of equal width on that axis (`MODE_BINS`). A peak is a bin with at least `MODE_SHARE` of all values, and twice as
        many as the fewest between it and any higher bin (its prominence). Of each the geometric middle.
        """
        from scipy.signal import find_peaks

        total = self.total
        if total < _MODE_COUNTS:
            return None
        edges, counts = [float(_MODE_STEPS * self.bounds.lowest)], [0]
        counts.append(self.count_up_to(round(edges[0])))
        while counts[-1] < total:
            edges.append(edges[-1] * MODE_BINS)
            counts.append(self.count_up_to(round(edges[-1])))
        # All that lies below the first edge stands before it, and is no peak; behind the last one is nothing.
        heights = np.append(np.diff(counts) / total, 0.0)
        places, found = find_peaks(heights, height=MODE_SHARE, prominence=0.0)
        kept = places[found["prominences"] >= _MODE_PROMINENCE * found["peak_heights"]]
        return [edges[place] / math.sqrt(MODE_BINS) for place in kept]

    def period_near(self, period: float) -> float | None:
        """The period with which the values repeat, if that is `period` (in their unit) to within `PERIOD_ERROR`; else ``None``.

        Each value is an arrow on a circle whose circumference is a period. Values that stand a whole number of periods apart have arrows of
        one direction, so the mean arrow is long. Periods around the one that is asked for are tried; it is found where the mean arrow's
        length (Mardia and Jupp, Directional Statistics, section 2.3.1) has a peak there that stands out by a quarter at least. One peak of
        values, narrow or wide, gives a mean arrow that gets longer with the period, and no peak. Fewer than 10,000 values have none.
        """
        from scipy.signal import find_peaks

        if self.total < _MODE_COUNTS or period <= 0.0:
            return None
        met = np.flatnonzero(self.counts)
        values = self._highest_equivalents(met).astype(np.float64)
        shares = self.counts[met] / self.total
        steps = round(math.log(_PERIOD_RANGE) / _PERIOD_STEP)
        tried = period * np.exp(_PERIOD_STEP * np.arange(-steps, steps + 1))
        lengths = np.array([abs(np.sum(shares * np.exp(2j * np.pi * values / one))) for one in tried])
        places, _ = find_peaks(lengths, prominence=_PERIOD_PROMINENCE)
        found = min((float(tried[place]) for place in places), key=lambda one: abs(one - period), default=math.inf)
        return found if abs(found - period) <= PERIOD_ERROR * period else None

    def count_up_to(self, value: int) -> int:
        """How many values lie in steps that end at `value` or below: the cumulative count, exact at the edges of steps."""
        met = np.flatnonzero(self.counts)
        until = int(np.searchsorted(self._highest_equivalents(met), value, side="right"))
        return int(self.counts[met[:until]].sum())

    def standard_deviation(self) -> float | None:
        """Spread of the values around their mean, each taken at the middle of its step; ``None`` for fewer than two."""
        used = np.flatnonzero(self.counts)
        counts = self.counts[used].astype(np.float64)
        if counts.sum() < 2:
            return None
        highest = self._highest_equivalents(used).astype(np.float64)
        below = np.where(used > 0, self._highest_equivalents(np.maximum(used - 1, 0)), -1).astype(np.float64)
        middle = (highest + below + 1.0) / 2.0
        mean = float((middle * counts).sum() / counts.sum())
        return float(np.sqrt((counts * (middle - mean) ** 2).sum() / (counts.sum() - 1.0)))

    def _highest_equivalent(self, index: int) -> int:
        return int(self._highest_equivalents(np.array([index]))[0])

    def _highest_equivalents(self, indexes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest value of each of these steps."""
        half_magnitude = self.bounds.sub_bucket_half_magnitude
        half = 1 << half_magnitude
        buckets, sub_buckets = (indexes >> half_magnitude) - 1, (indexes & (half - 1)) + half
        is_first = buckets < 0
        shifts = np.where(is_first, 0, buckets) + self.bounds.unit_magnitude
        steps = np.where(is_first, sub_buckets - half, sub_buckets)
        highest: NDArray[np.int64] = ((steps + 1) << shifts) - 1
        return highest

    def _require_same_bounds(self, other: Histogram) -> None:
        if self.bounds != other.bounds:
            raise RecordError(
                f"Histograms with different bounds cannot be combined: {self.bounds} and {other.bounds}. "
                "The records come from different versions of weir: repeat the runs with one version."
            )


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram | None:
    """Sum of histograms with equal bounds; ``None`` if there are none."""
    parts = list(histograms)
    return reduce(lambda left, right: left + right, parts) if parts else None


def _count_needed(percent: float) -> int:
    if percent in PERCENTILE_MIN_COUNTS:
        return PERCENTILE_MIN_COUNTS[percent]
    if not 0.0 < percent < 100.0:
        raise ValueError(f"A percentile lies between 0 and 100, not {percent}.")
    quantile = max(percent, 100.0 - percent) / 100.0
    return int(np.ceil(np.log(0.05) / np.log(quantile)))


def _decode_counts(payload: bytes) -> NDArray[np.int64]:
    """ZigZag LEB128 numbers of up to 9 bytes: a positive one is a count, a negative one a stretch of empty steps."""
    numbers = _numbers(np.frombuffer(payload, dtype=np.uint8))
    values = (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)
    # Longer stretches than there are counters must not wrap around in the sum.
    steps = np.where(values < 0, np.minimum(-np.maximum(values, -_COUNTERS_MAX - 1), _COUNTERS_MAX + 1), 1)
    ends = np.cumsum(steps)
    if ends.size and (ends[-1] > _COUNTERS_MAX or (ends < 0).any()):
        raise ValueError("more counters than any histogram of ours has")
    counts = np.zeros(int(ends[-1]) if ends.size else 0, dtype=np.int64)
    counted = values >= 0
    counts[ends[counted] - 1] = values[counted]
    return _trim(counts)


def _numbers(payload: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """LEB128 numbers, each of seven bits per byte but for a ninth byte, which carries eight."""
    is_last = payload < 0x80
    ends = np.flatnonzero(is_last)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    if ends.size != 0 and ends[-1] == payload.size - 1 and (ends - starts).max() < _NUMBER_BYTES - 1:
        places = np.arange(payload.size, dtype=np.int64) - np.repeat(starts, ends - starts + 1)
        shifted = (payload & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
        return np.bitwise_or.reduceat(shifted, starts)
    return _long_numbers(payload.tobytes())


def _long_numbers(payload: bytes) -> NDArray[np.uint64]:
    """The same where one may have nine bytes, or be cut short."""
    numbers: list[int] = []
    position = 0
    while position < len(payload):
        number = 0
        for byte_index in range(_NUMBER_BYTES):
            if position >= len(payload):
                raise ValueError("a count is cut short")
            byte = payload[position]
            position += 1
            if byte_index == _NUMBER_BYTES - 1:
                number |= byte << 7 * byte_index
                break
            number |= (byte & 0x7F) << 7 * byte_index
            if byte < 0x80:
                break
        numbers.append(number)
    return np.array(numbers, dtype=np.uint64)


def _encode_counts(counts: NDArray[np.int64]) -> bytes:
    out = bytearray()
    empty = 0
    for count in counts.tolist():
        if count == 0:
            empty += 1
            continue
        if empty:
            _put(out, 2 * empty - 1)  # zigzag of -empty
            empty = 0
        _put(out, 2 * count)
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    for _ in range(8):
        if number < 0x80:
            out.append(number)
            return
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)


def _pad(counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.pad(counts, (0, size - counts.size))


def _trim(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    used = np.flatnonzero(counts)
    return counts[: int(used[-1]) + 1] if used.size else counts[:0]
