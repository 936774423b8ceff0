"""A worker: takes pointers from the queue, begins frames with their owner, drives them, keeps its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import NamedTuple

from noetl.clock import Clock
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.paging import Pages
from noetl.ports import Claim, Grant, Link, ResultStore, WorkQueue
from noetl.worker.calls import ToolRun
from noetl.worker.frame_driver import FrameDriver, LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Refs
from noetl.worker.stop import RETRY_S


class WorkerPorts(NamedTuple):
    """What a worker reaches."""

    link: Link
    queue: WorkQueue
    results: ResultStore
    keychain: Keychain | None = None  # None: tasks that need a credential find none


class Worker:
    """Any number of slots on one link."""

    def __init__(self, name: str, outside: WorkerPorts, tool: ToolRun, clock: Clock) -> None:
        self.name = name
        self.link, self.queue, self.results, self.keychain = outside
        self.refs = Refs(self.results, self.link)
        self.pages = Pages(self.results)
        self.tool = tool
        self.clock = clock
        self.drives: dict[tuple[str, str], FrameDriver] = {}
        self.leaving = False  # nothing new is begun
        self.listen: Callable[[LogLine], None] | None = None  # who hears what tools say
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """One slot: claim, do, again."""
        while not self.leaving:
            try:
                claims = await self.queue.take(1)
            except Unavailable:
                await self.clock.sleep(RETRY_S)
                continue
            for claim in claims:
                await self._do(claim)

    async def beat(self, every_s: float) -> None:
        """Tell the owners what we hold, and learn what to stop."""
        while True:
            await self.clock.sleep(every_s)
            await self.tell()

    async def tell(self) -> None:
        """Once, now: also when an owner asks."""
        if holds := [(*held, drive.epoch) for held, drive in self.drives.items()]:
            with suppress(Unavailable):
                self._stop(await self.link.beat(self.name, holds))

    async def leave(self, grace_s: float) -> None:
        """Begin nothing new; calls that run get a while to come to an end. What is lost is done again."""
        self.leaving = True
        await self.tell()  # for calls whose step or execution has ended without them nobody waits
        step = 0.05
        for _ in range(int(grace_s / step)):
            if not self.drives:
                return
            await self.clock.sleep(step)

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self, frames: Iterable[tuple[str, str]]) -> None:
        for held in frames:
            if held in self.drives:
                self.drives[held].stop()

    async def _do(self, claim: Claim) -> None:
        execution_id, frame = claim.pointer.execution_id, claim.pointer.frame
        if self.leaving or (execution_id, frame) in self.drives:
            return  # somebody else comes; or it is a second pointer to what we are doing
        failpoint("worker.before-begin")
        try:
            grant = await self.link.begin(execution_id, frame, self.name)
        except (Unavailable, NotFound, Rejected):
            return  # the pointer is lost; the sweeper puts another one
        if grant is not None:
            answered, following = await self._drive(execution_id, grant)
            if not answered:
                return  # the queue may know less than the log, never more
        else:
            following = ()
        failpoint("worker.before-ack")
        with suppress(Unavailable):
            await self.queue.done(claim)
        # A chain does not pass through the queue: each answer brings what the slot goes on with.
        while following:
            _, following = await self._drive(execution_id, following[0])

    async def _drive(self, execution_id: str, grant: Grant) -> tuple[bool, tuple[Grant, ...]]:
        """Is everything that we did on record, and what comes next?"""
        held = (execution_id, grant.work.frame.id)
        drive = self.drives[held] = FrameDriver(self, execution_id, grant)
        try:
            await drive.run()
        finally:
            if self.drives.get(held) is drive:
                del self.drives[held]
        return drive.answered, drive.following
