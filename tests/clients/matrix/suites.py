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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import debian
from .results import Results, from_go, from_junit, from_lines
from .subjects import CERTIFICATE, PASSWORD, SECURED, Started, Subject
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
    run: Callable[[Started], Results]
    intended: Mapping[str, str] = field(default_factory=dict)
    """Where it differs on purpose, as patterns of `SUBJECT: TEST: what Weir says`, and why it does."""
    secured: tuple[Subject, ...] = ()
    """Where it runs besides, because it can log in that way."""

    def version(self) -> str:
        found = re.search(self.pattern, (SOURCES / self.lock).read_text(encoding="utf-8"))
        if found is None:
            raise Trouble(f"no version of {self.client} in tests/clients/{self.lock}")
        return found[1]


def flows(at: Started, *command: str | Path, more: Sequence[str] = ()) -> Results:
    """Runs a program of flows."""
    words: Words = [*command, at.address.host, str(at.address.port)]
    return from_lines(call(words, environment=at.environment), more)


def prepare_go() -> None:
    call(["go", "build", "-o", WORKSHOP / "go" / "flows", "."], folder=SOURCES / "go", limit_s=BUILD_LIMIT_S)


def run_go(at: Started) -> Results:
    return flows(at, WORKSHOP / "go" / "flows")


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


def run_go_own(at: Started) -> Results:
    command: Words = [WORKSHOP / "go-own" / "tests", "-test.v", "-test.run", "^TestLocalhost$"]
    return from_go(call(command, environment={"MEMCACHED_ADDRESS": str(at.address)}, may_fail=True))


@dataclass(frozen=True)
class JavaProgram:
    client: str
    """The name of its jar. Two of the clients have classes of the same names."""
    sources: tuple[str, ...]


JAVA = {
    "SpyFlows": JavaProgram("spymemcached", ("Flows", "SpyFlows")),
    "XFlows": JavaProgram("xmemcached", ("Flows", "XFlows")),
    "ElastiCacheFlows": JavaProgram("elasticache-java-cluster-client", ("Flows", "SpyFlows", "ElastiCacheFlows")),
}


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
    for name, program in JAVA.items():
        classes, sources = fresh_folder(f"java/{name}"), [SOURCES / "java" / f"{file}.java" for file in program.sources]
        options: Words = ["-Xlint:all", "-Werror", "-cp", java_jars(program), "-d", classes]
        call(["javac", *options, *sources], limit_s=BUILD_LIMIT_S)


def java_jars(program: JavaProgram) -> str:
    """The client's jar, and what it logs by."""
    jars = sorted((WORKSHOP / "java" / "jars").glob("*.jar"))
    return ":".join(str(jar) for jar in jars if jar.name.rpartition("-")[0] in (program.client, "slf4j-api"))


def matches(sums: Path, folder: Path) -> bool:
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*")}
    return found == listed(sums)


def listed(sums: Path) -> dict[str, str]:
    """The digest of each file, by its name."""
    return {name: digest for digest, name in (line.split() for line in sums.read_text().splitlines())}


def run_java(name: str) -> Callable[[Started], Results]:
    return lambda at: flows(at, "java", "-cp", f"{java_jars(JAVA[name])}:{WORKSHOP / 'java' / name}", name)


def prepare_node() -> None:
    sources = [SOURCES / "node" / name for name in ("package.json", "package-lock.json", ".npmrc")]
    if not unchanged("node", *sources):
        folder = fresh_folder("node")
        for source in sources:
            shutil.copy(source, folder)
        call(["npm", "ci", "--silent", "--ignore-scripts"], folder=folder, limit_s=BUILD_LIMIT_S)
        finished("node", *sources)
    for program in (SOURCES / "node").glob("*.js"):
        shutil.copy(program, WORKSHOP / "node")


def run_node(program: str) -> Callable[[Started], Results]:
    return lambda at: flows(at, "node", WORKSHOP / "node" / program)


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


def run_rust(at: Started) -> Results:
    return flows(at, WORKSHOP / "rust" / "debug" / "weir-client-flows")


def prepare_ruby() -> None:
    """The gem, unpacked and not installed: from RubyGems or, out of its reach, the same one as Debian packs it."""
    sums = SOURCES / "ruby" / "archives.sha256"
    if unchanged("ruby", sums):
        return
    folder = fresh_folder("ruby")
    gem, package = listed(sums)
    name, _, version = gem.removesuffix(".gem").rpartition("-")
    call(["gem", "fetch", name, "--version", version], folder=folder, may_fail=True)
    if (folder / gem).is_file():
        verify(folder / gem, sums)
        call(["gem", "unpack", folder / gem, "--target", folder])
    else:
        debian.fetch("=".join(package.split("_")[:2]), "trixie", folder)
        verify(folder / package, sums)
        debian.unpack(folder / package, folder)
    finished("ruby", sums)


