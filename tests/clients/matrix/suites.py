"""The clients: how each is fetched and built from its lock file, and how its tests are run against an address.

`flows` are programs of this repository, one per client, that run the same catalogue; `own tests` are the client's own,
run from its published package and never kept here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import Address

from .results import Results, from_go, from_junit, from_lines
from .workshop import BUILD_LIMIT_S, SOURCES, WORKSHOP, Trouble, call, finished, fresh_folder, unchanged

GO_MODULE = "github.com/bradfitz/gomemcache"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
Words = list[str | Path]
PYTHON = WORKSHOP / "python-env" / "bin" / "python"


@dataclass(frozen=True)
class Suite:
    language: str
    client: str
    lock: str
    """The file below tests/clients, and ..."""
    pattern: str
    """... where in it the client's version stands."""
    what: str
    prepare: Callable[[], None]
    run: Callable[[Address], Results]
    intended: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what Weir says where it differs on purpose, and why it does."""
    run_secured: Callable[[Address, Mapping[str, str]], Results] | None = None
    """The same with TLS and a login, of a client that can: what it needs for that is in its environment."""

    def version(self) -> str:
        found = re.search(self.pattern, (SOURCES / self.lock).read_text(encoding="utf-8"))
        if found is None:
            raise Trouble(f"no version of {self.client} in tests/clients/{self.lock}")
        return found[1]


def prepare_go() -> None:
    call(["go", "build", "-o", WORKSHOP / "go" / "flows", "."], folder=SOURCES / "go", limit_s=BUILD_LIMIT_S)


def run_go(address: Address, environment: Mapping[str, str] | None = None) -> Results:
    return from_lines(call([WORKSHOP / "go" / "flows", address.host, str(address.port)], environment=environment))


def prepare_go_own() -> None:
    """The module's own test binary, which gets the address from the environment instead of a constant."""
    folder = fresh_folder("go-own")
    call(["go", "mod", "download"], folder=SOURCES / "go", limit_s=BUILD_LIMIT_S)
    module = Path(call(["go", "list", "-m", "-f", "{{.Dir}}", GO_MODULE], folder=SOURCES / "go").strip())
    shutil.copytree(module, folder / "module", copy_function=shutil.copyfile)
    tests = folder / "module" / "memcache" / "memcache_test.go"
    text = tests.read_text(encoding="utf-8")
    constant = 'const localhostTCPAddr = "localhost:11211"'
    if constant not in text:
        raise Trouble(f"{tests} has no address to replace; see what this version calls it")
    tests.write_text(text.replace(constant, 'var localhostTCPAddr = os.Getenv("MEMCACHED_ADDRESS")'))
    command: Words = ["go", "test", "-c", "-o", folder / "tests", "./memcache"]
    call(command, folder=folder / "module", limit_s=BUILD_LIMIT_S)


def run_go_own(address: Address) -> Results:
    command: Words = [WORKSHOP / "go-own" / "tests", "-test.v", "-test.run", "^TestLocalhost$"]
    return from_go(call(command, environment={"MEMCACHED_ADDRESS": str(address)}, may_fail=True))


def prepare_java() -> None:
    jars, sums = WORKSHOP / "java" / "jars", SOURCES / "java" / "jars.sha256"
    if not matches(sums, jars):
        fresh_folder("java")
        call(
            ["mvn", "-q", "-B", "-f", SOURCES / "java" / "pom.xml", MAVEN_COPY, f"-DoutputDirectory={jars}"],
            limit_s=BUILD_LIMIT_S,
        )
        if not matches(sums, jars):
            raise Trouble(f"{jars} does not hold what tests/clients/java/jars.sha256 lists")
    classes = fresh_folder("java/classes")
    sources = sorted((SOURCES / "java").glob("*.java"))
    call(["javac", "-Xlint:all", "-Werror", "-cp", f"{jars}/*", "-d", classes, *sources], limit_s=BUILD_LIMIT_S)


def matches(sums: Path, folder: Path) -> bool:
    wanted = {name: digest for digest, name in (line.split() for line in sums.read_text().splitlines())}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*")}
    return found == wanted


def run_java(program: str) -> Callable[[Address], Results]:
    java = WORKSHOP / "java"
    classpath = f"{java / 'jars'}/*:{java / 'classes'}"
    return lambda address: from_lines(call(["java", "-cp", classpath, program, address.host, str(address.port)]))


