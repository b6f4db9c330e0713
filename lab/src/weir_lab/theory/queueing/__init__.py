"""Queueing models: from arrival rates and service demands to response times, and back. Pure functions; seconds and requests per second.

``single``       one station: with an unlimited queue (M/M/1, M/M/m), with finitely many jobs, with any service time, behind a token bucket
``networks``     several: closed and open product-form networks, what can be said without solving, the slowest of several (fork-join)
``scalability``  Gunther's universal scalability law, fitted within its constraints

Words: a `Station` has ``servers`` m, a ``service_time_s`` S and a ``visit_ratio`` V; its demand is D = V S. An unstable model has no steady
state: it raises `UnstableError` and never returns a number. Start with `mmm`, `Station` and `solve_closed`.
"""

from weir_lab.theory.queueing.errors import UnstableError
from weir_lab.theory.queueing.networks.bounds import Bounds, asymptotic_bounds, balanced_job_bounds, geometric_bounds
from weir_lab.theory.queueing.networks.closed import (
    ClosedSolution,
    Kind,
    Station,
    approximate_closed,
    jobs_in_closed,
    solve_closed,
    station_in_closed,
)
from weir_lab.theory.queueing.networks.crew import Crew, CrewSolution, solve_with_crew
from weir_lab.theory.queueing.networks.forkjoin import (
    ForkJoin,
    fork_join,
    replicated_write_response_time,
)
from weir_lab.theory.queueing.networks.open import OpenSolution, ResponseTime, chain_quantile_s, solve_open
from weir_lab.theory.queueing.scalability import Parameter, ScalabilityFit, fit_scalability, scalability_peak
from weir_lab.theory.queueing.single.bucket import BucketSolution, token_bucket
from weir_lab.theory.queueing.single.finite import FiniteStation, finite_source, mmmk
from weir_lab.theory.queueing.single.general import GeneralStation, md1, mg1
from weir_lab.theory.queueing.single.shapes import HyperexponentialStation, shapes
from weir_lab.theory.queueing.single.stations import OpenStation, erlang_b, erlang_c, mm1, mmm

__all__ = [
    "Bounds",
    "BucketSolution",
    "ClosedSolution",
    "Crew",
    "CrewSolution",
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
    "jobs_in_closed",
    "md1",
    "mg1",
    "mm1",
    "mmm",
    "mmmk",
    "replicated_write_response_time",
    "scalability_peak",
    "shapes",
    "solve_closed",
    "solve_open",
    "solve_with_crew",
    "station_in_closed",
    "token_bucket",
]
