"""What a cell can vary: `Settings`, and the words that its values are taken from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["SYMBOLS", "Engine", "Level", "RequestPath", "Response", "Role", "Settings", "Strict"]

Level = int | float | str


class RequestPath(StrEnum):
    """The way of a request from the load generator to a memcached server."""

    DIRECT = "direct"
    PROXY = "proxy"


class Role(StrEnum):
    """Who uses the machine in a run."""

    CLIENT = "client"
    PROXY = "proxy"
    SERVERS = "servers"
    NETWORK = "network"
    """The delay device between the machines, where there is one."""


class Response(StrEnum):
    """A measured answer that studies can predict and reports compare."""

    THROUGHPUT = "throughput"
    MEAN_RESPONSE_TIME = "mean_response_time"
    P99_RESPONSE_TIME = "p99_response_time"


class Engine(StrEnum):
    """How the proxy serves: event loops, one queue with workers, or queues per server with readers and a writer."""

    EVENT = "event"
    POOL = "pool"
    SPLIT = "split"


class Strict(BaseModel):
    """Base of all parts of a study: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Settings(Strict):
    """Everything that a cell can vary; the titles are what reports print. Each has a default and may be left out of a study."""

    path: Annotated[RequestPath, Field(title="path")] = RequestPath.PROXY
    clients: Annotated[int, Field(ge=1, le=4096, title="clients (connections)")] = 16
    depth: Annotated[int, Field(ge=1, le=1024, title="depth (requests outstanding per connection)")] = 1
    keys: Annotated[int, Field(ge=1, le=10_000_000, title="keys")] = 10_000
    value_size_bytes: Annotated[int, Field(ge=1, le=1_000_000, title="value size (bytes)")] = 128
    write_ratio: Annotated[float, Field(ge=0.0, le=1.0, title="writes (share of requests)")] = 0.1
    client_threads: Annotated[int, Field(ge=1, le=64, title="threads per load generator")] = 1
    proxy_threads: Annotated[int, Field(ge=1, le=64, title="event loops per proxy")] = 1
    servers: Annotated[int, Field(ge=1, le=64, title="memcached servers")] = 1
    server_threads: Annotated[int, Field(ge=1, le=64, title="threads per memcached server")] = 1
    server_memory_mib: Annotated[int, Field(ge=8, le=1_048_576, title="memory per memcached server (MiB)")] = 64
    client_machines: Annotated[int, Field(ge=1, le=64, title="client machines")] = 1
    instances: Annotated[int, Field(ge=1, le=16, title="load generators per client machine")] = 1
    clients_per_thread: Annotated[int | None, Field(ge=1, le=4096, title="clients per thread of a load generator")] = (
        None
    )
    key_size_bytes: Annotated[int, Field(ge=0, le=250, title="key size (bytes)")] = 16
    popularity: Annotated[str | None, Field(title="popularity of keys")] = None
    think_time_ms: Annotated[float, Field(ge=0.0, le=60_000.0, title="mean think time (ms, exponential)")] = 0.0
    rate: Annotated[float | None, Field(gt=0.0, le=100_000_000.0, title="offered rate (requests/s; open loop)")] = None
    arrivals: Annotated[str, Field(pattern=r"^(poisson|fixed|bursts:[1-9][0-9]{0,5})$", title="arrivals")] = "poisson"
    mix: Annotated[
        str | None, Field(pattern=r"^[a-z]+=[0-9.]+(,[a-z]+=[0-9.]+)*$", title="commands and their weights")
    ] = None
    preset: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$", title="published workload")] = None
    ttl_s: Annotated[int, Field(ge=0, le=2_592_000, title="expiry of what is written (s; 0 is never)")] = 0
    multiget_keys: Annotated[int, Field(ge=1, le=1000, title="keys per get")] = 1
    multiget: Annotated[Literal["sharded", "whole", "auto"] | None, Field(title="multi-get mode of the proxy")] = None
    proxies: Annotated[int, Field(ge=1, le=64, title="proxies side by side")] = 1
    subject: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$", title="proxy under test")] = "weir"
    engine: Annotated[Engine, Field(title="engine of the proxy")] = Engine.EVENT
    workers: Annotated[int | None, Field(ge=1, le=1024, title="workers per proxy (engine pool)")] = None
    readers: Annotated[int | None, Field(ge=1, le=1024, title="readers per memcached server (engine split)")] = None
    crew: Annotated[Literal["fixed", "adaptive"] | None, Field(title="how many of a crew serve at once")] = None
    replicas: Annotated[int, Field(ge=1, le=64, title="replicas of each key")] = 1
    placement: Annotated[str | None, Field(pattern=r"^[a-z0-9/-]{1,60}$", title="placement of keys")] = None
    generator: Annotated[Literal["weir", "memcaslap"], Field(title="load generator")] = "weir"

    @property
    def population(self) -> int:
        """Requests that circulate in the closed system: N = clients x depth. In an open loop, how many may be under way at once."""
        return self.clients * self.depth

    @property
    def is_open(self) -> bool:
        """Whether requests come at a rate of their own, however slowly they are answered."""
        return self.rate is not None

    @property
    def think_time_s(self) -> float:
        """Z: what a client waits on average between a reply and its next request."""
        return self.think_time_ms / 1e3

    @property
    def generators(self) -> int:
        """Load generators at work."""
        return self.client_machines * self.instances

    @model_validator(mode="after")
    def _agree_with_each_other(self) -> Settings:
        for engine, name in ((Engine.POOL, "workers"), (Engine.SPLIT, "readers")):
            if self.engine is engine and self.path is RequestPath.PROXY and getattr(self, name) is None:
                raise ValueError(f"engine {engine} needs {name}")
        if self.replicas > self.servers:
            raise ValueError(f"{self.replicas} replicas need as many servers, and there are {self.servers}")
        if self.clients < self.generators:
            raise ValueError(f"{self.clients} clients cannot be shared out to {self.generators} load generators")
        if self.clients_per_thread is not None:
            product = self.generators * self.client_threads * self.clients_per_thread
            if self.clients != product:
                raise ValueError(
                    f"clients is {self.clients}, but client_machines x instances x client_threads x clients_per_thread is {product}"
                )
        for fault in (*self._loop_faults(), *self._content_faults()):
            raise ValueError(fault)
        if self.generator == "memcaslap" and self.think_time_ms:
            raise ValueError('memcaslap knows no think time: use generator = "weir"')
        if self.depth > 1 and self.think_time_ms:
            raise ValueError("a client that thinks has one request at a time: set depth = 1")
        if self.generator == "memcaslap" and (self.depth, self.multiget_keys) != (1, 1):
            raise ValueError("memcaslap sends one request at a time, of one key: set depth = 1 and multiget_keys = 1")
        return self

    def _loop_faults(self) -> list[str]:
        """What an open loop cannot have, and what only it has."""
        if self.rate is None:
            poisson = self.arrivals == "poisson"
            return [] if poisson else ["arrivals are those of an open loop: give a rate, too"]
        found = []
        if self.think_time_ms:
            found.append("with a rate clients do not think: leave out rate or think_time_ms")
        if self.generator != "weir":
            found.append(f'{self.generator} knows no rate: use generator = "weir"')
        return found

    def _content_faults(self) -> list[str]:
        """A preset says what is sent; what else would say it must not be given."""
        found = []
        if (self.mix or self.preset or self.ttl_s) and self.generator != "weir":
            found.append(f'{self.generator} knows no mix, preset or ttl_s: use generator = "weir"')
        if self.mix is not None and self.write_ratio != Settings.model_fields["write_ratio"].default:
            found.append("mix has the share of writes in it: leave out write_ratio")
        said = ("write_ratio", "value_size_bytes", "key_size_bytes", "popularity", "ttl_s")
        for name in said if self.preset is not None else ():
            if getattr(self, name) != Settings.model_fields[name].default:
                found.append(f"preset {self.preset} says what {name} is: leave one of them out (mix may be given)")
        return found


# One letter per setting in the names of run folders, as the studies named their runs (writes-S5-R3-W10-r2). Of texts, the level alone.
SYMBOLS = {
    "clients": "C",
    "clients_per_thread": "V",
    "client_machines": "H",
    "instances": "I",
    "client_threads": "L",
    "depth": "D",
    "keys": "K",
    "value_size_bytes": "B",
    "key_size_bytes": "Z",
    "write_ratio": "W",
    "think_time_ms": "A",
    "rate": "X",
    "ttl_s": "Y",
    "multiget_keys": "G",
    "proxies": "P",
    "proxy_threads": "E",
    "workers": "T",
    "readers": "T",
    "servers": "S",
    "server_threads": "Q",
    "server_memory_mib": "M",
    "replicas": "R",
}
