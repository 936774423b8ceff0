"""Who gets what to do: fair between executions, within the limits, and straight on where there is room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.adapters.memory import MemoryQueue
from noetl.control.current_work import share_waits
from noetl.control.deps import ControlHooks, ControlSettings
from noetl.control.live_execution import LostWorkers
from noetl.control.sweeper import sweep
from noetl.engine import facts
from noetl.engine.commands import Pause, Report, Resume
from noetl.engine.moves import RunTask
from noetl.engine.pipeline import next_move, take
from noetl.output import Output
from noetl.ports import Claim, Pointer, ReportAnswer
from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.views.pools import ShareWait
from tests.unit.control.runtimes import memory_runtime, run_in

LOOP = """\
workflow:
- step: start
  loop: {in: "{{ range(400) }}", iterator: n, spec: {mode: parallel, max_in_flight: 50}}
  tool: {kind: http, url: x}
"""
CHAIN = """\
workflow:
- {step: start, tool: {kind: http, url: x}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: http, url: x}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: http, url: x}}
"""


class CountingQueue(MemoryQueue):
    """Counts what passes through it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    async def take(self, limit: int) -> list[Claim]:
        claims = await super().take(limit)
        self.taken += len(claims)
        return claims


def test_a_short_execution_does_not_wait_for_a_long_loop() -> None:
    runtime = memory_runtime({"loop": LOOP, "chain": CHAIN}, settings=ControlSettings(window=8))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("loop", id="long")
        await runtime.start("chain", id="short")
        await runtime.end("short")

    run_in(runtime, work)
    done = sum(isinstance(event.fact, facts.IterationDone) for event in runtime.events)
    assert 0 < done < 200