def prepare_node() -> None:
    sources = [SOURCES / "node" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    if not unchanged("node", *sources):
        folder = fresh_folder("node")
        for source in sources:
            shutil.copy(source, folder)
        call(["npm", "ci", "--silent", "--ignore-scripts"], folder=folder, limit_s=BUILD_LIMIT_S)
        finished("node", *sources)
    shutil.copy(SOURCES / "node" / "flows.js", WORKSHOP / "node")


def run_node(address: Address) -> Results:
    return from_lines(call(["node", WORKSHOP / "node" / "flows.js", address.host, str(address.port)]))


def prepare_rust() -> None:
    manifest = SOURCES / "rust" / "Cargo.toml"
    command: Words = [
        "cargo",
        "build",
        "--quiet",
        "--locked",
        "--manifest-path",
        manifest,
        "--target-dir",
        WORKSHOP / "rust",
    ]
    call(command, limit_s=BUILD_LIMIT_S)


def run_rust(address: Address) -> Results:
    return from_lines(call([WORKSHOP / "rust" / "debug" / "weir-client-flows", address.host, str(address.port)]))


def prepare_python() -> None:
    locks = [SOURCES / "python" / name for name in ("requirements.txt", "sdists.txt")]
    if unchanged("python-env", *locks):
        return
    environment = fresh_folder("python-env")
    call([sys.executable, "-m", "venv", environment], limit_s=BUILD_LIMIT_S)
    pip: Words = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    call([*pip, "install", "--require-hashes", "-r", locks[0]], limit_s=BUILD_LIMIT_S)
    archives = fresh_folder("python-sources")
    options = ["--no-deps", "--no-binary", ":all:", "--require-hashes"]
    call([*pip, "download", *options, "-d", archives, "-r", locks[1]], limit_s=BUILD_LIMIT_S)
    for archive in sorted(archives.glob("*.tar.gz")):
        with tarfile.open(archive) as opened:
            opened.extractall(archives, filter="data")
    finished("python-env", *locks)


def run_pylibmc(address: Address) -> Results:
    return from_lines(call([PYTHON, SOURCES / "python" / "pylibmc_flows.py", address.host, str(address.port)]))


def run_meta_memcache(address: Address) -> Results:
    program = SOURCES / "python" / "meta_memcache_flows.py"
    return from_lines(
        call([PYTHON, program, address.host, str(address.port)]), more=("binary keys", "stale items", "leases")
    )


def run_pylibmc_own(address: Address) -> Results:
    # test_autoconf asks 127.0.0.1:11211 whatever it is given, for a command that memcached does not have.
    arguments = ["--ignore=tests/test_autoconf.py", "-p", "text_protocol", "tests"]
    plugins = str(SOURCES / "python")
    environment = {"MEMCACHED_HOST": address.host, "MEMCACHED_PORT": str(address.port), "PYTHONPATH": plugins}
    return run_pytest("pylibmc", arguments, environment)


def run_pymemcache_own(address: Address) -> Results:
    options = ["-m", "integration", "--server", address.host, "--port", str(address.port)]
    return run_pytest("pymemcache", [*options, "pymemcache/test/test_integration.py"], {})


def run_pytest(client: str, arguments: list[str], environment: dict[str, str]) -> Results:
    [folder] = (path for path in (WORKSHOP / "python-sources").glob(f"{client}-*") if path.is_dir())
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports) / "junit.xml"
        quiet = ["-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-W", "ignore"]
        command: Words = [PYTHON, "-m", "pytest", *quiet, f"--rootdir={folder}", f"--junitxml={report}", *arguments]
        output = call(command, folder=folder, environment=environment, may_fail=True)
        if not report.is_file():
            raise Trouble(f"the tests of {client} did not start:\n{output}")
        return from_junit(report.read_text(encoding="utf-8"))


GO_VERSION = r"gomemcache (\S+)"
SUITES = (
    Suite("go", "gomemcache", "go/go.mod", GO_VERSION, "flows", prepare_go, run_go, run_secured=run_go),
    Suite("go", "gomemcache", "go/go.mod", GO_VERSION, "own tests", prepare_go_own, run_go_own),
    Suite("java", "spymemcached", "java/jars.sha256", r"spymemcached-(.+)\.jar", "flows", prepare_java,
          run_java("SpyFlows")),
    Suite("java", "xmemcached", "java/jars.sha256", r"xmemcached-(.+)\.jar", "flows", prepare_java, run_java("XFlows")),
    Suite("node", "memcached (npm)", "node/package.json", r'"memcached": "(.+)"', "flows", prepare_node, run_node),
    Suite("rust", "memcache (crate)", "rust/Cargo.toml", r'version = "=(.+?)"', "flows", prepare_rust, run_rust),
    Suite("python", "pylibmc", "python/sdists.txt", r"pylibmc==(\S+)", "flows", prepare_python, run_pylibmc),
    Suite("python", "pylibmc", "python/sdists.txt", r"pylibmc==(\S+)", "own tests", prepare_python, run_pylibmc_own),
    Suite("python", "meta-memcache", "python/requirements.txt", r"meta-memcache==(\S+)", "flows", prepare_python,
          run_meta_memcache),
    Suite("python", "pymemcache", "python/sdists.txt", r"pymemcache==(\S+)", "own tests", prepare_python,
          run_pymemcache_own,
          {"these statistics belong to one server": "statistics of one server are not summed (decision 3)"}),
)  # fmt: skip
LANGUAGES = tuple(dict.fromkeys(suite.language for suite in SUITES))
