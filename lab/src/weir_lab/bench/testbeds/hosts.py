"""``hosts``: machines over SSH, named in a file. Programs given by a path are copied there; nothing is left on them.

On each host an agent (`agent`) answers questions of the lab over one SSH connection; every role is an SSH connection of its own, so that
its output and its end arrive here as those of any process. The lab must reach the proxies' admin ports and the servers by their
addresses.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import shlex
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir_lab.bench.machine.facts import file_sha256
from weir_lab.bench.network import find_program
from weir_lab.bench.testbeds.base import MachineState
from weir_lab.bench.testbeds.yardstick import Yardstick
from weir_lab.design.topology import tier_of
from weir_lab.errors import StudyError, TestbedError
from weir_lab.records.places import MachineRecord, PairRecord, RateRecord, RoundTripRecord, TestbedRecord

if TYPE_CHECKING:
    from types import TracebackType

    from weir_lab.bench.machine.processes import Process
    from weir_lab.bench.testbeds.base import Machine
    from weir_lab.design.topology import Shape, Topology

__all__ = ["HostEntry", "HostsFile", "HostsTestbed", "load_hosts"]

_CONNECT_S = 30.0
_ANSWER_S = 60.0
_COPY_S = 600.0
_RATE_S = 0.5
_ROUND_TRIPS = 100
_CLOCK_QUESTIONS = 20
# Fail instead of asking somebody who is not there.
_SSH = ["-o", "BatchMode=yes", "-o", "ControlPath=none", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostEntry(_Strict):
    """One machine of a study, and where it is."""

    machine: Annotated[str, Field(pattern=r"^(client|proxy|server)-[0-9]{1,3}$")]
    address: Annotated[str, Field(pattern=r"^[0-9A-Za-z.-]{1,253}$")]
    """Where the other machines and the lab reach it."""
    login: Annotated[str, Field(pattern=r"^[^-\s]\S*$")]
    """As ``ssh`` takes it: ``user@host``, or a name from its configuration."""


class HostsFile(_Strict):
    """What ``--hosts`` names."""

    ssh_options: list[str] = Field(default_factory=list)
    host: Annotated[list[HostEntry], Field(min_length=1)]


def load_hosts(path: Path) -> HostsFile:
    """Read and check a file of hosts."""
    try:
        found = HostsFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise StudyError(f"{path}: {error}. docs/measure/testbeds.md has an example of a file of hosts.") from error
    names = [entry.machine for entry in found.host]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StudyError(f"{path}: {', '.join(twice)} is there twice. Name each machine once.")
    return found


class HostsTestbed:
    """Machines that are there already."""

    def __init__(self, topology: Topology, shape: Shape, hosts: HostsFile) -> None:
        entries = {entry.machine: entry for entry in hosts.host}
        missing = [name for name in shape.machines if name not in entries]
        if missing:
            raise StudyError(f"The study needs {shape}; the file of hosts lacks {', '.join(missing)}. Add them.")
        self._topology = topology
        self._ssh = [*_SSH, *hosts.ssh_options]
        self._entries = {name: entries[name] for name in shape.machines}
        self._hosts: dict[str, _Host] = {}
        self._open = ExitStack()
        self.record = TestbedRecord(kind="hosts", machines=[])

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            for name, entry in self._entries.items():
                self._hosts[name] = opening.enter_context(_Host(entry, self._ssh))
            self.record = self._measured()
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def cores(self) -> int:
        """Cores of all hosts together."""
        return sum(len(host.cores) for host in self._distinct())

    def busy_ns(self) -> int:
        """CPU time that all hosts spent on anything but idling."""
        return sum(int(host.ask("busy")) for host in self._distinct())

    def yardstick(self) -> Yardstick:
        """None: hosts are whole machines, and the lab is on none of them."""
        return Yardstick([])

    def machine(self, name: str) -> Machine:
        """One host."""
        return self._hosts[name]

    def measure_pair(self, sender: str, receiver: str, seconds: float) -> PairRecord:
        """Over the hosts' own network: payload of one TCP connection."""
        one, other = self._hosts[sender], self._hosts[receiver]
        rate, trips = _rate(one, other, seconds), _round_trips(one, other)
        return PairRecord(
            sender=sender,
            receiver=receiver,
            payload_mbit_s=rate.payload_mbit_s,
            round_trips=trips.count,
            min_ms=trips.min_ms,
            median_ms=trips.median_ms,
        )

    def network(self) -> None:
        """None of ours."""

    def cores_awake(self) -> list[int]:
        """None: hosts are whole machines."""
        return []

    def enter_awake(self) -> list[str]:
        """None."""
        return []

    def own_processes(self) -> set[int]:
        """None on this machine."""
        return set()

    def version_of(self, target: str) -> str:
        """From the host that is the first client machine."""
        return str(self._hosts["client-0"].ask("version", target=target))

    def identity(self) -> dict[str, str]:
        """Which machine is which host."""
        return {"testbed": "hosts", "hosts": json.dumps({name: entry.login for name, entry in self._entries.items()})}

    def _distinct(self) -> list[_Host]:
        """Each host once, though it may be several machines."""
        return list({host.login: host for host in self._hosts.values()}.values())

    def _measured(self) -> TestbedRecord:
        notes = ["the links and delays of the study's topology are not emulated: the hosts' own are measured"]
        if any(self._topology.cpus(name) is not None for name in self._hosts):
            notes.append("the CPU quotas of the study's topology are not set")
        if any(self._topology.cores_of(name) for name in self._hosts):
            notes.append("processes are not pinned to the cores of the study's topology")
        if len(self._distinct()) < len(self._hosts):
            notes.append("some machines are the same host, and share its CPUs")
        firsts = [host for name, host in self._hosts.items() if name.endswith("-0")]
        return TestbedRecord(
            kind="hosts",
            machines=[self._measured_machine(host) for host in self._hosts.values()],
            round_trips=[_round_trips(one, other) for index, one in enumerate(firsts) for other in firsts[index + 1 :]],
            measured_unix_ns=time.time_ns(),
            notes=notes,
        )

    def _measured_machine(self, host: _Host) -> MachineRecord:
        others = [other for other in self._hosts.values() if tier_of(other.name) != tier_of(host.name)]
        offset_ms = host.clock_offset_ms()
        host.clock_offset_ns = round(offset_ms * 1e6)
        return MachineRecord(
            name=host.name,
            address=host.address,
            sends=_rate(host, others[0]) if others else None,
            clock_offset_ms=offset_ms,
        )


