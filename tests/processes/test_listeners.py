"""Several places where clients connect, `[[listen]]`: each with TLS or without, and with a login or without."""

from __future__ import annotations

import json
import re
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.logins import logged_in, write_passwords
from tests.harness.processes import (
    LIVENESS_S,
    Address,
    ConfiguredProxy,
    Memcached,
    Process,
    SocketPath,
    eventually,
    weir_binary,
)
from tests.harness.standing import counters
from tests.harness.tls import Authority, TlsAddress, client_context
from tests.harness.wire import Wire


class PlacesProxy(ConfiguredProxy):
    """`weir proxy` that listens where its file says."""

    def __init__(self, file: Path, *options: str) -> None:
        self.file, self.admin = file, Address.free()
        command = [str(weir_binary()), "proxy", "--config", str(file), "--admin", str(self.admin)]
        Process.__init__(self, [*command, "--timeout", f"{LIVENESS_S}s", *options])


def start(stack: ExitStack, file: Path, text: str, server: Address, *options: str) -> PlacesProxy:
    file.write_text(f'{text}\n[pools.main]\nservers = ["{server}"]\n')
    proxy = stack.enter_context(PlacesProxy(file, *options))
    proxy.wait_ready(proxy.admin)
    return proxy


def listener_counts(proxy: PlacesProxy, kind: str) -> dict[str, int]:
    found = re.findall(rf'^weir_listener_{kind}{{listener="(.*)"}} (\d+)$', proxy.http("/metrics"), re.MULTILINE)
    return {place: int(count) for place, count in found}


def test_each_place_asks_what_its_row_says(servers: list[Memcached], stack: ExitStack, tmp_path: Path) -> None:
    """TLS and a login at one port, a login alone at another, and neither at a socket: all serve the same keys."""
    authority, passwords = Authority(tmp_path), write_passwords(tmp_path / "passwords", "user:password")
    certificate = authority.issue("proxy")
    both, plain, local = Address.free(), Address.free(), SocketPath(tmp_path / "weir.sock")
    text = f"""
[[listen]]
address = "{both}"
[[listen]]
address = "{plain}"
tls = false
[[listen]]
address = "unix:{local}"
mode = "600"
tls = false
login = false
[proxy]
tls_cert = "{certificate.both}"
auth_file = "{passwords}"
"""
    proxy = start(stack, tmp_path / "weir.toml", text, servers[0].address)
    assert stat.S_IMODE((tmp_path / "weir.sock").stat().st_mode) == 0o600

    with Wire(local) as anybody, logged_in(plain) as named:
        assert anybody.store(b"key", b"value") == b"STORED"
        assert named.get(b"key") == [(b"key", b"value")]
        with logged_in(TlsAddress(both, client_context(authority))) as hidden:
            assert hidden.get(b"key") == [(b"key", b"value")]
            eventually(
                lambda: listener_counts(proxy, "sessions") == {str(both): 1, str(plain): 1, f"unix:{local}": 1},
                "each is counted where it came in",
            )
    with Wire(plain) as stranger, Wire(TlsAddress(both, client_context(authority))) as other:
        for wire in (stranger, other):
            assert wire.ask(b"get key\r\n") == b"CLIENT_ERROR unauthenticated"
    with Wire(both) as unencrypted:
        unencrypted.send(b"get key\r\n")
        assert unencrypted.line() == b"ERROR this port speaks TLS"
    eventually(lambda: set(listener_counts(proxy, "sessions").values()) == {0}, "all have gone")
    assert listener_counts(proxy, "sessions_accepted_total")[str(plain)] == 2

    config = json.loads(proxy.http("/config"))
    assert config["listeners"] == [
        {"listen": str(both), "tls": True, "login": True, "pool": None},
        {"listen": str(plain), "tls": False, "login": True, "pool": None},
        {"listen": f"unix:{local}", "tls": False, "login": False, "pool": None},
    ]


def test_who_logged_in_nowhere_reads_nothing_where_a_login_is_wanted(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    """That a place wants no login opens no other one, whichever connection came first."""
    passwords = write_passwords(tmp_path / "passwords", "user:password")
    guarded, open_to_all = Address.free(), Address.free()
    text = f'[[listen]]\naddress = "{guarded}"\n[[listen]]\naddress = "{open_to_all}"\nlogin = false\n'
    proxy = start(stack, tmp_path / "weir.toml", text, servers[0].address, "--auth-file", str(passwords))
    for _ in range(20):
        with Wire(open_to_all) as anybody, Wire(guarded) as stranger:
            assert anybody.store(b"key", b"secret") == b"STORED"
            assert stranger.ask(b"get key\r\n") == b"CLIENT_ERROR unauthenticated"
            assert stranger.ask(b"mg key v\r\n") == b"CLIENT_ERROR unauthenticated"
            assert anybody.get(b"key") == [(b"key", b"secret")]
    assert counters(proxy)["logins"] == 0


@pytest.mark.every_engine
def test_a_port_and_a_socket_together(servers: list[Memcached], stack: ExitStack, tmp_path: Path, engine: str) -> None:
    """Every engine serves clients of all places; the log and the answer to a reload name them."""
    port, local, file = Address.free(), SocketPath(tmp_path / "weir.sock"), tmp_path / "weir.toml"
    text = f'[[listen]]\naddress = "{port}"\n[[listen]]\naddress = "unix:{local}"\n'
    proxy = start(stack, file, text, servers[0].address, "--engine", engine)
    with Wire(port) as one, Wire(local) as other:
        assert one.store(b"key", b"value") == b"STORED"
        assert other.get(b"key") == [(b"key", b"value")]
    assert f"listening on {port}, unix:{local}, 1 server" in proxy.output()

    file.write_text(file.read_text().replace(f"unix:{local}", f"unix:{local}.other"))
    status, summary = proxy.reload()
    assert status == 200
    assert "listeners stay as they are" in summary
    with Wire(local) as other:
        assert other.get(b"key") == [(b"key", b"value")]


def test_a_rush_at_one_place_does_not_delay_another(servers: list[Memcached], stack: ExitStack, tmp_path: Path) -> None:
    """While connections come in at one place without a break, a client of the other one is served."""
    busy, calm = Address.free(), Address.free()
    text = f'[[listen]]\naddress = "{busy}"\n[[listen]]\naddress = "{calm}"\n'
    proxy = start(stack, tmp_path / "weir.toml", text, servers[0].address)
    with ExitStack() as many:
        for round_number in range(10):
            for _ in range(100):
                many.enter_context(busy.connect(LIVENESS_S))
            with Wire(calm) as client:
                assert client.store(b"key", b"%d" % round_number) == b"STORED"
        eventually(lambda: listener_counts(proxy, "sessions")[str(busy)] == 1000, "all are in")


def test_the_flag_takes_the_place_of_all_rows(servers: list[Memcached], stack: ExitStack, tmp_path: Path) -> None:
    row, flag = Address.free(), Address.free()
    text = f'[[listen]]\naddress = "{row}"\n'
    start(stack, tmp_path / "weir.toml", text, servers[0].address, "--listen", str(flag))
    with Wire(flag) as client:
        assert client.store(b"key", b"value") == b"STORED"
    assert not row.accepts()
