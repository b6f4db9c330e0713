"""The Debian package: a tree of files, and control data, which dpkg-deb packs.

Everything in deploy/systemd comes along: units, the user of the service, its variables. Maintainer scripts are those
that debhelper writes for such a service.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from packing.archives import Entry, gzipped
from packing.tree import Machine, PackingError, Tree, call

TEXTS = Path(__file__).resolve().parent / "deb"
MAINTAINER = "Weir maintainers <maintainers@weir.invalid>"
# Raised when the same version is packed anew.
REVISION = 1
# Alerts for Prometheus, and what promtool tests them with.
RULES = ("weir.rules.yml", "weir.rules.test.yml")
UNITS = (".service", ".socket", ".target", ".path", ".timer")
SHELLS = {
    "bash": "usr/share/bash-completion/completions/weir",
    "zsh": "usr/share/zsh/vendor-completions/_weir",
    "fish": "usr/share/fish/vendor_completions.d/weir.fish",
}


def debian_package(
    tree: Tree, machine: Machine, weir: Path, printed: Path, licences: bytes, bill: bytes, out: Path
) -> Path:
    """Writes the package into a folder. `printed` is a weir that runs here: it prints man pages and completions."""
    version = f"{tree.version}-{REVISION}"
    made = out / f"weir_{version}_{machine.name}.deb"
    stage = out / f".{made.name}"
    shutil.rmtree(stage, ignore_errors=True)
    files = _files(tree, version, weir, printed, licences, bill)
    for path, entry in {**files, **_control(machine, version, files)}.items():
        place = stage / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(entry.content)
        place.chmod(entry.mode)
    for folder in (stage, *(path for path in stage.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    made.unlink(missing_ok=True)
    dated = os.environ | {"SOURCE_DATE_EPOCH": str(tree.epoch)}
    call(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, made], tree.root, dated)
    shutil.rmtree(stage)
    return made


def _files(tree: Tree, version: str, weir: Path, printed: Path, licences: bytes, bill: bytes) -> dict[str, Entry]:
    """What is installed, by its path without the first slash."""
    documents = "usr/share/doc/weir"
    deploy = tree.root / "deploy"
    files = {
        "usr/bin/weir": Entry(weir.read_bytes(), 0o755),
        "etc/weir/weir.toml": Entry((TEXTS / "weir.toml").read_bytes()),
        "usr/share/lintian/overrides/weir": Entry((TEXTS / "lintian-overrides").read_bytes()),
        f"{documents}/copyright": Entry((TEXTS / "copyright").read_bytes()),
        f"{documents}/third-party-licences.gz": Entry(gzipped(licences)),
        f"{documents}/weir.cdx.json.gz": Entry(gzipped(bill)),
        f"{documents}/changelog.gz": Entry(gzipped((tree.root / "CHANGELOG.md").read_bytes())),
        f"{documents}/changelog.Debian.gz": Entry(gzipped(_changelog(tree, version))),
        **{f"{documents}/examples/{rules}": Entry((deploy / "prometheus" / rules).read_bytes()) for rules in RULES},
        f"{documents}/examples/weir.dashboard.json": Entry((deploy / "grafana/weir.json").read_bytes()),
    }
    for source in sorted((deploy / "systemd").iterdir()):
        files[_place(source)] = Entry(source.read_bytes())
    for command in ["", *_commands(printed)]:
        name = f"weir-{command}" if command else "weir"
        files[f"usr/share/man/man1/{name}.1.gz"] = Entry(gzipped(_says(printed, "man", *filter(None, [command]))))
    for shell, place in SHELLS.items():
        files[place] = Entry(_says(printed, "completions", shell))
    return files


def _place(source: Path) -> str:
    """Where a file of deploy/systemd is installed, by how its name ends."""
    if source.suffix in UNITS:
        return f"usr/lib/systemd/system/{source.name}"
    if source.suffix == ".sysusers":
        return f"usr/lib/sysusers.d/{source.stem}.conf"
    if source.suffix == ".default":
        return f"etc/default/{source.stem}"
    raise PackingError(f"{source.name}: packing/debian.py does not know where this belongs")


def _control(machine: Machine, version: str, files: dict[str, Entry]) -> dict[str, Entry]:
    """The folder DEBIAN."""
    text = (TEXTS / "control").read_text(encoding="utf-8")
    filled = text.format(
        version=version,
        machine=machine.name,
        maintainer=MAINTAINER,
        kibibytes=sum(-(-len(entry.content) // 1024) for entry in files.values()),
    )
    settings = [path for path in sorted(files) if path.startswith("etc/")]
    digests = "".join(
        f"{_md5(entry.content)}  {path}\n" for path, entry in sorted(files.items()) if path not in settings
    )
    control = {
        "control": Entry(filled.encode()),
        "conffiles": Entry("".join(f"/{path}\n" for path in settings).encode()),
        "md5sums": Entry(digests.encode()),
    }
    for script in ("postinst", "prerm", "postrm"):
        control[script] = Entry((TEXTS / script).read_bytes(), 0o755)
    return {f"DEBIAN/{name}": entry for name, entry in control.items()}


def _commands(weir: Path) -> list[str]:
    """The commands that help lists."""
    shown = re.search(r"^Commands:\n((?:  .*\n)+)", _says(weir, "--help").decode(), re.MULTILINE)
    if shown is None:
        raise PackingError(f"{weir} --help lists no commands")
    names = re.findall(r"^  (\S+)", shown[1], re.MULTILINE)
    return [name for name in names if name != "help"]


def _says(weir: Path, *words: str) -> bytes:
    done = subprocess.run([weir, *words], capture_output=True, check=False, timeout=60)
    if done.returncode != 0:
        raise PackingError(f"{weir} {' '.join(words)}: status {done.returncode}: {done.stderr.decode().strip()}")
    return done.stdout


def _changelog(tree: Tree, version: str) -> bytes:
    """In Debian's form. What has changed says CHANGELOG.md, which is packed beside it."""
    dated = format_datetime(datetime.fromtimestamp(tree.epoch, UTC))
    lines = [
        f"weir ({version}) unstable; urgency=medium",
        "",
        f"  * Weir {tree.version}, commit {tree.commit}. changelog.gz says what has changed.",
        "",
        f" -- {MAINTAINER}  {dated}",
        "",
    ]
    return "\n".join(lines).encode()


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
