"""W1–W7 of PERFORMANCE.md on the embedded runtime: SQLite with `synchronous=FULL`, everything in one process.

The same run measures the floor: commits of one row without an engine.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import apsw

from benchmarks.peers.orders import TASKS_WAITING, Measured, waited, waiting_url
from benchmarks.sizes import scaled
from noetl.runtime.embedded import EmbeddedRuntime, open_embedded, relax_collector
from tests.measured_process import run_measured

Row = tuple[str, float, str]
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/%s}\n"
RUNS = scaled(3, 1)

CHAIN_STEPS = scaled(1_000, 50)
LOOP_ITEMS = scaled(10_000, 200)
MANY = scaled(1_000, 30)


def chain() -> str:
    steps = [
        f"- step: s{n}\n  tool: {{kind: noop, input: {{n: {n}}}}}\n  next: {{arcs: [{{step: s{n + 1}}}]}}\n"
        for n in range(CHAIN_STEPS - 1)
    ]
    steps.append(f"- step: s{CHAIN_STEPS - 1}\n  tool: {{kind: noop, input: {{n: last}}}}\n")
    return HEAD % "chain" + "executor: {spec: {entry_step: s0}}\nworkflow:\n" + "".join(steps)


FAN_OUT = (
    HEAD % "fan-out"
    + f"""\
