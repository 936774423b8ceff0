"""`python -m benchmarks.against`: measure NoETL and other engines on the same workloads.

It writes a page of the docs. Only one engine runs at a time, in a separate process with empty folders. An
engine that cannot be installed or that fails leaves a gap in the table, with the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.goals import load
from benchmarks.peers.chart import PAGE, write_chart
from benchmarks.peers.engines import ALL, PEER_ROUNDS, Engine
from benchmarks.peers.installing import BENCH, ROOT, Missing, install
from benchmarks.peers.orders import Measured, Order
from benchmarks.peers.page import Report, figure, render
from noetl.clock import SystemClock

START_S = 180.0
ORDER_S = 900.0
END_S = 60.0


class Failed(Exception):
    """An engine did not answer; the message names the missing answer."""


class Comparison:
    """The figures of one run so far."""

    def __init__(self, mode: str, engines: list[Engine]) -> None:
        self._mode = mode
        self._engines = engines
        self.figures: dict[tuple[str, str], dict[int, Measured]] = {}
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}

    def install(self) -> None:
        for engine in self._engines:
            try:
                if engine.peer is not None:
                    install(engine.peer)
            except Missing as reason:
                self.missing[engine.name] = f"it cannot be installed here ({reason})"
        self._engines = [engine for engine in self._engines if engine.name not in self.missing]

    async def run(self, rounds: int) -> None:
        async with page_server() as url:
            for turn in range(rounds):
                for engine in self._engines if turn % 2 == 0 else reversed(self._engines):
                    if engine.peer is not None and turn >= PEER_ROUNDS:
                        continue
                    try:
                        await self._measure(engine, turn, url)
                    except (Failed, Missing) as reason:
                        self.missing[engine.name] = str(reason)
                        print(f"{engine.name}: {reason}", file=sys.stderr, flush=True)

    async def _measure(self, engine: Engine, turn: int, url: str) -> None:
        with tempfile.TemporaryDirectory(prefix="noetl-against-") as place:
            folder = Path(place)
            folder.chmod(0o711)  # PostgreSQL may run as another user
            async with talking(engine, folder) as talk:
                self.versions[engine.name] = (await talk.hear(START_S, "start"))["ready"]
                for workload in engine.workloads:
                    order = Order(workload, engine.sizes(self._mode)[workload], url)
                    measured = Measured(**await talk.ask(order))
                    self.figures.setdefault((engine.name, workload), {})[turn] = measured
                    shown = figure({turn: measured}, workload)
                    print(f"round {turn + 1}  {engine.name:<18} {workload:<5} {shown}", flush=True)


class Talk:
    """Run the workloads in the process of an engine."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    async def ask(self, order: Order) -> dict[str, Any]:
        """Raises Failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order._asdict()).encode() + b"\n")
        return await self.hear(ORDER_S, order.workload)

    async def hear(self, limit_s: float, what: str) -> dict[str, Any]:
        """Raises Failed."""
        assert self._process.stdout is not None
        log = log_of(self._name).relative_to(ROOT)
        try:
            async with asyncio.timeout(limit_s):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise Failed(f"{what} was not done within {limit_s:g} s; its log is {log}") from error
        if not line:
            raise Failed(f"its process ended during {what}; its log is {log}")
        heard: dict[str, Any] = json.loads(line)
        return heard

    async def end(self) -> None:
        """Close its input, and kill all remaining processes of its session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._process.wait()
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


@asynccontextmanager
async def talking(engine: Engine, folder: Path) -> AsyncIterator[Talk]:
    log = log_of(engine.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            *engine.command(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd=ROOT,
            start_new_session=True,
        )
    talk = Talk(engine.name, process)
    try:
        yield talk
        await talk.end()
    finally:
        talk.kill()
        await process.wait()


def log_of(name: str) -> Path:
    return BENCH / "logs" / f"{name}.log"


@asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """The address of the page server, the same program as in W4 of NoETL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.pages", stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", dest="mode", action="store_const", const="quick", help="smaller workloads for slow engines"
    )
    size.add_argument(
        "--trial",
        dest="mode",
        action="store_const",
        const="trial",
        help="very small workloads; writes no docs page",
    )
    size.add_argument(
        "--page", dest="mode", action="store_const", const="page", help="measure nothing; write the docs page again"
    )
    parser.add_argument("--rounds", type=int, help="5 by default, 1 for a trial; other engines have at most 3")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[engine.name for engine in ALL],
        help="only these engines; writes no docs page",
    )
    return parser.parse_args()


def write(report: Report, page: Path) -> None:
    """Write the docs page, and the figures of each round to .bench."""
    raw = {
        " ".join(key): {turn + 1: each._asdict() for turn, each in rounds.items()}
        for key, rounds in report.figures.items()
    }
    whole = json.dumps({**report._asdict(), "figures": raw, "own": {}}, indent=1)
    BENCH.mkdir(exist_ok=True)
    (BENCH / "figures.json").write_text(f"{whole}\n", "utf-8")
    page.write_text(render(report), "utf-8")
    print(f"written: {page.relative_to(ROOT)}")
    if page == PAGE:
        write_chart()


def last_report() -> Report:
    """From the figures that `write` has kept."""
    raw = json.loads((BENCH / "figures.json").read_text("utf-8"))
    figures = {
        (key.split()[0], key.split()[1]): {int(turn) - 1: Measured(**each) for turn, each in rounds.items()}
        for key, rounds in raw["figures"].items()
    }
    return Report(**{**raw, "figures": figures, "own": load()})


def main() -> None:
    asked = parsed()
    mode = asked.mode or "whole"
    if mode == "page":
        PAGE.write_text(render(last_report()), "utf-8")
        write_chart()
        return
    rounds = asked.rounds or (1 if mode == "trial" else 5)
    engines = [engine for engine in ALL if asked.only is None or engine.name in asked.only]
    comparison = Comparison(mode, engines)
    try:
        comparison.install()
        asyncio.run(comparison.run(rounds))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    date = SystemClock().now().strftime("%d %B %Y").lstrip("0")
    figures = (comparison.versions, comparison.figures, comparison.missing)
    report = Report(date, machine(), mode, rounds, *figures, own=load())
    write(report, PAGE if mode != "trial" and engines == list(ALL) else BENCH / PAGE.name)


if __name__ == "__main__":
    main()
