"""Queueing models: from arrival rates and service demands to response times, and back. Pure functions; seconds and requests per second.

``stations``     one station with an unlimited queue: M/M/1, M/M/m
``general``      one server with any service time: M/G/1, M/D/1
``shapes``       one server whose service varies more than that, in several shapes: what percentiles then hang on
``finite``       one station with at most K jobs: M/M/m/K, and m servers with finitely many clients
``bucket``       one station behind a token bucket, with finitely many clients; without a burst M/E_k/1 with N clients
``closed``       product-form networks with a population: exact by log-domain convolution, or approximate by Bard and Schweitzer
``convolution``  what `closed` computes with: sums of products of numbers beyond the range of doubles
``open``         product-form networks with an arrival rate, with percentiles of the whole response time
``bounds``       what can be said without solving: asymptotic, balanced-job, geometric
``scalability``  Gunther's universal scalability law, fitted within its constraints
``forkjoin``     replicated writes and split multi-gets: the slowest of several

Words: a `Station` has ``servers`` m, a ``service_time_s`` S and a ``visit_ratio`` V; its demand is D = V S. An unstable model has no steady
state: it raises `UnstableError` and never returns a number. Start with `mmm`, `Station` and `solve_closed`.
"""

from weir_lab.queueing.bounds import Bounds, asymptotic_bounds, balanced_job_bounds, geometric_bounds
from weir_lab.queueing.bucket import BucketSolution, token_bucket
from weir_lab.queueing.closed import ClosedSolution, Kind, Station, approximate_closed, solve_closed, station_in_closed
from weir_lab.queueing.errors import UnstableError
from weir_lab.queueing.finite import FiniteStation, finite_source, mmmk
from weir_lab.queueing.forkjoin import (
    ForkJoin,
    fork_join,
    multiget_parts,
    multiget_response_time,
    replicated_write_response_time,
)
from weir_lab.queueing.general import GeneralStation, md1, mg1
from weir_lab.queueing.open import OpenSolution, ResponseTime, chain_quantile_s, solve_open
from weir_lab.queueing.scalability import Parameter, ScalabilityFit, fit_scalability, scalability_peak
from weir_lab.queueing.shapes import HyperexponentialStation, shapes
from weir_lab.queueing.stations import OpenStation, erlang_b, erlang_c, mm1, mmm

__all__ = [
    "Bounds",
    "BucketSolution",
    "ClosedSolution",
    "FiniteStation",
    "ForkJoin",
    "GeneralStation",
    "HyperexponentialStation",
    "Kind",
    "OpenSolution",
    "OpenStation",
    "Parameter",
    "ResponseTime",
    "ScalabilityFit",
    "Station",
    "UnstableError",
    "approximate_closed",
    "asymptotic_bounds",
    "balanced_job_bounds",
    "chain_quantile_s",
    "erlang_b",
    "erlang_c",
    "finite_source",
    "fit_scalability",
    "fork_join",
    "geometric_bounds",
    "md1",
    "mg1",
    "mm1",
    "mmm",
    "mmmk",
    "multiget_parts",
    "multiget_response_time",
    "replicated_write_response_time",
    "scalability_peak",
    "shapes",
    "solve_closed",
    "solve_open",
    "station_in_closed",
    "token_bucket",
]
