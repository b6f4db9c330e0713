"""Where roles run: `open_testbed` gives a `Testbed` by its name. A study does not change with it.

``local``
    processes of this machine over its loopback interface.
``hosts``
    machines over SSH, named in a file of hosts.
``netns``
    one network namespace per machine, with links of the study's rates (`network`); as root, on Linux.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from weir_lab.bench.testbeds.base import (
    Machine,
    MachineState,
    NetworkState,
    Testbed,
    network_between,
    use_between,
)
from weir_lab.bench.testbeds.hosts import HostsTestbed, load_hosts
from weir_lab.bench.testbeds.local import LocalTestbed
from weir_lab.bench.testbeds.netns import NetnsTestbed
from weir_lab.bench.testbeds.yardstick import Pieces, Yardstick, mean_piece_ns, piece_now_ns
from weir_lab.errors import StudyError

if TYPE_CHECKING:
    from pathlib import Path

    from weir_lab.design.topology import Shape, Topology

__all__ = [
    "Machine",
    "MachineState",
    "NetworkState",
    "Pieces",
    "Testbed",
    "TestbedKind",
    "Yardstick",
    "mean_piece_ns",
    "network_between",
    "open_testbed",
    "piece_now_ns",
    "use_between",
]


class TestbedKind(StrEnum):
    """Names of testbeds, as on the command line."""

    __test__ = False  # pytest must not take the name for a test class

    LOCAL = "local"
    NETNS = "netns"
    HOSTS = "hosts"


def open_testbed(kind: TestbedKind, topology: Topology, shape: Shape, hosts: Path | None = None) -> Testbed:
    """A testbed with the machines of `shape`; it is made when entered as a context manager, and gone when left.

    `hosts` is the file that names the machines of the testbed ``hosts``.
    """
    if (kind is TestbedKind.HOSTS) != (hosts is not None):
        raise StudyError(
            "The testbed hosts needs --hosts FILE, and no other testbed takes it. docs/measure/testbeds.md has an example."
        )
    if hosts is not None:
        return HostsTestbed(topology, shape, load_hosts(hosts))
    return LocalTestbed(topology, shape) if kind is TestbedKind.LOCAL else NetnsTestbed(topology, shape)
