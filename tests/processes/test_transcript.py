"""docs/operate/afternoon.md, replayed: what its commands print is what the page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness.processes import LIVENESS_S, ROOT, free_port, program, weir_binary

PAGE = ROOT / "docs" / "operate" / "afternoon.md"
END_OF = "-- end of command"


@dataclass
class Step:
    """A command of the page, and the lines below it."""

    command: str
    said: list[str] = field(default_factory=list)

    def is_answered_by(self, printed: list[str]) -> bool:
        """Whether these lines were printed; `…` stands for anything, and alone in a line for any lines."""
        pattern = "".join(
            r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in self.said
        )
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def with_free_ports(text: str) -> str:
    """The page with ports that nobody has, each of its own by one of ours."""
    ports = {port: str(free_port()) for port in sorted(set(re.findall(r"\b[12]\d{4}\b", text)))}
    return re.sub("|".join(ports), lambda found: ports[found[0]], text)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def steps(text: str) -> Iterator[Step]:
    for block in blocks(text, "console"):
        made: list[Step] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                made.append(Step(line.removeprefix("$ ")))
            else:
                made[-1].said.append(line)
        yield from made


@dataclass
class Shell:
    """A bash in a folder, with what it starts."""

    folder: Path

    def run(self, commands: list[str]) -> list[list[str]]:
        """What each of the commands printed; those after one that hangs are missing."""
        script, output = self.folder / "commands.sh", self.folder / "output.txt"
        script.write_text("".join(f"{command}\necho '{END_OF} {number}'\n" for number, command in enumerate(commands)))
        folders = {str(Path(program(name)).parent): None for name in ("memcached", "nutcracker")}
        path = os.pathsep.join([str(weir_binary().parent), *folders, os.environ["PATH"]])
        with output.open("w") as into:
            shell = subprocess.Popen(
                ["bash", script], cwd=self.folder, env=os.environ | {"PATH": path}, stdout=into, stderr=into,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                with suppress(subprocess.TimeoutExpired):
                    shell.wait(2 * LIVENESS_S)
            finally:
                os.killpg(shell.pid, signal.SIGKILL) if self._has_members(shell.pid) else None
                shell.wait()
        text = output.read_text()
        printed = []
        for number in range(len(commands)):
            said, ended, text = text.partition(f"{END_OF} {number}\n")
            if not ended:
                pytest.fail(f"did not end: {commands[number]}\n{said}")
            printed.append(said.splitlines())
        return printed

    @staticmethod
    def _has_members(group: int) -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        return True


def test_a_move_from_twemproxy_goes_as_the_page_says(tmp_path: Path) -> None:
    text = with_free_ports(PAGE.read_text())
    (nutcracker,) = blocks(text, "yaml")
    (tmp_path / "nutcracker.yml").write_text(nutcracker)
    script = list(steps(text))
    assert len(script) > 15
    for step, printed in zip(script, Shell(tmp_path).run([step.command for step in script]), strict=True):
        assert step.is_answered_by(printed), f"$ {step.command}\n" + "\n".join(printed)
