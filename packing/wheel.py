"""The wheel of the laboratory: weir_lab, weir beside its command, and the study demo (lab/hatch_build.py)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from packing.tree import Machine, PackingError, Tree, call


def wheel(tree: Tree, machine: Machine, weir: Path, licences: bytes, out: Path) -> Path:
    """Writes the wheel into a folder. hatchling runs in the Python that runs this, so nothing is fetched."""
    with tempfile.TemporaryDirectory(prefix="weir-wheel-") as folder:
        # hatchling takes files as they are: where they are from, and what another build left there, must not matter.
        copy = Path(folder) / "lab"
        shutil.copytree(
            tree.root / "lab" / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for name in ("pyproject.toml", "hatch_build.py"):
            shutil.copy(tree.root / "lab" / name, copy / name)
        bundled = copy / "bundled"
        bundled.mkdir()
        shutil.copy(weir, bundled / "weir")
        (bundled / "weir").chmod(0o755)
        shutil.copy(tree.root / "studies" / "demo.toml", bundled / "demo.toml")
        shutil.copy(tree.root / "LICENSE", copy / "LICENSE")
        (copy / "LICENSE-third-party").write_bytes(licences)
        for file in copy.rglob("*"):
            file.chmod(0o755 if file.is_dir() or file.stat().st_mode & 0o111 else 0o644)
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(tree.epoch), "WEIR_WHEEL_MACHINE": machine.wheel}
        call([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", copy / "dist"], copy, environment)
        made = list((copy / "dist").glob("*.whl"))
        if len(made) != 1 or not made[0].name.endswith(f"-py3-none-linux_{machine.wheel}.whl"):
            raise PackingError(
                f"hatchling made {[path.name for path in made]} instead of one wheel for {machine.wheel}"
            )
        return Path(shutil.copy(made[0], out / made[0].name))
