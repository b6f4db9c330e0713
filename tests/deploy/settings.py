"""The settings that the chart's schema has: asked of `weir check`, written by `python -m tests.deploy settings`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.harness.processes import LIVENESS_S, weir_binary

from .chart import CHART

# What the chart itself says to the proxy, so that probes and Services find it.
OF_THE_CHART = {"listen", "listen_mode", "admin", "drain_delay", "drain_timeout"}

# What `weir check` expects of a setting, and what the schema calls that.
FORMS = {
    "text in quotes": {"type": "string"},
    "a whole number": {"$ref": "#/definitions/count"},
    "a number": {"type": "number"},
    "true or false": {"type": "boolean"},
    "a time": {"$ref": "#/definitions/time"},
    "a size": {"$ref": "#/definitions/size"},
}

POOL = '[pools.main]\nservers = ["127.0.0.1:11211"]\n'

# Of the settings in the schema, whose description mentions [proxy].
WRITTEN = re.compile(r'("settings": \{.*?"properties": \{\n).*?(\n {6}\})', re.DOTALL)


def check(folder: Path, text: str) -> tuple[int, str]:
    """What `weir check` says about a file."""
    file = folder / "weir.toml"
    file.write_text(text)
    done = subprocess.run(
        [str(weir_binary()), "check", str(file)], capture_output=True, text=True, timeout=LIVENESS_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def known(folder: Path, text: str) -> list[str]:
    """The names that may stand where the file has one that may not."""
    status, said = check(folder, text)
    assert status == 2, said
    assert "unknown field `unknown`" in said, said
    return re.findall(r"`(\w+)`", said.partition("expected one of")[2])


def settings_of_proxy(folder: Path) -> dict[str, Any]:
    """Each setting with its form, but for those of the chart."""
    names = known(folder, f"[proxy]\nunknown = 1\n{POOL}")
    assert set(names) >= OF_THE_CHART
    return {name: form(folder, name) for name in names if name not in OF_THE_CHART}


def form(folder: Path, name: str) -> dict[str, str]:
    status, said = check(folder, f"[proxy]\n{name} = true\n{POOL}")
    if status == 0 or "means nothing without" in said:
        return FORMS["true or false"]
    found = re.search(rf"expected ({'|'.join(FORMS)})", said)
    assert found, said
    return FORMS[found[1]]


def write(folder: Path) -> Path:
    """Writes the settings into the schema."""
    file = CHART / "values.schema.json"
    rows = ",\n".join(f'        "{name}": {json.dumps(it)}' for name, it in settings_of_proxy(folder).items())
    text, count = WRITTEN.subn(lambda found: found[1] + rows + found[2], file.read_text(), count=1)
    assert count == 1, f"{file} has no settings"
    file.write_text(text)
    return file
