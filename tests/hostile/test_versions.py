"""Releases side by side (test 13): what is only more is passed over, what means something else is refused in words.

There is one release so far, so that a later one is played: what it would say more is added to all that goes over a real NATS.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.nats.connection import ANSWER_S, Connection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.engine.commands import Start
from noetl.engine.moves import RunTask
from noetl.errors import Unavailable
from noetl.link.client import NatsLink
from noetl.link.messages import VERSION
from noetl.output import Output
from noetl.views.audit.findings import findings
from noetl.views.log import events_of
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts
from tests.contracts.nats_houses import Server, link_of, served
from tests.services_nats import NatsServer, running_nats

EXECUTIONS = 50
LINK = "noetl."  # how the subjects of ours begin
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


class Later(Connection):
    """Of a process of a later release: whatever it says and hears has fields that the other side does not know."""

    async def request(self, subject: str, messages: Sequence[bytes], *, timeout_s: float = ANSWER_S) -> bytes:
        if not subject.startswith(LINK):
            return await super().request(subject, messages, timeout_s=timeout_s)
        return _more(await super().request(subject, [_more(each) for each in messages], timeout_s=timeout_s))


def _more(message: bytes) -> bytes:
    told = json.loads(message)
    body = told["body"] if isinstance(told.get("body"), dict) else {}
    report = body.get("report", {})
    for each in (told, body, report, *report.get("facts", ()), *body.get("next", ())):
        each["of_a_later_release"] = {"deep": [1, 2]}
    return json.dumps(told).encode()


class Other(Connection):
    """Of a process whose link means something else: `said` is what it sends, `heard` what it takes answers for."""

    def __init__(self, url: str, *, said: int = VERSION, heard: int = VERSION) -> None:
        super().__init__(url)
        self._said, self._heard = said, heard

    async def request(self, subject: str, messages: Sequence[bytes], *, timeout_s: float = ANSWER_S) -> bytes:
        sent = [_of_version(each, self._said) for each in messages]
        return _of_version(await super().request(subject, sent, timeout_s=timeout_s), self._heard)


def _of_version(message: bytes, version: int) -> bytes:
    told = json.loads(message)
    return json.dumps({**told, "v": version} if "v" in told else told).encode()


async def _answer(called: RunTask, _context: CallContext) -> Output:
    return Output(data=called.fields or None)


@asynccontextmanager
async def working(connection: Connection) -> AsyncIterator[None]:
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


async def ended(house: Server, link: NatsLink, digest: str, many: int) -> list[str]:
    """So many executions, started and come to an end."""
    over: asyncio.Queue[str] = asyncio.Queue()
    house.watchers.append(lambda live, _: None if live.state.live else over.put_nowait(live.id))
    ids = [f"e{number}" for number in range(many)]
    for id in ids:
        await link.start(id, digest, Start(workload={"n": 1}))
    left = set(ids)
    while left:
        left.discard(await over.get())
    return ids


def test_a_worker_that_says_more_than_the_server_knows_and_the_reverse_work_together(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with served(server.url, BODIES) as (house, _, shelf):
            connection = Later(server.url)
            try:
                async with working(connection):
                    ids = await ended(house, link_of(connection), shelf.digests["wide"], EXECUTIONS)
            finally:
                await connection.close()
            for id in ids:
                log = list(events_of(await house.control.store.read(id)))
                assert findings(log) == []
                last: Any = log[-1].fact
                assert last.status == "ok"
                assert "of_a_later_release" not in str(log)

    asyncio.run(work())


def test_another_version_of_the_link_is_refused_on_both_sides_with_what_to_do(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, BODIES) as (_, same, shelf):
            await link_of(same).start("e", shelf.digests["one"], Start())
            later = VERSION + 1
            for connection, words in (
                (
                    Other(server.url, said=later),
                    f'asked for "begin" in version {later} of the link, and the server speaks {VERSION}',
                ),
                (
                    Other(server.url, heard=later),
                    f"the server speaks version {later} of the link, and we speak {VERSION}",
                ),
            ):
                try:
                    with pytest.raises(Unavailable, match=f"^{re.escape(words)}: run the same version of"):
                        await link_of(connection).begin("e", "start#1", "w")
                finally:
                    await connection.close()

    asyncio.run(work())


def test_a_worker_of_another_version_changes_nothing_and_one_of_ours_does_the_work(
    server: NatsServer,
) -> None:
    async def work() -> None:
        async with served(server.url, BODIES) as (house, same, shelf):
            other = Other(server.url, said=VERSION + 1)
            link = link_of(same)
            try:
                with pytest.raises(Unavailable):
                    await link_of(other).start("e0", shelf.digests["one"], Start())
                assert await house.control.store.read("e0") == []
                async with working(same):
                    await ended(house, link, shelf.digests["one"], 1)
            finally:
                await other.close()

    asyncio.run(work())