def test_a_chain_passes_through_the_queue_once() -> None:
    queue = CountingQueue()
    runtime = memory_runtime({"chain": CHAIN}, parts=RuntimeParts(queue=queue))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("chain", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    assert queue.taken == 1


def test_a_free_slot_of_the_process_gets_pointers_without_the_queue_until_some_wait_in_the_queue() -> None:
    free = 2
    direct: list[Pointer] = []

    def use(pointer: Pointer) -> bool:
        if len(direct) < free:
            direct.append(pointer)
            return True
        return False

    parts = RuntimeParts(hooks=ControlHooks(use_own_slot=use))
    runtime = memory_runtime({"chain": CHAIN}, parts=parts, settings=ControlSettings(window=8))

    async def work(runtime: MemoryRuntime) -> list[str]:
        nonlocal free
        for number in range(3):
            await runtime.start("chain", id=f"e{number}")
        free += 1
        await runtime.start("chain", id="e3")  # it does not overtake e2
        [queued, behind] = [claim.pointer.execution_id for claim in await runtime.queue.take(1_000)]
        for id in ("e0", "e1", "e2", "e3"):
            assert await runtime.control.begin(id, "start#1", "w") is not None
        await runtime.start("chain", id="e4")  # none waits in the queue now
        return [queued, behind]

    assert run_in(runtime, work, slots=0) == ["e2", "e3"]
    assert [pointer.execution_id for pointer in direct] == ["e0", "e1", "e4"]


def test_pointers_in_the_queue_are_counted_again_by_the_sweeper() -> None:
    direct: list[Pointer] = []

    def use(pointer: Pointer) -> bool:
        direct.append(pointer)
        return pointer.execution_id != "e1"

    runtime = memory_runtime({"chain": CHAIN}, parts=RuntimeParts(hooks=ControlHooks(use_own_slot=use)))

    async def work(runtime: MemoryRuntime) -> None:
        for number in range(2):
            await runtime.start("chain", id=f"e{number}")
        await sweep(runtime.control)
        await runtime.start("chain", id="e2")  # behind e1
        assert await runtime.control.begin("e1", "start#1", "w") is not None
        assert await runtime.control.begin("e2", "start#1", "w") is not None
        await sweep(runtime.control)
        await runtime.start("chain", id="e3")

    run_in(runtime, work, slots=0)
    assert [pointer.execution_id for pointer in direct] == ["e0", "e1", "e3"]


def test_no_more_than_the_window_is_on_its_way() -> None:
    runtime = memory_runtime({"loop": LOOP}, settings=ControlSettings(window=7))

    async def work(runtime: MemoryRuntime) -> int:
        for number in range(10):
            await runtime.start("loop", id=f"e{number}")
        return len(await runtime.queue.take(1_000))

    assert run_in(runtime, work, slots=0) == 7


def test_no_execution_fills_the_window_so_that_who_comes_late_is_not_behind_a_crowd() -> None:
    runtime = memory_runtime({"loop": LOOP, "chain": CHAIN}, settings=ControlSettings(window=32))

    async def work(runtime: MemoryRuntime) -> list[str]:
        await runtime.start("loop", id="long")
        await runtime.start("chain", id="short")
        return [claim.pointer.execution_id for claim in await runtime.queue.take(1_000)]

    assert run_in(runtime, work, slots=0) == ["long"] * 4 + ["short"]


def test_an_execution_with_half_of_the_slots_hands_nothing_on_while_others_wait() -> None:
    runtime = memory_runtime({"loop": LOOP, "chain": CHAIN}, settings=ControlSettings(window=8))

    async def begun(many: int) -> ReportAnswer:
        """The answer to a report of one of so many frames that a worker has, while another execution waits."""
        grants = [await runtime.control.begin(f"long{many}", f"start#1[{n}]", "w") for n in range(many)]
        await runtime.start("chain", id=f"short{many}")
        assert grants[0] is not None
        work = grants[0].work
        move = next_move(work, runtime.control.now())
        assert isinstance(move, RunTask)
        fact = take(work, move, Output(), runtime.control.now(), chance=0.5)
        report = Report(frame=work.frame.id, position=0, facts=(fact,), epoch=grants[0].epoch)
        return await runtime.control.report(f"long{many}", report, room=1)

    async def work(runtime: MemoryRuntime) -> tuple[int, int]:
        handed = []
        for many in (2, 4):  # of four slots: when one has reported, one is left, and three are
            await runtime.start("loop", id=f"long{many}")
            handed.append(len((await begun(many)).next))
        return handed[0], handed[1]

    assert run_in(runtime, work, slots=0) == (1, 0)


@pytest.mark.parametrize(("reserve", "held"), [(0.0, 16), (0.125, 14), (0.5, 8), (0.01, 16)])
def test_an_execution_leaves_the_reserved_slots_to_others(reserve: float, held: int) -> None:
    settings = ControlSettings(window=32, slot_reserve=reserve)
    out = most = 0

    async def count(called: RunTask) -> Output:
        nonlocal most, out
        out += 1
        most = max(most, out)
        await runtime.clock.sleep(0)
        out -= 1
        return Output(data=called.input["url"])

    runtime = memory_runtime({"loop": LOOP}, count, settings=settings)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("loop", id="e")
        await runtime.end("e")

    run_in(runtime, work, slots=16)
    assert most == held


def test_a_pointer_that_waits_for_a_slot_is_not_lost() -> None:
    """It is sent again only if no worker claims it although a slot is free."""
    clock = FakeClock()
    settings = ControlSettings(window=4, resend_s=10, lease_s=1_000)
    runtime = memory_runtime({"loop": LOOP}, settings=settings, clock=clock)

    async def work(runtime: MemoryRuntime) -> tuple[int, int]:
        dispatch = runtime.control.dispatch
        await runtime.start("loop", id="e")
        for number in range(2):  # both slots
            await runtime.control.begin("e", f"start#1[{number}]", "w")
        clock.advance(30)
        await sweep(runtime.control)
        waiting = dispatch.lost
        dispatch.release(runtime.control.executions["e"], "start#1[0]")
        clock.advance(30)
        await sweep(runtime.control)
        return waiting, dispatch.lost

    waiting, lost = run_in(runtime, work, slots=0)
    assert waiting == 0
    assert lost > 0


def test_a_slot_that_is_free_for_a_moment_loses_no_pointer() -> None:
    clock = FakeClock()
    settings = ControlSettings(window=4, resend_s=10, lease_s=1_000)
    runtime = memory_runtime({"loop": LOOP}, settings=settings, clock=clock)

    async def work(runtime: MemoryRuntime) -> tuple[int, int]:
        dispatch = runtime.control.dispatch
        await runtime.start("loop", id="e")
        live = runtime.control.executions["e"]
        for number in range(0, 8, 2):
            for index in (number, number + 1):  # both slots
                await runtime.control.begin("e", f"start#1[{index}]", "w")
            clock.advance(9)
            for index in (number, number + 1):
                dispatch.release(live, f"start#1[{index}]")
            await sweep(runtime.control)  # all slots are free at this moment
        waiting = dispatch.lost
        clock.advance(21)
        await sweep(runtime.control)
        return waiting, dispatch.lost

    waiting, lost = run_in(runtime, work, slots=0)
    assert waiting == 0
    assert lost > 0


def test_the_slots_of_a_cluster_are_full_by_announcements_or_by_the_grants_here() -> None:
    clock = FakeClock()
    asked: list[int] = []

    def is_full(_pool: str, held: int) -> bool:
        asked.append(held)
        return held >= 2

    settings = ControlSettings(window=16, resend_s=10, lease_s=1_000)
    parts = RuntimeParts(hooks=ControlHooks(is_full=is_full))
    runtime = memory_runtime({"loop": LOOP}, settings=settings, clock=clock, parts=parts)

    async def work(runtime: MemoryRuntime) -> int:
        await runtime.start("loop", id="e")
        for number in range(2):
            await runtime.control.begin("e", f"start#1[{number}]", "w")
        clock.advance(9)
        runtime.control.dispatch.release(runtime.control.executions["e"], "start#1[0]")
        clock.advance(6)
        await sweep(runtime.control)
        return runtime.control.dispatch.lost

    lost = run_in(runtime, work, slots=0)
    assert (lost, set(asked)) == (0, {2}), asked


def test_a_pointer_is_lost_when_workers_have_claimed_a_newer_one() -> None:
    """A pool that is always full must not hide it."""
    clock = FakeClock()
    settings = ControlSettings(window=4, resend_s=10, lease_s=1_000)
    runtime = memory_runtime({"chain": CHAIN}, settings=settings, clock=clock)

    async def work(runtime: MemoryRuntime) -> tuple[int, int]:
        control = runtime.control
        await runtime.start("chain", id="old")
        clock.advance(5)
        for id in ("new", "newer"):
            await runtime.start("chain", id=id)
        clock.advance(6)
        await control.begin("new", "start#1", "w")
        before = control.dispatch.lost
        await control.begin("newer", "start#1", "w")  # both slots are busy
        await sweep(control)
        return before, control.dispatch.lost

    assert run_in(runtime, work, slots=0) == (0, 1)


@pytest.mark.parametrize(("held", "waits"), [(5, []), (6, [ShareWait("default", 6, 6, ("start#1",))])])
def test_frames_wait_for_the_share_only_when_workers_hold_all_of_it(held: int, waits: list[ShareWait]) -> None:
    settings = ControlSettings(window=16, slot_reserve=0.25)
    runtime = memory_runtime({"loop": LOOP}, settings=settings)

    async def work(runtime: MemoryRuntime) -> list[ShareWait]:
        await runtime.start("loop", id="e")
        for number in range(held):
            await runtime.control.begin("e", f"start#1[{number}]", "w")
        return share_waits(runtime.control, "e")

    assert run_in(runtime, work, slots=0) == waits


@pytest.mark.parametrize("limits", ["{in_flight: 6}", "{in_flight: 7}"])
def test_an_execution_that_waits_for_its_own_limit_does_not_wait_for_its_share(limits: str) -> None:
    body = f"executor: {{spec: {{policy: {{limits: {limits}}}}}}}\n" + LOOP
    runtime = memory_runtime({"loop": body}, settings=ControlSettings(window=16, slot_reserve=0.25))

    async def work(runtime: MemoryRuntime) -> bool:
        await runtime.start("loop", id="e")
        for number in range(6):
            await runtime.control.begin("e", f"start#1[{number}]", "w")
        return bool(share_waits(runtime.control, "e"))

    assert run_in(runtime, work, slots=0) is (limits == "{in_flight: 7}")


def test_a_loop_whose_frames_all_run_does_not_wait_for_its_share() -> None:
    body = LOOP.replace("max_in_flight: 50", "max_in_flight: 6")
    runtime = memory_runtime({"loop": body}, settings=ControlSettings(window=16, slot_reserve=0.25))

    async def work(runtime: MemoryRuntime) -> tuple[list[ShareWait], list[ShareWait]]:
        await runtime.start("loop", id="e")
        for number in range(6):
            await runtime.control.begin("e", f"start#1[{number}]", "w")
        return share_waits(runtime.control, "e"), share_waits(runtime.control, "unknown")

    assert run_in(runtime, work, slots=0) == ([], [])


def test_in_flight_of_the_execution_holds_whatever_its_loops_say_d45() -> None:
    body = "executor: {spec: {policy: {limits: {in_flight: 3}}}}\n" + LOOP
    most = out = 0

    async def count(called: RunTask) -> Output:
        nonlocal most, out
        out += 1
        most = max(most, out)
        await runtime.clock.sleep(0)
        out -= 1
        return Output(data=called.input["url"])

    runtime = memory_runtime({"loop": body}, count)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("loop", id="e")
        await runtime.end("e")

    run_in(runtime, work, slots=8)
    assert most == 3


def test_what_was_lost_on_its_way_is_put_again() -> None:
    queue = MemoryQueue()
    settings = ControlSettings(resend_s=0.0)
    runtime = memory_runtime({"chain": CHAIN}, settings=settings, parts=RuntimeParts(queue=queue))

    async def work(runtime: MemoryRuntime) -> list[str]:
        await runtime.start("chain", id="e")
        queue.wipe()
        live = runtime.control.executions["e"]
        runtime.control.dispatch.enqueue_all(live)
        await runtime.control.dispatch.pump()
        return [claim.pointer.frame for claim in await runtime.queue.take(9)]

    assert run_in(runtime, work, slots=0) == ["start#1"]


def test_what_a_lost_worker_had_is_handed_out_when_its_lease_is_over_without_another_sweep() -> None:
    runtime = memory_runtime({"chain": CHAIN}, settings=ControlSettings(lease_s=0.2, resend_s=0.2))

    async def work(runtime: MemoryRuntime) -> tuple[Pointer, Pointer]:
        await runtime.start("chain", id="e")
        (first,) = await runtime.queue.take(1)
        assert await runtime.control.begin("e", "start#1", "dead") is not None
        await sweep(runtime.control)
        (again,) = await runtime.queue.take(1)
        runtime.control.timers.close()
        return first.pointer, again.pointer

    first, again = run_in(runtime, work, slots=0)
    assert (again.frame, again.dispatch) == (first.frame, first.dispatch + 1)


def test_what_is_parked_and_resumed_in_one_commit_goes_on_at_once() -> None:
    """No worker holds the frame meanwhile: the runtime of this test has no sweeper that would find it later."""
    body = """\
workload: {outer: [[], [1], []]}
workflow:
- step: start
  loop:
  - {in: "{{ workload.outer }}", iterator: inner}
  - {in: "{{ iter.inner }}", iterator: n}
  tool: {kind: http, url: x}
"""
    runtime = memory_runtime({"nested": body})

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("nested", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    [done] = [event.fact for event in runtime.events if isinstance(event.fact, facts.Processed)]
    assert done.status == "ok"


POOLS = """\
executor: {spec: {pool: small}}
workflow:
- {step: start, tool: {kind: http, url: x}, next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}}
- {step: b, spec: {pool: gpu}, tool: {kind: http, url: x}}
- {step: c, tool: {kind: http, url: x}}
"""


def test_a_frame_goes_to_the_pool_that_its_step_names_else_the_playbook() -> None:
    seen: list[tuple[str, str]] = []

    class Noting(MemoryQueue):
        async def put(self, pointers: Sequence[Pointer]) -> None:
            seen.extend((pointer.frame, pointer.pool) for pointer in pointers)
            await super().put(pointers)

    runtime = memory_runtime({"pools": POOLS}, parts=RuntimeParts(queue=Noting()))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("pools", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    # c#1 is handed on to the worker of start#1, which is of its pool; b#1 must not be.
    assert seen == [("start#1", "small"), ("b#1", "gpu")]


def test_a_call_that_takes_three_workers_with_it_is_not_made_again() -> None:
    calls: list[str] = []

    async def answer(called: RunTask) -> Output:
        calls.append(called.task.name)
        return Output()

    runtime = memory_runtime({"chain": CHAIN}, answer, ControlSettings(lease_s=0.0, resend_s=0.0))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("chain", id="e")
        for number in range(3):
            grant = await runtime.control.begin("e", "start#1", f"w{number}")
            assert grant is not None
            assert not grant.lost
            await sweep(runtime.control)
        runtime.add_slots(1)
        await runtime.end("e")

    run_in(runtime, work, slots=0)
    assert calls == []
    failed = next(event.fact for event in runtime.events if isinstance(event.fact, facts.StepFailed))
    assert failed.error is not None
    assert failed.error.kind == "poison"
    assert "3 workers vanished" in failed.error.message


@pytest.mark.parametrize(
    ("workers", "company", "is_the_cause"),
    [
        (2, 2, False),
        (3, 3, True),
        (3, 9, True),
        (3, 10, False),
        (8, 64, True),
        (11, 1_100, False),
        (12, 1_200, True),
    ],
)
def test_the_more_frames_a_lost_worker_had_the_less_it_says_of_each(
    workers: int, company: int, is_the_cause: bool
) -> None:
    assert LostWorkers(workers, company).blames_frame(3) is is_the_cause


def test_calls_that_were_lost_with_many_others_are_made_again() -> None:
    """When a worker that had claimed twenty frames crashes, it is unclear which of them caused the crash."""
    clock = FakeClock()
    runtime = memory_runtime({"loop": LOOP}, settings=ControlSettings(lease_s=60.0), clock=clock)

    async def work(runtime: MemoryRuntime) -> tuple[int, int]:
        await runtime.start("loop", id="e")
        for number in range(3):
            for index in range(20):
                assert await runtime.control.begin("e", f"start#1[{index}]", f"w{number}") is not None
            await sweep(runtime.control)
            clock.advance(100.0)
            await sweep(runtime.control)
        among_many = await runtime.control.begin("e", "start#1[0]", "w")
        for number in range(3):
            assert await runtime.control.begin("e", "start#1[30]", f"alone{number}") is not None
            await sweep(runtime.control)
            clock.advance(100.0)
            await sweep(runtime.control)
        alone = await runtime.control.begin("e", "start#1[30]", "w")
        assert among_many is not None
        assert alone is not None
        return among_many.lost, alone.lost

    assert run_in(runtime, work, slots=0) == (0, 3)


def test_frames_that_were_lost_together_run_one_after_the_other() -> None:
    """One more lost worker would be enough to blame both, but only one of them ends its workers."""
    clock = FakeClock()
    runtime = memory_runtime({"chain": CHAIN}, settings=ControlSettings(lease_s=60.0), clock=clock)

    async def lose_worker(runtime: MemoryRuntime, lost: int) -> None:
        """`lost`: frames that have lost a worker then, each as often as it did."""
        await sweep(runtime.control)
        clock.advance(100.0)
        await sweep(runtime.control)
        while sum(isinstance(event.fact, facts.FrameLost) for event in runtime.events) < lost:
            await turn()

    async def work(runtime: MemoryRuntime) -> None:
        control = runtime.control
        for id in ("one", "other", "fresh"):
            await runtime.start("chain", id=id)
        for number in range(2):
            for id in ("one", "other"):
                assert await control.begin(id, "start#1", f"w{number}") is not None
            await lose_worker(runtime, 2 * (number + 1))
        control.executions.clear()  # another server takes over
        await sweep(control)
        grants = {id: await control.begin(id, "start#1", "w2") for id in ("one", "other")}
        (first,), (second,) = (
            [id for id, grant in grants.items() if (grant is None) is waits] for waits in (False, True)
        )
        assert await control.begin("fresh", "start#1", "w3") is not None
        await lose_worker(runtime, 6)
        grants = {id: await control.begin(id, "start#1", "w4") for id in (first, second, "fresh")}
        assert [grant and grant.lost for grant in grants.values()] == [3, 0, 0]

    run_in(runtime, work, slots=0)


def test_what_is_read_from_the_log_waits_until_workers_have_told_what_they_have_of_it() -> None:
    called: list[str] = []
    settings = ControlSettings(settle_s=60.0)
    parts = RuntimeParts(hooks=ControlHooks(on_load=[lambda: called.append("roll")]))
    runtime = memory_runtime({"chain": CHAIN}, settings=settings, clock=FakeClock(), parts=parts)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("chain", id="e")
        grant = await runtime.control.begin("e", "start#1", "w1")
        assert grant is not None
        runtime.control.executions.clear()  # as another server sees it that takes over
        await sweep(runtime.control)
        assert called == ["roll"]
        assert await runtime.control.begin("e", "start#1", "w2") is None
        assert await runtime.control.beat("w1", [("e", "start#1", grant.epoch)]) == []
        assert runtime.control.executions["e"].in_flight["start#1"].worker == "w1"

    run_in(runtime, work, slots=0)


def test_a_call_that_runs_while_all_is_paused_keeps_its_lease_and_is_not_made_again() -> None:
    runtime = memory_runtime({"chain": CHAIN})

    async def work(runtime: MemoryRuntime) -> None:
        control = runtime.control
        await runtime.start("chain", id="e")
        grant = await control.begin("e", "start#1", "w1")
        assert grant is not None
        await control.command("e", Pause())
        started = Report(frame="start#1", position=0, epoch=grant.epoch, started_at=grant.at)
        assert await control.report("e", started) == ReportAnswer("go")
        await sweep(control)
        assert await control.beat("w1", [("e", "start#1", grant.epoch)]) == []
        await control.command("e", Resume())
        await sweep(control)
        assert control.executions["e"].in_flight["start#1"].worker == "w1"
        assert await control.begin("e", "start#1", "w2") is None

    run_in(runtime, work, slots=0)


def test_what_a_leaving_worker_lets_go_of_is_anothers_at_once() -> None:
    runtime = memory_runtime({"chain": CHAIN})

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("chain", id="e")
        grant = await runtime.control.begin("e", "start#1", "w1")
        assert grant is not None
        assert await runtime.control.begin("e", "start#1", "w2") is None
        back = Report(frame="start#1", position=0, epoch=grant.epoch)
        assert await runtime.control.report("e", back) == ReportAnswer("stop", "back")
        assert await runtime.control.begin("e", "start#1", "w2") is not None
        assert await runtime.control.report("e", back) == ReportAnswer("stop", "fenced")

    run_in(runtime, work, slots=0)


def test_a_worker_that_leaves_between_two_tasks_gives_the_frame_back() -> None:
    two = "workflow:\n- step: start\n  tool: [{name: a, kind: http, url: x}, {name: b, kind: http, url: x}]\n"
    called: list[str] = []

    async def answer(told: RunTask) -> Output:
        called.append(told.task.name)
        runtime.worker.draining = told.task.name == "a"
        return Output()

    runtime = memory_runtime({"two": two}, answer)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("two", id="e")
        await runtime.worker._run_claim((await runtime.queue.take(1))[0])
        assert called == ["a"]
        runtime.worker.draining = False
        runtime.add_slots(1)
        await runtime.end("e")

    run_in(runtime, work, slots=0)
    assert called == ["a", "b"]
