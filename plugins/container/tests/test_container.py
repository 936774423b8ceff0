"""`container` fulfils the contract of all tools, and uses the APIs of Docker and Kubernetes as they are published."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.output import JSON, Output
from noetl.secret import Secret
from noetl.testing.contracts.tools import ToolContract, call_of
from noetl.tool import Auth, Call, Tool

sys.path.insert(0, str(Path(__file__).parent))
from fake_engines import FakeDocker, FakeKubernetes, Process
from noetl_container.docker import name_of
from noetl_container.tool import ContainerInput, ContainerTool, Resources


@pytest.fixture
def socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/d.sock")
        yield f"{folder}/d.sock"


class TestContainer(ToolContract):
    needs = "an engine"

    @pytest.fixture(autouse=True)
    def no_engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/d.sock")
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def make(self) -> Tool:
        return ContainerTool()

    def fields(self) -> dict[str, JSON]:
        return {"image": "alpine:3", "arguments": ["true"]}


def sh(script: str, **fields: object) -> ContainerInput:
    return ContainerInput(image="alpine:3", entrypoint=["sh", "-c"], arguments=[script], **fields)  # type: ignore[arg-type]


def on_docker(docker: FakeDocker, socket: str, input: ContainerInput, call: Call | None = None) -> Output:
    async def work() -> Output:
        async with docker.serve(socket):
            return await ContainerTool().run(input, call or call_of())

    return asyncio.run(work())


def test_docker_returns_both_streams_and_removes_the_container(socket: str) -> None:
    docker = FakeDocker()
    output = on_docker(docker, socket, sh("echo out $A; echo err >&2", env={"A": 1, "B": "x"}))
    assert (output.status, output.data) == ("ok", "out 1\n")
    own = output.own["container"]
    assert (own["exit_code"], own["stderr"], own["reason"]) == (0, "err\n", None)
    assert docker.containers == {}
    assert docker.removed == [own["name"]]


def test_docker_reports_the_exit_code(socket: str) -> None:
    output = on_docker(FakeDocker(), socket, sh("echo no such table >&2; exit 3"))
    assert output.error is not None
    assert output.error.message == 'the container of "alpine:3" ended with exit code 3: no such table'
    assert output.own["container"]["exit_code"] == 3


def test_docker_gets_limits_files_and_the_working_directory(socket: str) -> None:
    docker = FakeDocker()
    limits: dict[str, str | int | float] = {"cpu": "500m", "memory": "512Mi"}
    input = sh(
        "echo '[1]'",
        resources=Resources(limits=limits),
        files={"/work/run.py": "print(1)\n"},
        workdir="/work",
        parse="json",
    )
    assert on_docker(docker, socket, input).data == [1]
    assert docker.bodies[0]["HostConfig"] == {"Memory": 512 * 2**20, "NanoCpus": 500_000_000}
    assert docker.bodies[0]["WorkingDir"] == "/work"
    assert docker.files == {"/work/run.py": "print(1)\n"}


def test_docker_pulls_a_missing_image(socket: str) -> None:
    docker = FakeDocker()
    input = ContainerInput(image="busybox:1", entrypoint=["echo"], arguments=["a"])
    assert on_docker(docker, socket, input).data == "a\n"
    refused = on_docker(FakeDocker(), socket, ContainerInput(image="mine/app:1"))
    assert refused.error is not None
    assert refused.error.message == 'the image "mine/app:1" cannot be pulled: pull access denied for mine/app:1'


def test_docker_continues_with_the_container_of_a_lost_worker(socket: str) -> None:
    docker = FakeDocker()

    async def work() -> Output:
        async with docker.serve(socket):
            earlier = docker.containers[name_of(call_of())] = Process(["echo", "from before"], {})
            earlier.start()
            return await ContainerTool().run(sh("echo again"), call_of())

    assert asyncio.run(work()).data == "from before\n"
    assert docker.bodies == []


def test_a_cancelled_call_removes_its_container(socket: str) -> None:
    docker = FakeDocker()

    async def work() -> None:
        async with docker.serve(socket):
            running = asyncio.create_task(ContainerTool().run(sh("exec sleep 600"), call_of()))
            while not any(each.state == "running" for each in docker.containers.values()):
                await asyncio.wait((running,), timeout=0.01)
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled()
            assert docker.containers == {}

    asyncio.run(work())


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"files": {"work/x": ""}}, "is not an absolute path"),
        ({"files": {"/a/../b": ""}}, "is not an absolute path"),
        ({"files": {"/a": "x" * 1_000_000}}, "FILES_BYTES_MAX"),
        ({"resources": Resources(limits={"memory": "much"})}, "is not a quantity"),
    ],
)
def test_wrong_fields_are_refused_before_anything_starts(socket: str, fields: dict[str, object], part: str) -> None:
    docker = FakeDocker()
    output = on_docker(docker, socket, sh("true", **fields))
    assert output.error is not None
    assert part in output.error.message
    assert docker.bodies == []


def test_a_missing_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    output = asyncio.run(ContainerTool().run(sh("true"), call_of()))
    assert output.error is not None
    assert output.error.message == "DOCKER_HOST must be `unix://` and the path of a socket"


def on_kubernetes(cluster: FakeKubernetes, input: ContainerInput, token: str = "t0ken") -> Output:
    async def work() -> Output:
        async with cluster.serve():
            value = json.dumps({"server": cluster.url, "token": token})

            async def renew() -> Auth:
                raise AssertionError

            call = call_of({"timeout": 60})._replace(auth=Auth("prod", "stored", {"": Secret(value)}, renew))
            return await ContainerTool().run(input, call)

    return asyncio.run(work())


def test_kubernetes_runs_a_job_and_removes_it() -> None:
    cluster = FakeKubernetes()
    limits: dict[str, str | int | float] = {"cpu": 1}
    input = sh(
        "echo out $A",
        engine="kubernetes",
        namespace="etl",
        env={"A": "s3cret"},
        files={"/work/a.sql": "SELECT 1"},
        service_account="loader",
        resources=Resources(limits=limits),
        backoff_limit=2,
    )
    output = on_kubernetes(cluster, input)
    assert (output.status, output.data) == ("ok", "out s3cret\n")
    assert output.own["container"]["reason"] is None
    job = cluster.made[0]
    assert "s3cret" not in json.dumps(job)
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (2, 60)
    pod = job["spec"]["template"]["spec"]
    assert (pod["restartPolicy"], pod["serviceAccountName"]) == ("Never", "loader")
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/work/a.sql"
    assert (cluster.jobs, cluster.objects) == ({}, {})


@pytest.mark.parametrize(("script", "reason"), [("exit 137", "OOMKilled"), ("exit 2", "Error")])
def test_kubernetes_reports_why_a_pod_failed(script: str, reason: str) -> None:
    output = on_kubernetes(FakeKubernetes(), sh(script, engine="kubernetes"))
    assert output.error is not None
    assert output.own["container"]["reason"] == reason


def test_kubernetes_reports_a_job_that_failed_with_a_pod_that_did_not() -> None:
    cluster = FakeKubernetes()
    cluster.fails_by = "DeadlineExceeded"
    output = on_kubernetes(cluster, sh("true", engine="kubernetes"))
    assert output.error is not None
    assert output.error.message == 'the container of "alpine:3" failed: DeadlineExceeded'


def test_kubernetes_refuses_a_wrong_token_and_a_forbidden_namespace() -> None:
    wrong = on_kubernetes(FakeKubernetes(), sh("true", engine="kubernetes"), token="other")
    assert wrong.error is not None
    assert wrong.error.message == "creating jobs: Unauthorized (HTTP 401)"
    forbidden = on_kubernetes(FakeKubernetes(), sh("true", engine="kubernetes", namespace="forbidden"))
    assert forbidden.error is not None
    assert "jobs.batch is forbidden" in forbidden.error.message


def test_a_server_that_the_policy_refuses_is_not_called() -> None:
    async def work() -> Output:
        value = json.dumps({"server": "http://127.0.0.1:9", "token": "t"})

        async def renew() -> Auth:
            raise AssertionError

        call = call_of()._replace(auth=Auth("prod", "stored", {"": Secret(value)}, renew))
        return await ContainerTool(allow_private=False).run(sh("true", engine="kubernetes"), call)

    output = asyncio.run(work())
    assert output.error is not None
    assert "loopback" in output.error.message
