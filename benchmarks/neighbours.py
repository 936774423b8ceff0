"""Small executions beside noisy ones in one process: their p50 and p99 alone and beside each noise, in turns.

`python -m benchmarks.neighbours [rounds]`: everything in one process on one file, as in `noetl server`. A small
execution of three steps starts every 20 ms. `processor` is the processor time that the thread of the event loop used
from the start of an execution until its end: it depends little on what else the machine does.
"""

from __future__ import annotations

import asyncio
import os
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
from noetl.runtime.embedded import EmbeddedRuntime, relax_collector
from noetl.runtime.local_server import open_local_server
from noetl.time_slice import shorten_time_slice

ROUNDS = scaled(3, 1)
EXECUTIONS = scaled(300, 20)  # of each round and noise
EVERY_S = 0.02
SETTLE_S = scaled(2, 0)  # after a noise: large values are freed, and processes end
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
    "100 MB of results over HTTP": HEAD % "fetched" + f"""\
workload: {{url: ""}}
workflow:
- step: start
  loop: {{in: "{{{{ range({RESULTS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {RESULTS}}}}}
  tool: {{kind: http, url: "{{{{ workload.url }}}}/", params: {{mb: {RESULT_MB}}}, spec: {{memory_mb: 512}}}}
""",
    "100 MB of results of python": HEAD % "made" + f"""\
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
    processor: list[float]  # of the thread of the event loop meanwhile
    longest_turn: float  # in processor time


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
    processor: list[float] = []

    async def one() -> None:
        begun, used = time.perf_counter(), time.thread_time()
        state = await runtime.wait_until_idle(await runtime.start(digest, {}))
        assert state.status == "ok"
        took.append((time.perf_counter() - begun) * 1_000)
        processor.append((time.thread_time() - used) * 1_000)

    turns = LoopTurns()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(EXECUTIONS):
            tasks.create_task(one())
            await runtime.clock.sleep(EVERY_S)
    turns.stop()
    return Durations(took, processor, turns.longest * 1_000)


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
        await runtime.clock.sleep(SETTLE_S)


async def compare(rounds: int) -> dict[str, list[tuple[Durations, Durations]]]:
    """For each noise: alone and beside it, in turns."""
    found: dict[str, list[tuple[Durations, Durations]]] = {name: [] for name in NOISES}
    with tempfile.TemporaryDirectory() as folder, page_server() as url:
        os.environ["NOETL_ALLOW_NETWORKS"] = "127.0.0.0/8"
        async with open_local_server(Path(folder) / "noetl.db") as server:
            runtime = server.runtime
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
    executions = chain.from_iterable(part.executions for part in parts)
    processor = chain.from_iterable(part.processor for part in parts)
    return Durations([*executions], [*processor], max(part.longest_turn for part in parts))


def _p(percent: int, values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _rows(what: str, found: Durations) -> Iterator[tuple[str, float, str]]:
    for percent in (50, 99):
        yield f"neighbours: {what}, p{percent}", _p(percent, found.executions), "ms"
        yield f"neighbours: {what}, p{percent} processor", _p(percent, found.processor), "ms"
    yield f"neighbours: {what}, longest turn", found.longest_turn, "ms"


def measure(rounds: int = ROUNDS) -> Iterator[tuple[str, float, str]]:
    relax_collector()  # as a server does
    shorten_time_slice()
    found = asyncio.run(compare(rounds))
    yield from _rows("alone", _together([alone for pairs in found.values() for alone, _ in pairs]))
    for name, pairs in found.items():
        alone, beside = (_together([pair[side] for pair in pairs]) for side in (0, 1))
        yield from _rows(f"beside {name}", beside)
        yield f"neighbours: beside {name}, p99 against alone", _p(99, beside.executions) / _p(99, alone.executions), "x"


if __name__ == "__main__":
    for row in measure(*map(int, sys.argv[1:])):
        print(row)