workflow:
- step: start
  loop: {{in: "{{{{ range({LOOP_ITEMS}) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 100}}}}
  tool: {{kind: noop, input: {{n: "{{{{ iter.n }}}}"}}}}
"""
)

THREE = (
    HEAD % "three"
    + """\
workflow:
- {step: start, tool: {kind: noop, input: {n: 1}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {kind: noop, input: {n: 2}}, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: noop, input: {n: 3}}}
"""
)

PAGES = (
    HEAD % "pages"
    + """\
workload: {url: "", endpoints: 50, pages: 20}
workflow:
- step: start
  loop: {in: "{{ range(workload.endpoints) }}", iterator: endpoint, spec: {mode: parallel, max_in_flight: 10}}
  tool:
  - {name: init, kind: noop, set: {iter.page: 0}}
  - name: fetch
    kind: http
    url: "{{ workload.url }}/{{ iter.endpoint }}"
    params: {page: "{{ iter.page }}"}
    set: {iter.page: "{{ iter.page + 1 }}"}
    spec:
      policy:
        rules:
        - {when: "{{ output.data.more }}", then: {do: jump, to: fetch}}
        - else: {then: {do: break}}
"""
)

WAITS = (
    HEAD % "waits"
    + """\
workload: {url: "", tasks: 100}
workflow:
- step: start
  loop: {in: "{{ range(workload.tasks) }}", iterator: n}
  tool: {kind: http, url: "{{ workload.url }}"}
"""
)
WAITING, WAITS_EACH = scaled(100, 10), scaled(TASKS_WAITING, 5)


def measure() -> Iterator[Row]:
    relax_collector()  # as `noetl run` does
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        root = Path(folder)
        yield from floor(root)
        yield "embedded: W1 chain of 1,000 steps", median(_runs(root, w1)), "steps/s"
        yield "embedded: W2 loop of 10,000, 100 in flight", median(_runs(root, w2)), "items/s"
        many = [asyncio.run(w3(root / f"w3-{run}.db")) for run in range(RUNS)]
        yield "embedded: W3 1,000 executions of 3 steps", median(rate for rate, _, _ in many), "exec/s"
        yield "embedded: W3 p50", median(p50 for _, p50, _ in many), "s"
        yield "embedded: W3 p99", median(p99 for _, _, p99 in many), "s"
        yield "embedded: W4 50 × 20 pages, 10 at once", median(_runs(root, w4)), "pages/s"
        yield from w5(root)
        yield from waits_rows("embedded", asyncio.run(w6(root / "w6.db")))


def _runs(root: Path, work: Callable[[Path], Awaitable[float]]) -> list[float]:
    name = getattr(work, "__name__", "run")

    async def run(path: Path) -> float:
        return await work(path)

    return [asyncio.run(run(root / f"{name}-{number}.db")) for number in range(RUNS)]


def floor(root: Path) -> Iterator[Row]:
    """Commits of one row, and of 100 rows."""
    connection = apsw.Connection(str(root / "floor.db"))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    body = "x" * 600
    for rows, commits in ((1, scaled(2_000, 100)), (100, scaled(100, 10))):
        begun = time.perf_counter()
        for _ in range(commits):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO t (body) VALUES (?)", [(body,)] * rows)
            connection.execute("COMMIT")
        spent = time.perf_counter() - begun
        yield f"embedded: floor, {rows} rows a commit", rows * commits / spent, "rows/s"
    connection.close()


async def _run(runtime: EmbeddedRuntime, text: str, workload: dict[str, object] | None = None) -> float:
    digest = await runtime.playbooks.add(text, None)
    begun = time.perf_counter()
    await _finish(runtime, digest, workload)
    return time.perf_counter() - begun


async def _finish(runtime: EmbeddedRuntime, digest: str, workload: dict[str, object] | None = None) -> None:
    state = await runtime.wait_until_idle(await runtime.start(digest, workload or {}))
    assert state.status == "ok", state.failure


async def w1(path: Path) -> float:
    async with open_embedded(path) as runtime:
        return CHAIN_STEPS / await _run(runtime, chain())


async def w2(path: Path) -> float:
    async with open_embedded(path, slots=100) as runtime:
        return LOOP_ITEMS / await _run(runtime, FAN_OUT)


async def w3(path: Path) -> tuple[float, float, float]:
    async with open_embedded(path) as runtime:
        digest = await runtime.playbooks.add(THREE, None)
        spent: list[float] = []

        async def one() -> None:
            await _finish(runtime, digest)
            spent.append(time.perf_counter() - begun)

        begun = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(MANY)))
        total = time.perf_counter() - begun
    return MANY / total, median(spent), quantiles(spent, n=100)[98]


async def w4(path: Path) -> float:
    with page_server() as url:
        async with open_embedded(path) as runtime:
            # A worker creates its HTTP client once: that time (0.2 s) is not measured.
            await _run(runtime, PAGES, {"url": url, "endpoints": 1})
            return 50 * 20 / await _run(runtime, PAGES, {"url": url})


@contextmanager
def page_server() -> Iterator[str]:
    """Its address."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.pages"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


async def w6(path: Path) -> Measured:
    with page_server() as url:
        async with open_embedded(path, slots=WAITING) as runtime:
            digest = await runtime.playbooks.add(WAITS, None)
            workload: dict[str, object] = {"url": waiting_url(url), "tasks": WAITS_EACH}
            await _finish(runtime, digest, {**workload, "tasks": 1})
            return await waited(WAITING, WAITS_EACH, lambda: _finish(runtime, digest, workload))


def waits_rows(name: str, measured: Measured) -> Iterator[Row]:
    assert measured.overhead_ms is not None
    yield f"{name}: W6 100 executions of 100 tasks that wait 50 ms", measured.value, "s"
    yield f"{name}: W6 time of a task beyond its 50 ms, p50", measured.overhead_ms, "ms"


def w5(root: Path) -> Iterator[Row]:
    playbook = root / "one.yaml"
    playbook.write_text(HEAD % "one" + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n", "utf-8")
    command = [str(Path(sys.executable).with_name("noetl")), "run", str(playbook), "--db", str(root / "w5.db")]
    runs = [run_measured(command, stderr=subprocess.DEVNULL) for _ in range(scaled(5, 1))]
    assert all(run.code == 0 for run in runs)
    yield "embedded: W5 cold start", median(run.seconds for run in runs), "s"
    yield "embedded: W5 peak memory", median(run.peak_mib for run in runs), "MiB"
