"""Each package is made, put on an empty system by the commands of docs/operate/install.md, and used there.

Needs root, the network, and what `scripts/setup chroots` installs; only `make test-long` asks for that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from packing.tree import read_tree
from tests.harness.processes import LIVENESS_S, ROOT, Address, Memcached, Process, program
from tests.harness.wire import Wire

from .systems import System, apart, call, documented, new_system

pytestmark = [
    pytest.mark.long,
    # One worker has all: the packages and the fresh system are made once.
    pytest.mark.xdist_group("packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a system of its own needs root"),
]

TREE = read_tree(ROOT)
PACKING = Path(os.environ.get("WEIR_TOOLS", ROOT / ".tools")) / "packing/bin/python"
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "packing"
# In bytes: what a program and an image may have at most.
PROGRAM_MAX, IMAGE_MAX = 12_000_000, 15_000_000
USER = 65532
MEMCACHED = ["memcached -u memcache -l 127.0.0.1 -p 11211 &", "sleep 1"]
# What systemd does with the unit, but for what it forbids.
SERVICE = [
    "install -d -o weir -g weir /run/weir /var/lib/weir",
    "exec_start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/weir.service)",
    "setpriv --reuid weir --regid weir --init-groups $exec_start &",
]
WAIT = "for _ in $(seq 100); do weir top 127.0.0.1:21280 --once >/dev/null 2>&1 && break; sleep 0.1; done"
STORE = r"""exec 3<>/dev/tcp/127.0.0.1/21211
printf 'set k 0 0 5\r\nvalue\r\nget k\r\n' >&3
for _ in 1 2 3 4; do read -r line <&3; echo "${line%?}"; done"""
STORED = "STORED\nVALUE k 0 5\nvalue\nEND\n"


def make(root: Path, out: Path, build: Path, *options: str) -> None:
    given = os.environ | {"WEIR_COMMIT": TREE.commit.removesuffix("+changes"), "SOURCE_DATE_EPOCH": str(TREE.epoch)}
    given.pop("CARGO_TARGET_DIR", None)
    command = [str(PACKING), "-m", "packing", "--out", str(out), "--build", str(build), *options]
    done = subprocess.run(command, cwd=root, env=given, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All packages, made anew; cargo's folder stays for the next time. Or those of $WEIR_PACKAGES."""
    if given := os.environ.get("WEIR_PACKAGES"):
        yield Path(given).absolute()
        return
    if not PACKING.exists():
        pytest.fail("run scripts/setup chroots")
    out = tmp_path_factory.mktemp("packages")
    make(ROOT, out, BUILD)
    yield out
    shutil.rmtree(out)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fresh") / "system"
    new_system(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def system(fresh: Path, tmp_path: Path) -> Iterator[System]:
    copy = tmp_path / "system"
    call("cp", "--archive", fresh, copy)
    yield System(copy)
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(copy) in line]
    shutil.rmtree(copy)


def named(packages: Path, what: str) -> Path:
    """The one package whose name is like this."""
    [found] = packages.glob(what)
    return found


def test_the_program_is_static_small_and_stripped(packages: Path) -> None:
    for machine in ("amd64", "arm64"):
        weir = named(packages, f"weir-*-linux-{machine}")
        assert weir.stat().st_size <= PROGRAM_MAX
        shown = call("readelf", "--wide", "--program-headers", "--dynamic", "--sections", weir)
        assert "INTERP" not in shown
        assert "NEEDED" not in shown
        assert ".symtab" not in shown
        assert ".debug" not in shown


