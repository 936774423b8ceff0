"""Isolated pools: a worker gets work, data and secrets of its own pool, and nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from noetl.adapters.memory import MemoryTransport
from noetl.clock import SystemClock
from noetl.control.executions import Control
from noetl.engine import facts
from noetl.engine.commands import Cancel, Decide, EndLoop, Report, Signal, Start, StartLoop
from noetl.engine.facts import ForBlock, ForChild, ForDocument, FrameParked, TaskStarted, Token
from noetl.engine.parking import child_id
from noetl.engine.stored import mark
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.authorisation import authorise, is_answer
from noetl.link.client import LinkLogs, LinkPlaybooks, LinkRequests
from noetl.link.keys import SERVER, LinkGuard, LinkIdentity, LinkKey, LinkKeys, parse_pool_keys, request_context
from noetl.link.messages import (
    DECODERS,
    PARTITIONS,
    BeginRequest,
    ReportRequest,
    WorkRequest,
    encode_error,
    encode_reply,
    encode_request,
)
from noetl.link.secret_channel import LinkSecrets
from noetl.link.workers import LinkWorkerRegistry
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import Credential
from noetl.ports import Epoch, Grant, Message, PrintedLine, ReportAnswer, WorkerInfo
from noetl.testing.contracts.link import task_done
from noetl.testing.fake_clock import FakeClock
from tests.contracts.link_servers import KEY, LinkedServer, Playbooks, link_of, served
from tests.unit.link.test_link import connector
from tests.unit.link.test_secret_channel import API

A, B = LinkKey(b"a" * 32), LinkKey(b"b" * 32)
POOLS = {"a": [A], "b": [B]}
TASK = """\
keychain:
- {name: api, kind: bearer, token: {env: X}}
workflow:
- step: start
  spec: {pool: POOL}
  tool: {kind: http, url: "http://x", auth: api}
"""
CALLS = """\
workflow:
- step: start
  spec: {pool: a}
  tool: {kind: playbook, path: of_a}
