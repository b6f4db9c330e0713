"""The admin port with a token and with TLS: who is answered, and by whom it is asked."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, Address, ConfiguredProxy, Memcached, Process, eventually, weir_binary
from tests.harness.tls import Authority, client_context

PAGES = ("/metrics", "/snapshot", "/config", "/windows", "/hot", "/where?key=k")


class AccessProxy(ConfiguredProxy):
    """`weir proxy` whose admin port may want a token and speak TLS."""

    def __init__(self, file: Path, server: Address, *options: str, of_file: Sequence[str] = ()) -> None:
        """`of_file`: what the file says of the proxy, with the admin port; without it the port is a flag."""
        self.file, self._pool = file, f'[pools.main]\nservers = ["{server}"]\n'
        self.address, self.admin = Address.free(), Address.free()
        self.with_admin = f'admin = "{self.admin}"'
        command = [str(weir_binary()), "proxy", "--config", str(file), "--listen", str(self.address)]
        if of_file:
            self.say(self.with_admin, *of_file)
        else:
            self.say()
            command += ["--admin", str(self.admin)]
        Process.__init__(self, [*command, *options])

    def say(self, *lines: str) -> None:
        """What the file says of the proxy from now on."""
        self.file.write_text("\n".join(["[proxy]", *lines, self._pool]))

    def ask(self, path: str, token: str | None, tls: ssl.SSLContext | None = None, method: str = "GET") -> int:
        """The status of an answer."""
        scheme, host = ("http", str(self.admin)) if tls is None else ("https", f"localhost:{self.admin.port}")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{scheme}://{host}{path}", headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIVENESS_S, context=tls) as response:
                return int(response.status)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("hidden-token\n")
    return file


def test_who_shows_no_token_learns_nothing_but_health(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path, token: Path
) -> None:
    proxy = stack.enter_context(
        AccessProxy(tmp_path / "weir.toml", servers[0].address, "--admin-token-file", str(token))
    )
    proxy.wait_ready(proxy.admin)
    eventually(lambda: proxy.ask("/readyz", None) == 200, "it is ready")
    assert proxy.ask("/healthz", None) == 200
    for path in PAGES:
        assert proxy.ask(path, None) == proxy.ask(path, "other") == proxy.ask(path, "hidden-token2") == 401, path
        assert proxy.ask(path, "hidden-token") == 200, path
    assert proxy.ask("/reload", "other", method="POST") == 401
    token.write_text("newer-token\n")
    assert proxy.ask("/reload", "hidden-token", method="POST") == 200
    assert proxy.ask("/config", "hidden-token") == 401
    assert proxy.ask("/config", "newer-token") == 200
    token.write_text("")
    assert proxy.ask("/reload", "newer-token", method="POST") == 422
    assert proxy.ask("/config", "newer-token") == 200
    assert not re.search("(hidden|newer)-token", proxy.output())


def test_a_reload_opens_the_port_to_nobody(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path, token: Path
) -> None:
    of_file = (f'admin_token_file = "{token}"',)
    proxy = stack.enter_context(AccessProxy(tmp_path / "weir.toml", servers[0].address, of_file=of_file))
    proxy.wait_ready(proxy.admin)
    eventually(lambda: proxy.ask("/readyz", None) == 200, "it is ready")
    proxy.say(proxy.with_admin)
    assert proxy.ask("/reload", "hidden-token", method="POST") == 422
    assert proxy.ask("/config", None) == 401
    # Only a restart takes the port away.
    proxy.say()
    assert proxy.ask("/reload", "hidden-token", method="POST") == 200
    assert proxy.ask("/config", None) == 401
    assert proxy.ask("/config", "hidden-token") == 200


def test_the_port_speaks_tls_and_top_does_too(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path, token: Path
) -> None:
    authority = Authority(tmp_path)
    context, other = client_context(authority), client_context(Authority(tmp_path, "other"))
    certificate = authority.issue("admin")
    options = ("--admin-token-file", str(token), "--admin-tls-cert", str(certificate.both))
    proxy = stack.enter_context(AccessProxy(tmp_path / "weir.toml", servers[0].address, *options))
    proxy.wait_ready(proxy.admin)
    assert f", admin on https://{proxy.admin}" in proxy.output()
    assert proxy.ask("/config", "hidden-token", context) == 200
    assert proxy.ask("/config", None, context) == 401
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        proxy.ask("/config", "hidden-token", other)
    # What comes back is an alert of TLS.
    with pytest.raises(http.client.BadStatusLine):
        proxy.ask("/config", "hidden-token")

    def top(*said: str) -> subprocess.CompletedProcess[str]:
        command = [str(weir_binary()), "top", f"localhost:{proxy.admin.port}", "--once", *said]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * LIVENESS_S, check=False)

    seen = top("--ca", str(authority.file), "--token-file", str(token))
    assert seen.returncode == 0, seen.stderr
    assert "requests" in seen.stdout
    refused = top("--ca", str(authority.file))
    assert refused.returncode == 1
    assert "status 401: show the token of --admin-token-file" in refused.stderr


def test_silent_handshakes_keep_nobody_from_the_port(
    servers: list[Memcached], stack: ExitStack, tmp_path: Path
) -> None:
    """Connections that begin no handshake give way, as those do that ask nothing."""
    authority = Authority(tmp_path)
    context = client_context(authority)
    certificate = authority.issue("admin")
    proxy = stack.enter_context(
        AccessProxy(tmp_path / "weir.toml", servers[0].address, "--admin-tls-cert", str(certificate.both))
    )
    proxy.wait_ready(proxy.admin)
    with ExitStack() as silent:
        for _ in range(200):
            silent.enter_context(proxy.admin.connect(LIVENESS_S))
        for _ in range(20):
            assert proxy.ask("/healthz", None, context) == 200
