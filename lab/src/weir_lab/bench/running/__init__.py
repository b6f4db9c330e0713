"""One run of one cell on the machines of a testbed: `make_run`, and one attempt at it with its verdict and record: `attempts`.

Where the machines come from, `testbeds` says.

=============  ========================================================================
`one_run`      the order of a run: start, fill, load, watch, stop
`starting`     processes on machines; memcached servers, and when they are ready
`proxies`      the proxy under test: ours, nutcracker, or any command line; its counters
`loads`        load generators: together at one moment, their lines, their records
`edges`        CPU time, memory and link counters at both ends of the measured phase
`targets`      servers and proxies that run already; keys of our own among theirs
`profiling`    a CPU profile of the proxies, where asked for
`unloaded`     runs without load: keys per server, and what links carry
`verdict`      gates: whether a run counts, and whether it had in force what its cell sets
`attempts`     measurements, verdict and record of one attempt
=============  ========================================================================
"""

from weir_lab.bench.running.one_run import Job, RunOutcome, make_run
from weir_lab.bench.running.profiling import missing_profiler
from weir_lab.bench.running.starting import Executables, memcached_argv, wait_for_memcached
from weir_lab.bench.running.targets import target_versions

__all__ = [
    "Executables",
    "Job",
    "RunOutcome",
    "make_run",
    "memcached_argv",
    "missing_profiler",
    "target_versions",
    "wait_for_memcached",
]
