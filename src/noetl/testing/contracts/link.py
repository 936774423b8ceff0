"""Contracts of the server–worker protocol: transports, links, feeds and worker registries.

A new transport is one adapter: it must pass `TransportContract`, and the other three contracts with the
implementations of `noetl.link` on top of it.
"""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from noetl.clock import SystemClock
from noetl.defaults import POOL
from noetl.engine.commands import Cancel, Pause, Report, Resume, Start
from noetl.engine.facts import Requested, TaskDone
from noetl.engine.moves import work_of
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.link.secret_channel import Owner
from noetl.output import JSON, Failure, Output
from noetl.ports import (
    EventStore,
    Feed,
    FeedEvent,
    Link,
    Message,
    NoResponder,
    ReplyTimeout,
    ReportAnswer,
    Transport,
    WorkerInfo,
    WorkerRegistry,
)
from noetl.testing.contracts import async_test, error_of, opened_test

Connect: TypeAlias = Callable[[], Transport]


class ReceivedMessages:
    """A handler that keeps the messages it receives."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    def __call__(self, message: Message) -> None:
        self.messages.put_nowait(message)

    async def data(self, count: int) -> list[bytes]:
        """The next messages, and nothing else may have arrived."""
        data = [(await self.messages.get()).data for _ in range(count)]
        assert self.messages.empty()
        return data


class TransportContract:
    """Messages by subject between processes that share a broker."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[Connect]:
        """A broker. Each call of the result makes another transport to it, and all are closed in the end."""

    @opened_test("open")
    async def test_every_subscriber_of_a_subject_receives_each_message_in_order(self, connect: Connect) -> None:
        one, other, sender = connect(), connect(), connect()
        inboxes = [ReceivedMessages(), ReceivedMessages(), ReceivedMessages()]
        await one.subscribe("a.b", inboxes[0])
        await one.subscribe("a.*", inboxes[1])
        await other.subscribe("a.b", inboxes[2])
        for each in (one, other):
            await each.flush()
        for number in range(100):
            await sender.publish("a.b", b"%d" % number)
        await sender.publish("b.b", b"another subject")
        await sender.publish("a.b.c", b"another subject")
        for inbox in inboxes:
            assert await inbox.data(100) == [b"%d" % number for number in range(100)]

    @opened_test("open")
    async def test_one_subscription_of_a_group_receives_each_message(self, connect: Connect) -> None:
        received: asyncio.Queue[bytes] = asyncio.Queue()
        for _ in range(3):
            transport = connect()
            await transport.subscribe("work", lambda each: received.put_nowait(each.data), group="g")
            await transport.flush()
        sender, bodies = connect(), [b"%d" % number for number in range(50)]
        for body in bodies:
            await sender.publish("work", body)
        assert sorted([await received.get() for _ in bodies]) == sorted(bodies)
        await sender.publish("work", b"last")
        assert await received.get() == b"last"

    @opened_test("open")
    async def test_a_request_returns_the_reply(self, connect: Connect) -> None:
        server, client = connect(), connect()
        tasks: list[asyncio.Future[None]] = []

        def reply(message: Message) -> None:
            body = message.subject.encode() + b":" + message.data
            tasks.append(asyncio.ensure_future(server.publish(message.reply, body)))

        await server.subscribe("ask.*", reply)
        await server.flush()
        replies = await asyncio.gather(*(client.request(f"ask.{n}", [b"%d" % n]) for n in range(20)))
        assert replies == [b"ask.%d:%d" % (n, n) for n in range(20)]

    @opened_test("open")
    async def test_requests_and_replies_may_consist_of_several_messages(self, connect: Connect) -> None:
        server, client, inbox, parts = connect(), connect(), ReceivedMessages(), list[bytes]()
        await server.subscribe("ask", inbox)
        await server.flush()

        def collect(data: bytes) -> bytes | None:
            parts.append(data)
            return b"".join(parts) if data == b"end" else None

        asking = asyncio.ensure_future(client.request("ask", [b"1", b"2", b"3"], collect))
        messages = [await inbox.messages.get() for _ in range(3)]
        assert [each.data for each in messages] == [b"1", b"2", b"3"]
        assert len({each.reply for each in messages}) == 1
        for data in (b"a", b"b", b"end"):
            await server.publish(messages[0].reply, data)
        assert await asking == b"abend"

    @opened_test("open")
    async def test_an_error_of_collect_ends_the_request(self, connect: Connect) -> None:
        server, client, inbox = connect(), connect(), ReceivedMessages()
        await server.subscribe("ask", inbox)
        await server.flush()

        def collect(data: bytes) -> bytes | None:
            raise Unavailable(f"bad part {data!r}")

        asking = asyncio.ensure_future(client.request("ask", [b"?"], collect))
        await server.publish((await inbox.messages.get()).reply, b"x")
        assert "bad part" in str(await error_of(asking))

    @opened_test("open")
    async def test_a_request_without_a_subscriber_fails_at_once(self, connect: Connect) -> None:
        assert type(await error_of(connect().request("no.subscriber", [b"?"]))) is NoResponder

    @opened_test("open")
    async def test_a_request_without_a_reply_fails_when_its_time_is_over(self, connect: Connect) -> None:
        server = connect()
        await server.subscribe("silent", ReceivedMessages())
        await server.flush()
        error = await error_of(connect().request("silent", [b"?"], timeout_s=0.05))
        assert type(error) is ReplyTimeout

    @opened_test("open")
    async def test_a_closed_subscription_handles_messages_in_flight_and_then_no_more(self, connect: Connect) -> None:
        receiver, sender, inbox, other = connect(), connect(), ReceivedMessages(), ReceivedMessages()
        closing = await receiver.subscribe("a", inbox)
        dropping = await receiver.subscribe("b", other)
        assert (closing.subject, dropping.subject) == ("a", "b")
        await receiver.flush()
        await sender.publish("a", b"1")
        await sender.flush()
        await closing.close()
        await dropping.drop()
        assert await inbox.data(1) == [b"1"]
        for subject in ("a", "b"):
            await sender.publish(subject, b"2")
        await sender.flush()
        await receiver.flush()
        assert inbox.messages.empty()
        assert other.messages.empty()
        assert type(await error_of(sender.request("a", [b"?"]))) is NoResponder

    @opened_test("open")
    async def test_a_failing_handler_affects_no_other_subscriber(self, connect: Connect) -> None:
        errors: asyncio.Queue[object] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.put_nowait(context["exception"]))
        receiver, inbox = connect(), ReceivedMessages()

        def fail(message: Message) -> None:
            raise ZeroDivisionError(message.data)

        await receiver.subscribe("a", fail)
        await receiver.subscribe("a", inbox)
        await receiver.flush()
        await connect().publish("a", b"1")
        assert await inbox.data(1) == [b"1"]
        assert isinstance(await errors.get(), ZeroDivisionError)

    @opened_test("open")
    async def test_the_payload_limit_is_known_and_enforced(self, connect: Connect) -> None:
        transport, inbox = connect(), ReceivedMessages()
        assert transport.payload_limit == 0
        await transport.open()
        await transport.open()  # no effect
        limit = transport.payload_limit
        assert limit >= 65_536
        await transport.subscribe("a", inbox)
        assert isinstance(await error_of(transport.publish("a", b"x" * (limit + 1))), Unavailable)
        await transport.publish("a", b"x" * limit)
        assert await inbox.data(1) == [b"x" * limit]

    @opened_test("open")
    async def test_a_closed_transport_is_unavailable_and_ends_its_requests(self, connect: Connect) -> None:
        server, client, inbox = connect(), connect(), ReceivedMessages()
        await server.subscribe("ask", inbox)
        await server.flush()
        asking = asyncio.ensure_future(client.request("ask", [b"?"]))
        await inbox.messages.get()
        await client.close()
        sending = client.publish("ask", b"?"), client.request("ask", [b"?"])
        for work in (asking, *sending, client.subscribe("ask", inbox), client.flush()):
            assert isinstance(await error_of(work), Unavailable)


