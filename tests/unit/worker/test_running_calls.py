"""What the log shows while a call runs, and after its worker was lost (D93, D94)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from noetl.control.deps import ControlHooks
from noetl.control.live_execution import LiveExecution
from noetl.defaults import LEASE_S
from noetl.engine import Event, facts
from noetl.engine.commands import Pause, Report, Resume
from noetl.engine.facts import Fact
from noetl.engine.moves import RunTask
from noetl.errors import Unavailable
from noetl.output import Output
from noetl.ports import Link, ReportAnswer
from noetl.testing.fake_clock import START, FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts, runtime

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
PIPELINE = """\
workflow:
- step: start
  spec: {policy: {lifecycle: {timeout_s: 30}}}
  tool:
  - {name: pure, kind: noop, input: {n: 1}}
  - {name: long, kind: http, url: x}
"""
ONE = "workflow:\n- {step: start, tool: {name: one, kind: http, url: x}}\n"


class Committed:
    """The facts in the order of the commits; a test can wait for one."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._new = asyncio.Event()

    def __call__(self, _live: LiveExecution, events: list[Event]) -> None:
        self.facts += [event.fact for event in events]
        self._new.set()

    async def wait_for(self, kind: type[Fact], count: int = 1) -> None:
        while len(self.of(kind)) < count:
            self._new.clear()
            await self._new.wait()

    def of(self, *kinds: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kinds)]

    @property
    def names(self) -> list[str]:
        return [str(fact.__struct_config__.tag) for fact in self.facts]


class CountingLink:
    """Counts reports, and refuses some of them."""

    def __init__(self, link: Link, refuse: Callable[[Report], bool]) -> None:
        self.begin, self.start, self.beat, self.command = link.begin, link.start, link.beat, link.command
        self.reports: list[Report] = []
        self._link, self._refuse = link, refuse

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        self.reports.append(report)
        if self._refuse(report):
            raise Unavailable("no server is there")
        return await self._link.report(execution_id, report, room=room)


def test_a_long_call_and_the_pure_task_before_it_are_in_the_log_while_it_runs() -> None:
    async def play() -> None:
        seen, clock = Committed(), FakeClock(auto_advance=True)

        async def long(_: RunTask) -> Output:
            clock.advance(0.6)
            await seen.wait_for(facts.TaskStarted)
            return Output(data=2)

        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)))
        async with runtime({"t": HEAD + PIPELINE}, tools={"http": long}, clock=clock, parts=parts) as memory:
            result = await memory.run("t")
        assert result.status == "ok"
        assert seen.names[3:9] == [
            "step.scheduled", "step.started", "task.done", "task.started", "task.done", "step.done",
        ]  # fmt: skip
        [started] = seen.of(facts.StepStarted)
        assert started == facts.StepStarted(run="start#1", timeout_at=START + timedelta(seconds=30))
        [running] = seen.of(facts.TaskStarted)
        assert running == facts.TaskStarted(
            frame="start#1", call=2, task="long", started_at=START, worker="worker", epoch=None
        )

    asyncio.run(play())


def test_quick_calls_cost_no_additional_report() -> None:
    async def play() -> None:
        seen, links = Committed(), []

        def counting(link: Link) -> Link:
            links.append(CountingLink(link, lambda _: False))
            return links[0]  # type: ignore[return-value]  # the test uses no other request

        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)), link=counting)
        async with runtime({"t": HEAD + PIPELINE}, tools={"http": lambda _: 1}, parts=parts) as memory:
            await memory.run("t")
        assert seen.of(facts.TaskStarted) == []
        assert [len(report.facts) for report in links[0].reports] == [2]

    asyncio.run(play())


def test_the_start_is_reported_again_when_no_server_answered() -> None:
    async def play() -> None:
        seen, clock = Committed(), FakeClock(auto_advance=True)
        refused: list[Report] = []

        def refuse(report: Report) -> bool:
            if report.running is not None and not refused:
                refused.append(report)
                return True
            return False

        async def long(_: RunTask) -> Output:
            clock.advance(0.6)
            await seen.wait_for(facts.TaskStarted)
            return Output()

        def counting(link: Link) -> Link:
            return CountingLink(link, refuse)  # type: ignore[return-value]  # the test uses no other request

        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)), link=counting)
        async with runtime({"t": HEAD + ONE}, tools={"http": long}, clock=clock, parts=parts) as memory:
            assert (await memory.run("t")).status == "ok"
        assert len(refused) == len(seen.of(facts.TaskStarted)) == 1

    asyncio.run(play())


