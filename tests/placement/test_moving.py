"""The example of docs/operate/moving.md is what the commands do."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.processes import (
    LIVENESS_S,
    ROOT,
    Address,
    Memcached,
    Process,
    Proxy,
    eventually,
    program,
    weir_binary,
)
from tests.harness.wire import Wire

PAGE = (ROOT / "docs" / "operate" / "moving.md").read_text()


def block(language: str) -> str:
    """The only block of the page in this language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (only,) = found
    return only


def test_the_file_becomes_the_one_on_the_page(tmp_path: Path) -> None:
    file = tmp_path / "mcrouter.json"
    file.write_text(block("json"))
    command = [str(weir_binary()), "convert", "mcrouter", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, block("toml"), "")


def test_the_commands_of_the_page_end_as_it_says(tmp_path: Path, servers: list[Memcached], stack: ExitStack) -> None:
    text = block("json")
    for number, server in enumerate(servers, 1):
        text = text.replace(f"10.0.0.{number}:11211", str(server.address))
    (tmp_path / "mcrouter.json").write_text(text)
    # In the place of mcrouter stands a Weir that writes to all three.
    old = stack.enter_context(Proxy([server.address for server in servers], "--replicas", "3"))
    old.wait_ready(old.address)
    ((ask, reported),) = re.findall(r"^\$ weir (convert .*)\n(.*)$", PAGE, re.MULTILINE)
    (check,) = re.findall(r"^\$ weir (check .*) && weir proxy --config weir.toml ", PAGE, re.MULTILINE)
    run = f'"$WEIR" {ask} && "$WEIR" {check}'.replace("127.0.0.1:5000", str(old.address))
    done = subprocess.run(
        ["bash", "-c", run],
        cwd=tmp_path,
        env={"WEIR": str(weir_binary())},
        capture_output=True,
        text=True,
        timeout=2 * LIVENESS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == reported.replace("127.0.0.1:5000", str(old.address)) + "\n"
    assert done.stdout == "A: 3 servers, placement mcrouter/Ch3, replicas 3\n"
    new = stack.enter_context(Proxy([], "--config", str(tmp_path / "weir.toml")))
    new.wait_ready(new.address)


def test_two_pools_move_and_go_back_as_the_page_says(
    tmp_path: Path, servers: list[Memcached], stack: ExitStack
) -> None:
    """Its commands ended with status 2 for a file with two pools; the way back was not written down."""
    try:
        nutcracker = program("nutcracker")
    except FileNotFoundError:
        pytest.skip("nutcracker is not installed: `make bench` installs it")
    section = PAGE.partition("## Several pools\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (_, yaml), (_, commands), (_, reported), (_, begins) = blocks
    old, listen, admin = [Address.free(), Address.free()], [Address.free(), Address.free()], Address.free()
    here = {f"10.0.0.{number}:11211": str(server.address) for number, server in enumerate(servers, 1)}
    for number in range(2):
        here[f"127.0.0.1:{22121 + number}"] = str(old[number])
        here[f"0.0.0.0:{21211 + number}"] = str(listen[number])
    here["127.0.0.1:21280"] = str(admin)
    for written, free in here.items():
        assert written in yaml + commands + reported
        yaml, commands, reported, begins = (text.replace(written, free) for text in (yaml, commands, reported, begins))
    (tmp_path / "nutcracker.yml").write_text(yaml)
    statistics = str(Address.free().port)
    stack.enter_context(Process([nutcracker, "-c", str(tmp_path / "nutcracker.yml"), "-s", statistics]))
    for address in old:
        eventually(address.accepts, "nutcracker listens")

    first = "".join(line for line in commands.splitlines(keepends=True) if not line.startswith("weir proxy "))
    run = f'set -e\nweir() {{ "$WEIR" "$@"; }}\n{first}'
    environment = {"WEIR": str(weir_binary())}
    done = subprocess.run(
        ["bash", "-c", run],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, reported)
    assert done.stdout.splitlines()[-1] == f"pages/{servers[2].address}", "weir where"
    for number in range(2):
        begins = begins.replace(str(old[number]), str(listen[number]))
    assert (tmp_path / "weir.toml").read_text().startswith(begins)

    (line,) = re.findall("^weir (proxy .*)$", commands, re.MULTILINE)
    command = shlex.split(line.replace("weir.toml", str(tmp_path / "weir.toml")))
    proxy = stack.enter_context(Process([str(weir_binary()), *command]))
    for address in listen:
        proxy.wait_ready(address)
    for new, before in zip(listen, old, strict=True):
        with Wire(new) as through_weir, Wire(before) as back:
            for number in range(20):
                key, value = f"key:{number}".encode(), str(number).encode()
                assert through_weir.store(key, value) == b"STORED"
                assert back.get(key) == [(key, value)]
