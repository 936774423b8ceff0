"""Limits by key while servers are killed: an outside server never counts more than the limit permits."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos.distributed.audit import audited, report
from tests.chaos.distributed.cluster import CLOCK, Plan, kill_again_and_again, opened, until
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import Chance, Load, head

KEYS, EACH, LIMIT = 5, 200, 3
KILLS_EACH = 8
CALL = (
    'kind: http, method: POST, url: "{{ workload.url }}/call?of={{ execution_id }}'
    '&counted={{ workload.key }}&ms={{ workload.ms }}"'
)
_WORKLOAD = 'workload: {url: "", key: "", ms: 30}\n'
EXECUTION = (
    head("queued")
    + f'executor: {{spec: {{policy: {{concurrency: {{key: "{{{{ workload.key }}}}", limit: {LIMIT}}}}}}}}}\n'
    + f"{_WORKLOAD}workflow: [{{step: start, tool: {{{CALL}}}}}]\n"
)
TASK = (
    head("limited")
    + f"{_WORKLOAD}workflow: [{{step: start, tool: {{{CALL}, spec: {{policy: "
    + f'{{limit: {{key: "{{{{ workload.key }}}}", in_flight: {LIMIT}}}}}}}}}}}]\n'
)


@pytest.mark.parametrize("kind", ["queued", "limited"])
def test_limits_hold_while_servers_are_killed(kind: str) -> None:
    asyncio.run(_kill_servers(kind))


async def _kill_servers(kind: str) -> None:
    async with opened(Plan(named=True)) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(EXECUTION if kind == "queued" else TASK)
        begun = CLOCK.monotonic()
        seats = asyncio.Semaphore(16)

        async def start(number: int) -> None:
            async with seats:
                await load.start(f"chaos/{kind}", key=f"k{number % KEYS}", ms=30)

        async with asyncio.TaskGroup() as tasks:
            for number in range(KEYS * EACH):
                tasks.create_task(start(number))
            for name in cluster.servers:
                life_s = Chance(f"{kind} {name}").between(0.5, 4.0)
                tasks.create_task(kill_again_and_again(cluster, name, KILLS_EACH, life_s))
        await cluster.until_all_ended()

        async def all_released() -> bool:
            return await cluster.rows("SELECT 1 FROM noetl.permits LIMIT 1") == []

        await until(all_released)
        verdict = await audited(load)
        report(
            f"limits of {kind}, servers killed",
            kills=2 * KILLS_EACH,
            executions=len(verdict.ok),
            most_at_once=max(effects.most_at_once.values()),
            repeats=effects.repeats,
            stuck_most_s=verdict.worst_stuck_s(),
            seconds=CLOCK.monotonic() - begun,
        )
        assert len(verdict.ok) == len(load.acked) == KEYS * EACH
        assert effects.most_at_once.keys() == {f"k{number}" for number in range(KEYS)}
        assert max(effects.most_at_once.values()) <= LIMIT
