"""Pictures of terminals show what commands write, at the columns where a terminal has it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shlex
import sys
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.harness.processes import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def captures() -> ModuleType:
    path = str(ROOT / "scripts" / "captures")
    loader = importlib.machinery.SourceFileLoader("captures", path)
    spec = importlib.util.spec_from_file_location("captures", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["captures"] = module
    loader.exec_module(module)
    return module


def text(screen: object) -> list[str]:
    return ["".join(character for character, _ in row) for row in screen.rows()]  # type: ignore[attr-defined]


def test_a_screen_that_is_painted_in_pieces(captures: ModuleType) -> None:
    screen = captures.Screen(80, 24)
    screen.feed("before\x1b[?1049h\x1b[1;1H\x1b[1mtop\x1b[22m  \x1b[38;5;8;49mp50 \x1b[39;49m575")
    screen.feed("\x1b[3;1Hserver\x1b[59m\x1b[0m\x1b[?25l\x1b[1;10H600\x1b[2;3H")
    assert text(screen) == ["top  p50 600", "", "server"]
    looks = [look for _, look in next(screen.rows())]
    assert (looks[0].bold, looks[3].bold, looks[5].ink, looks[9].ink) == (True, False, 8, None)


def test_lines_that_are_written_over_and_wrapped(captures: ModuleType) -> None:
    screen = captures.Screen(10, 24)
    screen.feed("warm-up\r\x1b[Kmeasured\r\n0123456789abc\r\n")
    assert text(screen) == ["measured", "0123456789", "abc"]


def test_what_is_not_drawn_is_refused(captures: ModuleType) -> None:
    for sequence in ("\x1b[2A", "\x1b[38;2;1;2;3m"):
        with pytest.raises(ValueError, match=r"draw|known"):
            captures.Screen(80, 24).feed(sequence)


def test_a_command_in_a_terminal_of_its_own(captures: ModuleType) -> None:
    terminal = captures.Terminal([sys.executable, "-c", "import os; print('µs', *os.get_terminal_size())"], (90, 20))
    assert terminal.wait() == 0
    assert text(terminal.screen) == ["µs 90 20"]


def test_words_are_drawn_at_their_columns(captures: ModuleType) -> None:
    screen = captures.Screen(80, 24)
    screen.feed("a <b   \x1b[48;5;3mqq\x1b[0m")
    drawn = ElementTree.fromstring(captures.draw("weir top", list(screen.rows())))
    words = [(it.text, float(it.attrib["x"]), float(it.attrib["textLength"])) for it in drawn.iter(f"{SVG}text")]
    left, wide = captures.EDGE, captures.ADVANCE
    assert [word for word, *_ in words] == ["$ weir top", "a <b", "qq"]
    assert [place for _, place, _ in words] == pytest.approx([left, left, left + 7 * wide])
    assert [length for *_, length in words] == pytest.approx([10 * wide, 4 * wide, 2 * wide])
    assert [it.attrib.get("class") for it in drawn.iter(f"{SVG}rect")] == [None, "i3"]


def test_the_pictures_in_the_tree_have_these_commands(captures: ModuleType) -> None:
    for command in (captures.LOAD, captures.TOP):
        drawn = ElementTree.parse(ROOT / "docs" / "figures" / f"weir-{command[0]}.svg").getroot()
        assert drawn.findtext(f"{SVG}title") == shlex.join(["weir", *command])
        assert f"weir-{command[0]}.svg" in (ROOT / "README.md").read_text()
