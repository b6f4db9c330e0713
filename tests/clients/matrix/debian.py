"""A package of another release of Debian than this machine's, fetched and unpacked, and not installed."""

from __future__ import annotations

from pathlib import Path

from .workshop import BUILD_LIMIT_S, Trouble, call

DEBIANS = ("Identifier: Packages", "Origin: Debian", "Label: Debian", "Component: main")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def fetch(package: str, release: str, folder: Path) -> None:
    """Puts `package` (NAME=VERSION) into the folder. apt gets lists of its own, and they come from where this machine's
    come from."""
    places = call(["apt-get", "indextargets", "--format", "$(REPO_URI)", *DEBIANS]).splitlines()
    if not places:
        raise Trouble(f"{package} is a package of Debian, and apt has no sources of Debian here")
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    source = folder / "debian.list"
    source.write_text(f"deb [signed-by={KEYS}] {places[0]} {release} main\n")
    own = [f"Dir::Etc::sourcelist={source}", "Dir::Etc::sourceparts=-", f"Dir::State::lists={lists}"]
    few = ["Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]
    options = [word for setting in (*own, f"Dir::Cache={folder}", *few) for word in ("-o", setting)]
    for command in (["update"], ["download", package]):
        call(["apt-get", "--quiet", *options, *command], folder=folder, limit_s=BUILD_LIMIT_S)


def unpack(package: Path, target: Path) -> None:
    call(["dpkg-deb", "--extract", package, target])
