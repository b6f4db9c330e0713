"""`weir convert … --verify OLD:PORT`: the other proxy's keys are looked for where the equal configuration has them."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, Address, Memcached, Proxy, Twemproxy, program, weir_binary
from tests.harness.wire import Wire

KEYS = 400


def verify(system: str, file: Path, old: object, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(weir_binary()), "convert", system, str(file), "--verify", str(old), "--verify-keys", str(KEYS)]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=3 * LIVENESS_S, check=False)


def plain(system: str, file: Path) -> str:
    command = [str(weir_binary()), "convert", system, str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=True).stdout


def agreed(done: subprocess.CompletedProcess[str]) -> int:
    """How many keys agree, as reported."""
    reported = re.match(
        rf"weir: --verify \S+: pools? [\w, ]+: (\d+) of {KEYS} keys \(([\d.]+) %\) are where", done.stderr
    )
    assert reported is not None, done
    assert float(reported[2]) == int(1000 * int(reported[1]) / KEYS) / 10
    return int(reported[1])


def assert_agrees(done: subprocess.CompletedProcess[str], system: str, file: Path, more: str = "") -> None:
    assert agreed(done) == KEYS, done.stderr
    assert (done.returncode, done.stdout) == (0, plain(system, file))
    assert done.stderr.partition("\n")[2] == more


def assert_differs(done: subprocess.CompletedProcess[str]) -> None:
    assert 0 <= agreed(done) < KEYS
    assert (done.returncode, done.stdout) == (1, "")
    assert f"\n  and {KEYS - agreed(done) - 5} more\n" in done.stderr


def assert_empty(servers: list[Memcached]) -> None:
    for server in servers:
        with Wire(server.address) as wire:
            wire.send(b"stats\r\n")
            reported = dict(line.split(b" ")[1:3] for line in iter(wire.line, b"END"))
        assert reported[b"curr_items"] == b"0", "what was written is deleted"


@pytest.fixture
def nutcracker(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> tuple[Twemproxy, Path]:
    """A real one, and its file."""
    try:
        program("nutcracker")
    except FileNotFoundError:
        pytest.skip("nutcracker is not installed: `make bench` installs it")
    settings = ["distribution: ketama", "hash: fnv1a_64", 'hash_tag: "{}"', "timeout: 20000"]
    started = stack.enter_context(Twemproxy(tmp_path, [server.address for server in servers], *settings))
    started.wait_ready(started.address)
    return started, tmp_path / f"nutcracker-{started.address.port}.yml"


def test_nutcracker_agrees_with_what_its_file_becomes(
    nutcracker: tuple[Twemproxy, Path], servers: list[Memcached]
) -> None:
    old, file = nutcracker
    assert_agrees(verify("nutcracker", file, old.address), "nutcracker", file)
    assert_empty(servers)


@pytest.mark.parametrize(
    ("before", "after"),
    [("ketama", "modula"), ("fnv1a_64", "md5"), ('  hash_tag: "{}"\n', "")],
    ids=["distribution", "hash", "hash_tag"],
)
def test_nutcracker_does_not_agree_with_another_file(
    nutcracker: tuple[Twemproxy, Path], servers: list[Memcached], tmp_path: Path, before: str, after: str
) -> None:
    old, file = nutcracker
    other = tmp_path / "other.yml"
    text = file.read_text()
    assert before in text
    other.write_text(text.replace(before, after))
    done = verify("nutcracker", other, old.address)
    assert_differs(done)
    reported = re.findall(r"^  (\S+): not on (\S+), but on (\S+)$", done.stderr, re.MULTILINE)
    assert len(reported) == 5, done.stderr
    names = {str(server.address) for server in servers}
    for key, expected, found in reported:
        assert key.startswith("weir-verify:")
        assert {expected, found} <= names
        assert expected != found
    assert_empty(servers)


def test_of_several_pools_the_one_that_listens_there_is_verified(
    nutcracker: tuple[Twemproxy, Path], servers: list[Memcached], tmp_path: Path
) -> None:
    old, file = nutcracker
    two = tmp_path / "two.yml"
    other = file.read_text().replace("pool:", "other:").replace("ketama", "modula")
    two.write_text(file.read_text() + other.replace(str(old.address), "127.0.0.1:1"))
    done = verify("nutcracker", two, old.address)
    assert_agrees(done, "nutcracker", two, "  not verified: other\n")
    assert f": pool pool: {KEYS} of {KEYS} keys" in done.stderr
    assert_differs(verify("nutcracker", two, old.address, "--verify-pool", "other"))
    elsewhere = verify("nutcracker", two, "127.0.0.1:2")
    assert (elsewhere.returncode, elsewhere.stdout) == (2, "")
    reason = "no pool listens at port 2: give --verify-pool other or pool"
    assert elsewhere.stderr == f"weir: --verify 127.0.0.1:2: {reason}\n"
    assert_empty(servers)


def test_the_port_of_another_pool_is_no_loss_of_keys(
    stack: ExitStack, servers: list[Memcached], tmp_path: Path
) -> None:
    """Each key was reported to be on none of the servers, as if they were lost."""
    mine, others = servers[0], servers[1:]
    file = tmp_path / "nutcracker.yml"
    listed = "".join(f"   - {server.address}:1\n" for server in others)
    file.write_text(f"pages:\n  listen: 127.0.0.1:1\n  servers:\n{listed}")
    old = old_weir(stack, [mine], "--placement", "twemproxy/ketama")
    done = verify("nutcracker", file, old.address)
    assert_differs(done)
    assert len(re.findall(r": not on \S+, but on none of this pool's servers$", done.stderr, re.MULTILINE)) == 5
    advice = f"none was found on any of this pool's servers: is it the pool that {old.address} serves?"
    assert done.stderr.endswith(f"  {advice}\n")
    assert_empty(servers)


def mcrouter_file(folder: Path, servers: list[Memcached], route: object) -> Path:
    addresses = [str(server.address) for server in servers]
    pools = {"A": {"servers": addresses}, "first": {"servers": addresses[:1]}}
    file = folder / "mcrouter.json"
    file.write_text(json.dumps({"pools": pools, "route": route}))
    return file


def old_weir(stack: ExitStack, servers: list[Memcached], *options: str) -> Proxy:
    """A Weir in the place of the proxy that is to be replaced."""
    proxy = stack.enter_context(Proxy([server.address for server in servers], *options))
    proxy.wait_ready(proxy.address)
    return proxy


def test_a_proxy_with_another_placement_does_not_agree(
    stack: ExitStack, servers: list[Memcached], tmp_path: Path
) -> None:
    file = mcrouter_file(tmp_path, servers, "PoolRoute|A")
    same = old_weir(stack, servers, "--placement", "mcrouter/Ch3")
    assert_agrees(verify("mcrouter", file, same.address), "mcrouter", file)
    assert_empty(servers)
    other = old_weir(stack, servers, "--placement", "mcrouter/Crc32")
    done = verify("mcrouter", file, other.address)
    assert_differs(done)
    # By chance one of three agrees.
    assert KEYS / 6 < agreed(done) < KEYS / 2
    assert_empty(servers)


def test_keys_of_every_route_are_verified(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> None:
    route = {"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A", "policies": {"user:": "PoolRoute|first"}}
    file = mcrouter_file(tmp_path, servers, route)
    config = tmp_path / "weir.toml"
    config.write_text(plain("mcrouter", file))
    same = stack.enter_context(Proxy([], "--config", str(config)))
    same.wait_ready(same.address)
    assert_agrees(verify("mcrouter", file, same.address), "mcrouter", file)
    # Without the route, two of three of its keys, which are half of all, are elsewhere.
    without = old_weir(stack, servers, "--placement", "mcrouter/Ch3")
    done = verify("mcrouter", file, without.address)
    assert_differs(done)
    assert KEYS / 2 < agreed(done) < KEYS * 5 / 6
    assert "\n  user:weir-verify:" in done.stderr
    assert_empty(servers)


def test_every_copy_is_looked_for(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> None:
    file = mcrouter_file(tmp_path, servers, "AllSyncRoute|Pool|A")
    same = old_weir(stack, servers, "--replicas", "3", "--placement", "mcrouter/Ch3")
    assert_agrees(verify("mcrouter", file, same.address), "mcrouter", file)
    # A key that is where reads begin, and nowhere else, does not agree.
    once = old_weir(stack, servers, "--placement", "mcrouter/Ch3")
    done = verify("mcrouter", file, once.address)
    assert_differs(done)
    assert agreed(done) == 0
    assert_empty(servers)


def test_keys_are_deleted_also_where_a_server_cannot_be_read(
    stack: ExitStack, servers: list[Memcached], tmp_path: Path
) -> None:
    file = mcrouter_file(tmp_path, servers, "PoolRoute|A")
    nowhere = Address.free()
    file.write_text(file.read_text().replace(str(servers[0].address), str(nowhere)))
    old = old_weir(stack, servers, "--placement", "mcrouter/Ch3")
    done = verify("mcrouter", file, old.address)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--verify {old.address}: cannot connect to {nowhere}: Connection refused" in done.stderr
    assert "the servers of the file must be reachable from here" in done.stderr
    assert_empty(servers)


def test_a_proxy_that_cannot_be_asked_is_reported(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> None:
    file = mcrouter_file(tmp_path, servers, "PoolRoute|A")
    nobody = Address.free()
    done = verify("mcrouter", file, nobody)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"weir: --verify {nobody}: cannot connect to {nobody}: Connection refused (os error 111)\n"
    silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    address = Address(*silent.getsockname())
    done = verify("mcrouter", file, address, "--verify-timeout", "200ms")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{address} has not answered within 200ms" in done.stderr
    for old, options, reason in [
        ("nowhere", (), "has no port"),
        (nobody, ("--verify-prefix", "a b"), "can be no part of a key"),
        (nobody, ("--verify-pool", "B"), 'there is no pool "B"'),
        (nobody, ("--verify-timeout", "200"), "invalid value '200' for '--verify-timeout"),
    ]:
        done = verify("mcrouter", file, old, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr


@pytest.mark.parametrize(
    ("piece", "reason"),
    [(b"x" * 4096, "answers with a line of more than 2048 bytes"), (b"x", "has not answered within 200ms")],
    ids=["endless", "dripping"],
)
def test_a_proxy_whose_answer_does_not_end_is_left(
    stack: ExitStack, servers: list[Memcached], tmp_path: Path, piece: bytes, reason: str
) -> None:
    """Each byte that comes would give it more time, and each line more memory."""
    file = mcrouter_file(tmp_path, servers, "PoolRoute|A")
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def answer() -> None:
        """Serves two connections: adds, then deletes."""
        for _ in range(2):
            with suppress(ConnectionError), listener.accept()[0] as client:
                while True:
                    client.sendall(piece)
                    time.sleep(0.01)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    done = verify("mcrouter", file, Address(*listener.getsockname()), "--verify-timeout", "200ms")
    thread.join(LIVENESS_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_a_refusal_ends_it_and_no_key_is_left(stack: ExitStack, servers: list[Memcached], tmp_path: Path) -> None:
    """The proxy takes the first key and refuses the others. Keys are added, and expire: nothing is overwritten."""
    file = mcrouter_file(tmp_path, servers, "PoolRoute|A")
    heard: list[bytes] = []
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def refuse() -> None:
        """Serves two connections: adds, then deletes."""
        for _ in range(2):
            with listener.accept()[0] as client, client.makefile("rwb") as lines:
                for line in lines:
                    heard.append(line)
                    if line.startswith(b"add "):
                        lines.readline()
                        lines.write(b"STORED\r\n" if len(heard) == 1 else b"SERVER_ERROR out of memory\r\n")
                    else:
                        lines.write(b"DELETED\r\n" if line.split()[1] == heard[0].split()[1] else b"NOT_FOUND\r\n")
                    lines.flush()

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    done = verify("mcrouter", file, Address(*listener.getsockname()))
    thread.join(LIVENESS_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'it answers "SERVER_ERROR out of memory" to add weir-verify:' in done.stderr
    assert "may be left" not in done.stderr
    added, deleted = heard[:50], heard[50:]
    assert all(re.fullmatch(rb"add weir-verify:\S+ 0 600 \d+\r\n", line) for line in added)
    assert [line.split()[1] for line in deleted] == [line.split()[1] for line in added]
