"""A server or worker with injected faults: `python -m tests.chaos.distributed.faulty_process worker --slots 8 --name w`.

`CHAOS_SEED` duplicates, delays or drops the messages of a worker; `CHAOS_CLOCKS` gives each process a wrong clock,
which jumps on SIGUSR1. The rest of the cluster is unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from noetl.clock import Clock, SystemClock
from noetl.engine.commands import Command, Report, Start
from noetl.errors import Unavailable
from noetl.output import Output
from noetl.ports import Claim, Epoch, Grant, Link, ReportAnswer, WorkQueue
from noetl.runtime.server import ServerOptions, open_server
from noetl.runtime.settings import LINK_KEY, Settings
from noetl.runtime.worker import WorkerOptions, WorkerRuntime
from noetl.server.app import make_app
from noetl.server.http_server import HttpServer
from noetl.server.services import ServerSettings
from noetl.worker.worker import WorkerPorts
from tests.chaos.distributed.load import Chance

SEED, CLOCKS = "CHAOS_SEED", "CHAOS_CLOCKS"
DOUBLED, DROPPED, DELAYED = 0.20, 0.05, 0.30
LATE_S = 8.0  # longer than a lease
JUMPS_S = (3_600.0, -3_600.0, 86_400.0, -86_400.0, 300.0, -300.0)


class SkewedClock(SystemClock):
    """A system clock whose wall time is wrong, and changes with each jump. Its monotonic time is right."""

    def __init__(self, off_s: float) -> None:
        self._off_s = off_s
        self._jumps = 0

    def jump(self) -> None:
        self._off_s += JUMPS_S[self._jumps % len(JUMPS_S)]
        self._jumps += 1
        print(f"the clock is off by {self._off_s:g} s", file=sys.stderr, flush=True)

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._off_s)


class FaultyQueue:
    """Duplicates, delays, reorders and drops pointers."""

    def __init__(self, queue: WorkQueue, chance: Chance, clock: Clock) -> None:
        self._queue = queue
        self._chance = chance
        self._clock = clock
        self._again: list[Claim] = []

    async def take(self, limit: int) -> list[Claim]:
        if self._again and self._chance() < 0.5:
            return [self._again.pop()]
        claims = await self._queue.take(limit)
        kept = [claim for claim in claims if self._chance() >= DROPPED]  # dropped pointers are never acknowledged
        self._again += [claim for claim in kept if self._chance() < DOUBLED]
        if self._chance() < DELAYED:
            await self._clock.sleep(self._chance(0.0, LATE_S) ** 2 / LATE_S)  # most delays are short
        return kept

    async def done(self, claim: Claim) -> None:
        await self._queue.done(claim)

    async def put(self, pointers: Sequence[object]) -> None:
        raise AssertionError(f"a worker must not put pointers: {len(pointers)}")


class FaultyLink:
    """Sends every report three times, the last one late; loses some answers; repeats some begins."""

    def __init__(self, link: Link, chance: Chance, clock: Clock) -> None:
        self._link = link
        self._chance = chance
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        first, _ = await asyncio.gather(
            self._link.report(execution_id, report, room=room), self._send_late(execution_id, report, 0.0)
        )
        self._spawn(self._send_late(execution_id, report, self._chance(0.0, LATE_S)))
        if self._chance() < DROPPED:
            raise Unavailable("the answer was lost")
        return first

    async def _send_late(self, execution_id: str, report: Report, after_s: float) -> None:
        await self._clock.sleep(after_s)
        with suppress(Unavailable):
            await self._link.report(execution_id, report)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        if self._chance() < DOUBLED:
            with suppress(Unavailable):
                await self._link.begin(execution_id, frame, worker)
        if self._chance() < DROPPED:
            raise Unavailable("the answer was lost")
        return await self._link.begin(execution_id, frame, worker)

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        if self._chance() < DROPPED:
            raise Unavailable("the heartbeat was lost")
        return await self._link.beat(worker, holds)

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._link.start(execution_id, digest, start)

    async def command(self, execution_id: str, command: Command) -> None:
        await self._link.command(execution_id, command)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._link.iterations(execution_id, run, only)

    async def parent(self, execution_id: str) -> str | None:
        return await self._link.parent(execution_id)


def clock_of(name: str) -> Clock:
    """With CHAOS_CLOCKS, a clock that is wrong by up to five minutes."""
    seed = os.environ.get(CLOCKS)
    if seed is None:
        return SystemClock()
    clock = SkewedClock(Chance(f"{seed}/{name}")(-300.0, 300.0))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.jump)
    return clock


async def work(options: argparse.Namespace) -> None:
    clock = clock_of(options.name)
    given = WorkerOptions(
        nats=os.environ["NOETL_NATS"],
        slots=options.slots,
        name=options.name,
        link_key=os.environ[LINK_KEY],
        lease_s=Settings.from_environment().lease_s,
    )

    def wrap(ports: WorkerPorts) -> WorkerPorts:
        if not (seed := os.environ.get(SEED)):
            return ports
        chance = Chance(f"{seed}/{options.name}")
        queue, link = FaultyQueue(ports.queue, chance, clock), FaultyLink(ports.link, chance, clock)
        return ports._replace(queue=queue, link=link)

    crew = WorkerRuntime(given, clock, wrap=wrap)
    await crew.open()
    print("ready", file=sys.stderr, flush=True)
    await stop_signal()
    await crew.close()


async def serve(options: argparse.Namespace) -> None:
    clock = clock_of(options.name or str(options.port))
    environment = os.environ
    given = ServerOptions(
        environment["NOETL_DB"],
        environment["NOETL_NATS"],
        options.name,
        environment[LINK_KEY],
        Settings.from_environment().lease_s,
    )
    async with open_server(given, clock) as cluster:
        serving = HttpServer(make_app(cluster.services, ServerSettings()), "127.0.0.1", options.port)
        serving.start()
        print("ready", file=sys.stderr, flush=True)
        await stop_signal()
        await serving.stop()


async def stop_signal() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["server", "worker"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    asyncio.run(serve(options) if options.kind == "server" else work(options))


if __name__ == "__main__":
    main()
