"""What stands between load and memcached in a run: weir, nutcracker, memcached's own proxy, a relay, or nothing."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.processes import Address, Memcached, Process, SocketPath, program

# Room for every key of every cell on one server: 10,000 values of 4 KiB and their overhead.
MEMCACHED_MIB = 256
# More than any cell has, and than the file limits of most machines allow.
CONNECTIONS_MAX = 8000

# Weir with what skewed keys are for: values of hot keys are kept, and what is on its way is not asked for again.
NEAR = "weir-near"
NEAR_OPTIONS = ("--near-cache", "1024", "--ask-once", "on")

# Of a proxy on its clients' machine: they reach it by a socket in the file system, and servers are reached by TCP.
BESIDE = "-unix"
BESIDE_CLIENTS = tuple(f"{name}{BESIDE}" for name in ("weir", NEAR, "nutcracker"))

# nutcracker writes its statistics to a port of its own; `timeout` in milliseconds, as `weir proxy`'s default.
NUTCRACKER_CONFIG = """\
peers:
  listen: {listen}
  hash: fnv1a_64
  distribution: ketama
  timeout: 500
  auto_eject_hosts: false
  preconnect: true
  servers:
{servers}
"""

# Weir puts keys where nutcracker does with the configuration above, so both ask each server for the same.
PLACEMENT = "twemproxy/ketama"

# A plain relay of bytes to one server: what a hop costs that understands nothing.
HAPROXY_CONFIG = """\
global
  nbthread 1
  maxconn {connections_max}
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen memcached
  bind {listen}
  server one {server}
"""


# memcached's own proxy. Its ring places keys otherwise than Weir and nutcracker do here.
MEMCACHED_PROXY_CONFIG = """\
function mcp_config_pools()
    local backends = {{}}
    for number, address in ipairs({{ {servers} }}) do
        local host, port = address:match("^(.*):(%d+)$")
        backends[number] = mcp.backend("b" .. number, host, port)
    end
    return mcp.pool(backends, {{ dist = mcp.dist_ring_hash, omode = "ketama", hash = mcp.dist_ring_hash.hash }})
end

function mcp_config_routes(pool)
    local all = mcp.funcgen_new()
    local handle = all:new_handle(pool)
    all:ready({{ n = "all", f = function(context)
        return function(request) return context:enqueue_and_wait(request, handle) end
    end }})
    mcp.attach(mcp.CMD_ANY_STORAGE, all)
end
"""


class Subject:
    """A started subject: where the load connects, the process that serves it (None where there is no proxy), and what
    `weir load` needs to speak to it."""

    def __init__(
        self,
        address: Address | SocketPath,
        process: Process | None,
        flags: Sequence[str] = (),
        admin: Address | None = None,
    ) -> None:
        """`admin`: where a proxy of Weir says what it has measured."""
        self.address = address
        self.process = process
        self.flags = flags
        self.admin = admin

    def __enter__(self) -> Subject:
        if self.process is not None:
            self.process.wait_ready(self.address)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()

    @property
    def target(self) -> str:
        """As `weir load` takes it."""
        return f"unix:{self.address}" if isinstance(self.address, SocketPath) else str(self.address)

    def snapshot(self) -> dict[str, Any]:
        """`weir.proxy/1` of a proxy that has an admin port."""
        with urllib.request.urlopen(f"http://{self.admin}/snapshot", timeout=10) as response:
            found: dict[str, Any] = json.loads(response.read())
        return found


def newest_memcached() -> str | None:
    """The program that MEMCACHED_NEW names: a newer memcached than the distribution's, built outside of the tree."""
    return os.environ.get("MEMCACHED_NEW") or None


def start_memcached(*, newest: bool = False) -> Memcached:
    binary = newest_memcached() if newest else None
    return Memcached("-m", str(MEMCACHED_MIB), "-c", str(CONNECTIONS_MAX), binary=binary)


def start(name: str, weir: Path, servers: Sequence[Address], folder: Path, replicas: int = 1) -> Subject:
    """A fresh subject in front of the servers. `folder` takes the files it needs."""
    if name == "direct":
        # One server: a load on several targets wants each of them to hold every key.
        return Subject(servers[0], None)
    listen: Address | SocketPath = Address.free()
    if name in BESIDE_CLIENTS:
        name, listen = name.removesuffix(BESIDE), SocketPath(folder / "clients.sock")
    if name == "nutcracker":
        command = nutcracker_command(listen, servers, folder)
    elif name == "haproxy":
        command = haproxy_command(listen, servers[0], folder)
    elif name == "memcached-proxy":
        address = Address.free()
        return Subject(address, memcached_proxy(address, servers, folder))
    else:
        admin = Address.free()
        command = [*weir_command(weir, listen, servers), "--admin", str(admin), "--placement", PLACEMENT]
        command += ["--replicas", str(replicas), *(NEAR_OPTIONS if name == NEAR else ())]
        return Subject(listen, Process(command), admin=admin)
    return Subject(listen, Process(command))


def replicates(name: str) -> bool:
    """Whether a subject can write to several servers."""
    return name.removesuffix(BESIDE) not in ("nutcracker", "haproxy", "memcached-proxy", "direct")


def weir_command(weir: Path, listen: Address | SocketPath, servers: Sequence[Address]) -> list[str]:
    command = [str(weir), "proxy", "--listen", str(listen), "--threads", "1"]
    for server in servers:
        command += ["--server", str(server)]
    return command


def nutcracker_command(listen: Address | SocketPath, servers: Sequence[Address], folder: Path) -> list[str]:
    config = folder / "nutcracker.yml"
    lines = "\n".join(f"    - {server}:1" for server in servers)
    config.write_text(NUTCRACKER_CONFIG.format(listen=listen, servers=lines))
    statistics = Address.free()
    return [
        program("nutcracker"),
        f"--conf-file={config}",
        f"--stats-addr={statistics.host}",
        f"--stats-port={statistics.port}",
        f"--output={folder / 'nutcracker.log'}",
        "--verbose=2",
    ]


def haproxy_command(listen: Address | SocketPath, server: Address, folder: Path) -> list[str]:
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY_CONFIG.format(listen=listen, server=server, connections_max=CONNECTIONS_MAX))
    return [program("haproxy"), "-db", "-f", str(config)]


def memcached_proxy(listen: Address, servers: Sequence[Address], folder: Path) -> Memcached:
    """The proxy that the newest memcached is, too, with one thread."""
    config = folder / "proxy.lua"
    config.write_text(MEMCACHED_PROXY_CONFIG.format(servers=", ".join(f'"{server}"' for server in servers)))
    options = ("-c", str(CONNECTIONS_MAX), "-o", f"proxy_config={config}")
    return Memcached(*options, address=listen, binary=newest_memcached())
