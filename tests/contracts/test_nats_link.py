"""Workers and owners over a real NATS: what comes is what was given, errors are themselves, size does not matter."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from nats.aio.msg import Msg

from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.adapters.nats.connection import Connection
from noetl.adapters.nats.queue import NatsQueue
from noetl.clock import SystemClock
from noetl.control.executions import Control
from noetl.control.playbooks import CompiledPlaybooks
from noetl.engine.commands import Cancel, Pause, Report, Resume, Start
from noetl.engine.facts import TaskDone
from noetl.engine.moves import RunTask
from noetl.engine.work import work_of
from noetl.errors import Damaged, NotFound, PlaybookError, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.chunking import WHOLE_BYTES_MAX, Parcel, Parcels, opened, packed
from noetl.link.client import Asking, NatsLink
from noetl.link.messages import PARTITIONS, READING, Begin, answer_in, reply_of, request_of
from noetl.link.playbook_cache import NatsTexts
from noetl.output import JSON, Failure, Output
from noetl.ports import Epoch, ReportAnswer
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts
from tests.contracts.nats_houses import Programs, Server, Shelf, link_of, served
from tests.playbooks import kinds
from tests.services_nats import NatsServer, running_nats

ONE = 'workflow:\n- step: start\n  tool: {kind: http, url: "http://x/{{ workload }}"}\n'
LOOP = """\
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
WIDE: dict[str, JSON] = {
    "n": 2**70,
    "f": 1.0,
    "e": 1e-300,
    "t": "ü\u0000😀",
    "l": [None, True, {"": []}],
    "i": -(2**64),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


def done(frame: str, output: Output, **more: Any) -> TaskDone:
    return TaskDone(frame=frame, call=1, task="http", directive="continue", next=-1, output=output, **more)


def test_a_grant_comes_as_the_owner_gave_it_and_a_report_goes_on_record_as_it_was(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (house, connection, shelf):
            link = link_of(connection)
            await link.start("e", shelf.digests["one"], Start(workload=WIDE, by="me"))
            live = house.control.executions["e"]
            assert live.state.workload == WIDE
            grant = await link.begin("e", "start#1", "w")
            assert grant is not None
            given = work_of(live.program, live.state, "start#1")
            assert grant.work.frame == given.frame
            assert grant.work.place == given.place
            assert grant.work.pipeline.name == "start"
            assert [task.name for task in grant.work.pipeline.tasks] == [
                task.name for task in given.pipeline.tasks
            ]
            assert (grant.epoch, grant.lease_s) == (live.in_flight["start#1"].epoch, 30.0)
            assert abs((house.control.now() - grant.at).total_seconds()) < 10
            assert await link.begin("e", "start#1", "another") is None
            fact = done(
                "start#1", Output(data=WIDE, own={"http": {"status": 200}}), started_at=grant.at, ms=1.5
            )
            report = Report(frame="start#1", position=0, facts=(fact,), epoch=grant.epoch)
            assert await link.report("e", report) == ReportAnswer("stop", "over")
            rows = await house.control.store.read("e")
            facts = [each for row in rows for each in row.facts if isinstance(each, TaskDone)]
            assert [each.output for each in facts] == [fact.output]
            assert await link.report("e", report) == await house.control.report("e", report)

    asyncio.run(work())


def test_beats_commands_and_iterations_are_answered_as_by_the_owner_itself(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"loop": LOOP, "one": ONE}) as (house, connection, shelf):
            link, ids = link_of(connection), ["a", "b", "c"]
            holds = []
            for id in ids:
                await link.start(id, shelf.digests["loop"], Start())
                await link.start(id, shelf.digests["loop"], Start())  # twice is once
                grant = await link.begin(id, "start#1[1]", "w")
                assert grant is not None
                holds.append((id, "start#1[1]", grant.epoch))
            assert await link.beat("w", holds) == []
            await link.command("b", Cancel(reason="enough"))
            await link.command("c", Pause(by="me"))
            assert {id: house.control.executions[id].state.status for id in ids} == {
                "a": "running", "b": "cancelling", "c": "paused",
            }  # fmt: skip
            stale = [("a", "start#1[1]", (holds[0][2][0], 0)), *holds[1:]]
            assert sorted(await link.beat("w", stale)) == sorted(await house.control.beat("w", stale))
            for index, output in (
                (0, Output(data="x")),
                (2, Output(status="error", error=Failure(kind="k", message="m"))),
            ):
                frame = f"start#1[{index}]"
                grant = await link.begin("a", frame, "w")
                assert grant is not None
                fact = done(frame, output)
                await link.report("a", Report(frame=frame, position=0, facts=(fact,), epoch=grant.epoch))
            for only in (None, range(3), range(2, -1, -1), range(1, 2)):
                over = await link.iterations("a", "start#1", only)
                assert over == await house.control.iterations("a", "start#1", only)
            assert (await link.iterations("a", "start#1"))[0] == Output(data="x")

    asyncio.run(work())


def test_errors_of_the_owner_come_as_themselves(server: NatsServer) -> None:
    async def work() -> None:
        bodies = {
            "one": ONE,
            "bad": "workflow:\n- step: start\n  tool: {kind: nothing}\n  next: {arcs: [{step: x}]}\n",
        }
        async with served(server.url, bodies) as (house, connection, shelf):
            link = link_of(connection)
            await link.start("e", shelf.digests["one"], Start())
            asked = [
                (link.command, house.control.command, ("nobody", Cancel())),
                (link.command, house.control.command, ("e", Resume())),
                (link.report, house.control.report, ("nobody", Report(frame="start#1", position=0))),
                (link.start, house.control.start, ("f", "no-digest", Start())),
                (link.start, house.control.start, ("g", shelf.digests["bad"], Start())),
            ]
            kinds_of: list[type[BaseException]] = []
            for over, direct, given in asked:
                errors = []
                for call in (over, direct):
                    with pytest.raises((NotFound, Rejected, PlaybookError)) as told:
                        await call(*given)  # type: ignore[operator]  # of many shapes
                    errors.append(told.value)
                assert type(errors[0]) is type(errors[1])
                assert str(errors[0]) == str(errors[1])
                assert getattr(errors[0], "code", None) == getattr(errors[1], "code", None)
                assert getattr(errors[0], "problems", None) == getattr(errors[1], "problems", None)
                kinds_of.append(type(errors[0]))
            assert set(kinds_of) == {NotFound, Rejected, PlaybookError}

    asyncio.run(work())


def test_a_worker_without_the_tool_of_a_playbook_leaves_it_to_others(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (_, connection, shelf):
            few = {name: kind for name, kind in kinds().items() if name != "http"}
            link = NatsLink(connection, CompiledPlaybooks(NatsTexts(connection), few))
            await link.start("e", shelf.digests["one"], Start())
            with pytest.raises(Unavailable, match="can not run here"):
                await link.begin("e", "start#1", "w")

    asyncio.run(work())


def test_without_an_owner_it_is_unavailable_at_once_and_with_another_one_it_goes_on(
    server: NatsServer,
) -> None:
    async def work() -> None:
        store, shelf = MemoryStore(SystemClock(), PARTITIONS), Shelf({"one": ONE})
        first, second = (Server(server.url, store, shelf, name=name) for name in ("s1", "s2"))
        connection = Connection(server.url)
        link = NatsLink(connection, Programs(shelf))
        try:
            async with asyncio.timeout(120):
                with pytest.raises(Unavailable, match="no server has partition"):
                    await link.begin("e", "start#1", "w")
                with pytest.raises(Unavailable, match="no server is there"):
                    await link.iterations("e", "start#1")
                with pytest.raises(Unavailable, match="no server has partition"):
                    await link.beat("w", [("e", "start#1", (1, 1)), ("f", "start#1", (1, 1))])
                await first.keep()
                await link.start("e", shelf.digests["one"], Start())
                grant = await link.begin("e", "start#1", "w")
                assert grant is not None
                await first.owners.leave()
                with pytest.raises(Unavailable, match="does not own"):
                    await link.begin("e", "start#1", "w")
                await first.answering.follow(set())
                await second.keep()
                report = Report(
                    frame="start#1", position=0, facts=(done("start#1", Output(data=1)),), epoch=grant.epoch
                )
                assert await link.report("e", report) == ReportAnswer("stop", "over")
                assert second.control.executions["e"].state.status == "ok"
        finally:
            for each in (first, second):
                await each.close()
            await connection.close()

    asyncio.run(work())


def test_servers_share_the_partitions_and_a_beat_reaches_all_of_them(server: NatsServer) -> None:
    async def work() -> None:
        store, shelf = MemoryStore(SystemClock(), PARTITIONS), Shelf({"one": ONE})
        servers = [Server(server.url, store, shelf, name=name) for name in ("s1", "s2")]
        connection = Connection(server.url)
        link = NatsLink(connection, Programs(shelf))
        try:
            async with asyncio.timeout(120):
                for each in (*servers, *servers):  # who is there is known after one round
                    await each.keep()
                assert [len(each.owners.owned) for each in servers] == [32, 32]
                holds = []
                for id in map(str, range(16)):
                    await link.start(id, shelf.digests["one"], Start())
                    grant = await link.begin(id, "start#1", "w")
                    assert grant is not None
                    holds.append((id, "start#1", grant.epoch))
                    await link.command(id, Cancel())
                assert all(each.control.executions for each in servers)
                expected = [stop for each in servers for stop in await each.control.beat("w", holds)]
                assert sorted(await link.beat("w", holds)) == sorted(expected)
                await servers[1].answering.follow(())
                heard = await link.beat("w", holds)
                assert sorted(heard) == sorted(await servers[0].control.beat("w", holds))
        finally:
            for each in servers:
                await each.close()
            await connection.close()

    asyncio.run(work())


def test_whole_executions_with_loops_and_children_run_over_queue_and_link(server: NatsServer) -> None:
    async def answer(called: RunTask, _context: CallContext) -> Output:
        return Output(data=called.input or called.fields or None)

    async def work() -> None:
        async with served(server.url, {"loop": LOOP, "one": ONE}) as (house, connection, shelf):
            link, queue = link_of(connection), NatsQueue(connection, "default")
            await queue.open()
            outside = WorkerPorts(link, queue, MemoryResults())
            worker = Worker("w", outside, answer, SystemClock())
            slots = [asyncio.ensure_future(worker.serve()) for _ in range(4)]
            ended: asyncio.Queue[str] = asyncio.Queue()
            house.watchers.append(lambda live, _: None if live.state.live else ended.put_nowait(live.id))
            ids = [f"e{number}" for number in range(5)]
            for id in ids:
                await link.start(id, shelf.digests["loop"], Start())
            over: set[str] = set()
            while not over.issuperset(ids):
                over.add(await ended.get())
            for id in ids:
                rows = await house.control.store.read(id)
                assert rows[-1].facts[-1].status == "ok"  # type: ignore[union-attr]  # the last one has it
            worker.stop_claiming()
            await queue.close()
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, return_exceptions=True)

    asyncio.run(work())


# Sizes


def test_what_is_larger_than_a_message_travels_pressed_or_in_parts(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (_, connection, shelf):
            link = link_of(connection)
            assert connection.message_bytes == 0  # not even connected yet
            for id, text in (("pressed", "a" * 3_000_000), ("parts", os.urandom(2_000_000).hex())):
                await link.start(id, shelf.digests["one"], Start(workload={"text": text}))
                grant = await link.begin(id, "start#1", "w")
                assert grant is not None
                assert grant.work.place.workload == {"text": text}

    asyncio.run(work())


def test_what_is_too_large_for_the_link_is_refused_in_words(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (_, connection, shelf):
            link = link_of(connection)
            with pytest.raises(Rejected, match="payload-too-large") as told:
                await link.start(
                    "e", shelf.digests["one"], Start(workload={"text": "a" * (WHOLE_BYTES_MAX + 1)})
                )
            assert told.value.code == "payload-too-large"
            with pytest.raises(NotFound):
                await link.command("e", Cancel())

    asyncio.run(work())


def test_parts_are_put_together_in_any_order_and_not_when_one_is_missing() -> None:
    async def work() -> None:
        body = os.urandom(300_000)
        messages = await packed(body, 65_536)
        assert len(messages) > 4
        parcel = Parcel()
        for message in reversed(messages[1:]):
            assert parcel.add(message) is None
        assert parcel.add(messages[1]) is None  # twice is once
        whole = parcel.add(messages[0])
        assert whole is not None
        assert await opened(whole) == body
        with pytest.raises(Unavailable):
            await opened(whole[:-5])
        with pytest.raises(Unavailable):
            await opened(b"z" + os.urandom(100))

    asyncio.run(work())


def test_parts_whose_rest_never_comes_are_given_up_for_newer_ones() -> None:
    async def work() -> None:
        messages = await packed(os.urandom(300_000), 65_536)
        parcels = Parcels()
        for sender in range(2_000):
            assert parcels.add(str(sender), messages[0]) is None
        for message in messages[1:-1]:
            assert parcels.add("1999", message) is None
        assert parcels.add("1999", messages[-1]) is not None
        for message in messages[1:]:
            assert parcels.add("0", message) is None
        for broken in (b"p", b"p\x00\x01\x00\x01x", b"p\x00\x09\x00\x01x"):
            with pytest.raises(Unavailable):
                parcels.add("2", broken)

    asyncio.run(work())


# Strangers, and other versions


def test_what_a_server_does_not_understand_is_refused_in_words_and_it_goes_on(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (_, connection, shelf):
            number = partition_of("e", PARTITIONS)
            good = json.loads(request_of(Begin("e", "start#1", "w")))
            strange: list[tuple[bytes, str]] = [
                (b"", "can not read"),
                (b"\xff\x00", "can not read"),
                (b"[" * 200_000, "can not read"),
                (b"z" + b"x" * 99, "can not be opened"),
                (b"p\x00", "empty part"),
                (json.dumps({**good, "v": 99}).encode(), "version 99"),
                (json.dumps({**good, "ask": "dance"}).encode(), '"dance"'),
                (json.dumps({**good, "body": {"execution_id": 1}}).encode(), "can not read"),
                (request_of(Begin("another", "start#1", "w")), "not for"),
            ]
            for body, words in strange:
                with pytest.raises((Unavailable, Rejected), match=words):
                    answer_in(await connection.request(f"noetl.ask.{number}", [body]), READING.grant)
            more = {**good, "later": 1, "body": {**good["body"], "later": 2}}
            answer = await connection.request(f"noetl.ask.{number}", [json.dumps(more).encode()])
            assert answer_in(answer, READING.grant) is None  # unknown fields are passed over
            link = link_of(connection)
            await link.start("e", shelf.digests["one"], Start())

    asyncio.run(work())


def test_answers_of_another_version_and_no_answers_at_all_are_unavailable(server: NatsServer) -> None:
    async def work() -> None:
        connection = Connection(server.url)
        bodies = [
            b"",
            b"{}",
            b"[]",
            b"\xff",
            reply_of(None).replace(b'"v":1', b'"v":99'),
            reply_of({"digest": 1}),
        ]

        def hear(message: Msg) -> None:
            said.append(asyncio.ensure_future(connection.publish(message.reply, bodies.pop())))

        said: list[asyncio.Future[None]] = []
        await connection.subscribe("noetl.ask.*", hear)
        try:
            while bodies:
                with pytest.raises(Unavailable):
                    await Asking(connection).owner("e", Begin("e", "start#1", "w"), READING.grant)
        finally:
            await connection.close()

    asyncio.run(work())


class Falling(Control):
    """With a bug."""

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        raise ZeroDivisionError(worker, holds)


def test_a_server_that_falls_over_a_request_says_so_and_answers_the_next_one(server: NatsServer) -> None:
    async def work() -> None:
        store, shelf = MemoryStore(SystemClock(), PARTITIONS), Shelf({"one": ONE})
        house, connection = Server(server.url, store, shelf, control=Falling), Connection(server.url)
        loud: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: loud.append(context["exception"]))
        try:
            async with asyncio.timeout(120):
                await house.keep()
                link = NatsLink(connection, house.programs)
                with pytest.raises(Unavailable, match="ZeroDivisionError"):
                    await link.beat("w", [("e", "start#1", (1, 1))])
                assert [type(each) for each in loud] == [ZeroDivisionError]
                assert await link.begin("e", "start#1", "w") is None
        finally:
            await house.close()
            await connection.close()

    asyncio.run(work())


def test_a_text_is_had_from_any_server_and_not_when_it_is_another(server: NatsServer) -> None:
    async def work() -> None:
        async with served(server.url, {"one": ONE}) as (_, connection, shelf):
            digest = shelf.digests["one"]
            texts = NatsTexts(connection)
            assert await texts.get(digest) == shelf.texts[digest]
            with pytest.raises(NotFound):
                await texts.get("no-such-digest")
            shelf.texts[digest] = shelf.texts[digest]._replace(text="steal: everything")
            with pytest.raises(Damaged):
                await texts.get(digest)

    asyncio.run(work())