ONE: Final = 'workflow:\n- step: start\n  tool: {kind: http, url: "http://x/{{ workload }}"}\n'
LOOP: Final = """\
keychain:
- {name: api, kind: bearer, token: {env: X}}
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, input: {n: "{{ iter.n }}"}}
  next: {arcs: [{step: child}]}
- step: child
  tool: {kind: playbook, path: one, input: {n: 1}}
"""
BAD: Final = "workflow:\n- step: start\n  tool: {kind: nothing}\n  next: {arcs: [{step: x}]}\n"
WIDE: Final[dict[str, JSON]] = {
    "n": 2**70,
    "f": 1.0,
    "e": 1e-300,
    "t": "ü\u0000😀",
    "l": [None, True, {"": []}],
    "i": -(2**64),
}


class LinkParts(NamedTuple):
    """A link, and what is on its other side."""

    link: Link
    owner: Owner  # it owns all executions
    store: EventStore
    digests: Mapping[str, str]  # of the playbooks, by path


def task_done(frame: str, output: Output, **more: Any) -> TaskDone:
    return TaskDone(frame=frame, call=1, task="http", directive="continue", next=-1, output=output, **more)


class LinkContract:
    """Requests to the owner of an execution: the link gives the same answers and errors as the owner."""

    @abstractmethod
    def open(self, playbooks: Mapping[str, str]) -> AbstractAsyncContextManager[LinkParts]:
        """An owner that knows playbooks by path: each is the text without its head (`workflow:` …)."""

    @async_test
    async def test_a_grant_arrives_as_the_owner_gave_it(self) -> None:
        async with self.open({"one": ONE}) as (link, owner, _, digests):
            await link.start("e", digests["one"], Start(workload=WIDE, by="me"))
            live = await owner.load("e")
            assert live.state.workload == WIDE
            grant = await link.begin("e", "start#1", "w")
            assert grant is not None
            work = work_of(live.program, live.state, "start#1")
            assert (grant.work.frame, grant.work.place) == (work.frame, work.place)
            assert grant.work.pipeline.name == "start"
            assert [task.name for task in grant.work.pipeline.tasks] == [task.name for task in work.pipeline.tasks]
            assert (grant.epoch, grant.lease_s) == (live.in_flight["start#1"].epoch, 30.0)
            assert abs((SystemClock().now() - grant.at).total_seconds()) < 10
            assert await link.begin("e", "start#1", "another") is None

    @async_test
    async def test_a_report_is_committed_as_it_was_sent(self) -> None:
        async with self.open({"one": ONE}) as (link, owner, store, digests):
            await link.start("e", digests["one"], Start(workload=WIDE))
            grant = await link.begin("e", "start#1", "w")
            assert grant is not None
            output = Output(data=WIDE, own={"http": {"status": 200}})
            fact = task_done("start#1", output, started_at=grant.at, ms=1.5)
            report = Report(frame="start#1", position=0, facts=(fact,), epoch=grant.epoch)
            assert await link.report("e", report) == ReportAnswer("stop", "over")
            facts = [each for row in await store.read("e") for each in row.facts]
            assert [each.output for each in facts if isinstance(each, TaskDone)] == [output]
            assert await link.report("e", report) == await owner.report("e", report)

    @async_test
    async def test_a_report_with_room_brings_the_next_frames(self) -> None:
        async with self.open({"loop": LOOP, "one": ONE}) as (link, _, _, digests):
            await link.start("e", digests["loop"], Start())
            grant = await link.begin("e", "start#1[0]", "w")
            assert grant is not None
            fact = task_done("start#1[0]", Output(data=1))
            report = Report(frame="start#1[0]", position=0, facts=(fact,), epoch=grant.epoch)
            answer = await link.report("e", report, room=2)
            assert answer.word == "stop"
            frames = {each.work.frame.id for each in answer.next}
            assert frames <= {"start#1[1]", "start#1[2]"}
            for each in answer.next:
                assert await link.begin("e", each.work.frame.id, "another") is None

    @async_test
    async def test_starting_twice_is_one_start(self) -> None:
        async with self.open({"one": ONE}) as (link, _, store, digests):
            for _ in range(2):
                await link.start("e", digests["one"], Start())
            facts = [each for row in await store.read("e") for each in row.facts]
            assert sum(isinstance(each, Requested) for each in facts) == 1

    @async_test
    async def test_heartbeats_and_commands_have_the_effect_they_have_at_the_owner(self) -> None:
        async with self.open({"loop": LOOP, "one": ONE}) as (link, owner, _, digests):
            holds = []
            for id in ("a", "b", "c"):
                await link.start(id, digests["loop"], Start())
                grant = await link.begin(id, "start#1[1]", "w")
                assert grant is not None
                holds.append((id, "start#1[1]", grant.epoch))
            assert await link.beat("w", holds) == []
            await link.command("b", Cancel(reason="enough"))
            await link.command("c", Pause(by="me"))
            statuses = [(await owner.load(id)).state.status for id in ("a", "b", "c")]
            assert statuses == ["running", "cancelling", "paused"]
            stale = [("a", "start#1[1]", (holds[0][2][0], 0)), *holds[1:]]
            assert sorted(await link.beat("w", stale)) == sorted(await owner.beat("w", stale)) != []
            assert await link.beat("w", []) == []

    @async_test
    async def test_iterations_are_those_of_the_owner(self) -> None:
        async with self.open({"loop": LOOP, "one": ONE}) as (link, owner, _, digests):
            await link.start("a", digests["loop"], Start())
            failed = Output(status="error", error=Failure(kind="k", message="m"))
            for index, output in ((0, Output(data="x")), (2, failed)):
                frame = f"start#1[{index}]"
                grant = await link.begin("a", frame, "w")
                assert grant is not None
                facts = (task_done(frame, output),)
                await link.report("a", Report(frame=frame, position=0, facts=facts, epoch=grant.epoch))
            for only in (None, range(3), range(2, -1, -1), range(1, 2)):
                outputs = await link.iterations("a", "start#1", only)
                assert outputs == await owner.iterations("a", "start#1", only)
            assert (await link.iterations("a", "start#1"))[0] == Output(data="x")

    @async_test
    async def test_the_parent_is_the_execution_that_started_it(self) -> None:
        async with self.open({"one": ONE}) as (link, _, _, digests):
            await link.start("a", digests["one"], Start())
            await link.start("b", digests["one"], Start(parent="a/start#1@1", depth=1))
            assert (await link.parent("a"), await link.parent("b")) == (None, "a")
            assert isinstance(await error_of(link.parent("nobody")), NotFound)

    @async_test
    async def test_errors_of_the_owner_arrive_unchanged(self) -> None:
        async with self.open({"one": ONE, "bad": BAD}) as (link, owner, _, digests):
            await link.start("e", digests["one"], Start())
            requests: list[tuple[Callable[[Link], Awaitable[object]], type]] = [
                (lambda to: to.command("unknown", Cancel()), NotFound),
                (lambda to: to.command("e", Resume()), Rejected),
                (lambda to: to.report("unknown", Report(frame="start#1", position=0)), NotFound),
                (lambda to: to.start("f", "no-digest", Start()), NotFound),
                (lambda to: to.start("g", digests["bad"], Start()), PlaybookError),
            ]
            for request, kind in requests:
                direct, remote = await error_of(request(owner)), await error_of(request(link))
                assert type(remote) is type(direct) is kind
                assert str(remote) == str(direct)
                assert getattr(remote, "code", None) == getattr(direct, "code", None)
                assert getattr(remote, "problems", None) == getattr(direct, "problems", None)

    @async_test
    async def test_large_values_arrive_whole(self) -> None:
        async with self.open({"one": ONE}) as (link, _, _, digests):
            for id, text in (("compressible", "a" * 3_000_000), ("random", os.urandom(2_000_000).hex())):
                await link.start(id, digests["one"], Start(workload={"text": text}))
                grant = await link.begin(id, "start#1", "w")
                assert grant is not None
                assert grant.work.place.workload == {"text": text}