def verify(file: Path, sums: Path) -> None:
    if hashlib.sha256(file.read_bytes()).hexdigest() != listed(sums)[file.name]:
        raise Trouble(f"{file} is not what {sums} lists")


def run_ruby(at: Started) -> Results:
    [library] = (file.parent for file in (WORKSHOP / "ruby").rglob("lib/dalli.rb"))
    return flows(at, "ruby", "-I", library, SOURCES / "ruby" / "dalli_flows.rb", more=("binary keys",))


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


def run_pylibmc(at: Started) -> Results:
    return flows(at, PYTHON, SOURCES / "python" / "pylibmc_flows.py")


def run_meta_memcache(at: Started) -> Results:
    more = ("binary keys", "stale items", "leases")
    return flows(at, PYTHON, SOURCES / "python" / "meta_memcache_flows.py", more=more)


def run_pylibmc_own(at: Started) -> Results:
    # test_autoconf asks 127.0.0.1:11211 whatever it is given, for a command that memcached does not have.
    arguments = ["--ignore=tests/test_autoconf.py", "-p", "text_protocol", "tests"]
    plugins, port = str(SOURCES / "python"), str(at.address.port)
    environment = {"MEMCACHED_HOST": at.address.host, "MEMCACHED_PORT": port, "PYTHONPATH": plugins}
    return run_pytest("pylibmc", arguments, environment)


def run_pymemcache_own(at: Started) -> Results:
    options = ["-m", "integration", "--server", at.address.host, "--port", str(at.address.port)]
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
    Suite("go", "gomemcache", "go/go.mod", GO_VERSION, "flows", prepare_go, run_go, secured=SECURED),
    Suite("go", "gomemcache", "go/go.mod", GO_VERSION, "own tests", prepare_go_own, run_go_own),
    Suite("java", "spymemcached", "java/jars.sha256", r"spymemcached-(.+)\.jar", "flows", prepare_java,
          run_java("SpyFlows")),
    Suite("java", "ElastiCache client", "java/jars.sha256", r"elasticache-java-cluster-client-(.+)\.jar", "flows",
          prepare_java, run_java("ElastiCacheFlows"), secured=(CERTIFICATE,)),
    Suite("java", "xmemcached", "java/jars.sha256", r"xmemcached-(.+)\.jar", "flows", prepare_java, run_java("XFlows")),
    Suite("node", "memcached (npm)", "node/package.json", r'"memcached": "(.+)"', "flows", prepare_node,
          run_node("memcached_flows.js")),
    Suite("node", "memcache-client (npm)", "node/package.json", r'"memcache-client": "(.+)"', "flows", prepare_node,
          run_node("memcache_client_flows.js"), secured=(CERTIFICATE,)),
    Suite("rust", "memcache (crate)", "rust/Cargo.toml", r'version = "=(.+?)"', "flows", prepare_rust, run_rust,
          secured=SECURED),
    Suite("ruby", "dalli", "ruby/archives.sha256", r"dalli-(.+)\.gem", "flows", prepare_ruby, run_ruby,
          secured=(CERTIFICATE,)),
    Suite("python", "pylibmc", "python/sdists.txt", r"pylibmc==(\S+)", "flows", prepare_python, run_pylibmc),
    Suite("python", "pylibmc", "python/sdists.txt", r"pylibmc==(\S+)", "own tests", prepare_python, run_pylibmc_own),
    Suite("python", "meta-memcache", "python/requirements.txt", r"meta-memcache==(\S+)", "flows", prepare_python,
          run_meta_memcache, {r"R = 2: cas: AssertionError True": "the client keeps 32 bits of a token, of 64"},
          secured=(PASSWORD,)),
    Suite("python", "pymemcache", "python/sdists.txt", r"pymemcache==(\S+)", "own tests", prepare_python,
          run_pymemcache_own,
          {"these statistics belong to one server": "statistics of one server are not summed (decision 3)",
           r"R = 2: .*::test_cas\[.*: assert False is None": "a token that no server gave is EXISTS (decision 5)"}),
)  # fmt: skip
NAMES = tuple(dict.fromkeys(name for suite in SUITES for name in (suite.language, suite.client)))
"""Languages and clients."""
