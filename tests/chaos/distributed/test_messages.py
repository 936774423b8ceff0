"""Messages that are doubled, delayed or lost, and wrong clocks, change no result: the log and its positions count."""

from __future__ import annotations

import asyncio
import signal

from noetl.engine import facts
from tests.chaos.distributed.audit import audited, p99, report
from tests.chaos.distributed.cluster import BUSY_S, CLOCK, Plan, opened
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.faulty_process import CLOCKS, SEED
from tests.chaos.distributed.load import CHILD, CHILD_STEPS, Chance, Load, head, loop

EXECUTIONS = 300
ITEMS = 300
WAITING = 40
WAIT_S = 6.0  # a worker does not wait so long: it parks the frame, and control wakes it
JUMPS = 40

WAIT = (
    head("wait")
    + f"""\
workload: {{url: "", ms: 0}}
workflow:
- step: start
  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/before?of={{{{ execution_id }}}}"}}
  next: {{arcs: [{{step: pause}}]}}
- step: pause
  tool: {{kind: wait, seconds: {WAIT_S}}}
  next: {{arcs: [{{step: after}}]}}
- step: after
  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/after?of={{{{ execution_id }}}}"}}
"""
)


def test_messages_that_are_doubled_dropped_delayed_and_reordered_change_no_result() -> None:
    asyncio.run(_shuffle())


async def _shuffle() -> None:
    async with opened(Plan(faulty=True, environment={SEED: "11"})) as cluster, serving() as effects:
        load, begun = Load(cluster, effects), CLOCK.monotonic()
        await load.register(CHILD, loop(ITEMS, 50))
        long = await load.start("chaos/loop-item", ms=20)
        await load.keep_starting("chaos/child", EXECUTIONS, 0.06, ms=20)
        await cluster.until_all_ended()
        seconds, verdict = CLOCK.monotonic() - begun, await audited(load)
        report(
            "messages doubled, dropped, delayed",
            executions=len(verdict.states),
            reports_at_least=3 * len(effects.arrivals),
            effects=len(effects.arrivals),
            repeats=effects.repeats,
            widest=effects.most_at_once[long],
            stuck_most_s=verdict.worst_stuck_s(),
            seconds=seconds,
        )
        assert len(verdict.ok) == len(load.acked) == EXECUTIONS + 1
        assert len(effects.arrivals) == EXECUTIONS * CHILD_STEPS + ITEMS


def test_timers_are_right_although_clocks_are_wrong_and_jump_by_hours_and_days() -> None:
    asyncio.run(_jump())


async def _jump() -> None:
    # The machine may stop a worker for seconds. A lease is longer, and much shorter than a jump of a clock.
    async with (
        opened(Plan(faulty=True, environment={CLOCKS: "10", "NOETL_LEASE": "30"})) as cluster,
        serving() as effects,
    ):
        load, chance = Load(cluster, effects), Chance("clocks")
        await load.register(WAIT, loop(ITEMS))
        starting = asyncio.ensure_future(load.keep_starting("chaos/wait", WAITING, 0.3))
        await load.start("chaos/loop-item", ms=200)
        everyone = [*cluster.servers, *cluster.workers]
        for _ in range(JUMPS):
            cluster.signal(everyone[int(chance() * len(everyone))], signal.SIGUSR1)
            await CLOCK.sleep(0.45)
        await starting
        await cluster.until_all_ended()
        verdict = await audited(load)
        waits = []
        for id in (id for id, path in load.acked.items() if path == "chaos/wait"):
            before, after = (effects.arrivals[effects.key(id, path)] for path in ("/before", "/after"))
            waits.append(after[0] - before[0] - WAIT_S)
        report(
            "clocks wrong",
            jumps=JUMPS,
            timers=len(waits),
            earliest_s=min(waits),
            latest_p99_s=p99(waits),
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
        )
        assert len(verdict.ok) == WAITING + 1
        assert min(waits) > -0.05
        assert p99(waits) < 1 + BUSY_S
        assert effects.repeats == 0, "a lease was lost"
        ats = [event.at for log in verdict.logs.values() for event in log]
        assert (max(ats) - min(ats)).total_seconds() < 120, "an instant in the log is from a clock that jumped"
        assert any(isinstance(event.fact, facts.FrameParked) for log in verdict.logs.values() for event in log)
