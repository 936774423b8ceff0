"""The parts of the APIs of Docker and Kubernetes that the tool uses, with processes in place of containers.

Requests, status codes and bodies follow the published APIs: Docker Engine API 1.41, batch/v1 and v1 of Kubernetes.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Process:
    """A container or a pod: a process whose output is kept."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.argv, self.env = argv, env
        self.state = "created"
        self.code: int | None = None
        self.parts: list[tuple[int, bytes]] = []
        self.ended = asyncio.Event()
        self._running: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.state = "running"
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._running = await asyncio.create_subprocess_exec(
            *self.argv, env={"PATH": os.environ["PATH"], **self.env}, stdout=pipe, stderr=pipe
        )
        stdout, stderr = await self._running.communicate()
        self.parts += [(1, stdout)] * bool(stdout) + [(2, stderr)] * bool(stderr)
        self.code, self.state = self._running.returncode, "exited"
        self.ended.set()

    async def kill(self) -> None:
        if self._task is not None:
            while self._running is None and not self._task.done():
                await asyncio.wait((self._task,), timeout=0.01)
            if self._running is not None and self._running.returncode is None:
                self._running.kill()
            await self._task


class FakeDocker:
    """An engine with the image `alpine:3`, which can also pull `busybox`."""

    def __init__(self) -> None:
        self.containers: dict[str, Process] = {}
        self.bodies: list[dict[str, Any]] = []
        self.files: dict[str, str] = {}
        self.images = {"alpine:3"}
        self.removed: list[str] = []

    @asynccontextmanager
    async def serve(self, path: str) -> AsyncIterator[None]:
        app = web.Application()
        app.add_routes(
            [
                web.post("/v1.41/containers/create", self.create),
                web.put("/v1.41/containers/{name}/archive", self.archive),
                web.post("/v1.41/containers/{name}/start", self.start),
                web.get("/v1.41/containers/{name}/logs", self.logs),
                web.post("/v1.41/containers/{name}/wait", self.wait),
                web.get("/v1.41/containers/{name}/json", self.inspect),
                web.delete("/v1.41/containers/{name}", self.remove),
                web.post("/v1.41/images/create", self.pull),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, path).start()
        try:
            yield
        finally:
            for process in self.containers.values():
                await process.kill()
            await runner.cleanup()

    def found(self, request: web.Request) -> Process:
        name = request.match_info["name"]
        if name not in self.containers:
            raise web.HTTPNotFound(text=json.dumps({"message": f"No such container: {name}"}))
        return self.containers[name]

    async def create(self, request: web.Request) -> web.Response:
        body, name = await request.json(), request.query["name"]
        if body["Image"] not in self.images:
            return web.json_response({"message": f"No such image: {body['Image']}"}, status=404)
        if name in self.containers:
            return web.json_response({"message": f'The container name "/{name}" is already in use'}, status=409)
        self.bodies.append(body)
        env = dict(each.split("=", 1) for each in body["Env"])
        self.containers[name] = Process([*body.get("Entrypoint", []), *body.get("Cmd", [])], env)
        return web.json_response({"Id": name, "Warnings": []}, status=201)

    async def pull(self, request: web.Request) -> web.StreamResponse:
        image = request.query["fromImage"]
        if not image.startswith("busybox"):
            lines = [{"status": "Pulling"}, {"error": f"pull access denied for {image}", "errorDetail": {}}]
        else:
            lines = [{"status": "Pulling"}, {"status": "Downloaded"}]
            self.images.add(image)
        return web.Response(text="".join(json.dumps(line) + "\r\n" for line in lines))

    async def archive(self, request: web.Request) -> web.Response:
        self.found(request)
        with tarfile.open(fileobj=io.BytesIO(await request.read())) as archive:
            for member in archive.getmembers():
                content = archive.extractfile(member)
                assert content is not None
                self.files[request.query["path"] + member.name] = content.read().decode()
        return web.Response()

    async def start(self, request: web.Request) -> web.Response:
        process = self.found(request)
        if process.state != "created":
            return web.Response(status=304)
        process.start()
        return web.Response(status=204)

    async def logs(self, request: web.Request) -> web.StreamResponse:
        process = self.found(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await process.ended.wait()
        for stream, part in process.parts:
            await response.write(bytes([stream, 0, 0, 0]) + len(part).to_bytes(4, "big") + part)
        await response.write_eof()
        return response

    async def wait(self, request: web.Request) -> web.Response:
        process = self.found(request)
        await process.ended.wait()
        return web.json_response({"StatusCode": process.code})

    async def inspect(self, request: web.Request) -> web.Response:
        process = self.found(request)
        state = {"Status": process.state, "OOMKilled": process.code == 137, "ExitCode": process.code or 0, "Error": ""}
        return web.json_response({"State": state})

    async def remove(self, request: web.Request) -> web.Response:
        process = self.found(request)
        await process.kill()
        del self.containers[request.match_info["name"]]
        self.removed.append(request.match_info["name"])
        return web.Response(status=204)


class FakeKubernetes:
    """A cluster with one node. Its token is `t0ken`."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[dict[str, Any], Process]] = {}
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []  # all jobs, also deleted ones
        self.url = ""
        self.fails_by: str | None = None  # a reason for which each job fails

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        app = web.Application(middlewares=[self.authorized])
        batch, core = "/apis/batch/v1/namespaces/{ns}/jobs", "/api/v1/namespaces/{ns}"
        app.add_routes(
            [
                web.post(batch, self.create_job),
                web.get(batch, self.watch),
                web.delete(batch + "/{name}", self.delete_job),
                web.get(core + "/pods", self.pods),
                web.get(core + "/pods/{name}/log", self.log),
                web.post(core + "/{what:secrets|configmaps}", self.create),
                web.delete(core + "/{what:secrets|configmaps}/{name}", self.delete),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            for _, process in self.jobs.values():
                await process.kill()
            await runner.cleanup()

    @web.middleware
    async def authorized(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer t0ken":
            return _failure(401, "Unauthorized", "Unauthorized")
        if request.match_info.get("ns") == "forbidden":
            return _failure(403, "Forbidden", "jobs.batch is forbidden")
        response: web.StreamResponse = await handler(request)
        return response

    async def create(self, request: web.Request) -> web.Response:
        body, what = await request.json(), request.match_info["what"]
        self.objects[what, body["metadata"]["name"]] = body
        return web.json_response(body, status=201)

    async def delete(self, request: web.Request) -> web.Response:
        self.objects.pop((request.match_info["what"], request.match_info["name"]), None)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def create_job(self, request: web.Request) -> web.Response:
        job = await request.json()
        name = job["metadata"]["name"]
        if name in self.jobs:
            return _failure(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
        container = job["spec"]["template"]["spec"]["containers"][0]
        env = self.objects.get(("secrets", name), {}).get("stringData", {}) if "envFrom" in container else {}
        process = Process([*container.get("command", []), *container.get("args", [])], env)
        self.jobs[name] = (job, process)
        self.made.append(job)
        process.start()
        return web.json_response(job, status=201)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        assert request.query["watch"] == "true"
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        job, process = self.jobs[name]
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "ADDED", "object": {**job, "status": {}}}).encode() + b"\n")
        await process.ended.wait()
        failed = process.code != 0 or self.fails_by
        kind, reason = ("Failed", self.fails_by or "BackoffLimitExceeded") if failed else ("Complete", None)
        status = {"conditions": [{"type": kind, "status": "True", "reason": reason}]}
        await response.write(json.dumps({"type": "MODIFIED", "object": {**job, "status": status}}).encode() + b"\n")
        await response.write_eof()
        return response

    async def pods(self, request: web.Request) -> web.Response:
        name = request.query["labelSelector"].removeprefix("job-name=")
        _, process = self.jobs[name]
        reason = "OOMKilled" if process.code == 137 else "Completed" if process.code == 0 else "Error"
        terminated = {"exitCode": process.code, "reason": reason}
        status = {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]}
        metadata = {"name": f"{name}-x7", "creationTimestamp": "2026-01-01T00:00:00Z"}
        return web.json_response({"kind": "PodList", "items": [{"metadata": metadata, "status": status}]})

    async def log(self, request: web.Request) -> web.Response:
        _, process = self.jobs[request.match_info["name"].removesuffix("-x7")]
        return web.Response(body=b"".join(part for _, part in process.parts))

    async def delete_job(self, request: web.Request) -> web.Response:
        assert request.query["propagationPolicy"] == "Background"
        job = self.jobs.pop(request.match_info["name"], None)
        if job is None:
            return _failure(404, "NotFound", "jobs.batch not found")
        await job[1].kill()
        return web.json_response({"kind": "Status", "status": "Success"})


def _failure(status: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return web.json_response(body, status=status)
