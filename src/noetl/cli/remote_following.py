"""An execution of a server on the screen: its events, and those of executions that it calls, as they come."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple

from noetl.cli.answering import Voice
from noetl.cli.drawing import shown_progress
from noetl.cli.progress import Progress
from noetl.cli.remote import ServerDisk
from noetl.client import StreamLine, fact_of
from noetl.engine import Event, apply
from noetl.engine.facts import ForChild, FrameParked
from noetl.engine.state import State
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.views.envelopes import Envelope
from noetl.views.runs import Runs
from noetl.views.styled_text import Styled
from noetl.worker.frame_driver import LogLine

CHILDREN_MAX: Final = 16  # that are followed at once; of others only their caller's wait is shown

QUIET_S: Final = 5.0  # without a fact; then the server is asked whether there is a worker
LOOK_S: Final = 0.2
LOOKS_MAX: Final = 100  # for a child that is about to be started


class Followed(NamedTuple):
    """What is known of an execution from its log alone."""

    id: str
    state: State


async def follow(voice: Voice, disk: ServerDisk, runs: Runs) -> None:
    """Until it has ended or is paused: `runs` knows all of it then. Raises Unavailable."""
    id = runs.state.execution_id
    progress = Progress(id, disk.client.clock, flag=voice.flag)
    family = _Family(disk, progress)
    if runs.state.seq:
        voice.screen.line(Styled(id, "faint"))
        progress.seed(Followed(id, runs.state))
    try:
        async with shown_progress(progress, voice.screen, disk.client.clock):
            await family.follow(runs)
    finally:
        await family.close()


class _Family:
    """The execution, and some of those that it has called."""

    def __init__(self, disk: ServerDisk, progress: Progress) -> None:
        self._disk = disk
        self._progress = progress
        self._children: dict[str, asyncio.Task[None]] = {}
        self._patience: asyncio.Task[None] | None = None

    async def follow(self, runs: Runs) -> None:
        self._patience = asyncio.ensure_future(self._look_for_workers(runs))
        seen = Followed(runs.state.execution_id, runs.state)
        async for each in self._disk.client.stream(seen.id, runs.state.seq):
            if isinstance(each, StreamLine):
                self._hear(seen.id, each)
            elif isinstance(each, Envelope) and (event := fact_of(each)) is not None:
                runs.feed(event)
                self._see(seen, event)
                if runs.state.status == "paused":
                    return

    async def _look_for_workers(self, runs: Runs) -> None:
        """Whether anyone does what is due stands in no log."""
        while True:
            seq = runs.state.seq
            await self._disk.client.clock.sleep(QUIET_S)
            if runs.state.seq > seq or not self._progress.rows:
                continue
            with suppress(Unavailable, NotFound, Rejected):
                for step in (await self._disk.client.show(runs.state.execution_id)).steps:
                    if step.status in ("scheduled", "running") and step.why is not None:
                        self._progress.wait(step.id, step.why)

    async def _follow_child(self, id: str) -> None:
        """What can not be followed is not shown; its caller is."""
        seen = Followed(id, State(execution_id=id))
        with suppress(Unavailable, NotFound, Rejected):
            await self._begun(id)
            async for each in self._disk.client.stream(id):
                if isinstance(each, StreamLine):
                    self._hear(id, each)
                elif isinstance(each, Envelope) and (event := fact_of(each)) is not None:
                    apply(seen.state, event.fact, event.at)
                    self._see(seen, event)
        self._children.pop(id, None)

    async def _begun(self, id: str) -> None:
        """A child is started after its caller has said so. Raises NotFound when it never is."""
        for _ in range(LOOKS_MAX):
            if await self._disk.store.status(id) is not None:
                return
            await self._disk.client.clock.sleep(LOOK_S)
        raise NotFound(f"no execution {id}")

    def _see(self, seen: Followed, event: Event) -> None:
        self._progress.watch(seen, [event])
        if isinstance(event.fact, FrameParked) and isinstance(event.fact.until, ForChild):
            child = event.fact.until.execution_id
            if child not in self._children and len(self._children) < CHILDREN_MAX:
                self._children[child] = asyncio.ensure_future(self._follow_child(child))

    def _hear(self, id: str, line: StreamLine) -> None:
        self._progress.hear(LogLine(id, line.frame, line.kind, line.words))

    async def close(self) -> None:
        tasks = [*self._children.values(), *([] if self._patience is None else [self._patience])]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