"""
TWO = """\
workflow:
- step: start
  spec: {pool: a}
  tool: {kind: http, url: "http://x"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
- {step: other, spec: {pool: b}, tool: {kind: noop}}
"""
MIXED = """\
keychain:
- {name: api, kind: bearer, token: {env: X}}
- {name: other, kind: bearer, token: {env: Y}}
workflow:
- step: start
  spec: {pool: a}
  tool: {kind: http, url: "http://x", headers: {token: "{{ keychain.other }}"}}
  next: {arcs: [{step: far}]}
- {step: far, spec: {pool: b}, tool: {kind: http, url: "http://x", auth: api}}
"""
TRANSFER = """\
keychain:
- {name: api, kind: bearer, token: {env: X}}
- {name: other, kind: bearer, token: {env: Y}}
workflow:
- step: start
  spec: {pool: a}
  tool: {kind: transfer, source: {kind: object, url: a.csv}, target: {kind: postgres, auth: other, table: t}}
  next: {arcs: [{step: far}]}
- {step: far, spec: {pool: b}, tool: {kind: http, url: "http://x", auth: api}}
"""
BODIES = {
    "transfer": TRANSFER,
    "resolve": TRANSFER.replace(
        "{kind: transfer, source: {kind: object, url: a.csv}, target: {kind: postgres, auth: other, table: t}}",
        "{kind: resolve, ref: {type: blob, locator: {key: x}}}",
    ),
    "mixed": MIXED,
    "two": TWO,
    "of_a": TASK.replace("POOL", "a"),
    "of_b": TASK.replace("POOL", "b"),
    "calls": CALLS,
}


class PoolWorker:
    """A worker of a pool that uses the link as it wants."""

    def __init__(self, transport: MemoryTransport, pool: str, key: LinkKey) -> None:
        self.held: tuple[str, str, Epoch] | None = None
        self.identity = LinkIdentity(pool, key, SystemClock(), worker=f"w-{pool}", held_frame=lambda: self.held)
        self.transport = transport
        self.link = link_of(transport, self.identity)
        self.secrets = LinkSecrets(
            transport, key, self.identity.worker, lambda: self.held, SystemClock(), identity=self.identity
        )

    async def begin(self, id: str) -> Grant:
        grant = await self.link.begin(id, "start#1", self.identity.worker)
        assert grant is not None
        self.held = (id, "start#1", grant.epoch)
        return grant


class Pools(NamedTuple):
    """Two executions, each with a frame of one pool."""

    server: LinkedServer[MemoryTransport]
    playbooks: Playbooks
    a: PoolWorker
    b: PoolWorker


@asynccontextmanager
async def pools() -> AsyncIterator[Pools]:
    async with served(connector(), BODIES, pools=POOLS) as (server, transport, playbooks):
        for id, path in (("ea", "of_a"), ("eb", "of_b"), ("ec", "calls")):
            await server.link.start(id, playbooks.digests[path], Start(workload={"of": path}))
        yield Pools(server, playbooks, PoolWorker(transport, "a", A), PoolWorker(transport, "b", B))


def report(frame: str, epoch: Epoch, **parts: object) -> Report:
    return replace(Report(frame=frame, position=0, epoch=epoch), **parts)


def done(epoch: Epoch) -> Report:
    return report("start#1", epoch, facts=(task_done("start#1", Output(data=1)),))


def printed(call: str) -> PrintedLine:
    return PrintedLine(at=SystemClock().now(), run="start#1", call=call, stream="out", text="x")


def in_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


async def refusal(work: Awaitable[object]) -> str:
    with pytest.raises(NoetlError) as told:
        await work
    return str(told.value)


@in_loop
async def test_workers_of_each_pool_do_their_work() -> None:
    async with pools() as at:
        a, b, server = at.a, at.b, at.server
        for worker, id, path in ((a, "ea", "of_a"), (b, "eb", "of_b")):
            grant = await worker.begin(id)
            assert grant.work.place.workload == {"of": path}
            assert worker.held is not None
            assert await worker.link.beat("w", [worker.held]) == []
            assert (await worker.secrets.fetch(API)).values[""].reveal() == "a-secret-value"
            assert await worker.link.parent(id) is None
            assert await worker.link.iterations(id, "start#1") == []
            assert await worker.link.report(id, done(grant.epoch)) == ReportAnswer("stop", "over")
            assert server.control.executions[id].state.status == "ok"
        assert server.refused == []


@in_loop
async def test_a_worker_begins_and_reports_no_frame_of_another_pool() -> None:
    async with pools() as at:
        a, b, server = at.a, at.b, at.server
        grant = await b.begin("eb")
        for work in (
            a.link.begin("eb", "start#1", "w-b"),
            a.link.report("eb", done(grant.epoch)),
            a.link.report("eb", report("start#1", (9, 9))),  # would return the frame
            a.link.beat("w-b", [("eb", "start#1", grant.epoch)]),
            a.link.beat("w-b", [("eb", "start#1", (9, 9))]),
        ):
            assert 'work on start#1, which is of the pool "b"' in await refusal(work)
        live = server.control.executions["eb"]
        assert live.in_flight["start#1"].epoch == grant.epoch
        assert live.in_flight["start#1"].worker == "w-b"
        assert await b.link.report("eb", done(grant.epoch)) == ReportAnswer("stop", "over")
        assert len(server.refused) == 5


@in_loop
async def test_a_worker_writes_lines_of_calls_of_its_own_pool_only() -> None:
    async with pools() as at:
        await at.b.begin("eb")
        own = LinkLogs(at.b.transport, at.b.identity)
        assert await own.append("eb", [printed("start#1/1")]) is True
        assert [line.call for line in at.server.lines] == ["start#1/1"]
        other = LinkLogs(at.a.transport, at.a.identity)
        assert "may not write lines of start#1/1" in await refusal(other.append("eb", [printed("start#1/1")]))
        for call in ("nowhere#1/1", "upstart#1/1", "start#1", "", "/", "x]/1"):
            assert "may not write lines of" in await refusal(other.append("ea", [printed(call)]))
        assert len(at.server.lines) == 1


@in_loop
async def test_secrets_are_sent_only_for_a_granted_frame_of_the_pool() -> None:
    async with pools() as at:
        a, b = at.a, at.b
        grant = await b.begin("eb")
        a.held = ("eb", "start#1", grant.epoch)
        assert 'of the pool "b"' in await refusal(a.secrets.fetch(API))
        a.held = ("ea", "start#1", (0, 0))  # dispatched, and not begun
        assert "no longer holds start#1" in await refusal(a.secrets.fetch(API))
        own = await a.begin("ea")
        a.held = ("ea", "start#1", (own.epoch[0], own.epoch[1] + 1))
        assert "no longer holds start#1" in await refusal(a.secrets.fetch(API))
        a.held = ("ea", "start#1", own.epoch)
        await a.link.report("ea", done(own.epoch))
        assert "no longer holds start#1" in await refusal(a.secrets.fetch(API))


@in_loop
async def test_a_worker_gets_only_the_secrets_that_steps_of_its_pool_use() -> None:
    async with pools() as at:
        await at.server.link.start("mixed", at.playbooks.digests["mixed"], Start())
        await at.a.begin("mixed")
        assert 'may not fetch the keychain entry "api"' in await refusal(at.a.secrets.fetch(API))
        other = Credential(name="other", kind="bearer", fields={"token": {"env": "Y"}}, at=())
        assert (await at.a.secrets.fetch(other)).values[""].reveal() == "a-secret-value"


@in_loop
async def test_a_worker_gets_the_secrets_that_a_transfer_or_a_ref_may_name() -> None:
    other = Credential(name="other", kind="bearer", fields={"token": {"env": "Y"}}, at=())
    async with pools() as at:
        for path in ("transfer", "resolve"):
            await at.server.link.start(path, at.playbooks.digests[path], Start())
            await at.a.begin(path)
            assert (await at.a.secrets.fetch(other)).values[""].reveal() == "a-secret-value"
            if path == "transfer":
                assert 'may not fetch the keychain entry "api"' in await refusal(at.a.secrets.fetch(API))


@in_loop
async def test_only_servers_start_and_command_executions() -> None:
    async with pools() as at:
        a, server, playbooks = at.a, at.server, at.playbooks
        grant = await a.begin("ea")
        assert "may not start executions" in await refusal(
            a.link.start("new", playbooks.digests["of_b"], Start(by="admin"))
        )
        number = partition_of("ea", PARTITIONS)
        asked = LinkRequests(a.transport, identity=a.identity).partition(number, WorkRequest(number), DECODERS.work)
        assert "may not list the work of all pools" in await refusal(asked)
        for command in (Cancel(), Signal(name="go"), EndLoop(run="other#1", picked={}), StartLoop(run="start#2")):
            for id in ("ea", "eb"):
                assert "may not send the command" in await refusal(a.link.command(id, command))
        a.held = None
        assert "may not send the command" in await refusal(a.link.command("ea", EndLoop(run="start#1", picked={})))
        a.held = ("ea", "start#1", (9, 9))
        assert "no longer holds" in await refusal(a.link.command("ea", EndLoop(run="start#1", picked={})))
        a.held = ("ea", "start#1", grant.epoch)
        await a.link.command("ea", EndLoop(run="start#1", picked={}))  # it is not a loop, so nothing happens
        assert {id: live.state.status for id, live in server.control.executions.items()} == dict.fromkeys(
            ("ea", "eb", "ec"), "running"
        )


@in_loop
async def test_a_worker_reads_only_the_tree_of_its_execution_and_its_playbook() -> None:
    async with pools() as at:
        a, server, playbooks = at.a, at.server, at.playbooks
        await server.link.start("kid", playbooks.digests["of_b"], Start(parent="ea/start#1@1"))
        await server.link.start(
            "named", playbooks.digests["of_a"],
            Start(workload={"rows_ref": {"type": "relational", "locator": {"execution_id": "eb", "run": "x#1"}}}),
        )  # fmt: skip
        assert "a different key" in await refusal(a.link.iterations("ea", "start#1")), "it holds no frame yet"
        await a.begin("ea")
        for work in (a.link.iterations("eb", "start#1"), a.link.parent("eb"), a.link.parent("ec")):
            with pytest.raises(NotFound, match="in the tree of ea"):
                await work
        assert await a.link.parent("kid") == "ea"
        assert await a.link.iterations("kid", "start#1") == []
        other = LinkPlaybooks(a.transport, a.identity)
        assert "may not read this playbook" in await refusal(other.get(playbooks.digests["of_b"]))
        await a.begin("named")
        assert await a.link.iterations("eb", "start#1") == []


def child(path: str, id: str, digest: str | None = None) -> ForChild:
    return ForChild(execution_id=id, path=path, digest=digest)


@in_loop
async def test_a_report_concerns_its_own_frame_and_calls_only_what_its_step_calls() -> None:
    async with pools() as at:
        a = at.a
        grant = await a.begin("ea")
        other = (task_done("start#1[1]", Output(data=1)),)
        running = TaskStarted(frame="x#1", call=1, task="start", started_at=SystemClock().now())
        for parts in ({"facts": other}, {"running": running}, {"parked": parked(child("x", "k"), frame="x#1")}):
            assert "report frames other than" in await refusal(
                a.link.report("ea", report("start#1", grant.epoch, **parts))
            )
        own = child_id("ea/start#1/1")
        for until, words in (
            (child("of_b", own), "may not start this playbook"),
            (ForBlock(block="x"), "may not call a block"),
            (ForDocument(digest="x"), "may not answer for the server"),
        ):
            work = a.link.report("ea", report("start#1", grant.epoch, parked=parked(until)))
            assert words in await refusal(work)


def parked(until: facts.Until, frame: str = "start#1") -> FrameParked:
    return FrameParked(frame=frame, call=1, until=until)


@in_loop
async def test_a_step_that_calls_a_playbook_starts_that_one_alone() -> None:
    async with pools() as at:
        a, playbooks = at.a, at.playbooks
        grant = await a.begin("ec")
        own = child_id("ec/start#1/1")
        text = "kind: Playbook"
        digest = sha256(text.encode()).hexdigest()
        for until, document in (
            (child("of_b", own), None),
            (child("of_a", "eb"), None),  # an execution that exists: its output would be the answer
            (child("of_a", own, playbooks.digests["of_b"]), None),
            (child("", own, digest), text),
        ):
            work = a.link.report("ec", report("start#1", grant.epoch, parked=parked(until), document=document))
            assert "may not start this playbook" in await refusal(work)
        answer = await a.link.report("ec", report("start#1", grant.epoch, parked=parked(child("of_a", own))))
        assert answer == ReportAnswer("stop", "over")


@in_loop
async def test_a_child_gets_no_refs_of_executions_outside_the_tree_of_its_caller() -> None:
    async with pools() as at:
        a, own = at.a, child_id("ec/start#1/1")
        grant = await a.begin("ec")
        ref = {"type": "relational", "locator": {"execution_id": "eb", "run": "start#1"}}
        for workload in ({"rows_ref": ref}, {"page": {"rows_ref": ref}}, {"rows": [{"next_ref": [ref]}]}):
            until = replace(child("of_a", own), workload=workload)
            work = a.link.report("ec", report("start#1", grant.epoch, parked=parked(until)))
            assert "no execution eb in the tree of ec" in await refusal(work)
        locator = {"execution_id": "ec", "run": "start#1"}
        until = replace(
            child("of_a", own), workload={"rows_ref": {"type": "relational", "locator": locator}, "row": ref}
        )
        answer = await a.link.report("ec", report("start#1", grant.epoch, parked=parked(until)))
        assert answer == ReportAnswer("stop", "over"), "data under another name is data"
        await a.begin(own)
        with pytest.raises(NotFound, match="in the tree of"):
            await a.link.iterations("eb", "start#1")


@in_loop
async def test_refs_in_stored_values_are_those_of_the_workload_d91() -> None:
    """Also in the value that a child gets: a body in the result store is read before the child starts."""
    async with pools() as at:
        a, own, control = at.a, child_id("ef/start#1/1"), at.server.control
        ref = {"type": "relational", "locator": {"execution_id": "eb", "run": "start#1"}}
        stored = mark(await control.results.put("ef", encode({"rows_ref": ref}), "application/json"))
        await at.server.link.start(
            "ef", at.playbooks.digests["calls"], Start(workload={"page": stored}, parent="ec/start#1@1")
        )
        grant = await a.begin("ef")
        assert await a.link.iterations("eb", "start#1") == []
        for workload in ({"next_ref": ref}, {"page": stored}):
            until = replace(child("of_a", own), workload=workload)
            answer = await a.link.report("ef", report("start#1", grant.epoch, parked=parked(until)))
            assert answer == ReportAnswer("stop", "over")
        grant = await a.begin("ec")
        stored = mark(await control.results.put("ec", encode([{"rows_ref": ref}]), "application/json"))
        until = replace(child("of_a", child_id("ec/start#1/1")), workload={"page": stored})
        work = a.link.report("ec", report("start#1", grant.epoch, parked=parked(until)))
        assert "no execution eb in the tree of ec" in await refusal(work)


@in_loop
async def test_an_input_as_a_whole_is_no_stored_value_d91() -> None:
    async with pools() as at:
        a = at.a
        grant = await a.begin("ec")
        forged = mark({"type": "blob", "locator": {"key": "ec/1"}})
        until = replace(child("of_a", child_id("ec/start#1/1")), workload=forged)
        work = a.link.report("ec", report("start#1", grant.epoch, parked=parked(until)))
        assert "may not hand over an input with the reserved key $stored" in await refusal(work)


class CountingOwner:
    """A control that counts how often the parent of each execution is looked up."""

    def __init__(self, control: Control) -> None:
        self.load, self.results, self._parent = control.load, control.results, control.parent
        self.asked = Counter[str]()

    async def parent(self, execution_id: str) -> str | None:
        self.asked[execution_id] += 1
        return await self._parent(execution_id)


@in_loop
async def test_the_parents_of_each_execution_are_looked_up_once_for_thousands_of_refs() -> None:
    async with pools() as at:
        for number in range(5):
            await at.server.link.start(f"kid {number}", at.playbooks.digests["of_b"], Start(parent="ec/start#1@1"))
        rows: list[JSON] = [
            {"a_ref": {"type": "blob", "locator": {"key": f"kid {number % 5}/{number}"}}} for number in range(4_000)
        ]
        until = replace(child("of_a", child_id("ec/start#1/1")), workload={"rows": rows})
        grant = await at.a.begin("ec")
        parking = report("start#1", grant.epoch, parked=parked(until))
        owner = CountingOwner(at.server.control)
        await authorise("a", ReportRequest("ec", parking), owner)  # type: ignore[arg-type]  # it needs no other parts
        assert owner.asked == {"ec": 1, **{f"kid {number}": 1 for number in range(5)}}


@in_loop
async def test_a_decision_makes_facts_about_itself_alone() -> None:
    async with pools() as at:
        await at.server.link.start("route", at.playbooks.digests["two"], Start())
        live = at.server.control.executions["route"]
        end, other = Token(id="start#1>0", step="end"), Token(id="start#1>0", step="other")
        failure = Failure(kind="x", message="x")
        for decision, fact, fits in (
            ("start#1!route", None, True),
            ("start#1!route", facts.NextEvaluated(run="start#1", tokens=(end,)), True),
            ("start#1!route", facts.NextEvaluated(run="start#1", tokens=(other,)), False),
            ("start#1!route", facts.NextEvaluated(run="other#1"), False),
            ("start#1!route", facts.FrameResumed(frame="other#1", run="start#1"), False),
            ("start#1!route", facts.Cancelled(), False),
            ("start#1!loop", facts.LoopStarted(run="start#1", count=1), True),
            ("start#1!loop", facts.LoopStarted(run="other#1", count=1), False),
            ("start#1!loop", facts.Finished(status="ok"), False),
            ("start#1!end", facts.StepFailed(run="start#1", error=failure), True),
            ("start#1!end", facts.StepFailed(run="other#1", error=failure), False),
            ("start#1>0!token", facts.StepWaiting(token="start#1>0"), True),
            ("start#1>0!token", facts.StepFailed(tokens=("start#1>1",), error=failure), False),
        ):
            command = Decide(decision=decision, digest="x", fact=fact)
            assert is_answer(live, command) is fits, fact


# Sealed messages


@in_loop
async def test_messages_without_the_key_of_their_pool_are_refused() -> None:
    async with pools() as at:
        a, server, playbooks = at.a, at.server, at.playbooks
        for identity, words in (
            (None, "only sealed messages"),
            (LinkIdentity("b", A, SystemClock(), worker="w"), "a different key from the server"),
            (LinkIdentity("c", A, SystemClock(), worker="w"), 'no key of the pool "c"'),
            (LinkIdentity(SERVER, A, SystemClock(), worker="w"), "a different key from the server"),
        ):
            link = link_of(a.transport, identity)
            with pytest.raises(Unavailable, match=words):
                await link.begin("eb", "start#1", "w")
            with pytest.raises(Unavailable, match=words):
                await link.start("new", playbooks.digests["of_a"], Start())
        assert "new" not in server.control.executions


@in_loop
async def test_a_message_counts_once_and_only_on_its_subject() -> None:
    async with pools() as at:
        a, b, server = at.a, at.b, at.server
        number = partition_of("eb", PARTITIONS)
        messages: list[bytes] = []
        seen = await a.transport.subscribe(f"noetl.ask.{number}.*", lambda message: messages.append(message.data))
        grant = await b.begin("eb")
        await seen.close()
        sealed = messages[0]
        for subject, words in ((f"noetl.ask.{number}.b", b""), (f"noetl.ask.{number}.a", b"a different key")):
            reply = await a.transport.request(subject, [sealed])
            assert words in reply
            assert b"grant" not in reply
        live = server.control.executions["eb"]
        assert live.in_flight["start#1"].epoch == grant.epoch, "a repeated begin makes no new grant"
        assert "b: repeated: this message was received before" in server.refused


@in_loop
async def test_nobody_without_the_key_reads_a_grant_or_forges_a_reply() -> None:
    async with pools() as at:
        subject = f"noetl.ask.{partition_of('eb', PARTITIONS)}.b"
        body = encode_request(BeginRequest("eb", "start#1", "w"))
        sealed = at.b.identity.cipher.seal(body, request_context(subject))
        reply = await at.a.transport.request(subject, [sealed])
        assert reply[:1] == b"k"
        assert b"workload" not in reply
    connect = connector()
    false, worker = connect(), connect()
    forged = [encode_reply(None), LinkIdentity("a", A, SystemClock()).cipher.seal(encode_reply(None), b"reply ")]
    errors = [encode_error(Rejected("gone", "stop")), *forged]

    answers: list[asyncio.Future[None]] = []

    def answer(message: Message) -> None:
        answers.append(asyncio.ensure_future(false.publish(message.reply, errors.pop(0))))

    await false.subscribe(subject, answer)
    requests = LinkRequests(worker, identity=LinkIdentity("b", B, SystemClock()))
    for words in ("gone: stop", "not sealed", "sealed with another key"):
        with pytest.raises(Unavailable, match=words):
            await requests.owner("eb", BeginRequest("eb", "start#1", "w"), DECODERS.nothing)
    for each in (false, worker):
        await each.close()


def test_an_old_message_is_refused() -> None:
    clock = FakeClock(datetime.fromisoformat("2026-01-01T00:00:00Z"))
    identity, guard = LinkIdentity("a", A, clock), LinkGuard(LinkKeys(KEY, POOLS), clock)
    sealed = identity.cipher.seal(b"{}", b"request s.a")
    assert guard.open(sealed, "s.a", "a").body == b"{}"
    later = LinkGuard(LinkKeys(KEY, POOLS), FakeClock(clock.now() + timedelta(seconds=121)))
    with pytest.raises(Unavailable, match="121 s old: synchronise the clocks"):
        later.open(sealed, "s.a", "a")


def test_a_pool_may_have_two_keys_while_they_change() -> None:
    clock = SystemClock()
    keys = parse_pool_keys(f"a={'YWFh' * 10}YWE= a={'YmJi' * 10}YmI= b={'YmJi' * 10}YmI=")
    assert {pool: len(each) for pool, each in keys.items()} == {"a": 2, "b": 1}
    guard = LinkGuard(LinkKeys(KEY, keys), clock)
    for key in (A, B):
        sealed = LinkIdentity("a", key, clock).cipher.seal(b"{}", b"request s")
        assert guard.open(sealed, "s", "a").sender == "a"


@pytest.mark.parametrize("text", ["a", "=x", "a=short", "a=YWFh b"])
def test_pool_keys_that_cannot_be_read_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Rejected) as told:
        parse_pool_keys(text)
    assert "short" not in str(told.value)


def test_pool_keys_need_a_key_of_servers() -> None:
    with pytest.raises(Rejected, match="NOETL_LINK_KEY"):
        LinkGuard(LinkKeys(None, POOLS), SystemClock())


@in_loop
async def test_a_worker_with_a_key_learns_that_servers_have_none() -> None:
    async with served(connector(), BODIES) as (_, transport, _playbooks):
        worker = PoolWorker(transport, "a", A)
        with pytest.raises(Unavailable, match="set NOETL_POOL_KEYS on all servers"):
            await worker.link.begin("ea", "start#1", "w")


@in_loop
async def test_a_worker_announces_itself_in_its_own_pool_alone() -> None:
    connect, clock = connector(), SystemClock()
    server, worker = connect(), connect()
    registry = LinkWorkerRegistry(server, clock, guard=LinkGuard(LinkKeys(KEY, POOLS), clock))
    await registry.open()
    info = WorkerInfo("w", "a", 4, 0, "host", 1, "1", {}, leaving=False, at=clock.now())
    await LinkWorkerRegistry(worker, clock).announce(info._replace(name="plain"))
    identity = LinkIdentity("a", A, clock)
    for each in (info, info._replace(name="other", pool="b")):
        await LinkWorkerRegistry(worker, clock, identity=identity).announce(each)
    await LinkWorkerRegistry(worker, clock, identity=LinkIdentity(SERVER, KEY, clock)).announce(
        info._replace(name="trusted", pool="b")
    )
    await worker.flush()
    assert [(each.name, each.pool) for each in registry.workers()] == [("trusted", "b"), ("w", "a")]
    for each_transport in (server, worker):
        await each_transport.close()
