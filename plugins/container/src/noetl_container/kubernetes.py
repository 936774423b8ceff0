"""Containers as jobs of Kubernetes, with the HTTP API of the cluster."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import msgspec

from noetl.output import JSON
from noetl.tool import AddressPolicy, Auth, Call
from noetl_container.docker import name_of, text_of
from noetl_container.tool import LOG_BYTES_MAX, ContainerEnd, ContainerInput, EngineError

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # of a pod
WATCH_S = 240  # of one request; the API server ends it, and the next one begins
REMOVE_S = 10.0  # for the removal after a cancellation
KEEP_S = 3600  # until Kubernetes removes a finished job whose worker was lost
JOB_S_MAX = 7 * 24 * 3600


class Cluster(NamedTuple):
    """Where the API is, and who calls it."""

    server: str
    token: str
    ca: str | None  # PEM
    is_own: bool  # the cluster that the worker runs in


class KubernetesEngine:
    """One call on a cluster."""

    def __init__(self, call: Call, policy: AddressPolicy) -> None:
        self._call = call
        self._cluster = _named(call.auth) if call.auth is not None else _own()
        self._policy = policy

    async def run(self, input: ContainerInput) -> ContainerEnd:
        """Raises EngineError, and errors of aiohttp."""
        name = name_of(self._call)
        async with self._session() as session:
            api = _Api(session, input.namespace)
            async with _removed(api, name):
                if input.env:
                    await api.create("/api/v1", "secrets", secret_of(name, input.env))
                if input.files:
                    await api.create("/api/v1", "configmaps", config_map_of(name, input.files))
                await api.create("/apis/batch/v1", "jobs", job_of(name, input, self._call))
                failed = await api.job_end(name)
                return await self._collect(api, name, failed)

    def _session(self) -> aiohttp.ClientSession:
        cluster = self._cluster
        context: ssl.SSLContext | bool = ssl.create_default_context(cadata=cluster.ca) if cluster.ca else True
        factory = None if cluster.is_own else self._policy.socket
        connector = aiohttp.TCPConnector(ssl=context, socket_factory=factory)
        headers = {"Authorization": f"Bearer {cluster.token}"}
        return aiohttp.ClientSession(
            cluster.server, connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None)
        )

    async def _collect(self, api: _Api, name: str, failed: str | None) -> ContainerEnd:
        """The logs and the end of the last pod of the job."""
        pods = await api.pods(name)
        if not pods:
            return ContainerEnd(name=name, exit_code=None, reason=failed or "the job has no pod", stdout=b"")
        pod = max(pods, key=lambda each: str(each["metadata"].get("creationTimestamp", "")))
        log = await api.log(pod["metadata"]["name"])
        self._call.write("out", log)
        statuses = pod.get("status", {}).get("containerStatuses") or [{}]
        terminated = statuses[0].get("state", {}).get("terminated") or {}
        waiting = statuses[0].get("state", {}).get("waiting") or {}
        code = terminated.get("exitCode")
        if failed is not None and not code:
            code = None  # the job failed for another reason, for example its deadline
        reason = terminated.get("reason") if code is not None else waiting.get("reason") or failed
        return ContainerEnd(name=name, exit_code=code, reason=None if reason == "Completed" else reason, stdout=log)


class _Api:
    """The requests, in one namespace."""

    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        if not namespace or not all(each.isalnum() or each == "-" for each in namespace):
            raise EngineError(f'`namespace`: "{namespace[:80]}" is not the name of a namespace')
        self._session = session
        self._namespace = namespace

    def _path(self, group: str, what: str) -> str:
        return f"{group}/namespaces/{self._namespace}/{what}"

    async def create(self, group: str, what: str, body: JSON) -> None:
        """An existing object of this name belongs to the same call, made before the worker was lost."""
        content, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
        async with self._session.post(self._path(group, what), data=content, headers=headers) as response:
            answer = await response.read()
            if response.status not in (200, 201, 202, 409) or (
                response.status == 409 and _status(answer).get("reason") != "AlreadyExists"
            ):
                raise _error(f"creating {what}", response.status, answer)

    async def job_end(self, name: str) -> str | None:
        """Wait for the end of the job. Returns why it failed; None: it is complete."""
        query = f"fieldSelector=metadata.name={name}&watch=true&timeoutSeconds={WATCH_S}"
        while True:
            async with self._session.get(self._path("/apis/batch/v1", "jobs") + "?" + query) as response:
                if response.status != 200:
                    raise _error("watching the job", response.status, await response.read())
                async for line in response.content:
                    event = msgspec.json.decode(line)
                    if event["type"] == "DELETED":
                        raise EngineError("the job was deleted while it ran", retryable=True)
                    if event["type"] == "ERROR":
                        break  # the watch is too old; the next one begins with the present state
                    for condition in event["object"].get("status", {}).get("conditions") or []:
                        if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
                            is_complete = condition["type"] == "Complete"
                            return None if is_complete else condition.get("reason") or "Failed"

    async def pods(self, name: str) -> list[Any]:
        async with self._session.get(self._path("/api/v1", "pods") + f"?labelSelector=job-name={name}") as response:
            answer = await response.read()
            if response.status != 200:
                raise _error("listing the pods", response.status, answer)
            return list(msgspec.json.decode(answer)["items"])

    async def log(self, pod: str) -> bytes:
        path = self._path("/api/v1", f"pods/{pod}/log") + f"?limitBytes={LOG_BYTES_MAX + 1}"
        async with self._session.get(path) as response:
            answer = await response.read()
        if response.status == 400:
            return b""  # the container has not started
        if response.status != 200:
            raise _error("reading the log", response.status, answer)
        if len(answer) > LOG_BYTES_MAX:
            limit = f"(limit LOG_BYTES_MAX: {LOG_BYTES_MAX:,} bytes)"
            raise EngineError(f"the container writes too much {limit}; write it to a file or a service")
        return answer

    async def delete(self, group: str, what: str, name: str) -> None:
        path = self._path(group, what) + f"/{name}?propagationPolicy=Background"
        async with self._session.delete(path) as response:
            await response.read()


@asynccontextmanager
async def _removed(api: _Api, name: str) -> AsyncIterator[None]:
    """Removes the objects at the end, even when the call is cancelled."""
    try:
        yield
    finally:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with asyncio.timeout(REMOVE_S):
                await api.delete("/apis/batch/v1", "jobs", name)
                await api.delete("/api/v1", "secrets", name)
                await api.delete("/api/v1", "configmaps", name)


def job_of(name: str, input: ContainerInput, call: Call) -> dict[str, JSON]:
    container: dict[str, JSON] = {"name": "main", "image": input.image}
    if input.entrypoint is not None:
        container["command"] = list(input.entrypoint)
    if input.arguments is not None:
        container["args"] = list(input.arguments)
    if input.env:
        container["envFrom"] = [{"secretRef": {"name": name}}]
    if input.workdir is not None:
        container["workingDir"] = input.workdir
    if input.resources is not None:
        parts = {"limits": input.resources.limits, "requests": input.resources.requests}
        container["resources"] = {
            part: {each: str(value) for each, value in values.items()} for part, values in parts.items() if values
        }
    pod: dict[str, JSON] = {"restartPolicy": "Never", "containers": [container]}
    if input.files:
        pod["volumes"] = [{"name": "files", "configMap": {"name": name, "defaultMode": 0o755}}]
        container["volumeMounts"] = [
            {"name": "files", "mountPath": path, "subPath": f"file-{index}"} for index, path in enumerate(input.files)
        ]
    if input.service_account is not None:
        pod["serviceAccountName"] = input.service_account
    if input.node_selector:
        pod["nodeSelector"] = dict(input.node_selector)
    spec: dict[str, JSON] = {
        "backoffLimit": input.backoff_limit,
        "ttlSecondsAfterFinished": KEEP_S,
        "template": {"metadata": {"labels": {"app.kubernetes.io/managed-by": "noetl"}}, "spec": pod},
    }
    seconds = _timeout_s(call.spec)
    if seconds is not None:
        spec["activeDeadlineSeconds"] = seconds  # ends the job if the worker is lost
    labels = {"app.kubernetes.io/managed-by": "noetl", "noetl.io/execution": call.execution_id[:63]}
    metadata: dict[str, JSON] = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def secret_of(name: str, env: Mapping[str, JSON]) -> dict[str, JSON]:
    values: dict[str, JSON] = {variable: text_of(value) for variable, value in env.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def config_map_of(name: str, files: Mapping[str, str]) -> dict[str, JSON]:
    data: dict[str, JSON] = {f"file-{index}": text for index, text in enumerate(files.values())}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _timeout_s(spec: Mapping[str, JSON]) -> int | None:
    timeout = spec.get("timeout")
    seconds = timeout.get("total") if isinstance(timeout, dict) else timeout
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        return None
    return max(1, min(int(seconds), JOB_S_MAX))


def _named(auth: Auth) -> Cluster:
    """The cluster of a credential: fields, or one value that is a JSON mapping of them."""
    fields = {name: secret.reveal() for name, secret in auth.values.items()}
    if "" in fields:
        with suppress(msgspec.DecodeError):
            fields |= {str(name): str(value) for name, value in dict(msgspec.json.decode(fields[""])).items()}
    if not fields.get("server", "").startswith(("https://", "http://")) or not fields.get("token"):
        raise EngineError(f'the credential "{auth.name}" needs the fields `server` (a URL) and `token`')
    return Cluster(fields["server"].rstrip("/"), fields["token"], fields.get("ca") or None, is_own=False)


def _own() -> Cluster:
    """The cluster that the worker runs in. Raises EngineError."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    folder = os.environ.get("NOETL_KUBERNETES_ACCOUNT", ACCOUNT)
    try:
        with open(f"{folder}/token", encoding="utf-8") as stream:
            token = stream.read().strip()
        with open(f"{folder}/ca.crt", encoding="utf-8") as stream:
            ca = stream.read()
    except OSError:
        token = ca = ""
    if not host or not token:
        raise EngineError(
            "the worker does not run in a cluster; name a credential with `server`, `token` and `ca` in `auth`"
        )
    return Cluster(f"https://{f'[{host}]' if ':' in host else host}:{port}", token, ca or None, is_own=True)


def _status(answer: bytes) -> dict[str, Any]:
    with suppress(msgspec.DecodeError, TypeError, ValueError):
        return dict(msgspec.json.decode(answer))
    return {}


def _error(what: str, status: int, answer: bytes) -> EngineError:
    message = str(_status(answer).get("message") or answer[:200].decode("utf-8", "replace"))
    return EngineError(f"{what}: {message} (HTTP {status})"[:1000], retryable=status >= 500 or status == 429)
