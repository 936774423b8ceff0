"""The load on a cluster with faults: starts through any server that answers.

It records all acknowledged starts, which must be in the log in the end.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from itertools import count, cycle

from noetl.clock import SystemClock
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.views.log import events_of
from tests.chaos.distributed.cluster import CLOCK, PATIENCE_S, ChaosCluster
from tests.chaos.distributed.effects import Effects

STEPS = 10
CHILDREN = 6
CHILD_STEPS = 3
WIDTH = 10  # of loops


def head(name: str) -> str:
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: chaos/{name}}}\n"


def _steps(many: int) -> str:
    """Each step begins when the previous one is in the log."""
    made = ""
    for number in range(many):
        name = "start" if number == 0 else f"s{number}"
        after = f"s{number + 1}" if number + 1 < many else "last"
        made += (
            f"- step: {name}\n"
            f'  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/{name}'
            '?of={{ execution_id }}&ms={{ workload.ms }}"}\n'
            f'  set: {{ctx.{name}: "{{{{ output.data.path }}}}"}}\n'
            f"  next: {{arcs: [{{step: {after}}}]}}\n"
        )
    return made + '- {step: last, tool: {kind: noop, input: {all: "{{ ctx }}"}}}\n'


def _loop(many: int, width: int, path: str, full: int) -> str:
    return (
        f"- step: start\n  loop: {{in: '{{{{ range({many}) }}}}', iterator: n, "
        f"spec: {{mode: parallel, max_in_flight: {width}}}}}\n"
        f'  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/{path}/{{{{ iter.n }}}}'
        "?of={{ execution_id }}&ms={{ workload.ms }}&counted={{ execution_id }}"
        f'&full={full}"}}\n'
    )


_WORKLOAD = 'workload: {url: "", ms: 50}\nworkflow:\n'
CHAIN = head("chain") + _WORKLOAD + _steps(STEPS)
CHILD = head("child") + _WORKLOAD + _steps(CHILD_STEPS)
FAMILY = (
    head("family")
    + _WORKLOAD
    + f"""\
- step: start
  loop: {{in: '{{{{ range({CHILDREN}) }}}}', iterator: n, spec: {{mode: parallel, max_in_flight: {CHILDREN}}}}}
  tool: {{kind: playbook, path: chaos/child, input: {{url: "{{{{ workload.url }}}}", ms: "{{{{ workload.ms }}}}"}}}}
"""
)


def loop(many: int, width: int = WIDTH, path: str = "item", *, full: int = 0) -> str:
    """`full`: no call ends before so many of them run at the same time."""
    return head(f"loop-{path}") + _WORKLOAD + _loop(many, width, path, full)


HOLD = (
    head("hold")
    + """\
workload: {url: "", holds: 1}
workflow:
- step: start
  tool: {kind: http, method: POST, url: "{{ workload.url }}/first?of={{ execution_id }}&holds={{ workload.holds }}"}
  next: {arcs: [{step: after}]}
- step: after
  tool: {kind: http, method: POST, url: "{{ workload.url }}/after?of={{ execution_id }}&holds=1"}
"""
)


class Chance:
    """Reproducible numbers from 0 up to 1."""

    def __init__(self, seed: object) -> None:
        self._numbers = (
            int.from_bytes(hashlib.sha256(f"{seed}/{turn}".encode()).digest()[:8], "big") / 2**64 for turn in count()
        )

    def __call__(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * next(self._numbers)

    def between(self, low: float, high: float) -> Iterator[float]:
        while True:
            yield self(low, high)


class Load:
    """Starts executions and records the acknowledged ones."""

    def __init__(self, cluster: ChaosCluster, effects: Effects) -> None:
        self.cluster = cluster
        self.effects = effects
        self.acked: dict[str, str] = {}  # execution → path of its playbook
        self.seen: dict[tuple[str, int], object] = {}  # execution, seq → the fact that a server returned
        self.refused = 0  # answers that requested a retry
        self._turns: Iterator[int] = cycle(range(cluster.plan.servers))

    async def register(self, *texts: str) -> None:
        for text in texts:
            await self.cluster.clients[0].register(text)

    async def start(self, path: str, **workload: JSON) -> str:
        """Start with one idempotency key at any server that answers, until a server acknowledges, with kills in between."""
        key = SystemClock().new_id()
        given: Mapping[str, JSON] = {"url": self.effects.url, **workload}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                client = self.cluster.clients[next(self._turns)]
                try:
                    async with asyncio.timeout(10):
                        started = await client.start(path, given, key=key)
                except (Unavailable, TimeoutError):
                    self.refused += 1
                    await CLOCK.sleep(0.1)
                    continue
                self.acked[started.execution_id] = path
                return started.execution_id

    async def keep_starting(self, path: str, many: int, every_s: float, **workload: JSON) -> None:
        """Start `many` executions at a constant rate, however long each start takes."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(many):
                tasks.create_task(self.start(path, **workload))
                await CLOCK.sleep(every_s)

    async def keep_starting_until(self, over: asyncio.Event, path: str, every_s: float, **workload: JSON) -> None:
        """Start executions at a constant rate until the event is set."""
        async with asyncio.TaskGroup() as tasks:
            while not over.is_set():
                tasks.create_task(self.start(path, **workload))
                await CLOCK.sleep(every_s)

    async def look(self, execution_id: str) -> None:
        """Record the facts that a server returns now: they must stay in the log."""
        client = self.cluster.clients[next(self._turns)]
        try:
            async with asyncio.timeout(5):
                rows = await client.store.read(execution_id)
        except (Unavailable, NotFound, Rejected, TimeoutError):
            return
        for event in events_of(rows):
            self.seen[execution_id, event.seq] = event.fact

    async def keep_looking(self) -> None:
        """Look at the newest execution repeatedly, until the task is cancelled."""
        while True:
            for execution_id in list(self.acked)[-3:]:
                await self.look(execution_id)
            await CLOCK.sleep(0.3)
