"""Streams over HTTP: the log, then new events; resumed at any fact; shared by all subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from noetl.ports import FeedEvent
from noetl.server.app import context_of
from noetl.server.services import SUBSCRIBERS_MAX, ServerSettings
from noetl.server.streams import HEARTBEAT_S, PAGE_FACTS, PAGES_BYTES_MAX, EncodedPage, PageCache
from noetl.server.subscriptions import QUEUE_BYTES_MAX, QUEUE_MAX, RECONNECT, Subscriber, SubscriberResponse
from tests.api.servers import HELLO, NOOP, WAITING, ApiServer, serve
from tests.playbooks import HEAD

LOOP = HEAD.replace("path: t", "path: loop") + (
    "workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n  next: {arcs: [{step: many}]}\n"
    "- step: many\n"
    '  loop: {in: "{{ range(200) | list }}", iterator: item, spec: {mode: parallel}}\n  tool: {kind: noop}\n'
)


class Message(NamedTuple):
    event: str
    data: Any
    id: int | None


class FollowedExecution:
    """A subscriber that behaves like a browser."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""
        self.hints = 0

    async def next(self) -> Message | None:
        """None: the server has closed."""
        while True:
            while b"\n\n" not in self._left:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    return None
                self._left += chunk
            block, _, self._left = self._left.partition(b"\n\n")
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"data" in fields:
                id = int(fields[b"id"]) if b"id" in fields else None
                return Message(fields[b"event"].decode(), msgspec.json.decode(fields[b"data"]), id)
            self.hints += b"retry" in fields

    async def all(self) -> list[Message]:
        found = []
        while (message := await self.next()) is not None:
            found.append(message)
        return found


@asynccontextmanager
async def following(server: ApiServer, path: str, **headers: str) -> AsyncIterator[FollowedExecution]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.api.session.get(server.server.url + path, headers=sent) as response:
        assert response.status == 200, await response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield FollowedExecution(response.content.iter_any())


async def waiting_one(server: ApiServer, text: str, path: str) -> str:
    await server.api.register(text)
    return str((await server.api.post("/executions", {"path": path}, status=201))["execution_id"])


async def signal(server: ApiServer, id: str) -> None:
    while (await server.api.ask("POST", f"/executions/{id}/signal", {"name": "go"})).status != 200:
        continue


def test_a_stream_sends_the_log_then_new_events_then_the_end(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, LOOP, "loop")
        async with following(server, f"/executions/{id}/stream") as follower:
            first = await follower.next()
            assert first is not None
            assert first.data["name"] == "playbook.execution.requested"
            await signal(server, id)
            rest = await follower.all()
        events = [first, *(each for each in rest if each.event == "event")]
        whole = await server.api.get(f"/executions/{id}/events", limit=1000)
        assert whole["next"] is None
        assert [each.data for each in events] == whole["items"]
        assert rest[-1] == Message("end", {"execution_id": id, "status": "ok"}, None)

    serve(tmp_path, work)


