"""The example of docs/operate/moving.md is what the commands do."""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.harness.processes import LIVENESS_S, ROOT, Memcached, Proxy, weir_binary

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
