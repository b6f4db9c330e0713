"""What goes into packages, seen with the program that `make build` left: no compiler, no network, some seconds.

The packages themselves are installed and used in `test_used.py`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packing.__main__ import make_programs
from packing.archives import Entry, gzipped, tar
from packing.contents import Crate, cyclonedx, licences, linked_crates
from packing.debian import debian_package
from packing.image import USER, image
from packing.programs import look_for_paths
from packing.tree import MACHINES, PackingError, Tree, read_tree, version_of
from tests.harness.processes import LIVENESS_S, ROOT, weir_binary

from .systems import INSTALL, documented

# One worker: what is packed once is looked at by many tests.
pytestmark = pytest.mark.xdist_group("packing")

AMD64 = MACHINES["amd64"]


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=LIVENESS_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree() -> Tree:
    return read_tree(ROOT)


@pytest.fixture(scope="module")
def crates(tree: Tree) -> list[Crate]:
    return linked_crates(tree, AMD64)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed in place of weir: what is small is packed soon."""
    made = tmp_path_factory.mktemp("program") / "weir"
    made.write_bytes(b"a program\n" * 1000)
    return made


@pytest.fixture(scope="module")
def package(tree: Tree, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return debian_package(tree, AMD64, program, weir_binary(), b"licences", b"bill", tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def installed(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the Debian package, as they are installed, and its control data in DEBIAN."""
    folder = tmp_path_factory.mktemp("installed")
    run("dpkg-deb", "--raw-extract", package, folder)
    return folder


def test_the_debian_package_has_all_of_the_service(installed: Path) -> None:
    places = {
        ".service": "usr/lib/systemd/system/{}.service",
        ".socket": "usr/lib/systemd/system/{}.socket",
        ".sysusers": "usr/lib/sysusers.d/{}.conf",
        ".default": "etc/default/{}",
    }
    sources = sorted((ROOT / "deploy" / "systemd").iterdir())
    assert len(sources) >= 3
    for source in sources:
        place = installed / places[source.suffix].format(source.stem)
        assert place.read_bytes() == source.read_bytes()


def test_the_debian_package_has_a_page_of_every_command_and_completions(installed: Path) -> None:
    commands = {"", "proxy", "load", "top", "where", "check", "convert", "man", "completions"}
    pages = {path.name for path in (installed / "usr/share/man/man1").iterdir()}
    assert pages == {f"weir-{name}.1.gz" if name else "weir.1.gz" for name in commands}
    for place in (
        "bash-completion/completions/weir",
        "zsh/vendor-completions/_weir",
        "fish/vendor_completions.d/weir.fish",
    ):
        assert b"proxy" in (installed / "usr/share" / place).read_bytes()


def test_the_debian_package_has_the_alerts_with_their_tests_where_the_page_says(installed: Path) -> None:
    examples = "/usr/share/doc/weir/examples"
    sources = sorted((ROOT / "deploy" / "prometheus").iterdir())
    assert len(sources) >= 2
    for source in sources:
        assert (installed / examples[1:] / source.name).read_bytes() == source.read_bytes()
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    assert examples in page
    assert (installed / examples[1:] / "weir.dashboard.json").exists()
    assert "weir.dashboard.json" in page


def test_what_the_page_puts_in_place_it_removes() -> None:
    placing = re.findall(r"install (?:-D )?-m \d+ \S+ (/\S+)", INSTALL.read_text())
    assert len(placing) >= 7
    removed = " ".join(documented("Remove it")).split()
    assert [path for path in placing if path not in removed] == []


def test_an_upgrade_keeps_what_was_written_into_etc(installed: Path) -> None:
    listed = (installed / "DEBIAN/conffiles").read_text().splitlines()
    assert sorted(listed) == sorted(
        f"/{path.relative_to(installed)}" for path in installed.glob("etc/**/*") if path.is_file()
    )
    assert "/etc/weir/weir.toml" in listed


def test_the_configuration_that_is_installed_is_sound(installed: Path) -> None:
    assert run(weir_binary(), "check", installed / "etc/weir/weir.toml").startswith("main: 1 server")


def test_every_file_of_the_debian_package_has_its_checksum(installed: Path) -> None:
    lines = (installed / "DEBIAN/md5sums").read_text().splitlines()
    named = {path: digest for digest, path in (line.split("  ") for line in lines)}
    there = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert set(named) == {path for path in there if not path.startswith(("DEBIAN/", "etc/"))}
    for path, digest in named.items():
        assert hashlib.md5((installed / path).read_bytes(), usedforsecurity=False).hexdigest() == digest


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_a_script_of_the_debian_package_is_a_script(installed: Path, script: str) -> None:
    run("sh", "-n", installed / "DEBIAN" / script)


def test_what_is_packed_twice_is_the_same(tree: Tree, program: Path, package: Path, tmp_path: Path) -> None:
    again = debian_package(tree, AMD64, program, weir_binary(), b"licences", b"bill", tmp_path)
    assert again.read_bytes() == package.read_bytes()
    first = image(tree, AMD64, program, tmp_path).read_bytes()
    assert image(tree, AMD64, program, tmp_path).read_bytes() == first


def test_an_archive_does_not_depend_on_the_order_of_its_files() -> None:
    files = {"b/two": Entry(b"2"), "a": Entry(b"1", 0o755), "b/c/three": Entry(b"3")}
    packed = tar(files, 1_700_000_000)
    assert packed == tar(dict(reversed(files.items())), 1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(gzipped(packed))) as archive:
        assert [(member.name, member.mode, member.mtime) for member in archive] == [
            ("a", 0o755, 1_700_000_000),
            ("b", 0o755, 1_700_000_000),
            ("b/c", 0o755, 1_700_000_000),
            ("b/c/three", 0o644, 1_700_000_000),
            ("b/two", 0o644, 1_700_000_000),
        ]


def test_the_image_is_the_program_and_nothing_else(tree: Tree, program: Path, tmp_path: Path) -> None:
    with tarfile.open(image(tree, AMD64, program, tmp_path)) as archive:

        def content(path: str) -> bytes:
            file = archive.extractfile(path)
            assert file is not None
            return file.read()

        def described(what: dict[str, Any]) -> bytes:
            kind, _, digest = what["digest"].partition(":")
            found = content(f"blobs/{kind}/{digest}")
            assert hashlib.sha256(found).hexdigest() == digest
            assert len(found) == what["size"]
            return found

        assert json.loads(content("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        [listed] = json.loads(content("index.json"))["manifests"]
        manifest = json.loads(described(listed))
        config = json.loads(described(manifest["config"]))
        [packed] = map(described, manifest["layers"])
        [docker] = json.loads(content("manifest.json"))
        assert content(docker["Config"]) == described(manifest["config"])
        assert [content(path) for path in docker["Layers"]] == [packed]
    with tarfile.open(fileobj=io.BytesIO(packed)) as layer:
        assert [member.name for member in layer] == ["usr", "usr/bin", "usr/bin/weir"]
        packed_program = layer.extractfile("usr/bin/weir")
        assert packed_program is not None
        assert packed_program.read() == program.read_bytes()
    assert config["config"]["User"] == USER
    assert config["config"]["Entrypoint"] == ["/usr/bin/weir"]


def test_the_image_runs_as_the_chart_has_it() -> None:
    chart = (ROOT / "deploy/helm/weir/values.yaml").read_text()
    found = re.search(r"runAsUser: (\d+)\n\s+runAsGroup: (\d+)", chart)
    assert found
    assert f"{found[1]}:{found[2]}" == USER


def test_the_bill_has_what_is_linked_and_not_what_tests_need(tree: Tree, crates: list[Crate]) -> None:
    bill = json.loads(cyclonedx(tree, AMD64, crates, b"program"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    names = {component["name"] for component in bill["components"]}
    assert {"mio", "weir-proxy", "weir-protocol", "rust-std", "glibc"} <= names
    assert not names & {"proptest", "weir-testkit", "criterion", "serde_derive"}
    for component in bill["components"]:
        assert component["licenses"][0]["expression"] != "NOASSERTION"
        ours = component["name"].startswith("weir-") or component["name"] in ("rust-std", "glibc")
        assert ("hashes" in component) != ours, component["name"]
    references = {component["bom-ref"] for component in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert all(row["ref"] in references and set(row["dependsOn"]) <= references for row in bill["dependencies"])
    assert bill["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(b"program").hexdigest()


def test_every_crate_of_others_comes_with_its_licence(crates: list[Crate]) -> None:
    text = licences(crates).decode()
    others = [crate for crate in crates if crate.checksum is not None]
    assert len(others) > 50
    assert [crate.name for crate in others if f"{crate.name} {crate.version} (" not in text] == []


def test_a_path_of_the_builder_in_a_program_is_noticed(tree: Tree, tmp_path: Path) -> None:
    program = tmp_path / "weir"
    program.write_bytes(b"\x7fELF thread panicked at " + str(ROOT).encode() + b"/crates/weir/src/main.rs")
    with pytest.raises(PackingError, match="has the path"):
        look_for_paths(program, tree)


def test_programs_and_laboratory_have_one_version(tmp_path: Path) -> None:
    (tmp_path / "lab/src/weir_lab").mkdir(parents=True)
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    head = tmp_path / "lab/src/weir_lab/__init__.py"
    head.write_text('__version__ = "1.2.3"\n')
    assert version_of(tmp_path) == "1.2.3"
    head.write_text('__version__ = "1.2.4"\n')
    with pytest.raises(PackingError, match="make them equal"):
        version_of(tmp_path)
    assert version_of(ROOT) == tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def test_the_setup_fetches_the_library_of_every_machine() -> None:
    setup = (ROOT / "scripts/setup").read_text()
    found = re.search(r"for triple in (.+); do", setup)
    assert found
    assert set(found[1].split()) == {machine.triple for machine in MACHINES.values()}


def test_programs_for_experiments_need_a_tree_without_changes(tree: Tree, tmp_path: Path) -> None:
    changed = replace(tree, commit="0123456789ab+changes")
    with pytest.raises(PackingError, match="has changes"):
        make_programs(changed, tmp_path / "out", tmp_path / "build")
    assert not (tmp_path / "out").exists()
