"""Containers with the API of Docker, which Podman also has, over a Unix socket."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from noetl.output import JSON
from noetl.tool import Call
from noetl_container.tool import LOG_BYTES_MAX, ContainerEnd, ContainerInput, EngineError

API = "/v1.41"  # Docker 20.10 and Podman 3
REMOVE_S = 10.0  # for the removal after a cancellation
_UNITS: dict[str, int | Decimal] = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "m": Decimal("0.001"),
}  # fmt: skip


class DockerEngine:
    """One call on the engine of the worker."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._path = socket_path()

    async def run(self, input: ContainerInput) -> ContainerEnd:
        """Raises EngineError, and errors of aiohttp."""
        name = name_of(self._call)
        connector = aiohttp.UnixConnector(path=self._path)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession("http://docker", connector=connector, timeout=timeout) as session,
            _removed(session, name),
        ):
            await self._create(session, name, input)
            await _request(session, "POST", f"/containers/{name}/start", ok=(204, 304))
            stdout, stderr = await self._follow(session, name)
            ended = await _json(session, "POST", f"/containers/{name}/wait")
            state = (await _json(session, "GET", f"/containers/{name}/json"))["State"]
        reason = "OOMKilled" if state.get("OOMKilled") else state.get("Error") or None
        return ContainerEnd(name=name, exit_code=int(ended["StatusCode"]), reason=reason, stdout=stdout, stderr=stderr)

    async def _create(self, session: aiohttp.ClientSession, name: str, input: ContainerInput) -> None:
        """An existing container of this name belongs to the same call, made before the worker was lost."""
        body = create_body(input, self._call)
        status, message = await _answer(session, "POST", f"/containers/create?name={name}", body)
        if status == 404:
            await self._pull(session, input.image)
            status, message = await _answer(session, "POST", f"/containers/create?name={name}", body)
        if status == 409:
            state = (await _json(session, "GET", f"/containers/{name}/json"))["State"]
            if state["Status"] != "created":
                return
        elif status != 201:
            raise EngineError(f"the container cannot be created: {message}", retryable=status >= 500)
        if input.files:
            archive = archive_of(input.files)
            await _request(session, "PUT", f"/containers/{name}/archive?path=/", data=archive)

    async def _pull(self, session: aiohttp.ClientSession, image: str) -> None:
        self._call.say(f"pulling {image}")
        named = "@" in image or ":" in image.rsplit("/", 1)[-1]
        query = f"fromImage={quote(image, safe='')}" + ("" if named else "&tag=latest")
        async with session.post(f"{API}/images/create?{query}") as response:
            lines = (await response.read()).splitlines()
            if response.status != 200:
                raise EngineError(f'the image "{image}" cannot be pulled: {_message(b"".join(lines))}')
        for line in lines:
            failure = msgspec.json.decode(line).get("error") if line.strip() else None
            if failure:
                raise EngineError(f'the image "{image}" cannot be pulled: {failure}'[:1000])

    async def _follow(self, session: aiohttp.ClientSession, name: str) -> tuple[bytes, bytes]:
        """Both streams, until the container ends. Each part has a header of 8 bytes: the stream and the size."""
        streams = {1: bytearray(), 2: bytearray()}
        async with session.get(f"{API}/containers/{name}/logs?follow=1&stdout=1&stderr=1") as response:
            if response.status != 200:
                raise EngineError(f"the logs cannot be read: {_message(await response.read())}")
            while True:
                try:
                    header = await response.content.readexactly(8)
                    part = await response.content.readexactly(int.from_bytes(header[4:], "big"))
                except asyncio.IncompleteReadError:
                    break
                stream = 2 if header[0] == 2 else 1
                self._call.write("err" if stream == 2 else "out", part)
                streams[stream] += part
                if len(streams[1]) + len(streams[2]) > LOG_BYTES_MAX:
                    limit = f"(limit LOG_BYTES_MAX: {LOG_BYTES_MAX:,} bytes)"
                    raise EngineError(f"the container writes too much {limit}; write it to a file or a service")
        return bytes(streams[1]), bytes(streams[2])


