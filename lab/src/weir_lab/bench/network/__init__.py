"""Machines out of one: network namespaces joined by a bridge, links of a given rate, CPU quotas. Linux only, and as root.

Knows nothing of studies and memcached. Everything is named after the process that owns it (`owners`), so that what a killed process
left behind is known and can be removed (`clean`). Start with `Network`; `probe` says what this kernel has::

    client-0 (namespace)            switch (namespace)             server-0 (namespace)
    eth0, token bucket ──────────▶ port client-0 ┐ bridge
                                                 ├─ port server-0 ──────────▶ eth0
                                    (delay, where the kernel has netem)

A token bucket stands on the sending side of each machine only, so a link's rate is what its machine can send.
"""

from weir_lab.bench.network.cleaning import clean
from weir_lab.bench.network.commands import find_program
from weir_lab.bench.network.counters import LinkCounters, Traffic
from weir_lab.bench.network.delaying import DelayDevice, DelayPort, DelayReport, find_delay_device
from weir_lab.bench.network.kernel import Facility, Kernel, probe
from weir_lab.bench.network.measuring import RoundTrips, SendingRate, measure_round_trips, measure_sending_rate
from weir_lab.bench.network.namespaces import Link, Network, Node, connect_in, run_in
from weir_lab.bench.network.one_way import OneWay, measure_one_way
from weir_lab.bench.network.owners import Owner, owner_of, this_process
from weir_lab.bench.network.quotas import CpuQuota, IdleGroup, Throttling, find_cpu_groups

__all__ = [
    "CpuQuota",
    "DelayDevice",
    "DelayPort",
    "DelayReport",
    "Facility",
    "IdleGroup",
    "Kernel",
    "Link",
    "LinkCounters",
    "Network",
    "Node",
    "OneWay",
    "Owner",
    "RoundTrips",
    "SendingRate",
    "Throttling",
    "Traffic",
    "clean",
    "connect_in",
    "find_cpu_groups",
    "find_delay_device",
    "find_program",
    "measure_one_way",
    "measure_round_trips",
    "measure_sending_rate",
    "owner_of",
    "probe",
    "run_in",
    "this_process",
]