def test_pure_tasks_are_reported_within_a_second_even_if_more_of_them_follow() -> None:
    tasks = "".join(f"  - {{name: t{number}, kind: noop}}\n" for number in range(40))

    async def play() -> None:
        links: list[CountingLink] = []
        clock = FakeClock(auto_advance=True, tick_s=0.01)

        def counting(link: Link) -> Link:
            links.append(CountingLink(link, lambda _: False))
            return links[0]  # type: ignore[return-value]  # the test uses no other request

        playbook = f"{HEAD}workflow:\n- step: start\n  tool:\n{tasks}"
        parts = RuntimeParts(link=counting)
        async with runtime({"t": playbook}, clock=clock, parts=parts) as memory:
            assert (await memory.run("t")).status == "ok"
        assert len(links[0].reports) > 1
        for report in links[0].reports:
            ends = [fact.started_at for fact in report.facts if fact.started_at is not None]
            assert ends[-1] - ends[0] < timedelta(seconds=1)

    asyncio.run(play())


def test_a_call_that_runs_during_a_pause_finishes_although_earlier_tasks_were_reported_meanwhile_d67() -> None:
    async def play() -> None:
        seen, clock = Committed(), FakeClock(auto_advance=True)

        async def long(_: RunTask) -> Output:
            await memory.command("e", Pause())
            clock.advance(0.6)
            await seen.wait_for(facts.TaskStarted)
            return Output(data=2)

        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)))
        async with runtime({"t": HEAD + PIPELINE}, tools={"http": long}, clock=clock, parts=parts) as memory:
            await memory.start("t", id="e")
            await seen.wait_for(facts.StepDone)
            await memory.command("e", Resume())
            await memory.end("e")
        done = [fact.task for fact in seen.facts if isinstance(fact, facts.TaskDone)]
        assert (done, seen.of(facts.FrameLost)) == (["pure", "long"], [])

    asyncio.run(play())


def lost_of(seen: Committed) -> list[facts.FrameLost]:
    return [fact for fact in seen.facts if isinstance(fact, facts.FrameLost)]


def test_a_worker_whose_lease_expires_is_recorded_as_lost_and_the_call_is_made_by_another() -> None:
    async def play() -> None:
        seen, clock = Committed(), FakeClock(auto_advance=True)
        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)))
        async with runtime({"t": HEAD + ONE}, tools={"http": lambda _: 1}, clock=clock, parts=parts, slots=0) as memory:
            await memory.start("t", id="e")
            grant = await memory.link.begin("e", "start#1", "gone")
            assert grant is not None
            clock.advance(LEASE_S + 1)
            await memory.sweep()
            await seen.wait_for(facts.FrameLost)
            memory.add_slots(1)
            await memory.end("e")
        assert lost_of(seen) == [facts.FrameLost(frame="start#1", call=1, task="one", worker="gone", epoch=grant.epoch)]

    asyncio.run(play())


def test_a_new_owner_records_the_worker_of_the_last_one_as_lost_when_another_worker_begins() -> None:
    async def play() -> None:
        seen = Committed()
        parts = RuntimeParts(hooks=ControlHooks(on_commit=(seen,)))
        async with runtime({"t": HEAD + ONE}, tools={"http": lambda _: 1}, parts=parts, slots=0) as memory:
            await memory.start("t", id="e")
            grant = await memory.link.begin("e", "start#1", "gone")
            assert grant is not None
            await say_running(memory, grant.epoch)
            memory.control.executions.clear()  # as in a new process: only the log is left
            await memory.sweep()
            memory.add_slots(1)
            await memory.end("e")
        assert lost_of(seen) == [
            facts.FrameLost(
                frame="start#1", call=1, task="one", worker="gone", epoch=grant.epoch, started_at=START
            )
        ]  # fmt: skip

    asyncio.run(play())


async def say_running(memory: MemoryRuntime, epoch: tuple[int, int]) -> None:
    running = facts.TaskStarted(frame="start#1", call=1, task="one", started_at=START, worker="gone")
    report = Report(frame="start#1", position=0, epoch=epoch, started_at=START, running=running)
    assert (await memory.link.report("e", report)).word == "go"
