"""Executions that grow without end are ended one after the other, and their server and small executions go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.clock import SystemClock
from tests.conftest import Measuring
from tests.hostile.test_hostile_inputs import Target, running_server, work_during

STATE_BYTES = 16 << 20
MEMORY_MB_MAX = 400  # the server itself has about 100
RUNAWAYS = 3
# Each run starts two more. Each has its own copy of the text.
RUNAWAY = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: runaway, path: runaway}}
executor: {{spec: {{policy: {{limits: {{tokens: 1000000}}}}}}}}
workload: {{n: 1, text: {"x" * 5_000}}}
workflow:
- {{step: start, next: {{arcs: [{{step: work}}]}}}}
- step: work
  input: {{text: "{{{{ workload.text ~ execution_id }}}}"}}
  tool: {{kind: noop}}
  next:
    spec: {{mode: inclusive}}
    arcs: [{{step: work, when: "{{{{ workload.n > 0 }}}}"}}, {{step: work, when: "{{{{ workload.n > 0 }}}}"}}]
"""


def test_runaway_executions_end_and_their_server_does_not(tmp_path: Path, figure: Measuring) -> None:
    ended: list[tuple[str, str, dict[str, str]]] = []

    async def attack(target: Target) -> None:
        await target.attacker.register(RUNAWAY)
        for _ in range(RUNAWAYS):
            await target.attacker.post("/executions", {"path": "runaway"}, status=201)
        while await _ids(target, path="runaway", status="running"):
            await SystemClock().sleep(0.1)
        for id in await _ids(target, path="runaway"):
            found = await target.attacker.get(f"/executions/{id}")
            ended.append((found["status"], found["error"]["kind"], found["error"]["details"]))

    async def work() -> None:
        async with asyncio.timeout(300), running_server(tmp_path, NOETL_STATE_BYTES=str(STATE_BYTES)) as target:
            await work_during(attack(target), target.neighbour)
            print(f"p99 of the other user {target.neighbour.p99_ms:.0f} ms, {len(target.neighbour.waits)} executions")
            figure("three runaway executions, memory of the server", target.peak_mb, at_most=MEMORY_MB_MAX, unit="MB")

    asyncio.run(work())
    assert ended == [("error", "limit", {"limit": "NOETL_STATE_BYTES"})] * RUNAWAYS


async def _ids(target: Target, **filters: str) -> list[str]:
    page = await target.attacker.get("/executions", **filters)
    return [each["execution_id"] for each in page["items"]]
