"""A real server for tests: the embedded runtime on a file, the API on a loopback port, and a client."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from litestar import Litestar

from noetl.adapters.memory import MemoryFeed, MemoryWorkerRegistry
from noetl.clock import Clock, SystemClock
from noetl.control.api_tokens import digest_of, new_token
from noetl.control.current_work import current_work, share_waits
from noetl.control.live_execution import LiveExecution
from noetl.control.triggers import Triggers
from noetl.engine import Event
from noetl.ports import CurrentWork, FeedEvent
from noetl.runtime.embedded import EmbeddedRuntime, open_local_store
from noetl.server.app import make_app
from noetl.server.committed_logs import CommittedLogs
from noetl.server.http_server import HttpServer
from noetl.server.services import ServerSettings, Services
from noetl.telemetry.logs import start_logging
from noetl.tool import Tools
from noetl.views.pools import ShareWait
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from tests.playbooks import HEAD

HELLO = HEAD + (
    "workload: {name: you}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: python, input: {name: \"{{ workload.name }}\"}, code: \"def main(name): return {'greeting': 'hello ' + name}\"}\n"
)
NOOP = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n"
WAITING = HEAD.replace("path: t", "path: waiting") + (
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: after}]}\n"
    "- step: after\n  tool: {kind: noop}\n"
)
FAILING = HEAD.replace("path: t", "path: failing") + (
    "workflow:\n- step: start\n  tool: {kind: python, code: \"def main(): raise ValueError('no')\"}\n"
)
ROOT = Path(__file__).parents[2]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Api:
    """Sends requests to a server. `token`: sent with every request that names no other token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self.session = session
        self.url = url
        self.token = token

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> Answer:
        sent = dict(headers or {})
        known = self.token if token is None else token
        if known:
            sent.setdefault("Authorization", f"Bearer {known}")
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        query = {name.rstrip("_"): str(value) for name, value in params.items() if value is not None}
        content = None if data is None else io.BytesIO(data)
        async with self.session.request(
            method, self.url + path, data=content, headers=sent, params=query, allow_redirects=False
        ) as response:
            got = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, got, await response.read())

    async def get(self, path: str, /, **params: Any) -> Any:
        """The body of a successful response."""
        answer = await self.ask("GET", path, **params)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    async def post(self, path: str, body: Any = None, /, status: int = 200, **params: Any) -> Any:
        answer = await self.ask("POST", path, body, **params)
        assert answer.status == status, (answer.status, answer.body)
        return answer.json if answer.body else None

    async def register(self, text: str) -> Any:
        answer = await self.ask("POST", "/playbooks", text.encode(), headers={"Content-Type": "text/yaml"})
        assert answer.status in (200, 201), answer.body
        return answer.json

    async def run(self, text: str, workload: dict[str, Any] | None = None) -> str:
        """Register a playbook, start it and wait for its end."""
        digest = (await self.register(text))["digest"]
        result = await self.post("/executions", {"digest": digest, "workload": workload or {}}, wait=60)
        return str(result["execution_id"])


class ApiServer(NamedTuple):
    """The server with its parts, for tests that inspect them."""

    api: Api
    runtime: EmbeddedRuntime
    services: Services
    server: HttpServer
    feed: MemoryFeed
    workers: MemoryWorkerRegistry
    app: Litestar

    async def token(self, *scopes: str, name: str = "someone", expires_at: datetime | None = None) -> str:
        token, text = new_token(name, scopes, expires_at, self.services.clock, os.urandom)
        await self.services.tokens.add(token, digest_of(text))
        return text

    async def expired(self, *scopes: str) -> str:
        """A token that expired a moment ago."""
        clock = Shifted(self.services.clock, timedelta(days=-1))
        ends_at = clock.now() + timedelta(minutes=1)
        token, text = new_token("late", scopes, ends_at, clock, os.urandom)
        await self.services.tokens.add(token, digest_of(text))
        return text


class Shifted(SystemClock):
    """A clock that is shifted by a duration."""

    def __init__(self, clock: Clock, by: timedelta) -> None:
        self._clock = clock
        self._by = by

    def now(self) -> datetime:
        return self._clock.now() + self._by


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """The process log, as JSON lines."""
    lines = io.StringIO()
    stop = start_logging(lines)
    try:
        yield lines
    finally:
        stop()


@asynccontextmanager
async def opened(
    folder: Path, settings: ServerSettings | None = None, *, is_ready: Callable[[], bool] = lambda: True, port: int = 0
) -> AsyncIterator[ApiServer]:
    clock = SystemClock()
    disk = open_local_store(folder / "noetl.db", clock)
    tools = Tools.installed()
    kinds = tools.kinds()
    runtime = EmbeddedRuntime(disk, clock, tools, kinds=kinds, slots=8)
    feed, workers, committed = MemoryFeed(), MemoryWorkerRegistry(clock), CommittedLogs(disk.store)

    def watch(live: LiveExecution, events: list[Event]) -> None:
        if events:
            feed.publish(FeedEvent(live.id, events[-1].seq, not live.state.live))

    def listen(said: LogLine) -> None:
        line = {"frame": said.frame, "kind": said.kind, "words": said.text}
        feed.publish(FeedEvent(said.execution_id, line=line))

    async def now_at_work() -> CurrentWork:
        return current_work(runtime.control)

    async def waiting_for_share(execution_id: str) -> Sequence[ShareWait]:
        return share_waits(runtime.control, execution_id)

    runtime.watchers += [committed.on_commit, watch]
    runtime.listeners.append(listen)
    runtime.open()
    ports = (disk.triggers, runtime.playbooks, runtime.control, disk.store)
    triggers = Triggers(*ports, clock, now=clock.now, owns=lambda _id: True)
    services = Services(
        link=runtime.control, store=disk.store, committed=committed, listing=disk.listing, catalog=disk.catalog,
        playbooks=runtime.playbooks, results=disk.results, secrets=disk.secrets, tokens=disk.tokens, sessions=disk.sessions, audit=disk.audit,
        logs=disk.logs, feed=feed,
        workers=workers, tools=tools, kinds=kinds, clock=clock, is_ready=is_ready,
        record_refusal=runtime.refuse, delete=disk.retention.delete, saved=disk.saved, limits=disk.limits, current_work=now_at_work,
        share_of=runtime.control.dispatch.share_of, share_waits=waiting_for_share, triggers=triggers, fetch_secret=Keychain(runtime.providers, clock).get,
    )  # fmt: skip
    app = make_app(services, settings or ServerSettings(open=True))
    serving = HttpServer(app, port=port)
    serving.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield ApiServer(Api(session, serving.url, None), runtime, services, serving, feed, workers, app)
    finally:
        await serving.stop()
        await runtime.close(0)
        disk.close()


def serve(
    folder: Path,
    work: Callable[[ApiServer], Awaitable[None]],
    settings: ServerSettings | None = None,
    *,
    port: int = 0,
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(180), opened(folder, settings, port=port) as server:
            await work(server)

    asyncio.run(whole())