def test_the_last_event_of_a_fact_has_its_id(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await server.api.run(HELLO)
        async with following(server, f"/executions/{id}/stream") as follower:
            events = [each for each in await follower.all() if each.event == "event"]
        for one, after in zip(events, [*events[1:], None], strict=True):
            last = after is None or after.data["seq"] != one.data["seq"]
            assert one.id == (one.data["seq"] if last else None)

    serve(tmp_path, work)


def test_a_stream_resumes_at_any_fact(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, LOOP, "loop")
        await signal(server, id)
        await server.runtime.wait_until_idle(id)
        async with following(server, f"/executions/{id}/stream") as follower:
            whole = await follower.all()
        last = max(each.id or 0 for each in whole)
        assert last > 2 * PAGE_FACTS
        for seq in (1, 17, PAGE_FACTS - 1, PAGE_FACTS, PAGE_FACTS + 1, last - 1, last, last + 100):
            wanted = [each for each in whole if each.event == "end" or each.data["seq"] > seq]
            async with following(server, f"/executions/{id}/stream", Last_Event_ID=str(seq)) as follower:
                assert await follower.all() == wanted
            async with following(server, f"/executions/{id}/stream?after={seq}") as follower:
                assert await follower.all() == wanted
        async with following(server, f"/executions/{id}/stream?after=5", Last_Event_ID="nonsense") as follower:
            first = await follower.next()
            assert first is not None
            assert first.data["seq"] == 6

    serve(tmp_path, work)


def test_a_lost_connection_resumes_without_a_gap(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, LOOP, "loop")
        seen: dict[str, Any] = {}
        last = 0
        signalled = False
        while True:
            async with following(server, f"/executions/{id}/stream", Last_Event_ID=str(last)) as follower:
                for _ in range(60):
                    message = await follower.next()
                    if message is None or message.event == "end":
                        break
                    seen[message.data["event_id"]] = message.data
                    last = message.id or last
                    if not signalled:
                        signalled = True
                        await signal(server, id)
                else:
                    continue
            break
        whole = await server.api.get(f"/executions/{id}/events", limit=1000)
        assert list(seen.values()) == whole["items"]

    serve(tmp_path, work)


def test_lines_of_tools_are_sent(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        async with following(server, f"/executions/{id}/stream") as follower:
            await follower.next()
            line = {"frame": "start#1", "kind": "line", "words": "a word\nand another: one"}
            server.feed.publish(FeedEvent(id, line=line))
            server.feed.publish(FeedEvent("another", line=line))
            await signal(server, id)
            lines = [each for each in await follower.all() if each.event == "line"]
        assert lines == [Message("line", line, None)]

    serve(tmp_path, work)


def test_many_subscribers_share_one_tail(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, LOOP, "loop")
        streams = context_of(server.app).streams

        async def follow() -> list[Message]:
            async with following(server, f"/executions/{id}/stream") as follower:
                return await follower.all()

        tasks = [asyncio.ensure_future(follow()) for _ in range(20)]
        while len(streams) < 20:
            await server.api.get("/health")
        assert len(streams._tails) == 1
        await signal(server, id)
        got = await asyncio.gather(*tasks)
        assert all(each == got[0] for each in got)
        while len(streams):
            await server.api.get("/health")
        assert not streams._tails

    serve(tmp_path, work)


def test_a_disconnect_is_noticed_without_new_events(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        streams = context_of(server.app).streams
        async with following(server, f"/executions/{id}/stream") as follower:
            await follower.next()
            assert len(streams) == 1
        while len(streams):
            await server.api.get("/health")
        assert not streams._tails

    serve(tmp_path, work)


def test_lost_feed_events_are_found_by_polling(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        server.runtime.watchers.clear()  # no more feed events
        async with following(server, f"/executions/{id}/stream") as follower:
            await follower.next()
            await signal(server, id)
            rest = await follower.all()
        assert rest[-1].event == "end"

    serve(tmp_path, work)


def test_the_number_of_subscribers_is_limited(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        async with (
            following(server, f"/executions/{id}/stream") as one,
            following(server, "/stream"),
        ):
            await one.next()
            answer = await server.api.ask("GET", f"/executions/{id}/stream")
            assert (answer.status, answer.json["code"]) == (503, "too-many-followers")
            assert answer.headers["retry-after"] == "5"

    serve(tmp_path, work, ServerSettings(open=True, subscribers_max=2))


def test_the_limits_of_streams_match_the_documentation() -> None:
    assert (SUBSCRIBERS_MAX, HEARTBEAT_S) == (2_000, 15)


def test_the_stream_of_all_executions_sends_heads(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        async with following(server, "/stream") as follower:
            while not server.feed._subscribers:
                await server.api.get("/health")
            id = await server.api.run(NOOP)
            head = await server.api.get(f"/executions/{id}/head")
            while (message := await follower.next()) is not None and message.data["status"] != "ok":
                assert (message.event, message.data["execution_id"]) == ("head", id)
            assert message == Message("head", head, None)
            server.feed.publish(FeedEvent("nobody", 5))
            other = await server.api.run(NOOP)
            while message == Message("head", head, None):  # the end may be sent twice
                message = await follower.next()
            assert message is not None
            assert message.data["execution_id"] == other

    serve(tmp_path, work)


def test_subscribers_are_asked_to_reconnect_when_the_server_stops(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        async with (
            following(server, f"/executions/{id}/stream") as one,
            following(server, "/stream") as other,
        ):
            await one.next()
            while len(context_of(server.app).streams) < 2:
                await server.api.get("/health")
            await server.server.stop()
            assert "end" not in [each.event for each in await one.all()]
            assert await other.all() == []
            assert (one.hints, other.hints) == (2, 2)

    serve(tmp_path, work)


async def gathered(follower: Subscriber) -> list[bytes]:
    found = []
    while chunk := await follower.next():
        found.append(chunk)
    return found


def test_a_slow_subscriber_is_asked_to_reconnect() -> None:
    async def work() -> None:
        slow = Subscriber()
        for _ in range(QUEUE_MAX + 1):
            slow.push(b"x")
        assert await gathered(slow) == [RECONNECT]
        large = Subscriber()
        large.push(b"x" * QUEUE_BYTES_MAX)
        assert not large.closed
        large.push(b"x")
        assert await gathered(large) == [RECONNECT]
        quick = Subscriber()
        for number in range(5 * QUEUE_MAX):
            quick.push(b"x")
            assert await quick.next() == b"x", number

    asyncio.run(work())


def test_one_chunk_may_be_larger_than_the_queue() -> None:
    async def work() -> None:
        follower = Subscriber()
        follower.push(b"x" * (QUEUE_BYTES_MAX + 1))
        follower.finish(b"end")
        assert [len(chunk) for chunk in await gathered(follower)] == [QUEUE_BYTES_MAX + 1, 3]

    asyncio.run(work())


def test_a_heartbeat_is_sent_only_to_an_empty_queue() -> None:
    async def work() -> None:
        follower = Subscriber()
        follower.heartbeat()
        follower.heartbeat()
        follower.finish()
        assert await gathered(follower) == [b":\n\n"]

    asyncio.run(work())


def test_the_page_cache_is_limited(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        pages = PageCache(server.services.store)
        frame = b"x" * (PAGES_BYTES_MAX // 10 // PAGE_FACTS)
        for number in range(30):
            pages.put("e", EncodedPage(number * PAGE_FACTS + 1, (frame,) * PAGE_FACTS))
        assert pages._pages.total <= PAGES_BYTES_MAX
        assert ("e", 29) in pages._pages
        assert ("e", 0) not in pages._pages

    serve(tmp_path, work)


def test_a_subscriber_that_reads_nothing_is_disconnected() -> None:
    async def work() -> None:
        sent: list[str] = []
        followers: list[Subscriber] = []

        async def chunks(follower: Subscriber) -> AsyncIterator[bytes]:
            followers.append(follower)
            while True:
                yield b"x"

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if len(sent) > 3:
                await asyncio.Event().wait()  # the buffers of the client are full
            sent.append(message["type"])

        scope: Any = {}
        await SubscriberResponse(chunks, send_s=0.01)(scope, receive, send)
        assert sent == ["http.response.start"] + ["http.response.body"] * 3
        assert followers[0].closed

    asyncio.run(work())


def test_the_growth_of_a_log_is_sent_without_its_events(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, LOOP, "loop")
        async with following(server, f"/executions/{id}/growth") as one:
            first = await one.next()
            assert first is not None
            assert (first.event, first.data, first.id) == ("grown", {"execution_id": id, "seq": first.id}, first.id)
            async with following(server, f"/executions/{id}/growth?after={first.id}") as other:
                await signal(server, id)
                messages, others = await one.all(), await other.all()
        last = (await server.api.get(f"/executions/{id}/head"))["seq"]
        seqs = [each.data["seq"] for each in messages if each.event == "grown"]
        assert seqs == sorted(set(seqs))
        assert all(first.data["seq"] < seq <= last for seq in seqs)
        assert len(seqs) < 20, "a message for many facts"
        assert messages[-1][:2] == others[-1][:2] == ("end", {"execution_id": id, "status": "ok"})
        assert len(context_of(server.app).streams) == 0

    serve(tmp_path, work)


def test_the_growth_of_an_unknown_log_is_not_found(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        assert (await server.api.ask("GET", "/executions/none/growth")).status == 404

    serve(tmp_path, work)


def test_viewers_share_a_timeline_that_is_long_enough(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        id = await waiting_one(server, WAITING, "waiting")
        path = f"/executions/{id}/timeline"
        before = await server.api.get(path)
        assert await server.api.get(path, at_least=before["seq"]) == before
        await signal(server, id)
        longer = await server.api.get(path, at_least=before["seq"] + 1)
        assert longer["seq"] > before["seq"]
        assert (await server.api.get(path))["seq"] >= longer["seq"]

    serve(tmp_path, work)
