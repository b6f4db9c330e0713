"""Where the weir binary is, and the studies that come with a wheel: one place decides.

`find_weir` looks, in this order, for the build of a clone, for the program that was installed with the laboratory, and
for `weir` on the PATH. Whoever names a binary (``--bin``) gets that one. `find_study` knows the studies of a wheel by
their names.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import weir_lab
from weir_lab.errors import TestbedError

__all__ = ["WEIR_DEFAULT", "find_study", "find_weir", "is_there", "not_there"]

# What help says of --bin.
WEIR_DEFAULT = "target/release/weir, the one that came with weir-lab, or weir on the PATH"

# Where `make build` leaves it, from the root of a clone.
_BUILT = Path("target/release/weir")
_STUDIES = Path("studies")
# Where a wheel has them (lab/hatch_build.py).
_STUDIES_OF_WHEEL = Path(weir_lab.__path__[0]) / "studies"


def find_weir(named: Path | None = None) -> Path:
    """The binary that is meant. Where there is none it is that of a clone, which is not there: who starts it says so."""
    if named is not None:
        return named
    if is_there(_BUILT):
        return _BUILT
    installed = Path(sysconfig.get_path("scripts")) / "weir"
    if is_there(installed):
        return installed
    on_path = shutil.which("weir")
    return Path(on_path) if on_path else _BUILT


def find_study(named: Path) -> Path:
    """The file of a study: as it is named, or for a plain name that of the clone, or the one that a wheel has."""
    if named.exists() or named.suffix or len(named.parts) != 1:
        return named
    places = (folder / f"{named}.toml" for folder in (_STUDIES, _STUDIES_OF_WHEEL))
    return next((place for place in places if place.is_file()), named)


def is_there(weir: Path) -> bool:
    """Whether it is a file, from the working directory on."""
    return weir.is_file()


def not_there(weir: Path) -> TestbedError:
    """What to do about a binary that cannot be started."""
    if weir == _BUILT or weir == _BUILT.absolute():
        return TestbedError(
            f"{_BUILT} is not there, and weir is neither installed with weir-lab nor on the PATH. Build it with `make build` "
            "and start from the root of the clone, install a package (docs/operate/install.md), or name it with --bin."
        )
    return TestbedError(
        f"{weir} is not there. Build it with `make build`, install a package (docs/operate/install.md), or name another with --bin."
    )
