"""Study files to begin with: `skeleton`. Each runs as it is, and lists every setting that it does not use with its default.

===========  ======================================================================================
weir         ``weir proxy`` before three memcached, against direct access
twemproxy    nutcracker with a YAML file of its own
haproxy      HAProxy as a relay of bytes, with a configuration file of its own
memcached    one memcached, without a proxy
running      what runs already (`targets`)
===========  ======================================================================================
"""

from __future__ import annotations

import json
import re
import tomllib
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from weir_lab.design.settings import Settings
from weir_lab.design.study import STARTED_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SkeletonKind", "skeleton", "study_name"]

_NAME_MAX = 41
_COLUMN = 34
# What may stand for settings that have no value unless one is given.
_EXAMPLES = {
    "clients_per_thread": 16,
    "popularity": "zipf:0.99",
    "rate": 10_000,
    "mix": "get=0.9,set=0.1",
    "preset": "facebook-etc",
    "multiget": "sharded",
    "workers": 8,
    "readers": 8,
    "crew": "fixed",
    "placement": "twemproxy/ketama",
}


class SkeletonKind(StrEnum):
    """Which skeleton."""

    WEIR = "weir"
    TWEMPROXY = "twemproxy"
    HAPROXY = "haproxy"
    MEMCACHED = "memcached"
    RUNNING = "running"


def skeleton(kind: SkeletonKind, name: str, file: str, targets: Sequence[str] = ("127.0.0.1:11211",)) -> str:
    """Text of a study file called `file`."""
    text = files("weir_lab.design.files").joinpath(f"studies/{kind}.toml").read_text(encoding="utf-8")
    listed = ", ".join(json.dumps(target) for target in targets)
    text = text.replace("{FILE}", file).replace("{NAME}", name).replace("{TARGETS}", listed)
    given = tomllib.loads(text.replace("{SETTINGS}", ""))
    used = {*given.get("fixed", {}), *given.get("factors", {})}
    if kind is SkeletonKind.RUNNING:
        used |= set(STARTED_SETTINGS)
    return text.replace("{SETTINGS}", "\n".join(_setting(name) for name in Settings.model_fields if name not in used))


def study_name(stem: str) -> str:
    """A name of a study from that of its file.

    >>> study_name("My study_2")
    'my-study-2'
    """
    name = re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.")
    return name[:_NAME_MAX] or "study"


def _setting(name: str) -> str:
    field = Settings.model_fields[name]
    unset = field.default is None
    value = json.dumps(_EXAMPLES[name] if unset else field.default)
    return f"# {f'{name} = {value}':{_COLUMN}} # {field.title}{'; unset by default' if unset else ''}"
