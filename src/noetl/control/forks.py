"""Forks of executions: reads the old log, plans the new one, and stores what the plan needs (D114)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple

from msgspec.structs import replace

from noetl.control.children import version_of
from noetl.control.deps import ProgramSource
from noetl.engine.breakpoints import author_step
from noetl.engine.commands import Start
from noetl.engine.facts import Fact, ForChild, FrameParked, Requested, StepWaiting
from noetl.errors import NotFound, PlaybookError, Rejected
from noetl.fork.plan import ForkOptions, ForkPlan, Planner, fork_start
from noetl.fork.recording import Recording
from noetl.labels import FORK_LABEL
from noetl.net.program import FilesOfTask, Program
from noetl.output import JSON
from noetl.paging import put_pages
from noetl.ports import EventStore, LogRow, ResultStore
from noetl.views.log import events_of


class PlannedFork(NamedTuple):
    """The facts that begin the new execution, and what they keep."""

    facts: tuple[Fact, ...]
    plan: ForkPlan


class ForkPlanner:
    """Plans forks of the executions of one store."""

    def __init__(
        self,
        store: EventStore,
        programs: ProgramSource,
        files: FilesOfTask | None = None,
        planner: type[Planner] = Planner,
    ) -> None:
        """`files`: what tasks use beside the playbook; None: they run on other machines.

        `planner`: tests replace it to plant a bug.
        """
        self._planner = planner
        self._store, self._files = store, files
        self._programs = programs

    async def plan(
        self, execution_id: str, program: Program, start: Start, at: datetime, results: ResultStore | None = None
    ) -> PlannedFork:
        """`start.fork` names the old execution. `results` None: nothing is stored, and the facts cannot be used.

        Raises NotFound, or Rejected where nothing can be kept.
        """
        fork = start.fork
        assert fork is not None
        if fork.from_step is not None and fork.from_step not in program.steps:
            steps = [name for name in program.steps if author_step(name) == name]
            near = get_close_matches(fork.from_step, steps, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(steps[:20])}"
            raise Rejected("unknown-step", f'the playbook has no step "{fork.from_step[:200]}"; {hint}')
        rows = await self._store.read(fork.execution, up_to=fork.seq or None)
        first = next((fact for row in rows for fact in row.facts), None)
        if not isinstance(first, Requested):
            raise NotFound(f"no execution {fork.execution}")
        old = await self._programs.by_digest(first.digest)
        changed = await self._changed_children(program, _facts_of(rows))
        options = ForkOptions(fork.from_step, fork.failed_only, changed, self._files)
        # In a thread: a large log takes seconds, and other executions continue meanwhile.
        recording = await asyncio.to_thread(Recording, old, fork.execution, events_of(rows), fork.seq or None)
        planner = self._planner(recording, program, execution_id, fork_start(recording, _labelled(start)), options)
        while (needed := await asyncio.to_thread(planner.advance)) is not None:
            planner.start_loop(needed.run, await _stored(results, execution_id, needed.items))
        facts = planner.finished_facts(at)
        if start.held is not None and program.concurrency is not None and planner.state.live:
            facts += (StepWaiting(token="", limit=program.concurrency.words, key=start.held),)
        return PlannedFork(facts, planner.plan())

    async def _changed_children(self, program: Program, facts: list[Fact]) -> set[str]:
        """The children whose playbook has another text now."""
        changed: set[str] = set()
        for fact in facts:
            if isinstance(fact, FrameParked) and isinstance(child := fact.until, ForChild) and child.digest is None:
                rows = await self._store.read(child.execution_id, up_to=1)
                ran = next((each.digest for each in _facts_of(rows) if isinstance(each, Requested)), None)
                try:
                    found = await self._programs.find(child.path, program.digest or None, version_of(child.version))
                except (NotFound, PlaybookError):
                    found = None
                if found != ran:
                    changed.add(child.execution_id)
        return changed


def _facts_of(rows: list[LogRow]) -> list[Fact]:
    return [fact for row in rows for fact in row.facts]


def _labelled(start: Start) -> Start:
    assert start.fork is not None
    return replace(start, labels={**start.labels, FORK_LABEL: start.fork.execution})


async def _stored(results: ResultStore | None, execution_id: str, items: list[JSON]) -> dict[str, JSON]:
    return {} if results is None else await put_pages(results, execution_id, items)
