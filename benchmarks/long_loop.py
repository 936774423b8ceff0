"""A loop of 1,000,000 items beside loops of 10,000: CPU time of an item, rate, and peak memory of `noetl run`.

A run of one item is subtracted from each, so that the start of Python does not count.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

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
        one = _middle([_run(folder, 1) for _ in range(SHORT_RUNS)])
        before = [_run(folder, SHORT) for _ in range(SHORT_RUNS)]
        long = _run(folder, LONG)
        short = _middle([*before, *(_run(folder, SHORT) for _ in range(SHORT_RUNS))])
        shown = f"{LONG:,} items"
        cpu = {run: (run.cpu_s - one.cpu_s) / items for run, items in ((long, LONG), (short, SHORT))}
        rate = {run: items / (run.seconds - one.seconds) for run, items in ((long, LONG), (short, SHORT))}
        yield f"long loop: {SHORT:,} items, CPU time of an item", cpu[short] * 1e6, "µs"
        yield f"long loop: {shown}, CPU time of an item", cpu[long] * 1e6, "µs"
        yield f"long loop: {shown}, items a second", rate[long], "/s"
        yield f"long loop: {shown}, rate against {SHORT:,} items", rate[long] / rate[short], "x"
        yield f"long loop: {shown}, peak memory", long.peak_mib, "MiB"


def _run(folder: Path, items: int) -> Measured:
    """`noetl run` with a new database file."""
    database = folder / f"{time.monotonic_ns()}.db"
    options = ["--db", str(database), "--set", f"items={items}", "--format", "json"]
    command = [str(Path(sys.executable).with_name("noetl")), "run", str(folder / "loop.yaml"), *options]
    done = run_measured(command, stderr=subprocess.DEVNULL)  # without the progress
    assert done.code == 0, options
    return done


def _middle(runs: list[Measured]) -> Measured:
    """One of them, with the median of each time."""
    seconds, cpu_s = (median(column) for column in zip(*((run.seconds, run.cpu_s) for run in runs), strict=True))
    return runs[0]._replace(seconds=seconds, cpu_s=cpu_s)
