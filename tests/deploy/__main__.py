"""Writes what helm renders of each case into tests/deploy/golden: .venv/bin/python -m tests.deploy"""

from __future__ import annotations

from tests.harness.processes import ROOT

from .chart import CASES, golden, rendered


def main() -> None:
    for case in CASES:
        file = golden(case)
        file.write_text(rendered(case), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
