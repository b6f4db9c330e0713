"""The programs of libmemcached-tools, first against memcached itself, then through the proxy."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.harness.processes import LIVENESS_S, Address, program


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [program(name), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3 * LIVENESS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# Without "quit": alone, it fails against memcached itself (it expects an error for `quit foo bar`, and memcached just
# closes); tests/processes/test_wire.py has that case.
CONFORMANCE = [
    "version", "verbosity", "set", "set noreply", "get", "gets", "mget", "flush", "flush noreply", "add",
    "add noreply", "replace", "replace noreply", "cas", "cas noreply", "delete", "delete noreply", "incr",
    "incr noreply", "decr", "decr noreply", "append", "append noreply", "prepend", "prepend noreply", "stat",
]  # fmt: skip


@pytest.mark.parametrize("test", CONFORMANCE)
def test_memccapable(subject: Address, test: str) -> None:
    name = f"ascii {test}"
    output = run("memccapable", "-h", subject.host, "-p", str(subject.port), "-t", "5", "-v", "-T", name)
    assert re.search(rf"^{name} +\[pass\]", output, re.MULTILINE), output


@pytest.mark.parametrize("test", ["get", "set", "mget"])
def test_memcslap(subject: Address, test: str) -> None:
    output = run("memcslap", f"--servers={subject}", f"--test={test}", "--concurrency=8", "--execute-number=500")
    done = re.search(r"Time to (?:get|set|mget) +(\d+) keys by +8 threads", output)
    assert done is not None, output
    assert int(done[1]) == 8 * 500
    assert "Failed" not in output
    assert "error" not in output.lower()


def test_memcslap_noreply(subject: Address) -> None:
    run("memcslap", f"--servers={subject}", "--test=set", "--noreply", "--concurrency=4", "--execute-number=500")


@pytest.mark.parametrize("keys_per_get", [1, 12])
def test_memcaslap_verifies_every_value(subject: Address, keys_per_get: int) -> None:
    output = run(
        "memcaslap", f"--servers={subject}", "--threads=2", "--concurrency=16", "--execute_number=20000",
        "--fixed_size=512", "--verify=1.0", f"--division={keys_per_get}",
    )  # fmt: skip
    counts = {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)$", output, re.MULTILINE)}
    assert (counts["get_misses"], counts["verify_misses"], counts["verify_failed"]) == (0, 0, 0), output
    assert counts["cmd_get"] + counts["cmd_set"] >= 20000
    assert "error" not in output.lower()
