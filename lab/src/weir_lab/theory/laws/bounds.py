"""What links and processors allow: upper bounds on throughput, and whether a measurement keeps them."""

from __future__ import annotations

from weir_lab.theory.laws.operational import LawCheck, LawVerdict

__all__ = ["cpu_bound_rps", "link_bound_rps", "within_bound"]


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


def cpu_bound_rps(cores: float, cpu_time_per_request_s: float) -> float:
    """Requests per second that a role's cores can serve: cores / CPU time per request.

    >>> round(cpu_bound_rps(2, 10e-6))
    200000
    """
    if not (cores > 0 and cpu_time_per_request_s > 0):
        raise ValueError("A CPU bound needs positive cores and CPU time.")
    return cores / cpu_time_per_request_s


def within_bound(throughput_per_s: float, bound_per_s: float, what: str, near: float = 0.95) -> LawCheck:
    """Judge a throughput against a bound. Above it something is measured wrongly; from `near` of it on the bound explains the plateau."""
    if throughput_per_s < 0 or bound_per_s <= 0:
        raise ValueError("A bound is positive and a throughput not negative.")
    share = throughput_per_s / bound_per_s
    if share > 1.0:
        verdict, reason = LawVerdict.BROKEN, f"{100 * share:.1f} % of what {what} can carry: a number is wrong"
    elif share >= near:
        verdict, reason = LawVerdict.HOLDS, f"{100 * share:.1f} % of {what}: this is the limit"
    else:
        verdict, reason = LawVerdict.HOLDS, f"{100 * share:.1f} % of {what}: not the limit"
    deviation = share - 1.0
    return LawCheck(
        f"X <= {what}", "1/s", bound_per_s, throughput_per_s, deviation, deviation, deviation, 0.0, verdict, reason
    )
