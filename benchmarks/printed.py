"""100 MB of printed lines: the memory of the process, and how much slower executions beside it are.

`python -m benchmarks.printed [rounds]`: everything in one process on one file, as in `noetl server`. Each round runs
the same executions alone and beside a task that prints 100 MB; the medians are compared.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.embedded import HEAD, THREE
from benchmarks.sizes import scaled
from noetl.runtime.embedded import EmbeddedRuntime, open_embedded

BYTES = scaled(100_000_000, 2_000_000)
ROUNDS = scaled(5, 1)
AT_ONCE = 10
PRINTS = (
    HEAD % "prints"
    + f"""\
workflow:
- step: start
  tool: {{kind: shell, sh: "yes {"0123456789" * 7} | head -c {BYTES}"}}
"""
)


def peak_mb() -> float:
    """The peak of the resident memory since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1_024
    return 0.0


async def run(runtime: EmbeddedRuntime, digest: str) -> None:
    id = await runtime.start(digest, {})
    await runtime.wait_until_idle(id)


async def neighbours(runtime: EmbeddedRuntime, digest: str, until: asyncio.Future[None] | None, count: int) -> float:
    """Executions per second: `count` of them, or as many as end before `until`."""
    done, begun = 0, time.perf_counter()

    async def work() -> None:
        nonlocal done
        while done < count if until is None else not until.done():
            await run(runtime, digest)
            done += 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return done / (time.perf_counter() - begun)


async def compare(rounds: int) -> tuple[float, float, float]:
    """Executions per second alone and beside the task, and the growth of the peak memory in megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_embedded(Path(folder) / "noetl.db") as runtime:
            add = runtime.playbooks.add
            three, prints = await add(THREE, None), await add(PRINTS, None)
            await neighbours(runtime, three, None, 200)
            Path("/proc/self/clear_refs").write_text("5")
            before = peak_mb()
            alone, beside = [], []
            for _ in range(rounds):
                alone.append(await neighbours(runtime, three, None, 300))
                printing = asyncio.ensure_future(run(runtime, prints))
                beside.append(await neighbours(runtime, three, printing, 0))
                await printing
            return median(alone), median(beside), peak_mb() - before


def measure(rounds: int = ROUNDS) -> Iterator[tuple[str, float, str]]:
    alone, beside, memory = asyncio.run(compare(rounds))
    yield "printed: executions alone", alone, "/s"
    yield "printed: executions beside 100 MB", beside, "/s"
    yield "printed: executions are slower by", max(0.0, 1 - beside / alone) * 100, "%"
    yield "printed: memory for 100 MB", memory, "MB"


if __name__ == "__main__":
    for row in measure(*map(int, sys.argv[1:])):
        print(row)
