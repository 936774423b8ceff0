"""A server or a worker with faults of its own: `python -m tests.chaos.distributed.shimmed worker --slots 8 --name w`.

`CHAOS_SEED` makes a worker's messages come twice, late or never; `CHAOS_CLOCKS` gives each process a wrong clock,
which jumps whenever it gets SIGUSR1. The house around it is the real one.
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
from noetl.server.http_server import Serving
from noetl.server.services import ServerSettings
from noetl.worker.worker import WorkerPorts
from tests.chaos.distributed.load import Chance

SEED, CLOCKS = "CHAOS_SEED", "CHAOS_CLOCKS"
DOUBLED, DROPPED, DELAYED = 0.20, 0.05, 0.30
LATE_S = 8.0  # longer than a lease: an owner has given up by then
JUMPS_S = (3_600.0, -3_600.0, 86_400.0, -86_400.0, 300.0, -300.0)


class WrongClock(SystemClock):
    """Off from the beginning, and off by something else after each jump. Its pulse is right, as a machine's is."""

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
    """Pointers come twice, late, out of order, or never."""

    def __init__(self, queue: WorkQueue, chance: Chance, clock: Clock) -> None:
        self._queue = queue
        self._chance = chance
        self._clock = clock
        self._again: list[Claim] = []

    async def take(self, limit: int) -> list[Claim]:
        if self._again and self._chance() < 0.5:
            return [self._again.pop()]
        claims = await self._queue.take(limit)
        kept = [claim for claim in claims if self._chance() >= DROPPED]  # nobody says that these are done
        self._again += [claim for claim in kept if self._chance() < DOUBLED]
        if self._chance() < DELAYED:
            await self._clock.sleep(self._chance(0.0, LATE_S) ** 2 / LATE_S)  # most of them only a little
        return kept

    async def done(self, claim: Claim) -> None:
        await self._queue.done(claim)

    async def put(self, pointers: Sequence[object]) -> None:
        raise AssertionError(f"a worker puts nothing, and this one {len(pointers)}")


class FaultyLink:
    """Every report goes out three times, the last one late; some answers are lost; some begins come twice."""

    def __init__(self, link: Link, chance: Chance, clock: Clock) -> None:
        self._link = link
        self._chance = chance
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        first, _ = await asyncio.gather(
            self._link.report(execution_id, report, room=room), self._unheard(execution_id, report, 0.0)
        )
        self._spawn(self._unheard(execution_id, report, self._chance(0.0, LATE_S)))
        if self._chance() < DROPPED:
            raise Unavailable("the answer was lost")
        return first

    async def _unheard(self, execution_id: str, report: Report, after_s: float) -> None:
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
            raise Unavailable("the beat was lost")
        return await self._link.beat(worker, holds)

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._link.start(execution_id, digest, start)

    async def command(self, execution_id: str, command: Command) -> None:
        await self._link.command(execution_id, command)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._link.iterations(execution_id, run, only)


def clock_of(name: str) -> Clock:
    """By chance up to five minutes off, when clocks are to be wrong."""
    seed = os.environ.get(CLOCKS)
    if seed is None:
        return SystemClock()
    clock = WrongClock(Chance(f"{seed}/{name}")(-300.0, 300.0))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.jump)
    return clock


async def work(asked: argparse.Namespace) -> None:
    clock = clock_of(asked.name)
    given = WorkerOptions(
        nats=os.environ["NOETL_NATS"],
        slots=asked.slots,
        name=asked.name,
        link_key=os.environ[LINK_KEY],
        lease_s=Settings.from_environment().lease_s,
    )

    def wrap(ports: WorkerPorts) -> WorkerPorts:
        if not (seed := os.environ.get(SEED)):
            return ports
        chance = Chance(f"{seed}/{asked.name}")
        queue, link = FaultyQueue(ports.queue, chance, clock), FaultyLink(ports.link, chance, clock)
        return ports._replace(queue=queue, link=link)

    crew = WorkerRuntime(given, clock, wrap=wrap)
    await crew.open()
    print("ready", file=sys.stderr, flush=True)
    await told_to_go()
    await crew.close()


async def serve(asked: argparse.Namespace) -> None:
    clock = clock_of(asked.name or str(asked.port))
    environment = os.environ
    given = ServerOptions(
        environment["NOETL_DB"],
        environment["NOETL_NATS"],
        asked.name,
        environment[LINK_KEY],
        Settings.from_environment().lease_s,
    )
    async with open_server(given, clock) as house:
        serving = Serving(make_app(house.services, ServerSettings()), "127.0.0.1", asked.port)
        serving.start()
        print("ready", file=sys.stderr, flush=True)
        await told_to_go()
        await serving.stop()


async def told_to_go() -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["server", "worker"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--name", default="")
    asked = parser.parse_args()
    asyncio.run(serve(asked) if asked.kind == "server" else work(asked))


if __name__ == "__main__":
    main()
