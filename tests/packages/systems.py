"""Systems of their own: a fresh Debian in a folder, in which commands of the docs run as they are printed.

Commands run in namespaces of their own, so that nothing that they start outlives them. What fetches packages runs in
the network of this machine; everything else in one that has a loopback interface and nothing else.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.harness.processes import ROOT

SUITE = "bookworm"
INSTALL = ROOT / "docs" / "operate" / "install.md"
# debootstrap, pip with numpy and scipy, a study: each takes minutes where the machine is busy.
LIMIT_S = 1200.0

# Certificates and settings of this machine by which apt and pip reach their registries.
NETWORK = ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt", "etc/pip.conf")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Nothing is started by being installed: no init runs in there.
POLICY = "usr/sbin/policy-rc.d"
FETCHES = re.compile(r"^(sudo )?(apt-get|pip|python3 -m venv|\. \S+/activate|install) ?")


def documented(heading: str) -> list[str]:
    """The commands of the first block under a heading of the page about installing."""
    found = re.search(rf"^## {re.escape(heading)}\n(?:.*\n)*?```\n((?:.*\n)*?)```$", INSTALL.read_text(), re.MULTILINE)
    assert found, f"{INSTALL} has no block under {heading}"
    return [line.partition("  #")[0].strip() for line in found[1].splitlines()]


def new_system(folder: Path) -> None:
    """Debian with what its installer calls essential, and nothing else."""
    call("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, folder)
    for name in NETWORK:
        if (source := Path("/") / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    place(folder / POLICY, "#!/bin/sh\nexit 101\n")
    # Who reads the page is a user who may use sudo; in there everybody is root.
    place(folder / "usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n')


def place(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def call(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True)
class System:
    """A copy of the fresh system, for one test."""

    folder: Path

    def put(self, *packages: Path) -> None:
        """Packages where the commands run."""
        for package in packages:
            shutil.copy(package, self.folder / "root" / package.name)

    def fetch(self, *lines: str) -> str:
        """Runs commands that install something."""
        return self._run(["export DEBIAN_FRONTEND=noninteractive", *map(unattended, lines)], online=True)

    def use(self, *lines: str) -> str:
        """Runs commands, one after the other. Those that end in & go on until the last has ended."""
        return self._run(list(lines), online=False)

    def _run(self, lines: list[str], *, online: bool) -> str:
        inside = "\n".join(["cd /root", f"export HOME=/root PATH={PATH}", *lines])
        folder = shlex.quote(str(self.folder))
        around = [
            f"mount --bind {folder} {folder}",
            f"mount -t proc proc {folder}/proc",
            f"mount --rbind /dev {folder}/dev",
            f"mount -t tmpfs tmpfs {folder}/tmp",
            *([] if online else ["ip link set lo up"]),
            f"exec chroot {folder} /bin/bash -euo pipefail -c {shlex.quote(inside)}",
        ]
        own = ["--mount", "--uts", "--ipc", "--pid", *([] if online else ["--net"])]
        return call("unshare", *own, "--fork", "--kill-child", "bash", "-euc", "\n".join(around))


def unattended(line: str) -> str:
    """apt-get asks before it installs."""
    return line.replace("apt-get install", "apt-get --yes --quiet install --no-install-recommends")


def apart(lines: list[str]) -> tuple[list[str], list[str]]:
    """Commands that install, and those that use what was installed."""
    installing = [line for line in lines if FETCHES.match(line)]
    return installing, [line for line in lines if line not in installing]
