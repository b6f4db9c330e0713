"""One version number: the workspace's, the laboratory's and the newest of CHANGELOG are the same."""

from __future__ import annotations

import re
import tomllib

from tests.harness.processes import ROOT


def test_all_parts_have_the_same_version() -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    laboratory = (ROOT / "lab" / "src" / "weir_lab" / "__init__.py").read_text()
    assert re.search(r'^__version__ = "(.+)"$', laboratory, re.MULTILINE)[1] == version  # type: ignore[index]
    released = re.search(r"^## \[?(\d[^\] ]*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released is not None
    assert released[1] == version
