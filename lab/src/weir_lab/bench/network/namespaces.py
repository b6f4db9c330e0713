"""One namespace per machine, a switch between them, and a token bucket where each machine sends.

`Network` makes all of it and takes all of it away. `run_in` and `connect_in` act inside a namespace without moving the caller: what is
done there, such as asking a proxy for its counters, does not pass the links and takes none of their capacity.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from weir_lab.bench.network.commands import find_program, ip, ip_batch, tc
from weir_lab.bench.network.counters import LinkCounters, Traffic
from weir_lab.bench.network.delaying import DelayDevice, DelayPort
from weir_lab.bench.network.quotas import in_outermost_group
from weir_lab.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from weir_lab.bench.network.owners import Owner

__all__ = ["NAMESPACES", "Link", "Network", "Node", "connect_in", "remove_namespace", "run_in"]

NAMESPACES = Path("/run/netns")
"""Where ``ip netns`` keeps a file per namespace."""

# Tokens for 4 ms: more than a tick of a kernel with 250 Hz, so that a late timer costs no rate, and little enough that no window of a
# second is 1 % too fast.
_BURST_S = 0.004
_BURST_BYTES_MIN = 16_384
# Deep enough that closed loops are slowed down by the link and not by lost packets: 1,024 requests of 4 KiB.
_QUEUE_BYTES = 4 << 20
_NODES_MAX = 250
_GONE_S = 10.0


@dataclass(frozen=True)
class Link:
    """What stands between a machine and the switch."""

    mbit_s: float
    """What the machine can send, bits on the wire with all headers above Ethernet's preamble, 10^6 per second."""
    delay_ms: float = 0.0
    """Delay of what the machine receives; 0 is no queueing discipline at all."""

    @property
    def burst_bytes(self) -> int:
        """What may pass at once after a pause."""
        return max(_BURST_BYTES_MIN, round(self.mbit_s * 1e6 / 8 * _BURST_S))


@dataclass(frozen=True)
class Node:
    """One machine of the network."""

    name: str
    namespace: str
    address: str
    link: Link
    counters: LinkCounters | None = None

    @property
    def enter(self) -> list[str]:
        """Words before a command line that make it run on this machine; the process stays the same one."""
        return _enter_words(self.namespace)

    def traffic(self) -> Traffic:
        """What passed its link so far."""
        if self.counters is None:
            raise TestbedError(f"{self.name} has no link yet.")
        return self.counters.read()


