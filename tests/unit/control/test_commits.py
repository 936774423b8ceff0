"""Commits that the store does not confirm: no unrecorded fact is shown or used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from noetl.adapters.memory import MemoryStore
from noetl.control.deps import ControlSettings
from noetl.control.executions import FACTS_PER_COMMIT, FACTS_PER_TURN, LEADS_PER_TURN
from noetl.control.live_execution import ANSWERS_PER_TURN, fold
from noetl.engine.commands import Pause, Resume
from noetl.engine.state import State
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.ports import Append, Snapshot, SnapshotOf
from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.views.replay import ReplayDifference, differences
from tests.unit.control.runtimes import memory_runtime, run_in

ONE = "workflow:\n- {step: start, tool: {kind: http, url: x}}\n"


class SilentStore(MemoryStore):
    """It does what it is asked for, and once it does not say so."""

    silent = False

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        done = await super().append(appends)
        if self.silent:
            self.silent = False
            raise Unavailable("no answer")
        return done


def test_a_state_that_may_not_be_on_record_is_used_by_nobody_who_kept_hold_of_it() -> None:
    store = SilentStore(FakeClock(), 1)
    runtime = memory_runtime({"t": ONE}, parts=RuntimeParts(store=store))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        held = runtime.control.executions["e"]
        store.silent = True
        with pytest.raises(Unavailable):
            await runtime.control.command("e", Pause())
        with pytest.raises(Unavailable, match="reloaded from the log"):
            await runtime.control.read(held, lambda: None)
        await runtime.control.command("e", Resume())

    run_in(runtime, work, slots=0)
    names = [type(fact).__name__ for row in store.rows["e"] for fact in row.facts]
    assert names[-2:] == ["Paused", "Resumed"]


def test_an_execution_is_read_from_its_snapshot_and_what_follows_it() -> None:
    runtime = memory_runtime({"t": ONE}, settings=ControlSettings(snapshot_bytes=1))

    async def work(runtime: MemoryRuntime) -> tuple[int | None, object, object]:
        await runtime.start("t", id="e")
        before = runtime.control.executions.pop("e")
        await asyncio.gather(*runtime.control._background._tasks)
        kept = await runtime.store.snapshot("e")
        await runtime.control.command("e", Pause())
        return kept and kept.seq, before.state.runs, runtime.control.executions["e"].state.runs

    seq, before, after = run_in(runtime, work, slots=0)
    assert seq is not None
    assert before == after


def test_callers_do_not_wait_for_a_snapshot() -> None:
    runtime = memory_runtime({"t": ONE}, settings=ControlSettings(snapshot_bytes=1))

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        live = runtime.control.executions["e"]
        assert (live.state.status, live.saved_bytes) == ("running", 0)
        await asyncio.gather(*runtime.control._background._tasks)
        assert live.saved_bytes > 0

    run_in(runtime, work, slots=0)


def test_what_shares_a_commit_shares_its_instant_so_that_live_is_what_the_log_says_p4() -> None:
    runtime = memory_runtime({"t": ONE})

    async def work(runtime: MemoryRuntime) -> list[ReplayDifference]:
        await runtime.start("t", id="e")
        await asyncio.gather(*(runtime.control.command("e", each) for each in (Pause(), Resume())))
        rows = runtime.store.rows["e"]
        assert len(rows) == 2
        folded = State(execution_id="e")
        fold(folded, rows)
        return differences(folded, runtime.control.executions["e"].state)

    assert run_in(runtime, work, slots=0) == []


def test_a_chain_commits_without_a_turn_of_the_event_loop_but_others_have_theirs() -> None:
    steps = [f"- {{step: s{n}, tool: {{kind: noop}}, next: {{arcs: [{{step: s{n + 1}}}]}}}}\n" for n in range(80)]
    chain = (
        f"executor: {{spec: {{entry_step: s0}}}}\nworkflow:\n{''.join(steps)}- {{step: s80, tool: {{kind: noop}}}}\n"
    )
    runtime = memory_runtime({"chain": chain})

    async def work(runtime: MemoryRuntime) -> int:
        await runtime.start("chain", id="e")
        turns = 0
        while runtime.control.executions["e"].state.live:
            await turn()
            turns += 1
        return turns

    assert 80 // LEADS_PER_TURN <= run_in(runtime, work, slots=1) < 40


def test_much_that_follows_of_one_command_is_committed_in_pieces_and_others_have_their_turn() -> None:
    many = "workflow:\n- step: start\n  loop: {in: '{{ range(3000) }}', iterator: n}\n  tool: []\n"
    runtime = memory_runtime({"many": many, "t": ONE})

    async def work(runtime: MemoryRuntime) -> list[str]:
        starting = asyncio.ensure_future(runtime.start("many", id="e"))
        while "e" not in runtime.store.rows:
            await turn()
        await runtime.start("t", id="short")
        begun = list(runtime.store.rows)
        assert not starting.done(), "it is still at it"
        await starting
        return begun

    assert run_in(runtime, work, slots=0) == ["e", "short"]
    lengths = [len(row.facts) for row in runtime.store.rows["e"]]
    assert sum(lengths) > 3_000
    assert max(lengths) < FACTS_PER_COMMIT + 2 * FACTS_PER_TURN


def test_whoever_leads_and_is_gone_while_all_are_answered_leaves_nobody_waiting() -> None:
    runtime = memory_runtime({"t": ONE})

    async def work(runtime: MemoryRuntime) -> int:
        await runtime.start("t", id="e")
        live = runtime.control.executions["e"]
        asking = [
            asyncio.ensure_future(runtime.control.submit(live, None, lambda: asking[0].cancel()))
            for _ in range(3 * ANSWERS_PER_TURN)
        ]
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert await runtime.control.read(live, lambda: live.busy) is False
        return sum(isinstance(each, BaseException) for each in told)

    assert run_in(runtime, work, slots=0) == 1


class SlowSnapshots(MemoryStore):
    """The first load of an execution takes until it is allowed to continue."""

    def __init__(self) -> None:
        super().__init__(FakeClock(), 1)
        self.asked, self.allowed = asyncio.Event(), asyncio.Event()

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        self.asked.set()
        await self.allowed.wait()
        return await super().snapshot(execution_id, of)


def test_a_message_that_arrives_before_the_start_does_not_make_it_a_takeover() -> None:
    """For example the permit that it waits for: nothing is dispatched for a while after a takeover."""
    store = SlowSnapshots()
    settings = ControlSettings(settle_s=3600.0)
    memory = memory_runtime({"t": ONE}, settings=settings, parts=RuntimeParts(store=store))

    async def work(memory: MemoryRuntime) -> float:
        early = asyncio.ensure_future(memory.control.load("e"))
        await store.asked.wait()
        await memory.start("t", id="e")
        store.allowed.set()
        assert await early is memory.control.executions["e"]
        before = memory.clock.monotonic()
        memory.add_slots(1)
        await memory.end("e")
        return memory.clock.monotonic() - before

    assert run_in(memory, work, slots=0) < settings.settle_s


def test_the_time_of_control_is_exact_to_the_microsecond() -> None:
    clock = FakeClock()
    memory = memory_runtime({"one": ONE}, clock=clock)
    synchronised = datetime(2037, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    memory.control.set_time(synchronised)
    passed = timedelta()
    for microseconds in (0, 1, 333_333, 999_999, 1_000_001, 86_399_999_999):
        passed += timedelta(microseconds=microseconds)
        clock.advance(microseconds / 1_000_000)
        assert memory.control.now() == synchronised + passed
