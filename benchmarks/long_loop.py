"""A loop of 1,000,000 items beside loops of 10,000: CPU time of an item, rate, and peak memory of `noetl run`.

A run of one item is subtracted from each, so that the start of Python does not count. `show` is the time of a client
that shows the long one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import noetl
from benchmarks.embedded import HEAD
from benchmarks.sizes import scaled
from tests.measured_process import Measured, run_measured

Row = tuple[str, float, str]
LONG, SHORT = scaled(1_000_000, 2_000), scaled(10_000, 500)
SHORT_RUNS = scaled(5, 1)
PLAYBOOK = (
    HEAD % "long_loop"
    + """\
workload: {items: 1}
workflow:
- step: start
  tool: {kind: python, input: {n: "{{ workload.items }}"}, code: "def main(n):\\n    return list(range(n))"}
  set: {ctx.items: "{{ output.data }}"}
  next: {arcs: [{step: loop}]}
- step: loop
  loop: {in: "{{ ctx.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 100}}
  tool: {kind: noop, input: {n: 1}}
"""
)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as name:
        folder = Path(name)
        (folder / "loop.yaml").write_text(PLAYBOOK)
        one = _middle(_runs(folder, 1))
        before = _runs(folder, SHORT)
        long = _run(folder, LONG, "long")
        short = _middle([*before, *_runs(folder, SHORT)])
        shown = f"{LONG:,} items"
        cpu = {run: (run.cpu_s - one.cpu_s) / items for run, items in ((long, LONG), (short, SHORT))}
        rate = {run: items / (run.seconds - one.seconds) for run, items in ((long, LONG), (short, SHORT))}
        yield f"long loop: {SHORT:,} items, CPU time of an item", cpu[short] * 1e6, "µs"
        yield f"long loop: {shown}, CPU time of an item", cpu[long] * 1e6, "µs"
        yield f"long loop: {shown}, items a second", rate[long], "/s"
        yield f"long loop: {shown}, rate against {SHORT:,} items", rate[long] / rate[short], "x"
        yield f"long loop: {shown}, peak memory", long.peak_mib, "MiB"
        yield f"long loop: {shown}, show", asyncio.run(_show_s(folder / "long.db")), "s"


async def _show_s(database: Path) -> float:
    async with noetl.connect(str(database)) as session:
        begun = time.perf_counter()
        await (await session.execution("last")).show()
        return time.perf_counter() - begun


def _runs(folder: Path, items: int) -> list[Measured]:
    return [_run(folder, items, f"{time.monotonic_ns()}") for _ in range(SHORT_RUNS)]


def _run(folder: Path, items: int, name: str) -> Measured:
    """`noetl run` with a new database file."""
    options = ["--db", str(folder / f"{name}.db"), "--set", f"items={items}", "--format", "json"]
    command = [str(Path(sys.executable).with_name("noetl")), "run", str(folder / "loop.yaml"), *options]
    done = run_measured(command, stderr=subprocess.DEVNULL)  # without the progress
    assert done.code == 0, options
    return done


def _middle(runs: list[Measured]) -> Measured:
    """One of them, with the median of each time."""
    seconds, cpu_s = (median(column) for column in zip(*((run.seconds, run.cpu_s) for run in runs), strict=True))
    return runs[0]._replace(seconds=seconds, cpu_s=cpu_s)
