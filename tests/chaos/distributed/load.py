"""What a hurt house is asked to do, and what it acknowledged: starts through any server that answers.

Whatever was acknowledged is noted here, and must be in the log in the end.
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
from tests.chaos.distributed.cluster import CLOCK, ChaosCluster
from tests.chaos.distributed.effects import Effects

STEPS = 10
CHILDREN = 6
CHILD_STEPS = 3
WIDTH = 10  # of loops
PATIENCE_S = 60.0  # for a start to be acknowledged, whatever dies meanwhile


def head(name: str) -> str:
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: chaos/{name}}}\n"


def _steps(many: int) -> str:
    """Each begins when the one before it is on record."""
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


def _loop(many: int, width: int, path: str) -> str:
    return (
        f"- step: start\n  loop: {{in: '{{{{ range({many}) }}}}', iterator: n, "
        f"spec: {{mode: parallel, max_in_flight: {width}}}}}\n"
        f'  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/{path}/{{{{ iter.n }}}}'
        '?of={{ execution_id }}&ms={{ workload.ms }}&counted={{ execution_id }}"}\n'
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


def loop(many: int, width: int = WIDTH, path: str = "item") -> str:
    return head(f"loop-{path}") + _WORKLOAD + _loop(many, width, path)


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
    """Numbers from 0 up to 1, the same for the same seed."""

    def __init__(self, seed: object) -> None:
        self._numbers = (
            int.from_bytes(hashlib.sha256(f"{seed}/{turn}".encode()).digest()[:8], "big") / 2**64
            for turn in count()
        )

    def __call__(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * next(self._numbers)

    def between(self, low: float, high: float) -> Iterator[float]:
        while True:
            yield self(low, high)


class Load:
    """Starts, and what was acknowledged of them."""

    def __init__(self, cluster: ChaosCluster, effects: Effects) -> None:
        self.house = cluster
        self.effects = effects
        self.acked: dict[str, str] = {}  # execution → path of its playbook
        self.seen: dict[tuple[str, int], object] = {}  # execution, seq → the fact that a server has shown
        self.refused = 0  # answers that said: try again
        self._turns: Iterator[int] = cycle(range(cluster.plan.servers))

    async def register(self, *texts: str) -> None:
        for text in texts:
            await self.house.clients[0].register(text)

    async def start(self, path: str, **workload: JSON) -> str:
        """Until it is acknowledged, under one key, at whichever server is there."""
        key = SystemClock().new_id()
        given: Mapping[str, JSON] = {"url": self.effects.url, **workload}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                client = self.house.clients[next(self._turns)]
                try:
                    async with asyncio.timeout(10):
                        told = await client.start(path, given, key=key)
                except (Unavailable, TimeoutError):
                    self.refused += 1
                    await CLOCK.sleep(0.1)
                    continue
                self.acked[told.execution_id] = path
                return told.execution_id

    async def keep_starting(self, path: str, many: int, every_s: float, **workload: JSON) -> None:
        """So many, at a steady rate, however long each start takes."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(many):
                tasks.create_task(self.start(path, **workload))
                await CLOCK.sleep(every_s)

    async def look(self, execution_id: str) -> None:
        """What a server shows of a log now: it must stand there for ever."""
        client = self.house.clients[next(self._turns)]
        try:
            async with asyncio.timeout(5):
                rows = await client.store.read(execution_id)
        except (Unavailable, NotFound, Rejected, TimeoutError):
            return
        for event in events_of(rows):
            self.seen[execution_id, event.seq] = event.fact

    async def keep_looking(self) -> None:
        """At the newest, until it is cancelled."""
        while True:
            for execution_id in list(self.acked)[-3:]:
                await self.look(execution_id)
            await CLOCK.sleep(0.3)
