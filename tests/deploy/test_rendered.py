"""What helm makes of the chart: as it is kept in golden/, valid for Kubernetes, and such that the proxy runs by it.

`scripts/setup chart` compiles helm and kubeconform; only `make test-long` asks for that."""

from __future__ import annotations

import functools
import http.client
import importlib.util
import json
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.processes import LIVENESS_S, ROOT, Address, Memcached, Process, eventually, program, weir_binary

from .chart import (
    CASES,
    CHART,
    LIMIT_S,
    NEWEST,
    OLDEST,
    SIDECAR,
    documents,
    flat,
    golden,
    helm,
    of_kind,
    render,
    rendered,
    tool,
    values,
)

pytestmark = pytest.mark.long

KUBERNETES = (OLDEST, NEWEST)
# Containers of initContainers that stay are there from 1.29 on.
KUBERNETES_OF_SIDECAR = ("1.29.0", NEWEST)
# Kinds of the Prometheus operator, of which there is no schema here.
FOREIGN = "PodMonitor,PrometheusRule"


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_to_mend(case: str) -> None:
    done = helm("lint", "--strict", "--kube-version", NEWEST, CHART, "--values", values(case))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_what_is_kept(case: str) -> None:
    kept = golden(case)
    assert rendered(case) == kept.read_text(), f"{kept.name} is another; if it should be: python -m tests.deploy"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--set", "image.repository="], "no image of Weir is published: build one"),
        (["--set", "config.pools=null"], "there is no memcached server: set config.pools.main.servers"),
        (["--set", "config.file=x"], "only one of them becomes weir.toml"),
        (["--set", "config.configMap=x"], "only one of them becomes weir.toml"),
        (["--set", "config.file=x,config.configMap=x,config.pools=null"], "only one of them becomes weir.toml"),
        (["--set", "clients.hostPort=11211"], "set kind to DaemonSet, or clients.hostPort to 0"),
        (["--set", "rollout.maxSurge=0"], "no pod could ever be replaced"),
        (["--set", "rollout.maxSurge=0%"], "no pod could ever be replaced"),
        (
            ["--set", "prometheusRule.enabled=true,prometheusRule.without={WeirLatency}"],
            'prometheusRule.without has "WeirLatency", and there is no such alert: there are WeirAbsent',
        ),
        # The schema.
        (["--set", "replica=3"], "'replica' not allowed"),
        (["--set", "config.proxy.thread=3"], "'thread' not allowed"),
        (["--set", "config.proxy.admin=x"], "'admin' not allowed"),
        (["--set", "config.pools.main.listen=x"], "'listen' not allowed"),
        (["--set", "config.proxy.timeout=400"], "/config/proxy/timeout"),
        (["--set", "config.proxy.threads=two"], "/config/proxy/threads"),
        (["--set", "kind=StatefulSet"], "/kind"),
        (["--set-json", "networkPolicy.clientsFrom=[]"], "/networkPolicy/clientsFrom"),
    ],
)
def test_values_that_are_wrong_are_refused_with_what_to_do(options: list[str], reason: str) -> None:
    done = render("default", *options)
    assert done.returncode != 0, done.stdout
    assert reason in done.stderr


