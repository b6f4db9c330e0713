from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import BOUNDS, histogram_of
from weir_lab.errors import RecordError
from weir_lab.theory.histogram import (
    PERCENTILE_MIN_COUNTS,
    Bounds,
    Histogram,
    _long_numbers,
    _numbers,
    merge_histograms,
)

values = st.lists(st.integers(1, 3_600_000_000_000), max_size=60)


def recorded(times: list[int]) -> Histogram:
    return histogram_of(np.array(times, dtype=np.int64))


def by_library(times: list[int]) -> HdrHistogram:
    histogram = HdrHistogram(BOUNDS.lowest, BOUNDS.highest, BOUNDS.digits)
    for time in times:
        histogram.record_value(time)
    return histogram


@given(values)
def test_decodes_what_the_library_encodes(times: list[int]) -> None:
    decoded = Histogram.decode(by_library(times).encode().decode())
    assert decoded.bounds == BOUNDS
    assert decoded.counts.tolist() == recorded(times).counts.tolist()


@given(values)
def test_the_library_decodes_what_we_encode(times: list[int]) -> None:
    theirs = HdrHistogram.decode(recorded(times).encode())
    assert theirs.get_total_count() == len(times)
    assert Histogram.decode(theirs.encode().decode()).counts.tolist() == recorded(times).counts.tolist()


@given(st.lists(st.integers(1, 10_000_000_000), min_size=300, max_size=330))
@settings(max_examples=30)
def test_percentiles_are_the_smallest_value_that_reaches_the_share(times: list[int]) -> None:
    theirs = by_library(times)
    for percent in (50.0, 90.0, 95.0, 99.0):
        rank = -(-len(times) * int(percent) // 100)
        assert recorded(times).percentile(percent) == theirs.get_highest_equivalent_value(sorted(times)[rank - 1])


@given(values, values)
def test_subtraction_undoes_addition(first: list[int], second: list[int]) -> None:
    one, other = recorded(first), recorded(second)
    assert ((one + other) - other).counts.tolist() == one.counts.tolist()
    assert (one + other).counts.tolist() == recorded(first + second).counts.tolist()


@given(st.binary(max_size=120))
def test_damaged_bytes_are_refused_not_believed(noise: bytes) -> None:
    with pytest.raises(RecordError, match="repeat the run"):
        Histogram.decode(base64.b64encode(noise).decode())


@given(st.data())
def test_a_changed_byte_is_refused_or_decodes_within_bounds(data: st.DataObject) -> None:
    raw = bytearray(base64.b64decode(recorded([5, 5, 70_000, 10**9]).encode()))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        decoded = Histogram.decode(base64.b64encode(bytes(raw)).decode())
    except RecordError:
        return
    assert decoded.counts.size <= 1 << 20


def test_a_percentile_with_too_few_samples_is_refused() -> None:
    for percent, needed in PERCENTILE_MIN_COUNTS.items():
        assert recorded([1000] * (needed - 1)).percentile(percent) is None
        assert recorded([1000] * needed).percentile(percent) == 1000
        quantile = percent / 100.0
        assert quantile**needed <= 0.05 < quantile ** (needed - 1)


def test_the_later_histogram_must_hold_the_earlier() -> None:
    with pytest.raises(RecordError, match="swapped"):
        recorded([1]) - recorded([1, 1])


def test_different_bounds_do_not_mix() -> None:
    with pytest.raises(RecordError, match="different bounds"):
        recorded([1]) + Histogram(Bounds(1, 1000, 2), np.array([1], dtype=np.int64))


def test_nothing_merges_to_nothing() -> None:
    assert merge_histograms([]) is None


@given(numbers=st.lists(st.integers(0, 2**64 - 1), max_size=50), are_short=st.booleans())
def test_numbers_are_read_several_at_once_as_they_are_one_by_one(numbers: list[int], *, are_short: bool) -> None:
    shortened = [number >> 30 for number in numbers] if are_short else numbers
    payload = b"".join(leb128(number) for number in shortened)
    read = _numbers(np.frombuffer(payload, dtype=np.uint8))
    assert read.tolist() == _long_numbers(payload).tolist() == shortened


def leb128(number: int) -> bytes:
    out = bytearray()
    for _ in range(8):
        if number < 0x80:
            return bytes([*out, number])
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def test_a_stretch_that_would_wrap_around_is_refused() -> None:
    # Zigzag of the longest stretch of empty steps that a number can name, twice: together they are 0 modulo 2^64.
    stretch = leb128(2**64 - 1)
    header = struct.pack(">IIIIqqd", 0x1C849303, 2 * len(stretch), 0, 3, 1, 1 << 40, 1.0)
    packed = zlib.compress(header + stretch + stretch)
    text = base64.b64encode(struct.pack(">II", 0x1C849304, len(packed)) + packed).decode()
    with pytest.raises(RecordError, match="more counters"):
        Histogram.decode(text)
