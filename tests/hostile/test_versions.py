"""Different releases together (test 13): unknown fields are ignored, another link version is refused with a clear message.

There is one release so far, so that the test simulates a later one: it adds fields to all messages over a real NATS.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.engine.moves import RunTask
from noetl.errors import Unavailable
from noetl.link.client import LinkClient
from noetl.link.messages import VERSION
from noetl.output import Output
from noetl.ports import REPLY_TIMEOUT_S, Collect, first_reply
from noetl.views.audit import findings
from noetl.views.log import events_of
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts
from tests.contracts.link_servers import LinkedServer, link_of, served
from tests.services_nats import NatsServer, running_nats

EXECUTIONS = 50
LINK = "noetl."  # the prefix of our subjects
WIDE = """\
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: http, url: "http://x/{{ iter.n }}"}
  next: {arcs: [{step: child}]}
- {step: child, tool: {kind: playbook, path: one, input: {n: 1}}}
"""
BODIES = {
    "wide": WIDE,
    "one": 'workflow:\n- step: start\n  tool: {kind: http, url: "http://x/{{ workload }}"}\n',
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


class Later(NatsConnection):
    """The connection of a later release: its messages have fields that the other side does not know."""

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        if not subject.startswith(LINK):
            return await super().request(subject, messages, collect, timeout_s=timeout_s)
        return _more(await super().request(subject, [_more(each) for each in messages], collect, timeout_s=timeout_s))


def _more(message: bytes) -> bytes:
    decoded = json.loads(message)
    body = decoded["body"] if isinstance(decoded.get("body"), dict) else {}
    report = body.get("report", {})
    for each in (decoded, body, report, *report.get("facts", ()), *body.get("next", ())):
        each["of_a_later_release"] = {"deep": [1, 2]}
    return json.dumps(decoded).encode()


class Other(NatsConnection):
    """The connection of another link version: `sent` is the version of its requests, `received` that of its answers."""

    def __init__(self, url: str, *, sent: int = VERSION, received: int = VERSION) -> None:
        super().__init__(url)
        self._sent, self._received = sent, received

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        sent = [_of_version(each, self._sent) for each in messages]
        return _of_version(await super().request(subject, sent, collect, timeout_s=timeout_s), self._received)


def _of_version(message: bytes, version: int) -> bytes:
    decoded = json.loads(message)
    return json.dumps({**decoded, "v": version} if "v" in decoded else decoded).encode()


async def _answer(called: RunTask, _context: CallContext) -> Output:
    return Output(data=called.fields or None)


@asynccontextmanager
async def working(connection: NatsConnection) -> AsyncIterator[None]:
    queue = NatsQueue(connection, "default")
    await queue.open()
    worker = Worker("w", WorkerPorts(link_of(connection), queue, MemoryResults()), _answer, SystemClock())
    slots = [asyncio.ensure_future(worker.serve()) for _ in range(8)]
    try:
        yield
    finally:
        worker.stop_claiming()
        await queue.close()
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)


async def ended(node: LinkedServer[NatsConnection], link: LinkClient, digest: str, many: int) -> list[str]:
    """Run `many` executions to their end."""
    over: asyncio.Queue[str] = asyncio.Queue()
    node.on_commit.append(lambda live, _: None if live.state.live else over.put_nowait(live.id))
    ids = [f"e{number}" for number in range(many)]
    for id in ids:
        await link.start(id, digest, Start(workload={"n": 1}))
    left = set(ids)
    while left:
        left.discard(await over.get())
    return ids


def test_worker_and_server_ignore_unknown_fields_of_each_other(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with served(partial(NatsConnection, server.url), BODIES, queue=NatsQueue) as (
            node,
            _,
            playbooks,
        ):
            connection = Later(server.url)
            try:
                async with working(connection):
                    ids = await ended(node, link_of(connection), playbooks.digests["wide"], EXECUTIONS)
            finally:
                await connection.close()
            for id in ids:
                log = list(events_of(await node.control.store.read(id)))
                assert findings(log) == []
                last: Any = log[-1].fact
                assert last.status == "ok"
                assert "of_a_later_release" not in str(log)

    asyncio.run(work())


def test_both_sides_refuse_another_link_version_and_suggest_a_fix(server: NatsServer) -> None:
    async def work() -> None:
        async with served(partial(NatsConnection, server.url), BODIES, queue=NatsQueue) as (
            _,
            same,
            playbooks,
        ):
            await link_of(same).start("e", playbooks.digests["one"], Start())
            later = VERSION + 1
            for connection, words in (
                (
                    Other(server.url, sent=later),
                    f'request "begin" of link version {later}, server has version {VERSION}',
                ),
                (
                    Other(server.url, received=later),
                    f"the server has link version {later}, this process has version {VERSION}",
                ),
            ):
                try:
                    with pytest.raises(Unavailable, match=f"^{re.escape(words)}: run the same version of"):
                        await link_of(connection).begin("e", "start#1", "w")
                finally:
                    await connection.close()

    asyncio.run(work())


def test_a_worker_of_another_version_has_no_effect_and_ours_does_the_work(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with served(partial(NatsConnection, server.url), BODIES, queue=NatsQueue) as (
            node,
            same,
            playbooks,
        ):
            other = Other(server.url, sent=VERSION + 1)
            link = link_of(same)
            try:
                with pytest.raises(Unavailable):
                    await link_of(other).start("e0", playbooks.digests["one"], Start())
                assert await node.control.store.read("e0") == []
                async with working(same):
                    await ended(node, link, playbooks.digests["one"], 1)
            finally:
                await other.close()

    asyncio.run(work())
