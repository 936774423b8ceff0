"""What is true just now is read from control when somebody asks."""

from __future__ import annotations

from datetime import UTC, datetime

from noetl.engine.facts import FrameParked
from noetl.ports import WorkerInfo
from noetl.telemetry.control_metrics import read_workers
from noetl.telemetry.metrics import Gauge, Labels, Metrics
from tests.unit.telemetry.runtimes import ID, MeasuredRuntime, run_in

LOOP = """\
workflow:
- step: start
  loop: {in: "{{ [1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: noop}
"""


def read(gauge: Gauge) -> dict[Labels, float]:
    assert gauge.read is not None
    return dict(gauge.read())


def test_frames_that_nobody_has_begun_are_the_depth_of_the_queue() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        await runtime.start("p")
        meters = runtime.metrics.process
        assert read(meters.waiting) == {"default": 3}
        assert read(meters.leased) == {}
        assert read(meters.executions) == {"running": 1}
        assert read(meters.commands) == {(): 0}
        assert 0 <= read(meters.oldest_s)["default"] < 30

    run_in(runtime, work, slots=0)


def test_the_size_of_the_executions_in_memory_is_that_which_is_limited() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        meters = runtime.metrics.process
        assert (read(meters.state_bytes), read(meters.state_limit_bytes)) == ({(): 0}, {(): 0})
        await runtime.start("p")
        assert read(meters.state_bytes) == {(): runtime.control.executions[ID].state_bytes}
        assert read(meters.state_bytes)[()] > 0
        runtime.control.settings = runtime.control.settings._replace(state_bytes=5_000)
        assert read(meters.state_limit_bytes) == {(): 5_000}

    run_in(runtime, work, slots=0)


def test_a_frame_that_was_begun_is_leased_and_waits_no_longer() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        await runtime.start("p")
        assert await runtime.link.begin(ID, "start#1[0]", "w") is not None
        meters = runtime.metrics.process
        assert (read(meters.waiting), read(meters.leased)) == ({"default": 2}, {"default": 1})

    run_in(runtime, work, slots=0)


def test_a_pointer_whose_execution_is_gone_has_no_age() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        await runtime.start("p")
        del runtime.control.executions[ID]
        assert read(runtime.metrics.process.oldest_s) == {}
        assert runtime.pending.remove(ID, "start#1[0]") is None

    run_in(runtime, work, slots=0)


def test_after_the_end_nothing_waits() -> None:
    runtime = MeasuredRuntime(p=LOOP)

    async def work(runtime: MeasuredRuntime) -> None:
        log = await runtime.whole("p")
        assert not any(isinstance(event.fact, FrameParked) for event in log)
        meters = runtime.metrics.process
        assert [read(each) for each in (meters.waiting, meters.leased, meters.oldest_s)] == [{}, {}, {}]

    run_in(runtime, work)


def test_workers_are_counted_by_pool() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    class Here:
        def workers(self) -> list[WorkerInfo]:
            seen = [("a", "gpu", 4, 1), ("b", "gpu", 8, 8), ("c", "default", 2, 0)]
            return [WorkerInfo(*each, "h", 1, "0", {}, False, at) for each in seen]

        def slots(self, pool: str) -> int:
            return sum(each.slots for each in self.workers() if each.pool == pool)

    metrics = Metrics()
    read_workers(metrics, Here())
    meters = metrics.process
    assert read(meters.workers) == {"gpu": 2, "default": 1}
    assert read(meters.slots) == {"gpu": 12, "default": 2}
    assert read(meters.busy) == {"gpu": 9, "default": 0}
