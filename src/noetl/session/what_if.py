"""What-if: run another playbook over the recorded calls of executions. Nothing outside is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from noetl.engine.commands import Start
from noetl.errors import Damaged, NotFound, PlaybookError, Rejected
from noetl.output import JSON
from noetl.replay.adapter import ReplayAdapter
from noetl.replay.comparison import WhatIfReport, changed_tasks, compare_replay
from noetl.replay.execution import Replay, ReplayedExecution, installed_tools, virtual_clock
from noetl.replay.programs import CompiledText, ReplayPrograms
from noetl.replay.recording import RecordedExecution, Recordings
from noetl.runtime.memory import MemoryState
from noetl.session.execution import Execution
from noetl.session.recordings import read_recorded

if TYPE_CHECKING:
    from noetl.session.protocol import Session
    from noetl.session.sources import PlaybookFile


class WhatIf:
    """An edited playbook, compiled once, for any number of recorded executions."""

    def __init__(self, session: Session, source: PlaybookFile, on_miss: Literal["fail", "null"] = "fail") -> None:
        """Raises PlaybookError when the playbook has errors."""
        self._session = session
        self._on_miss: Literal["fail", "null"] = on_miss
        self._programs = ReplayPrograms(installed_tools().kinds())
        folder = str(Path(source.origin).parent) if source.origin else None
        self._new = self._programs.add(source.data, source.name, folder)

    async def compare(self, execution: Execution) -> WhatIfReport:
        """Raises Rejected while it runs, NotFound when it never started, Damaged when its log cannot be read."""
        info = await execution.info()
        if info.live:
            raise Rejected("running", f"{execution.id} has not ended: its calls are not complete")
        recorded = await read_recorded(self._session, execution.id)
        old = await self._recorded_program(recorded)
        changed = frozenset() if old is None else changed_tasks(recorded.path, old.program, self._new.program)
        replayed, adapter, recordings = await self._replay(recorded, self._new, changed)
        same = await self._has_output(execution, recorded, replayed)
        if not same and old is not None:
            # A template with now() gives another output for the same playbook: this is no difference.
            again, _, _ = await self._replay(recorded, old, frozenset())
            same = (again.status, again.output) == (replayed.status, replayed.output)
        return compare_replay(recorded, replayed, adapter, recordings, same_output=same)

    async def _recorded_program(self, recorded: RecordedExecution) -> CompiledText | None:
        """The playbook that ran; its children run as they did, unless their files are beside the edited one."""
        found: CompiledText | None = None
        for each in recorded.tree():
            try:
                compiled = self._programs.register(await self._session.catalog.get(each.digest), each.called_as)
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
        recordings = Recordings(recorded, recorded.id, self._session.results.get, memory, changed)
        adapter = ReplayAdapter(self._programs, [recordings], self._on_miss)
        replay = Replay(self._programs, adapter, memory, recordings.signal, recordings)
        start = Start(workload=recorded.workload, ctx=recorded.ctx)
        return await replay.run(recorded.id, compiled.program.digest, start), adapter, recordings

    async def _has_output(self, execution: Execution, recorded: RecordedExecution, replayed: ReplayedExecution) -> bool:
        output: JSON = None
        if recorded.output is not None:
            try:
                output = await execution.fetch(recorded.output)
            except (Damaged, NotFound):  # the stored result was deleted
                return False
        return bool(output == replayed.output)
