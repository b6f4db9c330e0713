"""Writes what is generated of the chart.

.venv/bin/python -m tests.deploy             what helm renders of each case, into tests/deploy/golden
.venv/bin/python -m tests.deploy settings    the proxy's settings, into deploy/helm/weir/values.schema.json
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.harness.processes import ROOT

from . import settings
from .chart import CASES, golden, rendered


def main() -> None:
    if sys.argv[1:] == ["settings"]:
        with tempfile.TemporaryDirectory() as folder:
            print(f"wrote {settings.write(Path(folder)).relative_to(ROOT)}")
        return
    for case in CASES:
        file = golden(case)
        file.write_text(rendered(case), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
