"""Small executions beside noisy ones in one process: their p50 and p99 alone and beside each noise, in turns.

`python -m benchmarks.neighbours [rounds]`: everything in one process on one file, as in `noetl server`. A small
execution of three steps starts every 20 ms. The longest turn of the event loop is in processor time of its thread, so
that it depends little on what else the machine does.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from benchmarks.embedded import HEAD, THREE, page_server
from benchmarks.sizes import scaled
from noetl.engine.commands import Cancel
from noetl.errors import Rejected
from noetl.runtime.embedded import EmbeddedRuntime, open_embedded, relax_collector

ROUNDS = scaled(3, 1)
EXECUTIONS = scaled(300, 20)  # of each round and noise
EVERY_S = 0.02
RETRIES = scaled(10_000, 200)
RESULTS, RESULT_MB = 4, scaled(25, 1)  # at once: 100 MB in all; one result has at most 64 MiB
NOISES = {
    "tokens without end": HEAD % "tokens" + """\
workload: {url: "", more: true}
workflow:
- step: start
  tool: {kind: noop}
  next:
    spec: {mode: inclusive}
    arcs:
    - {step: start, when: "{{ workload.more }}"}
    - {step: start, when: "{{ workload.more }}"}
    - {step: never, when: "{{ not workload.more }}"}
- {step: never, tool: {kind: noop}}
""",
    "100 MB of results (http)": HEAD % "fetched" + f"""\
workload: {{url: ""}}
workflow:
- step: start
  loop: {{in: "{{{{ range({RESULTS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {RESULTS}}}}}
  tool: {{kind: http, url: "{{{{ workload.url }}}}/", params: {{mb: {RESULT_MB}}}, spec: {{memory_mb: 512}}}}
""",
    "100 MB of results (python)": HEAD % "made" + f"""\
workload: {{url: ""}}
workflow:
- step: start
  loop: {{in: "{{{{ range({RESULTS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {RESULTS}}}}}
  tool:
    kind: python
    code: |
      def main():
          return [{{"id": n, "name": "record %d" % n, "value": n * 1.5}} for n in range({RESULT_MB * 20_000})]
""",
    "10,000 failing retries": HEAD % "retries" + f"""\
workload: {{url: ""}}
workflow:
- step: start
  loop: {{in: "{{{{ range(100) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 50}}}}
  tool:
    kind: http
    url: "http://127.0.0.1:1/"
    spec:
      policy:
        rules:
        - {{when: "{{{{ output.status == 'error' }}}}", then: {{do: retry, attempts: {RETRIES // 100}, delay: 0}}}}
""",
}  # fmt: skip


class Durations(NamedTuple):
    """Of the small executions, and of the turns of the event loop meanwhile."""

    executions: list[float]  # milliseconds
    longest_turn: float  # milliseconds of processor time

    def p(self, percent: int) -> float:
        return quantiles(self.executions, n=100, method="inclusive")[percent - 1]


class LoopTurns:
    """The processor time of the event loop's thread between two of its timers, at most."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop, self._last = asyncio.get_running_loop(), time.thread_time()
        self._timer = self._loop.call_later(0.001, self._tick)

    def _tick(self) -> None:
        now = time.thread_time()
        self.longest, self._last = max(self.longest, now - self._last), now
        self._timer = self._loop.call_later(0.001, self._tick)

    def stop(self) -> None:
        self._timer.cancel()


async def neighbours(runtime: EmbeddedRuntime, digest: str) -> Durations:
    """Small executions at a constant rate."""
    took: list[float] = []

    async def one() -> None:
        begun = time.perf_counter()
        state = await runtime.wait_until_idle(await runtime.start(digest, {}))
        assert state.status == "ok"
        took.append((time.perf_counter() - begun) * 1_000)

    turns = LoopTurns()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(EXECUTIONS):
            tasks.create_task(one())
            await runtime.clock.sleep(EVERY_S)
    turns.stop()
    return Durations(took, turns.longest * 1_000)


@asynccontextmanager
async def noise(runtime: EmbeddedRuntime, digest: str, url: str) -> AsyncIterator[None]:
    """One execution of it at a time, again and again; the last one is cancelled."""
    running = ""

    async def repeat() -> None:
        nonlocal running
        while True:
            running = await runtime.start(digest, {"url": url})
            await runtime.wait_until_idle(running)

    making = asyncio.ensure_future(repeat())
    await runtime.clock.sleep(0.2)
    try:
        yield
    finally:
        making.cancel()
        with suppress(Rejected):  # it has ended
            await runtime.command(running, Cancel())
        await runtime.wait_until_idle(running)


async def compare(rounds: int) -> dict[str, list[tuple[Durations, Durations]]]:
    """For each noise: alone and beside it, in turns."""
    found: dict[str, list[tuple[Durations, Durations]]] = {name: [] for name in NOISES}
    with tempfile.TemporaryDirectory() as folder, page_server() as url:
        async with open_embedded(Path(folder) / "noetl.db") as runtime:
            small = await runtime.playbooks.add(THREE, None)
            digests = {name: await runtime.playbooks.add(text, None) for name, text in NOISES.items()}
            await neighbours(runtime, small)  # everything is loaded
            for _ in range(rounds):
                for name, digest in digests.items():
                    alone = await neighbours(runtime, small)
                    async with noise(runtime, digest, url):
                        beside = await neighbours(runtime, small)
                    found[name].append((alone, beside))
    return found


def _together(parts: list[Durations]) -> Durations:
    return Durations(list(chain(*(part.executions for part in parts))), max(part.longest_turn for part in parts))


def measure(rounds: int = ROUNDS) -> Iterator[tuple[str, float, str]]:
    relax_collector()  # as a server does
    found = asyncio.run(compare(rounds))
    alone = _together([each for pairs in found.values() for each, _ in pairs])
    yield "neighbours: alone, p50", alone.p(50), "ms"
    yield "neighbours: alone, p99", alone.p(99), "ms"
    yield "neighbours: alone, longest turn of the loop", alone.longest_turn, "ms"
    for name, pairs in found.items():
        before, beside = (_together([pair[side] for pair in pairs]) for side in (0, 1))
        yield f"neighbours: beside {name}, p50", beside.p(50), "ms"
        yield f"neighbours: beside {name}, p99", beside.p(99), "ms"
        yield f"neighbours: beside {name}, p99 against alone", beside.p(99) / before.p(99), "x"
        yield f"neighbours: beside {name}, longest turn", beside.longest_turn, "ms"


if __name__ == "__main__":
    for row in measure(*map(int, sys.argv[1:])):
        print(row)