Conform = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def conform(tmp_path_factory: pytest.TempPathFactory) -> Conform:
    """What kubeconform says of files, by the schemas that the package kubernetes-validate has of a version."""
    package = importlib.util.find_spec("kubernetes_validate")
    assert package, "kubernetes-validate is missing: run `scripts/setup chart`"
    assert package.origin
    shipped = Path(package.origin).parent / "kubernetes-json-schema"

    @functools.cache
    def schemas(version: str) -> Path:
        # By its `$id` each has a place in the network, from which it names the others. Here they are in a folder.
        folder = tmp_path_factory.mktemp(f"v{version}")
        for file in (shipped / f"v{version}-local-strict").glob("*.json"):
            schema = json.loads(file.read_text().replace("/api/_definitions.json#", "_definitions.json#"))
            schema.pop("$id", None)
            (folder / file.name).write_text(json.dumps(schema))
        return folder

    def run(version: str, file: Path) -> dict[str, Any]:
        location = f"{schemas(version)}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
        options = ["-strict", "-output", "json", "-summary", "-schema-location", location, "-skip", FOREIGN]
        done = subprocess.run(
            [tool("kubeconform"), *options, str(file)], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    return run


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("case", CASES)
def test_kubernetes_knows_what_is_rendered(conform: Conform, case: str, version: str) -> None:
    said = conform(version, golden(case))
    foreign = sum(document["kind"] in FOREIGN.split(",") for document in documents(golden(case).read_text()))
    valid = len(documents(golden(case).read_text())) - foreign
    assert said["summary"] == {"valid": valid, "invalid": 0, "errors": 0, "skipped": foreign}, said


@pytest.mark.parametrize("version", KUBERNETES_OF_SIDECAR)
def test_kubernetes_knows_the_sidecar(conform: Conform, version: str) -> None:
    said = conform(version, SIDECAR)
    assert said["summary"] == {"valid": 2, "invalid": 0, "errors": 0, "skipped": 0}, said


def test_what_kubernetes_does_not_know_is_found(conform: Conform, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(golden("default").read_text().replace("readOnlyRootFilesystem:", "readOnlyRootFileSystem:"))
    said = conform(NEWEST, wrong)
    assert said["summary"]["invalid"] == 1, said
    assert "readOnlyRootFileSystem" in json.dumps(said)


def test_the_alerts_of_the_cluster_are_those_of_the_rules(tmp_path: Path) -> None:
    text = rendered("everything", "--set-json", "prometheusRule.without=[]")
    (ours,) = documents((CHART / "files" / "weir.rules.yml").read_text())
    groups = of_kind(text, "PrometheusRule")["spec"]["groups"]
    assert groups == ours["groups"]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": groups}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_can_be_left_out() -> None:
    def alerts(text: str) -> set[str]:
        groups = of_kind(text, "PrometheusRule")["spec"]["groups"]
        return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}

    whole = alerts(rendered("everything", "--set-json", "prometheusRule.without=[]"))
    assert whole - alerts(rendered("everything")) == {"WeirLatencyHigh"}


def test_the_table_of_values_has_the_defaults() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
    documented = {path: json.loads(default) for path, default in rows}
    (tree,) = documents((CHART / "values.yaml").read_text())
    assert flat(tree, set(documented)) == documented


def test_a_change_of_the_file_makes_new_pods_where_it_should() -> None:
    def annotations(*options: str) -> Any:
        return of_kind(rendered("default", *options), "Deployment")["spec"]["template"]["metadata"].get("annotations")

    change = ("--set", "config.proxy.threads=3")
    assert annotations() != annotations(*change)
    stays = ("--set", "config.rollOnChange=false")
    assert annotations(*stays) == annotations(*stays, *change)


def test_a_balancer_that_asks_readiness_notices_before_the_delay_is_over() -> None:
    (tree,) = documents((CHART / "values.yaml").read_text())
    readiness = tree["probes"]["readiness"]
    assert tree["drain"]["delaySeconds"] > readiness["periodSeconds"] * readiness["failureThreshold"]


def status(address: Address, path: str) -> int:
    connection = http.client.HTTPConnection(*address.pair, timeout=LIVENESS_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def wait_for(address: Address, path: str, code: int) -> None:
    eventually(lambda: status(address, path) == code, f"{path} answers {code}")


def test_the_proxy_of_a_pod_is_ready_and_serves_while_it_is_taken_out(
    stack: ExitStack, servers: list[Memcached], tmp_path: Path
) -> None:
    pools = json.dumps({"main": {"servers": [str(server.address) for server in servers]}})
    drain = {"drain.delaySeconds": 5, "drain.timeoutSeconds": 4}
    options = [word for path, value in drain.items() for word in ("--set", f"{path}={value}")]
    text = rendered("default", "--set-json", f"config.pools={pools}", *options)
    pod = of_kind(text, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > sum(drain.values())
    (container,) = pod["containers"]
    ports = {port["name"]: f"0.0.0.0:{port['containerPort']}" for port in container["ports"]}
    (mount,) = container["volumeMounts"]
    (tmp_path / "weir.toml").write_text(of_kind(text, "ConfigMap")["data"]["weir.toml"])

    clients, admin = Address.free(), Address.free()
    here = {mount["mountPath"]: str(tmp_path), ports["clients"]: str(clients), ports["admin"]: str(admin)}
    arguments = container["args"]
    for there, place in here.items():
        assert sum(there in argument for argument in arguments) == 1
        arguments = [argument.replace(there, place) for argument in arguments]
    proxy = stack.enter_context(Process([str(weir_binary()), *arguments]))
    proxy.wait_ready(clients)
    proxy.wait_ready(admin)
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    for probe in probes.values():
        wait_for(admin, probe["path"], 200)

    proxy.signal(signal.SIGTERM)
    wait_for(admin, probes["readiness"]["path"], 503)
    assert status(admin, probes["liveness"]["path"]) == 200
    assert clients.accepts()
    assert proxy.wait() == 0, proxy.output()


def test_the_page_and_the_chart_name_the_same_versions() -> None:
    page = (ROOT / "docs" / "operate" / "kubernetes.md").read_text()
    oldest = re.search(r'^kubeVersion: ">=(\d+\.\d+)\.', (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert oldest
    assert OLDEST.startswith(f"{oldest[1]}.")
    assert f"Kubernetes {oldest[1]}" in page
