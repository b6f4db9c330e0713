"""What systemd does for a service, as the service sees it: ports that it is handed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence

from .processes import Address, Process, SocketPath, weir_binary

# Becomes the service: what it is handed has the numbers from 3 on, and `own` in a variable stands for its own number.
BECOME = """
import fcntl, os, sys
handed, command = [int(number) for number in sys.argv[1].split(",") if number], sys.argv[2:]
moved = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in handed]
for number in handed:
    os.close(number)
for place, number in enumerate(moved, 3):
    os.dup2(number, place)
    os.close(number)
variables = {name: str(os.getpid()) if value == "own" else value for name, value in os.environ.items()}
os.execve(command[0], command, variables)
"""


class Service(Process):
    """`weir proxy` as a service manager starts it: with variables, and with sockets that it is handed."""

    def __init__(
        self,
        *options: str,
        listen: Address | SocketPath | None = None,
        variables: Mapping[str, str] | None = None,
        handed: Sequence[socket.socket] = (),
    ) -> None:
        self.address = listen or Address.free()
        numbers = [it.fileno() for it in handed]
        given = {"LISTEN_PID": "own", "LISTEN_FDS": str(len(handed))} if handed else {}
        settings = [f"{name}={value}" for name, value in (given | dict(variables or {})).items()]
        weir = [str(weir_binary()), "proxy", "--listen", str(self.address), *options]
        become = [sys.executable, "-ISc", BECOME, ",".join(map(str, numbers))]
        super().__init__(["env", *settings, *become, *weir], passed=numbers)
