"""The Helm chart and the systemd units: what they start is what the command line takes, with the settings it reads."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import noetl
from noetl.runtime.adapters import nats_configuration
from noetl.runtime.settings import variables
from noetl.telemetry.metrics import make_registry
from tests.e2e.full_nats import SERVER, full_nats, needs_busybox
from tests.e2e.processes import ROOT
from tests.e2e.test_deploy import DEPLOY, parsed
from tests.unit.telemetry.runtimes import ID, MeasuredRuntime, run_in
from tests.unit.telemetry.runtimes import rendered as metrics_page

CHART = DEPLOY / "helm" / "noetl"
HELM = Path(sys.executable).with_name("helm")
KUBERNETES = ("1.27", "1.37")  # the oldest that the chart permits, and the newest with a schema
FOREIGN = {"ScaledObject", "ServiceMonitor", "PodMonitor", "PrometheusRule"}  # of operators, without schemas
EXTENDED = """\
pools:
  gpu: {slots: 2, labels: {zone: a}, autoscaling: {enabled: true, minReplicas: 0, maxReplicas: 4, framesPerWorker: 2}}
server: {ingress: {enabled: true, className: nginx, tlsSecret: tls}, env: {NOETL_LOG: debug}}
env: {NOETL_LOG: info, NOETL_ALLOW_NETWORKS: 10.0.0.0/8}
metrics:
  workers: true
  serviceMonitor: {enabled: true, tokenSecret: scrape, labels: {release: prometheus}}
  rules: {enabled: true}
  dashboard: {enabled: true}
"""

AUTOSCALED = """\
pools:
  default: {autoscaling: {enabled: true}}
  gpu: {slots: 2, autoscaling: {enabled: true, minReplicas: 0, maxReplicas: 4, framesPerWorker: 8}}
  big_mem: {slots: 3, autoscaling: {enabled: true}}
  fixed: {replicas: 5}
