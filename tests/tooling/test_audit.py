"""The audit tells clean, vulnerable and unreachable apart, against a database of our own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.harness.processes import free_port

from .conftest import RunScript

Answer = Callable[[list[dict[str, Any]]], bytes]


@pytest.fixture
def database() -> Iterator[Callable[[Answer], str]]:
    """Serves one answer function; gives its address."""
    servers: list[ThreadingHTTPServer] = []

    def serve(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = answer(question["queries"])
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
                pass

        server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def nothing_known(queries: list[dict[str, Any]]) -> bytes:
    return json.dumps({"results": [{} for _ in queries]}).encode()


def one_known(queries: list[dict[str, Any]]) -> bytes:
    vulnerable = {"name": "pytest", "ecosystem": "PyPI"}
    return json.dumps(
        {"results": [{"vulns": [{"id": "TEST-1"}]} if q["package"] == vulnerable else {} for q in queries]}
    ).encode()


def test_clean(run_script: RunScript, database: Callable[[Answer], str]) -> None:
    asked: list[dict[str, Any]] = []

    def answer(queries: list[dict[str, Any]]) -> bytes:
        asked.extend(queries)
        return nothing_known(queries)

    done = run_script("audit", "--database", database(answer))
    assert (done.returncode, done.stderr) == (0, "")
    names = {(query["package"]["ecosystem"], query["package"]["name"]) for query in asked}
    assert {("crates.io", "memchr"), ("PyPI", "pytest")} <= names
    assert ("crates.io", "weir-protocol") not in names


def test_known_vulnerability(run_script: RunScript, database: Callable[[Answer], str]) -> None:
    done = run_script("audit", "--database", database(one_known))
    assert done.returncode == 1
    assert "(PyPI): TEST-1" in done.stdout


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"results": []}', b'{"results": 1}', b"[]"])
def test_senseless_answer(run_script: RunScript, database: Callable[[Answer], str], body: bytes) -> None:
    done = run_script("audit", "--database", database(lambda _: body))
    assert done.returncode == 3
    assert "not checked" in done.stderr


def test_out_of_reach(run_script: RunScript) -> None:
    # Port 1 of the loopback interface: nothing listens there, and connecting is refused at once.
    done = run_script("audit", "--database", "http://127.0.0.1:1/")
    assert done.returncode == 3
    assert "not checked: database out of reach" in done.stderr
