"""`weir where`, `weir check` and `weir convert` on the command line: what they print and how they end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Connect, StartProxy
from tests.harness.placement import keys_by_server
from tests.harness.processes import LIVENESS_S, Memcached, Proxy, weir_binary
from tests.placement.where import keys, where

POOL = """\
[pools.main]
servers = ["10.0.0.1:11211:1 red", "10.0.0.2:11211:2 blue", "10.0.0.3:11211:1 green"]
placement = "twemproxy/ketama"
replicas = 2
"""


def weir(*arguments: str | Path) -> tuple[int, str, str]:
    command = [str(weir_binary()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "weir.toml"
    file.write_text(POOL)
    return file


def test_where_tells_every_server_of_every_key(config: Path) -> None:
    asked = ["user:1", "user:2", "", "ключ"]
    status, output, errors = weir("where", "--config", config, *asked)
    assert (status, errors) == (0, "")
    reported = output.splitlines()
    assert reported == where([key.encode() for key in asked], "--config", str(config))
    for line in reported:
        names = line.split(" ")
        assert len(set(names)) == 2
        assert set(names) <= {"red", "blue", "green"}


def test_where_tells_what_the_proxy_does(start_proxy: StartProxy, servers: list[Memcached]) -> None:
    addresses = [server.address for server in servers]
    placement = ("--placement", "rendezvous")
    held = keys_by_server(start_proxy(*placement).address, addresses)
    flags = [flag for address in addresses for flag in ("--server", str(address))]
    for address, mine in zip(addresses, held, strict=True):
        assert set(where(mine, *flags, *placement)) == {str(address)}


def test_proxy_takes_servers_from_a_file(
    start_proxy: StartProxy, servers: list[Memcached], connect: Connect, tmp_path: Path
) -> None:
    """Names stand where addresses stood: in metrics and in what `weir where` prints."""
    file = tmp_path / "weir.toml"
    listed = ", ".join(f'"{server.address} s{place}"' for place, server in enumerate(servers))
    file.write_text(f'[pools.main]\nservers = [{listed}]\nplacement = "jump"\n')
    status, output, _ = weir("check", file)
    assert (status, output) == (0, "main: 3 servers, placement jump, hash xxh3, replicas 1\n")
    asked = keys(count=200, every_byte=False)
    reported = where(asked, "--config", str(file))
    wires = {f"s{place}": connect(server.address) for place, server in enumerate(servers)}
    for key, name in zip(asked, reported, strict=True):
        assert wires[name].store(key, b"here") == b"STORED"
    with Proxy([], "--config", str(file)) as proxy:
        proxy.wait_ready(proxy.address)
        assert connect(proxy.address).get(*asked) == [(key, b"here") for key in asked]


@pytest.mark.parametrize(
    ("before", "after", "line", "reason"),
    [
        ('placement = "twemproxy/ketama"', "placement = 3", 3, "placement: expected text in quotes"),
        ("placement", "placment", 3, "unknown field `placment`"),
        ("replicas = 2", "replicas = ", 4, ""),
        (":2 blue", ":2 red", 2, "pool main: server red is in the pool twice"),
        (":2 blue", ":two blue", 2, 'weight "two" is no number'),
        ('green"]\n', 'green"\n', 3, ""),
    ],
)
def test_check_names_line_and_reason(config: Path, before: str, after: str, line: int, reason: str) -> None:
    assert before in POOL
    config.write_text(POOL.replace(before, after))
    status, output, errors = weir("check", config)
    assert (status, output) == (2, "")
    assert errors.startswith(f"weir: {config}:{line}: "), errors
    assert reason in errors
    assert errors.count("\n") == 1


def test_check_tells_of_servers_without_keys(config: Path) -> None:
    config.write_text(POOL.replace(":2 blue", ":1000000 blue"))
    status, output, _ = weir("check", config)
    assert status == 0
    assert "main: server red is so light among the others that it gets no keys\n" in output


def test_check_refuses_what_is_no_file_of_text(tmp_path: Path) -> None:
    bytes_file = tmp_path / "bytes"
    bytes_file.write_bytes(b"# fine\n\xff\xfe")
    for file, reason in [
        (tmp_path / "absent", "cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (bytes_file, "bytes:2: is not UTF-8 text"),
        (Path("/dev/zero"), "is larger than 16777216 bytes"),
    ]:
        status, output, errors = weir("check", file)
        assert (status, output) == (2, "")
        assert reason in errors


def test_convert_mcrouter(tmp_path: Path) -> None:
    servers = [f"10.0.0.{number}:11211" for number in range(1, 6)]
    source, target = tmp_path / "mcrouter.json", tmp_path / "weir.toml"
    source.write_text(json.dumps({"pools": {"A": {"servers": servers}}, "route": "PoolRoute|A"}))
    status, output, errors = weir("convert", "mcrouter", source)
    assert (status, errors) == (0, "")
    target.write_text(output)
    assert weir("check", target) == (0, "A: 5 servers, placement mcrouter/Ch3, replicas 1\n", "")
    flags = [flag for server in servers for flag in ("--server", server)]
    asked = keys(count=1000)
    assert where(asked, "--config", str(target)) == where(asked, *flags, "--placement", "mcrouter/Ch3")


def test_convert_says_what_has_no_equal(tmp_path: Path) -> None:
    source = tmp_path / "mcrouter.json"
    source.write_text('{"pools": {}, "route": } // nothing')
    assert "cannot be read as JSON" in weir("convert", "mcrouter", source)[2]
    source.write_text('{"pools": {}, "route": {"type": "NullRoute", "children": [],}} // nothing')
    status, output, errors = weir("convert", "mcrouter", source)
    assert (status, output) == (2, "")
    assert errors.startswith(
        f"weir: {source}: NullRoute has no equal: Weir answers for no server that is not there. Nearest: "
    )


def test_flags_that_contradict_are_refused(config: Path) -> None:
    for flags in [
        ("--config", str(config), "--placement", "jump"),
        ("--config", str(config), "--pool", "other"),
        ("--server", "10.0.0.1:11211", "--hash", "md5", "--placement", "jump"),
        ("--placement", "jump"),
    ]:
        status, output, errors = weir("where", *flags, "key")
        assert (status, output) == (2, ""), flags
        assert errors
