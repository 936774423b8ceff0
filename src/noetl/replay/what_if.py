"""What-if: run another playbook over the recorded calls of executions. Only calls that are safe may be made."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal, Protocol

from msgspec.structs import replace

from noetl.engine.commands import Start
from noetl.engine.facts import ForChild, FrameParked
from noetl.engine.loops import iteration_outputs
from noetl.errors import Damaged, NotFound, PlaybookError, Rejected
from noetl.output import JSON, Output
from noetl.ports import LogRow, PlaybookText, SecretProvider
from noetl.replay.adapter import ReplayAdapter
from noetl.replay.comparison import changed_tasks, compare_replay
from noetl.replay.execution import Replay, ReplayedExecution, installed_tools, virtual_clock
from noetl.replay.programs import CompiledText, ReplayPrograms
from noetl.replay.recording import RecordedExecution, Recordings, read_recording
from noetl.runtime.memory import MemoryState
from noetl.views.documents import load_output
from noetl.views.log import events_of, readable
from noetl.views.what_if import WhatIfReport
from noetl.worker.task_files import TaskFiles

EXECUTIONS_MAX: Final = 10_000  # of one tree
DEPTH_MAX: Final = 100


class RecordReader(Protocol):
    """Where recorded executions are read from."""

    async def rows(self, execution_id: str) -> Sequence[LogRow]:
        """Its log. Raises NotFound."""
        ...

    async def text(self, digest: str) -> PlaybookText:
        """Raises NotFound."""
        ...

    async def result(self, ref: dict[str, JSON]) -> bytes:
        """A stored result. Raises NotFound or Damaged."""
        ...


async def read_recorded(reader: RecordReader, execution_id: str) -> RecordedExecution:
    """With its children. Raises NotFound for a request that never started, Rejected when there are too many."""
    return await _TreeReader(reader).read(execution_id, 0)


class _TreeReader:
    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._count = 0

    async def read(self, execution_id: str, depth: int) -> RecordedExecution:
        self._count += 1
        if self._count > EXECUTIONS_MAX or depth > DEPTH_MAX:
            raise Rejected("too-large", f"it called more than {EXECUTIONS_MAX:,} executions")
        rows = await self._reader.rows(execution_id)
        with readable(execution_id):
            found = read_recording(execution_id, events_of(rows))
        parked = (fact.until for row in rows for fact in row.facts if isinstance(fact, FrameParked))
        called = {until.execution_id: until.path for until in parked if isinstance(until, ForChild)}
        children = []
        for child, path in called.items():
            with suppress(NotFound):  # a child that never started made no call
                children.append(replace(await self.read(child, depth + 1), called_as=path))
        return replace(found, children=children) if children else found


class WhatIfReplay:
    """An edited playbook, compiled once, for any number of recorded executions."""

    def __init__(
        self,
        reader: RecordReader,
        text: str | bytes,
        name: str = "playbook",
        folder: str | None = None,
        on_miss: Literal["fail", "null"] = "fail",
        *,
        files: bool = True,
        live_if_safe: bool = False,
        credentials: SecretProvider | None = None,
    ) -> None:
        """Raises PlaybookError when the playbook has errors.

        `files`: code in files beside the playbook is compared, too. `live_if_safe`: calls without a recorded answer are
        made, with these credentials, if `spec.safe` of the task says that they change nothing.
        """
        self._reader = reader
        self._live_if_safe = live_if_safe
        self._on_miss: Literal["fail", "null"] = on_miss
        self._files = TaskFiles(installed_tools()) if files else None
        self._programs = ReplayPrograms(installed_tools().kinds(), credentials)
        self._new = self._programs.add(text, name, folder)

    async def compare(self, execution_id: str) -> WhatIfReport:
        """Raises NotFound when it never started, Rejected while it runs, Damaged when its log cannot be read."""
        recorded = await read_recorded(self._reader, execution_id)
        if recorded.ended_at is None:
            raise Rejected("running", f"{execution_id} has not ended: its calls are not complete")
        old = await self._recorded_program(recorded)
        changed = frozenset() if old is None else changed_tasks(recorded.path, old.program, self._new.program)
        replayed, adapter, recordings = await self._replay(recorded, self._new, changed)
        same = await self._has_output(recorded, replayed)
        if not same and old is not None:
            # A template with now() gives another output for the same playbook: this is not a difference.
            again, _, _ = await self._replay(recorded, old, frozenset())
            same = (again.status, again.output) == (replayed.status, replayed.output)
        return compare_replay(recorded, replayed, adapter, recordings, same_output=same)

    async def _recorded_program(self, recorded: RecordedExecution) -> CompiledText | None:
        """The playbook that ran; its children run as they did, unless their files are beside the edited one."""
        found: CompiledText | None = None
        for each in recorded.tree():
            try:
                compiled = self._programs.register(await self._reader.text(each.digest), each.called_as)
            except (NotFound, PlaybookError):  # its tools are not installed here, or it was deleted
                continue
            if each is recorded:
                found = compiled
        return found

    async def _replay(
        self, recorded: RecordedExecution, compiled: CompiledText, changed: frozenset[tuple[str, str, str]]
    ) -> tuple[ReplayedExecution, ReplayAdapter, Recordings]:
        memory = MemoryState(virtual_clock(recorded.started_at))
        memory.save(compiled.program.playbook.path, recorded.saved)
        recordings = Recordings(recorded, recorded.id, self._reader.result, memory, changed, files=self._files)
        adapter = ReplayAdapter(self._programs, [recordings], self._on_miss, live_if_safe=self._live_if_safe)
        replay = Replay(self._programs, adapter, memory, recordings.signal, recordings)
        start = Start(workload=recorded.workload, ctx=recorded.ctx)
        return await replay.run(recorded.id, compiled.program.digest, start), adapter, recordings

    async def _has_output(self, recorded: RecordedExecution, replayed: ReplayedExecution) -> bool:
        output: JSON = None
        if recorded.output is not None:
            try:
                output = await load_output(recorded.output, self._iterations, self._reader.result)
            except (Damaged, NotFound):  # the stored result was deleted
                return False
        return bool(output == replayed.output)

    async def _iterations(self, execution_id: str, run: str) -> list[Output | None] | None:
        facts = [fact for row in await self._reader.rows(execution_id) for fact in row.facts]
        with readable(execution_id):
            return [each for _, each in iteration_outputs(facts, run)] if facts else None
