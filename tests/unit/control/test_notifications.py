"""Notifications: one child execution for each event, which changes nothing in the execution that it speaks of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec

import pytest

from noetl.adapters.memory import MemoryStore
from noetl.control.notifications import REPAIR_AFTER_S, decision_url
from noetl.engine.commands import Cancel, Retry
from noetl.engine.facts import Fact, ForSignal, FrameParked, Processed, Requested
from noetl.engine.moves import RunTask
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.output import JSON, Output, failed
from noetl.ports import Append, LogRow, Snapshot, SnapshotOf
from noetl.testing.fake_clock import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts, runtime
from tests.playbooks import HEAD

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


TOLD = """
notify:
- on: [{0}]
  tool: {{kind: tell, input: {{execution: "{{{{ execution }}}}", event: "{{{{ event }}}}", n: "{{{{ workload.n }}}}"}}}}
"""
WORK = "workflow:\n- step: start\n  tool: {kind: work, input: {n: '{{ workload.n }}'}}\n"
WAIT = "workflow:\n- step: start\n  tool: [{kind: wait, signal: approve}, {kind: work}]\n"


def text(on: str, work: str = WORK, more: str = "") -> str:
    return HEAD + "workload: {n: 1}\n" + more + TOLD.format(on) + work


class World:
    """The tools: `work` fails if its input is negative, and `tell` notes its input."""

    def __init__(self) -> None:
        self.told: list[dict[str, JSON]] = []
        self.tell_fails = False

    def work(self, called: RunTask) -> Output:
        n = called.input.get("n", 0)
        return failed("work", "it is negative") if n < 0 else Output(data=n)

    def tell(self, called: RunTask) -> Output:
        self.told.append(called.input)
        return failed("tell", "no answer") if self.tell_fails else Output()

    @property
    def tools(self) -> dict[str, Callable[[RunTask], Output]]:
        return {"work": self.work, "tell": self.tell}


@asynccontextmanager
async def opened(world: World, *, clock: FakeClock | None = None) -> AsyncIterator[MemoryRuntime]:
    async with runtime(tools=world.tools, clock=clock) as memory:
        yield memory


def children(memory: MemoryRuntime, id: str) -> list[str]:
    found = [each for each in memory.events if isinstance(each.fact, Requested) and each.fact.parent]
    return [each.execution_id for each in found if (each.fact.parent or "").startswith(f"{id}/notify[")]  # type: ignore[union-attr]


def is_waiting(fact: Fact, signal: str) -> bool:
    return isinstance(fact, FrameParked) and isinstance(fact.until, ForSignal) and fact.until.name == signal


def test_the_link_to_a_decision_names_its_frame() -> None:
    url = decision_url("https://noetl.example.com", "0199-ab", "ask#2[17]")
    assert url == "https://noetl.example.com/ui/approvals/0199-ab?frame=ask%232%5B17%5D"
    assert decision_url("", "0199-ab", "ask#2") is None


async def told(memory: MemoryRuntime, id: str) -> list[str]:
    """The notifications of an execution, when all of them have ended."""
    await memory.control.notifications.started()
    for child in (found := children(memory, id)):
        await memory.end(child)
    return found


@pytest.mark.parametrize(
    ("on", "n", "expected"),
    [
        ("failed", -1, ["failed"]), ("failed", 1, []), ("finished", 1, ["finished"]), ("finished", -1, ["finished"]),
        ("finished, failed", -1, ["failed"]), ("finished, failed", 2, ["finished"]), ("waiting", 1, []),
    ],
)  # fmt: skip
@in_loop
async def test_the_end_of_an_execution_is_told_once(on: str, n: int, expected: list[str]) -> None:
    world = World()
    async with opened(world) as memory:
        ended = await memory.run(text(on), {"n": n})
        found = await told(memory, ended.id)
        await memory.sweep()
        assert [each["event"]["name"] for each in world.told] == expected
        assert (len(found), ended.status) == (len(expected), "error" if n < 0 else "ok")
        assert [memory.state(each).status for each in found] == ["ok"] * len(expected)


@in_loop
async def test_a_notification_reads_the_execution_and_its_workload() -> None:
    world = World()
    async with opened(world) as memory:
        ended = await memory.run(text("failed", more="executor: {spec: {pool: default}}\n"), {"n": -7})
        [child] = await told(memory, ended.id)
        [seen] = world.told
        execution = seen["execution"]
        first = memory.log(ended.id)[0]
        assert seen["n"] == -7
        assert seen["event"] == {
            "name": "failed", "step": None, "run": None, "signal": None, "title": None, "url": None
        }  # fmt: skip
        assert (execution["id"], execution["path"], execution["status"]) == (ended.id, "t", "error")
        assert execution["error"] == {"kind": "work", "message": "it is negative", "retryable": False, "details": {}}
        assert execution["output"]["status"] == "error"
        assert execution["started_at"] == first.at.isoformat().replace("+00:00", "Z")
        assert execution["ended_at"] >= execution["started_at"]
        assert (execution["duration_s"] >= 0, execution["labels"], execution["url"]) == (True, {}, None)
        request = memory.log(child)[0].fact
        assert isinstance(request, Requested)
        assert (request.path, request.digest, request.depth) == ("t", "t#notify/0", 1)


@in_loop
async def test_a_cancelled_execution_has_finished_and_not_failed() -> None:
    world = World()
    async with opened(world) as memory:
        for on, names in (("failed", []), ("finished", ["finished"])):
            world.told.clear()
            id = await memory.start(text(on, WAIT))
            await memory.command(id, Cancel(reason="enough"))
            await memory.sweep()
            await memory.end(id)
            await told(memory, id)
            assert [(each["event"]["name"], each["execution"]["status"]) for each in world.told] == [
                (name, "cancelled") for name in names
            ]


@in_loop
async def test_a_failing_notification_changes_nothing_and_is_retried_by_its_own_rules() -> None:
    world = World()
    world.tell_fails = True
    rules = "{rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 1}}]}"
    body = text("finished").replace("kind: tell,", f"kind: tell, spec: {{policy: {rules}}},")
    async with opened(world) as memory:
        ended = await memory.run(body)
        seq = memory.state(ended.id).seq
        [child] = await told(memory, ended.id)
        assert (memory.state(child).status, len(world.told)) == ("error", 3)
        assert (memory.state(ended.id).status, memory.state(ended.id).seq) == ("ok", seq)


@pytest.mark.parametrize(
    ("when", "statuses"),
    [
        ("{{ execution.duration_s >= 0 and workload.n > 0 }}", ["ok"]), ("{{ workload.n > 5 }}", []),
        ("{{ event.name / 2 > 1 }}", ["error"]), ("true", ["ok"]),
    ],
)  # fmt: skip
@in_loop
async def test_a_condition_decides_and_one_that_cannot_be_evaluated_is_visible(when: str, statuses: list[str]) -> None:
    world = World()
    guard = when if when == "true" else f'"{when}"'
    async with opened(world) as memory:
        ended = await memory.run(
            text("finished").replace("  tool: {kind: tell", f"  when: {guard}\n  tool: {{kind: tell")
        )
        found = await told(memory, ended.id)
        assert [memory.state(each).status for each in found] == statuses
        assert len(world.told) == (statuses == ["ok"])
        for each in found if statuses == ["error"] else ():
            failure = memory.state(each).failure
            assert failure is not None
            assert failure.message.startswith("`when` of notify[0]: ")


@in_loop
async def test_each_wait_for_a_signal_is_told_once() -> None:
    world = World()
    twice = (
        "workflow:\n- step: start\n  tool:\n  - {kind: wait, signal: first, title: Go?}\n"
        "  - {kind: wait, signal: \"{{ workload.n ~ '.' }}\"}\n"
    )
    async with opened(world) as memory:
        id = await memory.start(text("waiting", twice))
        for signal in ("first", "1."):
            while not any(is_waiting(each.fact, signal) for each in memory.log(id)):
                await asyncio.sleep(0)  # noqa: TID251  # lets others run
            await told(memory, id)
            for _ in range(3):
                await memory.sweep()
            await memory.signal(id, signal)
        await memory.end(id)
        await told(memory, id)
        assert [each["event"] for each in world.told] == [
            {"name": "waiting", "step": "start", "run": "start#1", "signal": signal, "title": title, "url": None}
            for signal, title in (("first", "Go?"), ("1.", None))
        ]
        assert [each["execution"]["status"] for each in world.told] == ["running", "running"]


@in_loop
async def test_an_execution_that_takes_too_long_is_told_once() -> None:
    world, clock = World(), FakeClock()
    async with opened(world, clock=clock) as memory:
        id = await memory.start(text("late", WAIT, "executor: {spec: {expected_s: 60}}\n"))
        await memory.sweep()
        clock.advance(59)
        await memory.sweep()
        assert children(memory, id) == []
        for _ in range(3):
            clock.advance(2)
            await memory.sweep()
        await told(memory, id)
        [seen] = world.told
        assert (seen["event"]["name"], seen["execution"]["duration_s"], seen["execution"]["ended_at"]) == (
            "late",
            61,
            None,
        )
        await memory.signal(id, "approve")
        await memory.end(id)
        assert memory.state(id).status == "ok"


@in_loop
async def test_a_retried_execution_tells_its_second_end_too() -> None:
    world = World()
    async with opened(world) as memory:
        ended = await memory.run(text("failed"), {"n": -1})
        first = await told(memory, ended.id)
        memory._ended[ended.id].clear()
        await memory.command(ended.id, Retry())
        await memory.end(ended.id)
        assert len(set(await told(memory, ended.id))) == len(world.told) == 2
        assert first[0] in children(memory, ended.id)


class LostLog:
    """A log that does not answer while `down`, when control asks for the status of an execution."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.down = False
        self.tries = 0

    async def status(self, execution_id: str) -> Status | None:
        if self.down:
            self.tries += 1
            raise Unavailable("the store is down")
        return await self.store.status(execution_id)

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return await self.store.append(appends)

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        return await self.store.read(execution_id, after, up_to)

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        return await self.store.snapshot(execution_id, of)

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        await self.store.keep(execution_id, snapshot, of)


