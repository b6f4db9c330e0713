from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from weir_lab.design.text.lines import KeyPath, key_lines, line_of

STUDIES = [
    file
    for file in sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))
    if not file.name.endswith(".set.toml")
]

TEXT = '''# [not.a.table]
a = 1
b = """
[no.table]
c = "not a key"
"""
d = [
  1, # ] not the end
  "]",
]
[t.u]
e.f = 'x = [' # text
"g h" = { i = 1 }
[[v]]
j = 1
[[v]]
j = 2
[v.w]
k = \'\'\'
l = 1 \'\'\'
m = "\\" ["
n = 3
'''


def test_every_key_has_the_line_on_which_it_stands() -> None:
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    assert {path: number for path, number in lines.items() if path not in {("v",), ("v", "w")}} == {
        ("a",): 2,
        ("b",): 3,
        ("d",): 7,
        ("t", "u"): 11,
        ("t", "u", "e", "f"): 12,
        ("t", "u", "g h"): 13,
        ("v", 0): 14,
        ("v", 0, "j"): 15,
        ("v", 1): 16,
        ("v", 1, "j"): 17,
        ("v", 1, "w"): 18,
        ("v", 1, "w", "k"): 19,
        ("v", 1, "w", "m"): 21,
        ("v", 1, "w", "n"): 22,
    }


def test_what_has_no_line_has_that_of_what_is_around_it() -> None:
    lines = key_lines(TEXT)
    assert line_of(lines, ("v", 1, "w", "absent")) == 18
    assert line_of(lines, ("d", 1)) == 7
    assert line_of(lines, ("absent",)) is None


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: str(file.stem))
def test_the_keys_of_the_studies_are_those_that_tomllib_reads(file: Path) -> None:
    text = file.read_text()
    found = {path for path in key_lines(text) if not isinstance(path[-1], int)}
    for path in leaves(tomllib.loads(text)):
        assert any(path[:length] in found for length in range(1, len(path) + 1)), path
        assert path in found or not any(isinstance(part, int) for part in path)


def leaves(table: dict[str, object], before: KeyPath = ()) -> list[KeyPath]:
    found: list[KeyPath] = []
    for name, value in table.items():
        if isinstance(value, dict) and (*before, name)[-1] != "at":
            found += leaves(value, (*before, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, element in enumerate(value):
                found += leaves(element, (*before, name, index))
        else:
            found.append((*before, name))
    return found
