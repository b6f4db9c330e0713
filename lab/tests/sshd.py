"""Hosts for tests: sshd in network namespaces, and the lab in one of its own beside them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from namespaces import KERNEL, eventually
from weir_lab.bench.machine.processes import Processes
from weir_lab.bench.network import Link, Network, connect_in, find_program, this_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weir_lab.bench.network import Node

SSHD = find_program("sshd")
_PRIVILEGE_SEPARATION = Path("/run/sshd")

needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh-keygen") is None or bool(KERNEL.missing),
    reason="needs namespaces and sshd (openssh-server): " + "; ".join(KERNEL.missing),
)


@contextlib.contextmanager
def hosts(folder: Path, machines: Sequence[str]) -> Iterator[tuple[Path, Node]]:
    """A file of hosts, and the node that the lab has to run on to reach them."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    made_folder = not _PRIVILEGE_SEPARATION.exists()
    _PRIVILEGE_SEPARATION.mkdir(exist_ok=True)
    links = {name: Link(10_000.0) for name in ("control", *machines)}
    with contextlib.ExitStack() as stack:
        if made_folder:
            stack.callback(lambda: shutil.rmtree(_PRIVILEGE_SEPARATION, ignore_errors=True))
        network = stack.enter_context(Network(this_process(), links))
        processes = stack.enter_context(Processes(folder))
        for name in machines:
            _start(processes, folder, network.nodes[name], key)
        text = "ssh_options = " + str(
            [
                "-i",
                str(key),
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                "LogLevel=ERROR",
            ]
        )
        for name in machines:
            address = network.nodes[name].address
            text += f'\n[[host]]\nmachine = "{name}"\naddress = "{address}"\nlogin = "root@{address}"\n'
        file = folder / "hosts.toml"
        file.write_text(text)
        yield file, network.nodes["control"]


def _start(processes: Processes, folder: Path, node: Node, key: Path) -> None:
    configuration = folder / f"sshd-{node.name}.conf"
    configuration.write_text(
        f"ListenAddress {node.address}\nHostKey {key}\nAuthorizedKeysFile {key}.pub\nPidFile none\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\n"
    )
    assert SSHD is not None
    argv = [SSHD, "-D", "-e", "-f", str(configuration)]
    process = processes.start("sshd", f"sshd-{node.name}", argv, started_as=[*node.enter, *argv])

    def greets() -> bool:
        process.require_alive()
        try:
            with connect_in(node.namespace, (node.address, 22), 10.0) as connection:
                return connection.recv(16).startswith(b"SSH-")
        except OSError:
            return False

    eventually(greets, f"sshd of {node.name}")


def folders_of_agents() -> set[str]:
    """Folders that agents made and did not remove yet."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("weir-host-*")}
