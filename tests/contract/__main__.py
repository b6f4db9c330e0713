"""Prints the table of docs/reference/commands.md, or writes it.

.venv/bin/python -m tests.contract            print
.venv/bin/python -m tests.contract --write    write docs/reference/commands.md
"""

from __future__ import annotations

import argparse
import sys

from tests.harness.processes import ROOT

from .table import generate

DOCUMENT = ROOT / "docs" / "reference" / "commands.md"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print what every command does, or write docs/reference/commands.md.")
    parser.add_argument("--write", action="store_true", help="write docs/reference/commands.md")
    text = generate()
    if parser.parse_args().write:
        DOCUMENT.write_text(text, encoding="utf-8")
        print(f"wrote {DOCUMENT.relative_to(ROOT)}")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