class FeedContract:
    """Live events: in order for a subscriber that is fast enough."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[tuple[Feed, Feed]]:
        """A publisher and a subscriber, perhaps in different processes, perhaps the same object."""

    @async_test
    async def test_a_subscriber_receives_events_of_its_execution(self) -> None:
        async with self.open() as (publisher, subscriber), subscriber.subscribe("e") as events:
            publisher.publish(FeedEvent("another", 9))
            publisher.publish(FeedEvent("e", 3))
            assert await events_until(events, 3) == [FeedEvent("e", 3)]
            publisher.publish(FeedEvent("e", 4, over=True))
            assert (await events_until(events, 4))[-1] == FeedEvent("e", 4, True)

    @async_test
    async def test_a_subscriber_of_all_receives_events_of_all(self) -> None:
        ids = ["e", "a.b", ">", "*", "", "ü x\r\n", "x" * 500]
        async with self.open() as (publisher, subscriber), subscriber.subscribe() as events:
            for seq, id in enumerate(ids, 1):
                publisher.publish(FeedEvent(id, seq))
            received = {await anext(events) for _ in ids}
            assert received == {FeedEvent(id, seq) for seq, id in enumerate(ids, 1)}

    @async_test
    async def test_lines_arrive_in_order(self) -> None:
        async with self.open() as (publisher, subscriber), subscriber.subscribe("e") as events:
            lines = [{"frame": "a#1", "kind": "line", "words": str(number)} for number in range(50)]
            for line in lines:
                publisher.publish(FeedEvent("e", line=line))
            publisher.publish(FeedEvent("e", 1))
            received = await events_until(events, 1)
            assert [each.line for each in received if each.line is not None] == lines

    @async_test
    async def test_a_subscriber_without_lines_receives_the_other_events(self) -> None:
        async with self.open() as (publisher, subscriber), subscriber.subscribe("e", lines=False) as events:
            publisher.publish(FeedEvent("e", line={"frame": "a#1", "kind": "line", "words": "x"}))
            publisher.publish(FeedEvent("e", 1))
            assert await events_until(events, 1) == [FeedEvent("e", 1)]

    @async_test
    async def test_combined_events_keep_the_highest_seq_and_the_end(self) -> None:
        async with self.open() as (publisher, subscriber), subscriber.subscribe("e") as events:
            for seq in (1, 7, 5):
                publisher.publish(FeedEvent("e", seq, over=seq == 7))
            received = await events_until(events, 7)
            assert received[-1].over

    @async_test
    async def test_several_subscribers_receive_the_same_event(self) -> None:
        async with (
            self.open() as (publisher, subscriber),
            subscriber.subscribe("e") as one,
            subscriber.subscribe("e") as two,
            subscriber.subscribe() as every,
        ):
            async with subscriber.subscribe("e"):
                pass  # one that leaves takes nothing from the others
            publisher.publish(FeedEvent("e", 2))
            for events in (one, two, every):
                assert await anext(events) == FeedEvent("e", 2)

    @async_test
    async def test_publishing_without_subscribers_has_no_effect(self) -> None:
        async with self.open() as (publisher, subscriber):
            publisher.publish(FeedEvent("e", 1, line={"words": "x"}))
            async with subscriber.subscribe("f") as events:
                publisher.publish(FeedEvent("f", 2))
                assert await anext(events) == FeedEvent("f", 2)


async def events_until(events: AsyncIterator[FeedEvent], seq: int) -> list[FeedEvent]:
    """The events up to the one with this seq."""
    received: list[FeedEvent] = []
    async for each in events:
        received.append(each)
        if each.seq == seq:
            break
    return received


class ShiftedClock(SystemClock):
    """A clock that a test moves forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


