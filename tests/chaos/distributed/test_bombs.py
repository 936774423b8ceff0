"""Playbooks that exhaust resources reach a limit soon, and other executions are hardly affected."""

from __future__ import annotations

import asyncio
from statistics import median

from noetl.engine import facts
from tests.chaos.distributed.audit import audited, p99, report
from tests.chaos.distributed.cluster import BUSY_S, CLOCK, PATIENCE_S, opened
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import CHILD, Load, head

NEIGHBOURS = 60
EVERY_S = 0.1
BOMB_S = 15.0
BESIDE_S = 3.0


def storm(name: str, arcs: str) -> str:
    """Every firing of its only step causes more firings."""
    return (
        head(name)
        + f"""\
workload: {{url: "", more: true}}
workflow:
- step: start
  tool: {{kind: noop}}
  next:
    spec: {{mode: inclusive}}
    arcs:
    - {{step: start, when: "{{{{ workload.more }}}}"}}
    - {{step: start, when: "{{{{ workload.more }}}}"}}
    - {{step: never, when: "{{{{ not workload.more }}}}"}}
{arcs}- {{step: never, tool: {{kind: noop}}}}
"""
    )


_CROWD = """\
    - {step: crowd, when: "{{ workload.more }}"}
    - {step: crowd, when: "{{ workload.more }}"}
- step: crowd
  spec: {policy: {admit: {rules: [{when: "{{ not workload.more }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
"""
STORM = storm("storm", _CROWD)  # tokens accumulate at a step that admits none of them
RUNS = storm("runs", "")  # tokens become runs immediately
DEEP = head("deep") + ("workload: {url: ''}\nworkflow:\n- step: start\n  tool: {kind: playbook, path: chaos/deep}\n")
WIDE = head("wide") + (
    "executor: {spec: {policy: {limits: {iterations: 5000}}}}\n"
    "workload: {url: ''}\nworkflow:\n- step: start\n"
    "  loop: {in: '{{ range(10000) }}', iterator: n}\n  tool: {kind: noop}\n"
)
BOMBS = {"chaos/storm": STORM, "chaos/wide": WIDE, "chaos/deep": DEEP}


def test_token_storms_and_endless_children_reach_a_limit_and_other_executions_continue() -> None:
    asyncio.run(_bomb())


def test_a_storm_of_runs_reaches_the_limit_of_live_tokens() -> None:
    asyncio.run(_storm())


async def _storm() -> None:
    async with opened() as cluster:
        await cluster.clients[0].register(RUNS)
        # Each firing adds one token, and workers run all of them: the limit takes 10,000 firings.
        document = await cluster.clients[0].run("chaos/runs", timeout_s=PATIENCE_S)
        assert document.status == "error"
        assert document.error is not None
        assert document.error.kind == "limit"


async def _bomb() -> None:
    async with opened() as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(CHILD, *BOMBS.values())
        await _neighbours(load, 10)  # warm up all caches
        alone = await _neighbours(load, NEIGHBOURS)
        bombing = asyncio.ensure_future(_keep_bombing(load))
        beside = await _neighbours(load, NEIGHBOURS)
        took = await bombing
        await cluster.until_all_ended()
        bombs = {id for id, path in load.acked.items() if path in BOMBS}
        ((children,),) = await cluster.rows("SELECT count(*) FROM noetl.heads WHERE path = 'chaos/deep'")
        others = await cluster.rows("SELECT execution_id FROM noetl.heads WHERE path <> 'chaos/child'")
        verdict = await audited(load, may_fail={row[0] for row in others})
        report(
            "bombs",
            **{f"{path.removeprefix('chaos/')}, s": seconds for path, seconds in took.items()},
            children_deep=children,
            neighbours_p50_ms=median(alone) * 1_000,
            beside_bombs_p50_ms=median(beside) * 1_000,
            neighbours_p99_ms=p99(alone) * 1_000,
            beside_bombs_p99_ms=p99(beside) * 1_000,
        )
        for id in bombs:
            ends = [e.fact for e in verdict.logs[id] if isinstance(e.fact, facts.Finished)]
            assert [each.status for each in ends] == ["error"], load.acked[id]
        assert max(took.values()) <= BOMB_S + BUSY_S
        assert p99(beside) <= BESIDE_S + BUSY_S


async def _neighbours(load: Load, many: int) -> list[float]:
    """Run small executions at a constant rate; returns their durations."""
    took: list[float] = []

    async def one(number: int) -> None:
        begun = CLOCK.monotonic()
        client = load.cluster.clients[number % 2]
        document = await client.run("chaos/child", {"url": load.effects.url, "ms": 5}, timeout_s=PATIENCE_S)
        assert document.status == "ok"
        took.append(CLOCK.monotonic() - begun)

    async with asyncio.TaskGroup() as tasks:
        for number in range(many):
            tasks.create_task(one(number))
            await CLOCK.sleep(EVERY_S)
    return took


async def _keep_bombing(load: Load) -> dict[str, float]:
    """Run the bombs one after the other until it is cancelled; returns the longest duration of each."""
    took: dict[str, float] = {}
    until = CLOCK.monotonic() + NEIGHBOURS * EVERY_S
    while CLOCK.monotonic() < until:
        for path in BOMBS:
            begun = CLOCK.monotonic()
            document = await load.cluster.clients[0].run(path, {"url": ""}, timeout_s=PATIENCE_S)
            assert document.status == "error", path
            took[path] = max(took.get(path, 0.0), CLOCK.monotonic() - begun)
            load.acked[document.execution_id] = path
    return took