def _rate(sender: _Host, receiver: _Host, seconds: float = _RATE_S) -> RateRecord:
    """Payload that arrives; the first quarter, with TCP's slow start, is left out."""
    port = receiver.ask("listen", address=receiver.address)
    receiver.begin("receive", port=port, after_s=seconds / 4)
    sender.ask("send", address=receiver.address, port=port, seconds=seconds * 5 / 4)
    seen = receiver.answer()
    if not seen["seconds"]:
        raise TestbedError(f"{sender.name} could not send to {receiver.name} for {seconds:g} s. Look at the network.")
    return RateRecord(to=receiver.name, payload_mbit_s=seen["bytes"] * 8 / seen["seconds"] / 1e6)


def _round_trips(one: _Host, other: _Host) -> RoundTripRecord:
    port = other.ask("listen", address=other.address)
    other.begin("echo", port=port)
    times_ms = one.ask("ping", address=other.address, port=port, count=_ROUND_TRIPS)
    other.answer()
    return RoundTripRecord(
        between=(one.name, other.name),
        count=_ROUND_TRIPS,
        min_ms=min(times_ms),
        median_ms=statistics.median(times_ms),
    )


class _Host:
    """One host, its agent, and the programs that were copied to it. Also the `Machine` of a run."""

    def __init__(self, entry: HostEntry, ssh: list[str]) -> None:
        self.name = entry.machine
        self.address = entry.address
        self.login = entry.login
        self.cores: list[int] = []
        self.is_root = False
        self.clock_offset_ns = 0
        self._ssh = ssh
        self._folder = ""
        self._copied: dict[str, str] = {}
        self._agent: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._words = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - close() closes it
        self._lines: queue.Queue[str] = queue.Queue()
        self._asked: list[str] = []

    def __enter__(self) -> Self:
        source = Path(__file__).with_name("agent.py").read_text(encoding="utf-8")
        setpriv = find_program("setpriv")
        bound = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        try:
            self._agent = subprocess.Popen(
                [*bound, *self._remote(["python3", "-u", "-c", source])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise TestbedError(
                f"ssh cannot be started: {error.strerror}. Install the package openssh-client."
            ) from error
        self._reader = threading.Thread(target=self._read, args=(self._agent,), daemon=True)
        self._reader.start()
        try:
            facts = self.ask("facts")
        except BaseException:
            self.close()
            raise
        self._folder, self.cores, self.is_root = facts["folder"], facts["cores"], facts["uid"] == 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the agent go: it removes the lab's folder and ends what is left."""
        agent, self._agent = self._agent, None
        if agent is not None:
            assert agent.stdin is not None
            assert agent.stdout is not None
            try:
                with contextlib.suppress(BrokenPipeError):
                    agent.stdin.close()
                agent.wait(_CONNECT_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
            if self._reader is not None:
                self._reader.join()
            agent.stdout.close()
        self._words.close()

    def ask(self, action: str, **details: Any) -> Any:
        """One question to the agent."""
        self.begin(action, **details)
        return self.answer()

    def begin(self, action: str, **details: Any) -> None:
        """Ask, and fetch the answer later: `answer` gives answers in the order of the questions."""
        agent = self._agent
        if agent is None or agent.stdin is None:
            raise TestbedError(f"{self.name} ({self.login}) is not connected.")
        try:
            agent.stdin.write(json.dumps({"do": action, **details}) + "\n")
            agent.stdin.flush()
        except OSError as error:
            raise self._lost() from error
        self._asked.append(action)

    def answer(self) -> Any:
        """The answer to the oldest open question."""
        action = self._asked.pop(0)
        try:
            line = self._lines.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise TestbedError(
                f"{self.name} ({self.login}) did not answer {action!r} within {_ANSWER_S:g} s. Is the connection there?"
            ) from None
        if not line:
            raise self._lost()
        answer = json.loads(line)
        if "error" in answer:
            raise TestbedError(f"{self.name} ({self.login}): {action}: {answer['error']}.")
        return answer["result"]

    def clock_offset_ms(self) -> float:
        """Its clock minus ours, by the question that was answered fastest; off by at most half of that time."""
        best: tuple[int, float] | None = None
        for _ in range(_CLOCK_QUESTIONS):
            before = time.time_ns()
            there = int(self.ask("time"))
            after = time.time_ns()
            if best is None or after - before < best[0]:
                best = after - before, (there - (before + after) / 2) / 1e6
        assert best is not None
        return best[1]

    def free_ports(self, count: int) -> list[int]:
        """Ports of the host."""
        return [int(port) for port in self.ask("ports", count=count)]

    def command(self, name: str, argv: list[str]) -> list[str]:
        """Over SSH, in the lab's folder; the agent knows the process by the file that it leaves there."""
        program = argv[0] if "/" not in argv[0] else self._copy(Path(argv[0]))
        script = f'cd "$1" && echo $$ >{shlex.quote(name)}.pid && shift && exec setpriv --pdeathsig KILL -- "$@"'
        return self._remote(["sh", "-c", script, "weir-role", self._folder, program, *argv[1:]])

    def file(self, path: Path) -> str:
        """In the lab's folder on the host."""
        return f"{self._folder}/{path.name}"

    def collect(self, path: Path) -> None:
        """Bring it here, if it is there."""
        try:
            content = self.ask("read", name=path.name)
        except TestbedError:
            return  # the role did not write it; whoever reads it says what that means
        path.write_bytes(base64.b64decode(content))

    def deliver(self, path: Path) -> None:
        """Write it into the lab's folder on the host."""
        self.ask("write", name=path.name, content=base64.b64encode(path.read_bytes()).decode())

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """Over the network."""
        return socket.create_connection((self.address, port), timeout=timeout_s)

    def cpu_ns(self, process: Process) -> int:
        """From the host's /proc."""
        return int(self.ask("usage", name=process.name)["cpu_ns"])

    def resident_bytes(self, process: Process) -> int:
        """From the host's /proc."""
        return int(self.ask("usage", name=process.name)["resident_bytes"])

    def prefer(self, process: Process, thread: str) -> None:
        """Nothing: hosts share no cores."""

    def state(self) -> MachineState:
        """What passed its interfaces."""
        traffic = self.ask("traffic")
        return MachineState(sent_bytes=traffic["sent_bytes"], received_bytes=traffic["received_bytes"])

    def _remote(self, argv: list[str]) -> list[str]:
        return ["ssh", *self._ssh, self.login, "--", shlex.join(argv)]

    def _copy(self, program: Path) -> str:
        """Copy a program once, and check that it arrived whole."""
        there = self._copied.get(str(program))
        if there is None:
            there = f"{self._folder}/{program.name}"
            quoted = shlex.quote(there)
            try:
                with program.open("rb") as file:
                    done = subprocess.run(
                        self._remote(["sh", "-c", f"cat >{quoted} && chmod 755 {quoted}"]),
                        stdin=file,
                        capture_output=True,
                        timeout=_COPY_S,
                        check=False,
                    )
            except (OSError, subprocess.SubprocessError) as error:
                raise TestbedError(f"{program} could not be copied to {self.login}: {error}.") from error
            if done.returncode != 0 or self.ask("sha256", name=program.name) != file_sha256(program):
                words = done.stderr.decode(errors="replace").strip()
                raise TestbedError(f"{program} did not arrive whole at {self.login}: {words or 'other content'}.")
            self._copied[str(program)] = there
        return there

    def _read(self, agent: subprocess.Popen[str]) -> None:
        assert agent.stdout is not None
        for line in agent.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _lost(self) -> TestbedError:
        """What to say when the agent has gone."""
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
        self._words.seek(0)
        words = self._words.read().strip()[-400:] or "without a word"
        return TestbedError(f"{self.name}: the connection to {self.login} ended: {words}. Try: ssh {self.login} true")
