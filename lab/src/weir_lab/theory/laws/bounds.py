"""What links allow: an upper bound on throughput."""

from __future__ import annotations

__all__ = ["link_bound_rps"]


def link_bound_rps(
    bandwidth_bits_per_s: float, bytes_per_operation: float, links: int = 1, copies: float = 1.0
) -> float:
    """Operations per second that equal links carry together: links * bandwidth / (8 bytes copies).

    ``bytes_per_operation`` is what an operation puts on the link; payload alone gives the loosest bound. ``copies`` is how often it
    crosses (a write to R servers leaves the proxy R times). Bandwidths are decimal: 100 Mbit/s = 1e8.

    >>> link_bound_rps(101e6, 4096)
    3082.275390625
    """
    if not (bandwidth_bits_per_s > 0 and bytes_per_operation > 0 and links >= 1 and copies > 0):
        raise ValueError("A link bound needs a positive bandwidth, size, number of links and of copies.")
    return links * bandwidth_bits_per_s / (8.0 * bytes_per_operation * copies)
