"""What `make packages` puts into the wheel beside Python: weir, for one kind of machine, and the study demo.

WEIR_WHEEL_MACHINE names the machine, and `bundled` beside this file holds both. Without it, as for an installation from
a clone, the wheel is plain Python.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Bundle(BuildHookInterface[Any]):
    """Adds it where pip puts commands, so that `weir` is beside `weir-lab`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Called before hatchling collects the files."""
        machine = os.environ.get("WEIR_WHEEL_MACHINE")
        if not machine:
            return
        bundled = Path(self.root) / "bundled"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"
        build_data["shared_scripts"] = {str(bundled / "weir"): "weir"}
        build_data["force_include"] = {str(bundled / "demo.toml"): "weir_lab/studies/demo.toml"}