@in_loop
async def test_what_was_lost_is_told_once_by_the_sweeper() -> None:
    """The end is committed, and its notification could not be started."""
    world, clock = World(), FakeClock()
    log = LostLog(MemoryStore(clock, 1))

    def work(called: RunTask) -> Output:
        log.down = True
        return world.work(called)

    parts = RuntimeParts(store=log.store, log=log)
    async with runtime(tools={**world.tools, "work": work}, clock=clock, parts=parts) as memory:
        ended = await memory.run(text("failed, finished"), {"n": -1})
        await memory.control.notifications.started()
        assert (log.tries, children(memory, ended.id)) == (1, [])
        log.down = False
        await memory.sweep()  # too early: its own server may be about to do it
        assert children(memory, ended.id) == []
        clock.advance(REPAIR_AFTER_S + 1)
        for _ in range(3):
            await memory.sweep()
        assert len(await told(memory, ended.id)) == len(world.told) == 1
        assert await memory.store.unnotified(clock.now(), 9) == []


@in_loop
async def test_a_notification_has_no_notifications() -> None:
    world = World()
    async with opened(world) as memory:
        ended = await memory.run(text("finished"))
        [child] = await told(memory, ended.id)
        await memory.control.notifications.started()
        assert children(memory, child) == []
        assert sum(isinstance(each.fact, Processed) for each in memory.events) == 2
