"""Convolution of sequences that are too large and too small for floating point: given and returned as logarithms.

Terms are positive, so sums lose no digits; only their range is a problem (Z^n / n! of 10,000 clients is 10^-35000). `log_convolution`
works block by block: inside a block it divides out a geometric sequence, which takes the range away and commutes with convolution,
multiplies in ordinary floating point, and puts the logarithm back. What still falls out of range there is summed in logarithms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["log_convolution"]

# Terms of a block. It is long enough that numpy's own loop does the work. It is short enough that a capacity
# function of a station or a delay stays within the range of doubles when its slope is taken out: its logarithm
# bends by at most ln k! over k terms.
_BLOCK = 256
# Results below this share of a block's largest possible one may have lost terms to underflow (doubles end at e^-708).
_RANGE = 600.0
# A term this far below the sum (e^-50 = 2e-22, times at most 1e5 terms) does not change its last bit.
_NEGLIGIBLE = 50.0


def log_convolution(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of sum_k exp(weights[k] + values[n-k]) for n = 0..len(values)-1; -inf stands for zero.

    Relative error of the sums: a few 1e-16 times the size of the logarithms, as when they are added one by one in logarithms.

    >>> two = np.log([1.0, 2.0])
    >>> np.exp(log_convolution(two, np.log([1.0, 10.0, 100.0]))).round(9).tolist()
    [1.0, 12.0, 120.0]
    """
    total = np.full(values.size, -np.inf)
    pieces = [(start, weights[start : start + _BLOCK]) for start in range(0, min(weights.size, values.size), _BLOCK)]
    peaks = [float(piece.max()) for _, piece in pieces]
    for begin in range(0, values.size, _BLOCK):
        end = min(begin + _BLOCK, values.size)
        for (start, piece), peak in zip(pieces, peaks, strict=True):
            if start >= end or peak == -math.inf:
                continue
            # Values that meet this piece of the weights; before the first there is nothing.
            first = begin - start - piece.size + 1
            window = values[max(0, first) : end - start]
            bound = peak + float(window.max()) + math.log(piece.size)
            if bound == -math.inf or bound + _NEGLIGIBLE < float(total[begin:end].min()):
                continue
            skipped = max(0, -first)
            padded = np.concatenate((np.full(skipped, -np.inf), window)) if skipped else window
            total[begin:end] = np.logaddexp(total[begin:end], _block(piece, padded))
    return total


def _block(weights: NDArray[np.float64], window: NDArray[np.float64]) -> NDArray[np.float64]:
    """The full overlaps of one piece of weights with a window of values."""
    slope = 0.5 * (_slope(weights) + _slope(window))
    places, steps = slope * np.arange(window.size), slope * np.arange(weights.size)
    flat, kernel = window - places, weights - steps
    height, weight = float(flat.max()), float(kernel.max())
    product = np.convolve(np.exp(flat - height), np.exp(kernel - weight), mode="valid")
    with np.errstate(divide="ignore"):
        # Output n of the overlap uses window places n + K - 1 - k with weight k: the slopes add up to that of place n + K - 1.
        result = np.log(product) + height + weight + places[weights.size - 1 :]
    lost = np.flatnonzero(product < math.exp(-_RANGE))
    if lost.size:
        result[lost] = _in_logarithms(weights, window, lost)
    return np.asarray(result)


def _in_logarithms(
    weights: NDArray[np.float64], window: NDArray[np.float64], places: NDArray[np.intp]
) -> NDArray[np.float64]:
    """The same sums term by term, for the places where the range of a block is too wide."""
    terms = np.lib.stride_tricks.sliding_window_view(window, weights.size)[places] + weights[::-1]
    largest = terms.max(axis=1)
    known = np.isfinite(largest)
    sums = np.full(places.size, -np.inf)
    sums[known] = largest[known] + np.log(np.exp(terms[known] - largest[known, None]).sum(axis=1))
    return sums


def _slope(logs: NDArray[np.float64]) -> float:
    """Mean step of the finite part."""
    finite = np.flatnonzero(np.isfinite(logs))
    if finite.size < 2:
        return 0.0
    first, last = int(finite[0]), int(finite[-1])
    return float(logs[last] - logs[first]) / (last - first)
