"""Executions that only wait are not in memory, and continue as if they were."""

from __future__ import annotations

import asyncio

import pytest

from noetl.control.deps import ControlSettings
from noetl.control.sweeper import SWEPT_AT_ONCE, adopt
from noetl.engine.commands import Cancel, Pause, Resume, Signal
from noetl.engine.moves import RunTask
from noetl.errors import PlaybookError
from noetl.net.program import Program
from noetl.output import Output
from noetl.slices import turn
from noetl.testing import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime
from tests.unit.control.runtimes import memory_runtime, run_in

SETTINGS = ControlSettings(idle_s=10.0, settle_s=5.0)
SIGNAL = "workflow:\n- {step: start, tool: {kind: wait, signal: go}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n"
TIMER = "workflow:\n- {step: start, tool: {kind: wait, seconds: 60}, next: {arcs: [{step: b}]}}\n- {step: b, tool: {kind: noop}}\n"
SHORT = TIMER.replace("60", "15")
LATE = SIGNAL.replace("tool: {kind: wait", "spec: {policy: {lifecycle: {timeout_s: 60}}}, tool: {kind: wait")
LOOP = """\
workflow:
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: wait, signal: go}
"""
BOTH = """\
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: waits}, {step: works}]}
- {step: waits, tool: {kind: wait, signal: go}}
- {step: works, tool: {kind: http, url: x}}
"""
CHILD = "workflow:\n- {step: start, tool: {kind: playbook, path: signal}}\n"


async def _parked(memory: MemoryRuntime, id: str, waits: int = 1) -> None:
    async with asyncio.timeout(10):
        while sum(type(each.fact).__name__ == "FrameParked" for each in memory.log(id)) < waits:
            await turn()


async def _make_idle(memory: MemoryRuntime, id: str, waits: int = 1) -> None:
    await _parked(memory, id, waits)
    await memory.sweep()
    assert id in memory.control.executions  # it has not waited long enough
    await memory.clock.sleep(11)
    await memory.sweep()
    assert id in memory.control.idle
    assert id not in memory.control.executions


def test_a_waiting_execution_that_is_taken_over_does_not_stay_in_memory() -> None:
    memory = memory_runtime({"signal": SIGNAL}, settings=ControlSettings(idle_s=10.0))

    async def work(memory: MemoryRuntime) -> None:
        control = memory.control
        await memory.start("signal", id="e")
        await _make_idle(memory, "e")
        control.idle.clear()  # as after the start of a process
        await memory.start("signal", id="new")
        await _parked(memory, "new")
        await adopt(control, ["e", "new", "unknown"])
        assert (*control.idle, *control.executions) == ("e", "new")  # the new one has not waited long enough
        await memory.command("e", Signal(name="go"))
        await memory.end("e")

    run_in(memory, work)


def test_a_sweep_of_many_waiting_executions_keeps_few_of_them_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_runtime({"signal": SIGNAL}, settings=ControlSettings(idle_s=10.0))
    ids = [f"e{number}" for number in range(SWEPT_AT_ONCE + 50)]
    find, loaded = memory.programs.by_digest, list[int]()

    async def by_digest(digest: str) -> Program:
        """Every load asks for the program."""
        loaded.append(len(memory.control.executions))
        return await find(digest)

    async def work(memory: MemoryRuntime) -> None:
        for id in ids:
            await memory.start("signal", id=id)
        for id in ids:
            await _parked(memory, id)
        await memory.clock.sleep(11)
        await memory.sweep()
        assert set(memory.control.idle) == set(ids)
        memory.control.idle.clear()  # as after the start of a process
        monkeypatch.setattr(memory.programs, "by_digest", by_digest)
        await memory.sweep()
        assert set(memory.control.idle) == set(ids)

    run_in(memory, work)
    assert (len(loaded), max(loaded) <= SWEPT_AT_ONCE) == (len(ids), True)


def test_a_signal_is_received_at_once() -> None:
    memory = memory_runtime({"signal": SIGNAL}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> float:
        await memory.start("signal", id="e")
        await _make_idle(memory, "e")
        before = memory.clock.monotonic()
        await memory.signal("e", "go")
        await memory.end("e")
        return memory.clock.monotonic() - before

    assert run_in(memory, work) < SETTINGS.settle_s  # no worker can hold a frame of it
    assert memory.state("e").status == "ok"


def test_a_timer_fires_at_its_instant_without_a_sweep() -> None:
    memory = memory_runtime({"timer": TIMER}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("timer", id="e")
        await _make_idle(memory, "e")
        await memory.end("e")

    run_in(memory, work)
    log = memory.log("e")
    assert (log[-1].at - log[0].at).total_seconds() == pytest.approx(60, abs=0.1)


def test_a_sweep_finds_what_is_due_if_the_timer_was_lost() -> None:
    memory = memory_runtime({"late": LATE}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("late", id="e")
        await _make_idle(memory, "e")
        memory.control.timers.close()
        await memory.sweep()
        assert "e" in memory.control.idle  # it is not loaded before
        await memory.clock.sleep(60)
        await memory.sweep()
        await memory.end("e")

    run_in(memory, work)
    failure = memory.state("e").failure
    assert failure is not None
    assert failure.kind == "timeout"


@pytest.mark.parametrize("body", [SHORT, BOTH, CHILD])
def test_it_stays_in_memory_while_something_happens_soon(body: str) -> None:
    clock = FakeClock(auto_advance=True)

    async def slow(_called: RunTask) -> Output:
        await clock.sleep(100)
        return Output()

    memory = memory_runtime({"p": body, "signal": SIGNAL}, slow, SETTINGS, clock=clock)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("p", id="e")
        await _parked(memory, "e")
        await memory.clock.sleep(11)
        await memory.sweep()
        assert "e" in memory.control.executions

    run_in(memory, work, slots=1)


def test_all_iterations_may_wait() -> None:
    memory = memory_runtime({"loop": LOOP}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("loop", id="e")
        await _make_idle(memory, "e", waits=2)
        await memory.signal("e", "go")
        await memory.end("e")

    run_in(memory, work)
    assert memory.state("e").status == "ok"


def test_commands_reach_it() -> None:
    memory = memory_runtime({"signal": SIGNAL}, settings=SETTINGS)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("signal", id="e")
        await _make_idle(memory, "e")
        await memory.command("e", Pause())
        await memory.clock.sleep(11)
        await memory.sweep()
        assert memory.control.idle["e"].status == "paused"
        await memory.command("e", Resume())
        await memory.command("e", Cancel())
        await memory.sweep()
        await memory.end("e")

    run_in(memory, work)
    assert memory.state("e").status == "cancelled"


def test_a_playbook_that_cannot_run_here_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because one of its tools is not installed on this server."""
    memory = memory_runtime({"signal": SIGNAL, "other": SIGNAL, "timer": TIMER}, settings=SETTINGS)
    find = memory.programs.by_digest

    async def by_digest(digest: str) -> Program:
        if digest == "other":
            raise PlaybookError([])
        return await find(digest)

    async def work(memory: MemoryRuntime) -> None:
        await memory.start("other", id="a")
        await memory.start("timer", id="b")
        await _parked(memory, "a")
        await _parked(memory, "b")
        memory.control.executions.clear()  # as after a restart
        monkeypatch.setattr(memory.programs, "by_digest", by_digest)
        memory.control.timers.close()
        await memory.clock.sleep(61)
        await memory.sweep()
        await memory.clock.sleep(SETTINGS.settle_s)
        await memory.end("b")

    run_in(memory, work)
    assert memory.state("b").status == "ok"
    assert memory.state("a").live