class RegistryParts(NamedTuple):
    registry: WorkerRegistry
    announce: Callable[[WorkerInfo], Awaitable[None]]  # the registry knows the worker when it returns


class WorkerRegistryContract:
    """Workers that announce themselves."""

    @abstractmethod
    def open(self, clock: SystemClock) -> AbstractAsyncContextManager[RegistryParts]:
        """An empty registry."""

    @async_test
    async def test_workers_are_listed_by_name(self) -> None:
        clock = ShiftedClock()
        async with self.open(clock) as (registry, announce):
            assert registry.workers() == []
            made = [_worker(name, clock) for name in ("b", "a", "c")]
            for worker in made:
                await announce(worker)
            workers = registry.workers()
            assert [each._replace(at=AT) for each in workers] == [each._replace(at=AT) for each in sorted(made)]
            assert all(abs((clock.now() - each.at).total_seconds()) < 10 for each in workers)

    @async_test
    async def test_an_announcement_replaces_the_one_before(self) -> None:
        clock = ShiftedClock()
        async with self.open(clock) as (registry, announce):
            for slots in (4, 6):
                await announce(_worker("a", clock, slots=slots))
            assert [each.slots for each in registry.workers()] == [6]

    @async_test
    async def test_slots_are_those_of_a_pool_without_leaving_workers(self) -> None:
        clock = ShiftedClock()
        async with self.open(clock) as (registry, announce):
            await announce(_worker("a", clock, slots=4))
            await announce(_worker("b", clock, slots=8))
            await announce(_worker("c", clock, pool="gpu", slots=1))
            await announce(_worker("d", clock, slots=99, leaving=True))
            assert [registry.slots(pool) for pool in (POOL, "gpu", "none")] == [12, 1, 0]

    @async_test
    async def test_slots_follow_each_announcement(self) -> None:
        clock = ShiftedClock()
        async with self.open(clock) as (registry, announce):
            await announce(_worker("a", clock, slots=4))
            for worker, slots in (
                (_worker("b", clock, slots=8), 12),
                (_worker("b", clock, slots=8), 12),
                (_worker("b", clock, slots=6), 10),
                (_worker("b", clock, pool="gpu", slots=6), 4),
                (_worker("a", clock, slots=4, leaving=True), 0),
            ):
                await announce(worker)
                assert registry.slots(POOL) == slots

    @async_test
    async def test_a_silent_worker_disappears(self) -> None:
        clock = ShiftedClock()
        async with self.open(clock) as (registry, announce):
            for name in ("a", "b"):
                await announce(_worker(name, clock))
            clock.ahead_s += 14
            await announce(_worker("b", clock))
            assert [each.name for each in registry.workers()] == ["a", "b"]
            clock.ahead_s += 2
            assert [each.name for each in registry.workers()] == ["b"]
            assert registry.slots(POOL) == 4


def _worker(name: str, clock: SystemClock, *, pool: str = POOL, slots: int = 4, leaving: bool = False) -> WorkerInfo:
    return WorkerInfo(name, pool, slots, 1, "host", 42, "1.0", {"zone": "b"}, leaving, clock.now())
