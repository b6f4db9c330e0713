"""Certificates for a test, made by openssl, and addresses at which TLS is spoken."""

from __future__ import annotations

import socket
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .processes import Address, program

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, each in a file of its own and both in one."""

    chain: Path
    key: Path

    @property
    def both(self) -> Path:
        """As HAProxy has it."""
        file = self.chain.with_suffix(".both")
        file.write_text(self.chain.read_text() + self.key.read_text())
        return file

    def serial(self) -> int:
        text = openssl("x509", "-in", self.chain, "-noout", "-serial")
        return int(text.partition("=")[2], 16)


class Authority:
    """Signs certificates for the tests of one folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self.file, self._key = folder, folder / f"{name}.pem", folder / f"{name}.key"
        openssl(
            "req", "-x509", *EC, "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.file
        )

    def issue(self, name: str, names: str = "DNS:localhost,IP:127.0.0.1") -> Certificate:
        """A certificate with a new key; `name` is that of its files."""
        chain, key, request = (self._folder / f"{name}.{kind}" for kind in ("crt", "key", "csr"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
        openssl("req", *EC, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signed_by = ("-CA", self.file, "-CAkey", self._key, "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signed_by, "-days", "2", "-extfile", extensions, "-out", chain)
        return Certificate(chain, key)


def openssl(*arguments: object) -> str:
    done = subprocess.run(
        [program("openssl"), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def client_context(authority: Authority, shown: Certificate | None = None) -> ssl.SSLContext:
    """What a client goes by that trusts an authority, and perhaps shows a certificate."""
    context = ssl.create_default_context(cafile=str(authority.file))
    # A missing end is reported, and not taken for one.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", ssl.Options(0))
    if shown is not None:
        context.load_cert_chain(shown.chain, shown.key)
    return context


@dataclass(frozen=True)
class TlsAddress:
    """An address at which TLS is spoken; connects as `Address` does."""

    address: Address
    context: ssl.SSLContext
    session: ssl.SSLSession | None = None

    def connect(self, timeout: float) -> ssl.SSLSocket:
        plain = self.address.connect(timeout)
        try:
            return self.context.wrap_socket(
                plain, server_hostname="localhost", suppress_ragged_eofs=False, session=self.session
            )
        except BaseException:
            plain.close()
            raise


def hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a client's handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake takes two")


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the peer closes; a reset is an end, too."""
    pieces = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)