def socket_path() -> str:
    """`DOCKER_HOST`, or the socket of Docker or Podman that exists. Raises EngineError."""
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        if not host.startswith("unix://"):
            raise EngineError("DOCKER_HOST must be `unix://` and the path of a socket")
        return host.removeprefix("unix://")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    paths = ["/var/run/docker.sock", f"{runtime}/podman/podman.sock" if runtime else "", "/run/podman/podman.sock"]
    found = next((path for path in paths if path and os.path.exists(path)), None)
    if found is None:
        raise EngineError("no socket of Docker or Podman was found; start one of them, or set DOCKER_HOST=unix://…")
    return found


def name_of(call: Call) -> str:
    """The same for a call that is repeated after a crash; another one for the next attempt."""
    return "noetl-" + hashlib.sha256(f"{call.key}/{call.attempt}".encode()).hexdigest()[:24]


def create_body(input: ContainerInput, call: Call) -> dict[str, JSON]:
    limits = (input.resources.limits if input.resources is not None else None) or {}
    host: dict[str, JSON] = {}
    if "memory" in limits:
        host["Memory"] = int(quantity(limits["memory"]))
    if "cpu" in limits:
        host["NanoCpus"] = int(quantity(limits["cpu"]) * 10**9)
    body: dict[str, JSON] = {
        "Image": input.image,
        "Cmd": list(input.arguments or []),
        "Env": [f"{name}={text_of(value)}" for name, value in (input.env or {}).items()],
        "Labels": {"noetl.execution": call.execution_id},
        "HostConfig": host,
    }
    if input.entrypoint is not None:
        body["Entrypoint"] = list(input.entrypoint)
    elif input.arguments is None:
        del body["Cmd"]  # the command of the image
    if input.workdir is not None:
        body["WorkingDir"] = input.workdir
    return body


def text_of(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def quantity(value: str | int | float) -> Decimal:
    """A quantity of Kubernetes: `500m`, `512Mi`. Raises EngineError."""
    text = str(value).strip()
    digits = text.rstrip("kKMGTim")
    unit = _UNITS.get(text[len(digits) :])
    try:
        number = Decimal(digits)
    except InvalidOperation:
        number = Decimal(-1)
    if unit is None or not number.is_finite() or not 0 <= number < 10**18:
        raise EngineError(f'`resources`: "{text[:80]}" is not a quantity; write 500m, 2, 512Mi or 1G')
    return number * unit


def archive_of(files: dict[str, str]) -> bytes:
    """A tar archive, as the engine unpacks it at `/`."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, text in files.items():
            content = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


@asynccontextmanager
async def _removed(session: aiohttp.ClientSession, name: str) -> AsyncIterator[None]:
    """Removes the container at the end, even when the call is cancelled."""
    try:
        yield
    finally:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with asyncio.timeout(REMOVE_S):
                async with session.delete(f"{API}/containers/{name}?force=1&v=1") as response:
                    await response.read()


async def _answer(session: aiohttp.ClientSession, method: str, path: str, body: JSON) -> tuple[int, str]:
    content = msgspec.json.encode(body)
    async with session.request(
        method, API + path, data=content, headers={"Content-Type": "application/json"}
    ) as response:
        return response.status, _message(await response.read())


async def _request(
    session: aiohttp.ClientSession, method: str, path: str, *, data: bytes | None = None, ok: tuple[int, ...] = (200,)
) -> bytes:
    headers = {"Content-Type": "application/x-tar"} if data is not None else None
    async with session.request(method, API + path, data=data, headers=headers) as response:
        content = await response.read()
        if response.status not in ok:
            raise EngineError(f"{_message(content)}", retryable=response.status >= 500)
        return content


async def _json(session: aiohttp.ClientSession, method: str, path: str) -> Any:
    return msgspec.json.decode(await _request(session, method, path))


def _message(content: bytes) -> str:
    with suppress(msgspec.DecodeError, AttributeError):
        return str(msgspec.json.decode(content).get("message", ""))[:1000]
    return content[:200].decode("utf-8", "replace")