autoscaling: {prometheus: "http://prometheus:9090", cooldownPeriod: 60}
"""
POOL_LOOP = """\
workflow:
- step: start
  loop: {in: "{{ [1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  spec: {pool: %s}
  tool: {kind: noop}
"""

needs_helm = pytest.mark.skipif(not HELM.exists(), reason="helm is installed on Linux on x86_64 only")


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def document(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.SafeLoader(file.read_text()).get_single_data()
    return found


def rendered(*arguments: object) -> list[dict[str, Any]]:
    done = helm("template", "noetl", CHART, *arguments)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def rendered_with(folder: Path, values: str, pools: list[str]) -> list[dict[str, Any]]:
    (folder / "values.yaml").write_text(values)
    (folder / "users.conf").write_text(nats_configuration(pools))
    return rendered("-f", folder / "values.yaml", "--set-file", f"nats.users={folder / 'users.conf'}")


@pytest.fixture
def extended(tmp_path: Path) -> list[dict[str, Any]]:
    return rendered_with(tmp_path, EXTENDED, ["default", "gpu"])


@pytest.fixture
def autoscaled(tmp_path: Path) -> list[dict[str, Any]]:
    return rendered_with(tmp_path, AUTOSCALED, ["default", "gpu", "big_mem", "fixed"])


def by_name(documents: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def containers(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, deployment in by_name(documents, "Deployment").items():
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            yield name, container


def environment(container: dict[str, Any], secret: dict[str, str]) -> dict[str, str]:
    """The variables as Kubernetes sets them."""
    found: dict[str, str] = {}
    for each in container["env"]:
        value = each.get("value")
        found[each["name"]] = (
            secret[each["valueFrom"]["secretKeyRef"]["key"]]
            if value is None
            else re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
        )
    return found


@needs_helm
def test_the_chart_is_correct_and_of_this_version() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert document(CHART / "Chart.yaml")["appVersion"] == noetl.__version__


@needs_helm
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_accepts_what_the_chart_makes(version: str, extended: list[dict[str, Any]]) -> None:
    schemas = pytest.importorskip("kubernetes_validate")
    documents = [*rendered(), *extended]
    checked = [each for each in documents if each["kind"] not in FOREIGN]
    for each in checked:
        schemas.validate(each, version, strict=True)
    assert {each["kind"] for each in documents} - {each["kind"] for each in checked} == FOREIGN


@needs_helm
def test_every_process_has_a_command_line_and_settings_that_noetl_knows(extended: list[dict[str, Any]]) -> None:
    known = {variable.name for variable in variables().values()}
    commands = {}
    for name, container in containers(extended):
        commands[name] = parsed(container["args"])
        own = {each["name"] for each in container["env"] if each["name"].startswith("NOETL_")}
        assert own <= known
    assert {name: each["command"] for name, each in commands.items()} == {
        "noetl-server": "server", "noetl-worker-default": "worker", "noetl-worker-gpu": "worker",
    }  # fmt: skip
    assert (commands["noetl-worker-gpu"]["pool"], commands["noetl-worker-gpu"]["slots"]) == ("gpu", 2)


@needs_helm
def test_the_secret_that_make_env_writes_is_all_that_the_processes_need(
    tmp_path: Path, extended: list[dict[str, Any]]
) -> None:
    script = tmp_path / "make-env"
    shutil.copy(DEPLOY / "make-env", script)
    subprocess.run(["sh", script, "gpu"], check=True, capture_output=True)
    secret = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    secret["NOETL_DB"] = "postgresql://noetl@db/noetl"
    found = {name: environment(container, secret) for name, container in containers(extended)}
    server, gpu = found["noetl-server"], found["noetl-worker-gpu"]
    keys = {each.partition("=")[0]: each.partition("=")[2] for each in server["NOETL_POOL_KEYS"].split()}
    assert keys == {"default": secret["POOL_KEY_DEFAULT"], "gpu": secret["POOL_KEY_GPU"]}
    assert server["NOETL_NATS"] == f"nats://noetl:{secret['NATS_PASSWORD']}@noetl-nats:4222"
    assert gpu["NOETL_NATS"] == f"nats://pool-gpu:{secret['NATS_PASSWORD_GPU']}@noetl-nats:4222"
    assert gpu["NOETL_POOL_KEY"] == secret["POOL_KEY_GPU"]
    assert (server["NOETL_LOG"], gpu["NOETL_LOG"]) == ("debug", "info")
    assert {"NOETL_DB", "NOETL_KEY", "NOETL_LINK_KEY"} & set(gpu) == set()


@needs_helm
def test_nats_accepts_its_configuration_with_a_user_for_each_pool(
    tmp_path: Path, extended: list[dict[str, Any]]
) -> None:
    files = by_name(extended, "ConfigMap")["noetl-nats"]["data"]
    assert files["nats-users.conf"].strip() == nats_configuration(["default", "gpu"]).strip()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    passwords = dict.fromkeys(("NATS_PASSWORD", "NATS_PASSWORD_DEFAULT", "NATS_PASSWORD_GPU"), "n123")
    done = subprocess.run(
        [HELM.with_name("nats-server"), "-t", "-c", tmp_path / "nats.conf"], capture_output=True, text=True,
        check=False, env=passwords, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@needs_helm
@needs_busybox
def test_nats_is_restarted_after_a_full_disk_when_there_is_space(
    tmp_path: Path, extended: list[dict[str, Any]]
) -> None:
    (container,) = by_name(extended, "StatefulSet")["noetl-nats"]["spec"]["template"]["spec"]["containers"]
    probe = container["livenessProbe"]["exec"]["command"]

    with full_nats(tmp_path, lambda _: [SERVER, "-c", str(tmp_path / "nats.conf")], "/data") as found:

        def alive() -> bool:
            command = ["busybox", *probe[:-1], found.here(probe[-1])]
            return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0

        assert alive(), "a restart does not help while the disk is full"
        found.disk.make_space()
        assert not alive()


@needs_helm
def test_a_pool_without_a_user_of_nats_is_refused() -> None:
    done = helm("template", "noetl", CHART, "--set", "pools.gpu.slots=2")
    assert done.returncode != 0
    assert "nats.users has no user for the pool gpu: run `noetl nats-users default gpu > users.conf`" in done.stderr


@needs_helm
def test_workers_reach_neither_servers_nor_the_metadata_of_the_cloud() -> None:
    policies = by_name(rendered(), "NetworkPolicy")
    worker = policies["noetl-worker"]["spec"]
    assert worker["ingress"] == []
    assert {port["port"] for rule in worker["egress"] for port in rule.get("ports", ())} == {53, 4222}
    outside = [peer["ipBlock"] for rule in worker["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert outside[0] == {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}
    assert policies["noetl-nats"]["spec"]["egress"] == []


@needs_helm
def test_the_limit_of_memory_of_a_server_determines_that_of_its_executions() -> None:
    servers = [container for name, container in containers(rendered()) if name == "noetl-server"]
    assert [server["resources"]["limits"]["memory"] for server in servers] == ["2Gi"]
    assert all(each["name"] != "NOETL_STATE_BYTES" for server in servers for each in server["env"])


@needs_helm
def test_no_container_has_more_rights_than_it_needs() -> None:
    documents = rendered()
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] in ("Deployment", "StatefulSet")]
    assert len(pods) == 3
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]


@needs_helm
def test_every_pool_with_autoscaling_has_limits_and_a_deployment_without_replicas(
    autoscaled: list[dict[str, Any]],
) -> None:
    deployments = by_name(autoscaled, "Deployment")
    found = {}
    for each in by_name(autoscaled, "ScaledObject").values():
        spec = each["spec"]
        target = deployments[spec["scaleTargetRef"]["name"]]["spec"]
        assert "replicas" not in target, "helm upgrade would undo the scaling"
        (container,) = target["template"]["spec"]["containers"]
        (trigger,) = spec["triggers"]
        assert (trigger["type"], trigger["metadata"]["serverAddress"]) == ("prometheus", "http://prometheus:9090")
        assert spec["cooldownPeriod"] == 60
        limits = (spec["minReplicaCount"], spec["maxReplicaCount"], trigger["metadata"]["threshold"])
        found[parsed(container["args"])["pool"]] = limits
    assert found == {"default": (1, 10, "16"), "gpu": (0, 4, "8"), "big_mem": (1, 10, "3")}
    assert deployments["noetl-worker-fixed"]["spec"]["replicas"] == 5


@needs_helm
def test_autoscaling_counts_the_waiting_and_the_running_frames_of_its_pool(autoscaled: list[dict[str, Any]]) -> None:
    deployments = by_name(autoscaled, "Deployment")
    for each in by_name(autoscaled, "ScaledObject").values():
        target = deployments[each["spec"]["scaleTargetRef"]["name"]]["spec"]
        pool = parsed(target["template"]["spec"]["containers"][0]["args"])["pool"]
        query = each["spec"]["triggers"][0]["metadata"]["query"]
        assert counts_of_frames(query, pool) == [3, 3, 3]


def counts_of_frames(query: str, pool: str) -> list[float]:
    """What Prometheus answers while none, one and all of three frames of a pool run.

    Only a sum over one selector is understood: a server exports no pool whose number is 0, and in PromQL a sum of
    two metrics is empty when one of them is.
    """
    selector = re.fullmatch(r'sum\(\{__name__=~"([^"]+)", pool="([^"]+)"\}\)', query)
    assert selector is not None, query
    names, wanted = selector.groups()

    def answer(measured: MeasuredRuntime) -> float:
        families = text_string_to_metric_families(metrics_page(make_registry(measured.metrics))[0].decode())
        found = [sample for family in families for sample in family.samples if re.fullmatch(names, sample.name)]
        return sum(sample.value for sample in found if sample.labels["pool"] == wanted)

    async def work(measured: MeasuredRuntime) -> list[float]:
        await measured.start("p")
        counts = [answer(measured)]
        await measured.link.begin(ID, "start#1[0]", "w")
        counts.append(answer(measured))
        for frame in ("start#1[1]", "start#1[2]"):
            await measured.link.begin(ID, frame, "w")
        return [*counts, answer(measured)]

    return run_in(MeasuredRuntime(p=POOL_LOOP % pool), work, slots=0)


@pytest.mark.parametrize(
    ("unit", "instance", "command"),
    [
        ("noetl-server.service", "noetl-server.service", {"command": "server", "host": "127.0.0.1", "port": 8080}),
        ("noetl-worker@.service", "noetl-worker@gpu.service", {"command": "worker", "pool": "gpu", "slots": 16}),
    ],
)
def test_a_unit_of_systemd_starts_a_process_of_ours(
    unit: str, instance: str, command: dict[str, object], tmp_path: Path
) -> None:
    text = (DEPLOY / "systemd" / unit).read_text()
    found = re.search(r"^ExecStart=/opt/noetl/bin/noetl (.+)$", text, re.MULTILINE)
    assert found is not None
    given = parsed(found[1].replace("%i", "gpu").split())
    assert {name: given[name] for name in command} == command
    if shutil.which("systemd-analyze"):
        (tmp_path / instance).write_text(text.replace("/opt/noetl/bin/noetl", sys.executable))
        done = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / instance], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_guide_names_files_and_values_that_exist() -> None:
    page = (DEPLOY / "helm" / "README.md").read_text()
    values = document(CHART / "values.yaml")
    for path in re.findall(r"`((?:metrics|networkPolicy|nats)\.\w+)`", page):
        first, second = path.split(".")
        assert second in values[first], path
    assert (ROOT / "deploy" / "make-env").exists()