def test_the_checksums_are_those_of_all_files(packages: Path) -> None:
    lines = (packages / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(sums) == {path.name for path in packages.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((packages / name).read_bytes()).hexdigest() == digest


def test_the_page_names_packages_that_are_made(packages: Path) -> None:
    page = (ROOT / "docs/operate/install.md").read_text()
    wanted = set(re.findall(r"\bweir(?:_lab)?[-_]\d[\w.-]*(?:amd64|\.deb|\.whl|\.tar)\b", page))
    assert len(wanted) >= 4
    assert wanted <= {path.name for path in packages.iterdir()}


def test_another_build_elsewhere_is_the_same(packages: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "somewhere" / "else"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, elsewhere / name)
    make(elsewhere, elsewhere / "out", elsewhere / "build", "--machine", "amd64")
    made = {path.name: path.read_bytes() for path in (elsewhere / "out").iterdir() if path.name != "SHA256SUMS"}
    assert len(made) == 6
    assert [name for name, content in made.items() if (packages / name).read_bytes() != content] == []
    make(ROOT, tmp_path / "programs", BUILD, "--programs")
    make(elsewhere, elsewhere / "programs", elsewhere / "build", "--programs")
    for name in ("weir", "weir-delay"):
        assert (tmp_path / "programs" / name).read_bytes() == (elsewhere / "programs" / name).read_bytes()
    assert (tmp_path / "programs/weir").read_bytes() == named(packages, "weir-*-linux-amd64").read_bytes()
    shutil.rmtree(elsewhere)


def test_lintian_finds_nothing(packages: Path, system: System) -> None:
    system.put(*packages.glob("*.deb"))
    system.fetch("apt-get update", "apt-get install lintian")
    found = system.use("lintian --allow-root --tag-display-limit 0 weir_*.deb || true")
    assert found == ""


def test_the_image_runs_read_only_without_root(packages: Path, tmp_path: Path, stack: ExitStack) -> None:
    archive = named(packages, "*-amd64.oci.tar")
    assert archive.stat().st_size <= IMAGE_MAX
    call("skopeo", "copy", f"oci-archive:{archive}", f"oci:{tmp_path}/layout:weir")
    call("umoci", "unpack", "--image", f"{tmp_path}/layout:weir", tmp_path / "bundle")
    config = json.loads((tmp_path / "bundle/config.json").read_text())
    assert config["process"]["args"] == ["/usr/bin/weir"]
    assert (config["process"]["user"]["uid"], config["process"]["user"]["gid"]) == (USER, USER)
    files = [path for path in (tmp_path / "bundle/rootfs").rglob("*") if path.is_file()]
    assert [str(path.relative_to(tmp_path / "bundle/rootfs")) for path in files] == ["usr/bin/weir"]
    memcached = stack.enter_context(Memcached())
    memcached.wait_ready(memcached.address)
    listen, root = Address.free(), tmp_path / "bundle/rootfs"
    serve = f"/usr/bin/weir proxy --listen {listen} --server {memcached.address}"
    read_only = f"mount --bind {root} {root} && mount -o remount,ro,bind {root}"
    inside = f"{read_only} && exec chroot --userspec={USER}:{USER} {root} {serve}"
    proxy = stack.enter_context(
        Process(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", inside])
    )
    stack.callback(kill_children, proxy)
    proxy.wait_ready(listen)
    assert_serves(listen)


def kill_children(process: Process) -> None:
    """Who becomes another user outlives its parent: the kernel forgets then that it should not."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)


def test_docker_reads_the_image_too(packages: Path, tmp_path: Path) -> None:
    archive = named(packages, "*-amd64.oci.tar")
    shown = json.loads(call("skopeo", "inspect", "--config", f"docker-archive:{archive}"))
    assert shown["architecture"] == "amd64"
    assert shown["config"]["Entrypoint"] == ["/usr/bin/weir"]


def test_the_program_for_arm64_serves(packages: Path, stack: ExitStack) -> None:
    memcached = stack.enter_context(Memcached())
    memcached.wait_ready(memcached.address)
    listen = Address.free()
    weir = [program("qemu-aarch64-static"), str(named(packages, "weir-*-linux-arm64"))]
    assert TREE.version in call(*weir, "--version")
    proxy = stack.enter_context(
        Process([*weir, "proxy", "--listen", str(listen), "--server", str(memcached.address), "--threads", "1"])
    )
    proxy.wait_ready(listen)
    assert_serves(listen)


def assert_serves(address: Address) -> None:
    with Wire(address) as wire:
        wire.store(b"key", b"value")
        assert wire.get(b"key") == [(b"key", b"value")]


def test_the_debian_package_goes_from_nothing_to_the_demo(packages: Path, system: System) -> None:
    system.put(named(packages, "*_amd64.deb"), named(packages, "*_x86_64.whl"))
    installing, using = apart(documented("Debian and Ubuntu"))
    assert using[0].startswith("systemctl status")
    system.fetch("apt-get update", *installing)
    said = system.use(*MEMCACHED, *SERVICE, WAIT, STORE, f"{using[1]} --once")
    assert said.startswith(STORED)
    assert "weir top 127.0.0.1:21280" in said
    the_demo_ends_with_a_page(system, "--bin /usr/bin/weir")
    # What was changed in /etc stays, and all else goes.
    system.fetch("echo '# mine' >> /etc/weir/weir.toml", "apt-get --yes remove weir", "test ! -e /usr/bin/weir")
    system.fetch("grep -qx '# mine' /etc/weir/weir.toml", "apt-get --yes purge weir", "test ! -e /etc/weir/weir.toml")


def test_the_program_goes_from_nothing_to_the_demo(packages: Path, system: System) -> None:
    system.put(named(packages, "weir-*-linux-amd64"), named(packages, "*_x86_64.whl"))
    install, serve, look = documented("One file")
    system.fetch("apt-get update", "apt-get install memcached")
    said = system.use(*MEMCACHED, install, f"{serve} &", WAIT, STORE, f"{look} --once")
    assert said.startswith(STORED)
    assert "weir top 127.0.0.1:21280" in said
    _, *texts = documented("Put it in place")
    placed = [line.split()[-1] for line in texts]
    assert len(placed) == 2
    system.use(*texts, *(f"test -s {path}" for path in placed))
    the_demo_ends_with_a_page(system, "--bin /usr/local/bin/weir")


def test_the_wheel_goes_from_nothing_to_the_demo(packages: Path, system: System) -> None:
    system.put(named(packages, "*_x86_64.whl"))
    system.fetch("apt-get update")
    the_demo_ends_with_a_page(system, "")
    serve = "weir proxy --server 127.0.0.1:11211 --admin 127.0.0.1:21280"
    assert serve in (ROOT / "docs/operate/install.md").read_text()
    look = "weir top 127.0.0.1:21280 --once"
    said = system.use(*MEMCACHED, ". weir-lab/bin/activate", f"{serve} &", WAIT, STORE, look)
    assert said.startswith(STORED)


def the_demo_ends_with_a_page(system: System, options: str) -> None:
    """By the commands of the page. What runs of a machine this busy have no valid attempt is another question."""
    *installing, run = documented("The laboratory")
    assert run == "weir-lab run demo"
    system.fetch(*installing)
    said = system.use(". weir-lab/bin/activate", f"{run} {options}")
    assert said.splitlines()[-1] == "runs/demo/report.html"
    assert "<html" in (system.folder / "root/runs/demo/report.html").read_text()


def test_names_are_looked_up_without_a_library_of_the_machine(packages: Path, system: System) -> None:
    """Whoever opens the library that is named there waits for ever: it is a pipe into which nobody writes."""
    system.put(named(packages, "weir-*-linux-amd64"))
    said = system.use(
        "mkfifo /lib/x86_64-linux-gnu/libnss_waiting.so.2",
        "echo 'hosts: waiting files' >/etc/nsswitch.conf",
        "echo '127.0.0.1 cache.internal' >>/etc/hosts",
        "! timeout 2 getent hosts cache.internal",
        "printf '[pools.main]\\nservers = [\"cache.internal:11211\"]\\n' >weir.toml",
        f"timeout {LIVENESS_S} ./weir-*-linux-amd64 check --resolve weir.toml",
    )
    assert said.startswith("main: 1 server")