class Network:
    """Context manager: machines with links, joined by a switch; on leaving, all processes in them end and all is removed.

    Delays are netem's, or those of `delay_program`, which then is the switch; without either a link must have none. `keep` are words
    before its command line, such as ``taskset`` with cores.
    """

    def __init__(
        self,
        owner: Owner,
        links: dict[str, Link],
        delay_program: Path | None = None,
        delay_words: Sequence[str] = (),
        *,
        keep: Sequence[str] = (),
    ) -> None:
        if not 1 <= len(links) <= _NODES_MAX:
            raise TestbedError(f"A network has 1 to {_NODES_MAX} machines, not {len(links)}. Use fewer servers.")
        self._switch = owner.name("switch")
        self._delay_program, self._delay_words, self._keep = delay_program, tuple(delay_words), tuple(keep)
        self.delay_device: DelayDevice | None = None
        """What delays, where it is a program of its own."""
        self.nodes = {
            name: Node(name, owner.name(name), f"10.18.0.{number}", link)
            for number, (name, link) in enumerate(links.items(), start=1)
        }

    def __enter__(self) -> Self:
        try:
            self._make_switch()
            for name, node in self.nodes.items():
                self._join(node)
                counters = run_in(node.namespace, lambda: LinkCounters("eth0"))
                self.nodes[name] = dataclasses.replace(node, counters=counters)
            if self._delay_program is not None:
                ports = [DelayPort(_port(node), node.link.delay_ms) for node in self.nodes.values()]
                self.delay_device = self._delay_device(self._delay_program, ports)
        except BaseException:
            self.close()
            raise
        return self

    def _delay_device(self, program: Path, ports: list[DelayPort]) -> DelayDevice:
        """With real-time priority where the kernel gives it, if need be outside of the control group that we are in."""
        enter = [*_enter_words(self._switch), *self._keep]
        device = DelayDevice(program, enter, ports, *self._delay_words)
        if device.first.is_real_time:
            return device
        device.close()
        return DelayDevice(program, [*in_outermost_group(), *enter], ports, *self._delay_words)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove all of it, as far as it is there. A failure to remove one part does not keep the others."""
        if self.delay_device is not None:
            self.delay_device.close()
        for node in self.nodes.values():
            if node.counters is not None:
                node.counters.close()
        first: TestbedError | None = None
        for namespace in [*(node.namespace for node in self.nodes.values()), self._switch]:
            try:
                remove_namespace(namespace)
            except TestbedError as error:
                first = first or error
        if first is not None:
            raise first

    def _make_switch(self) -> None:
        ip_batch([], [f"netns add {namespace}" for namespace in [self._switch, *self._namespaces()]])
        if self._delay_program is None:
            ip_batch(["-n", self._switch], ["link add name bridge type bridge mcast_snooping 0", "link set bridge up"])

    def _namespaces(self) -> list[str]:
        return [node.namespace for node in self.nodes.values()]

    def _join(self, node: Node) -> None:
        port = _port(node)
        ip("link", "add", "eth0", "netns", node.namespace, "type", "veth", "peer", port, "netns", self._switch)
        bridged = [f"link set {port} master bridge"] if self._delay_program is None else []
        ip_batch(["-n", self._switch], [f"link set {port} addrgenmode none", *bridged, f"link set {port} up"])
        ip_batch(
            ["-n", node.namespace],
            [
                "link set lo up",
                "link set eth0 addrgenmode none",
                f"addr add {node.address}/24 dev eth0",
                "link set eth0 up",
            ],
        )
        rate, burst = f"{round(node.link.mbit_s * 1e6)}bit", str(node.link.burst_bytes)
        bucket = ["tbf", "rate", rate, "burst", burst, "limit", str(_QUEUE_BYTES)]
        tc("-n", node.namespace, "qdisc", "add", "dev", "eth0", "root", *bucket)
        if node.link.delay_ms > 0 and self._delay_program is None:
            delay = f"{round(node.link.delay_ms * 1e3)}us"
            tc("-n", self._switch, "qdisc", "add", "dev", port, "root", "netem", "delay", delay)


def _port(node: Node) -> str:
    """The switch's interface towards a machine; names of interfaces have 15 characters at most."""
    return f"port{node.address.rpartition('.')[2]}"


def _enter_words(namespace: str) -> list[str]:
    """Words before a command line that make it run in a namespace; the process stays the same one."""
    nsenter = find_program("nsenter")
    if nsenter is None:
        raise TestbedError("nsenter is not installed. Install the package util-linux.")
    return [nsenter, f"--net={NAMESPACES / namespace}", "--"]


def remove_namespace(namespace: str) -> None:
    """End what runs in a namespace and remove it; nothing happens if it is not there."""
    file = NAMESPACES / namespace
    deadline = time.monotonic() + _GONE_S
    while file.exists():
        inside = [int(pid) for pid in ip("netns", "pids", namespace).split()]
        if not inside:
            # The lines of two labs that clean at the same time may meet here.
            with contextlib.suppress(TestbedError):
                ip("netns", "del", namespace)
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TestbedError(
                f"namespace {namespace} could not be removed within {_GONE_S:g} s; processes in it: {inside}. "
                f"End them, then: ip netns del {namespace}"
            )
        time.sleep(0.005)


_Result = TypeVar("_Result")


def run_in(namespace: str, action: Callable[[], _Result]) -> _Result:
    """Call `action` inside a namespace, in a thread of its own, so that no signal or error can leave the caller there.

    Sockets that it opens stay in the namespace and can be used by anybody.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def act() -> None:
        try:
            _enter(namespace)
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=act, name=f"in {namespace}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def connect_in(namespace: str, address: tuple[str, int], timeout_s: float) -> socket.socket:
    """A TCP connection that begins inside a namespace."""
    return run_in(namespace, lambda: socket.create_connection(address, timeout=timeout_s))


_CLONE_NEWNET = 0x40000000


def _enter(namespace: str) -> None:
    """Move this thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        file = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise TestbedError(f"namespace {namespace} is not there ({error.strerror}).") from error
    try:
        if libc.setns(file, _CLONE_NEWNET) != 0:
            raise TestbedError(f"namespace {namespace} cannot be entered: {os.strerror(ctypes.get_errno())}.")
    finally:
        os.close(file)
