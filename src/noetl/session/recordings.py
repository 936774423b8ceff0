"""Recorded executions of a session: read from their logs, with the executions that they called."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from noetl.engine.facts import ForChild, FrameParked
from noetl.errors import NotFound, Rejected
from noetl.replay.cassette import CassetteFiles, make_cassette
from noetl.replay.recording import RecordedExecution, read_recording
from noetl.session.execution import Execution
from noetl.views.log import events_of, readable

if TYPE_CHECKING:
    from noetl.session.protocol import Session

EXECUTIONS_MAX: Final = 10_000  # of one tree
DEPTH_MAX: Final = 100


async def read_recorded(session: Session, execution_id: str) -> RecordedExecution:
    """With its children. Raises NotFound for a request that never started, Rejected when there are too many."""
    return await _Reader(session).read(execution_id, 0)


class _Reader:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = 0

    async def read(self, execution_id: str, depth: int) -> RecordedExecution:
        self._count += 1
        if self._count > EXECUTIONS_MAX or depth > DEPTH_MAX:
            raise Rejected("too-large", f"it called more than {EXECUTIONS_MAX:,} executions")
        rows = await self._session.log.read(execution_id)
        with readable(execution_id):
            found = read_recording(execution_id, events_of(rows))
        parked = (fact.until for row in rows for fact in row.facts if isinstance(fact, FrameParked))
        called = {until.execution_id: until.path for until in parked if isinstance(until, ForChild)}
        children = []
        for child, path in called.items():
            with suppress(NotFound):  # a child that never started made no call
                children.append(replace(await self.read(child, depth + 1), called_as=path))
        return replace(found, children=children) if children else found


async def record(execution: Execution, file: Path, *, files: bool = False) -> CassetteFiles:
    """What a cassette of an execution contains. Raises Rejected while it runs.

    `files`: with the files that tools have stored, in which secrets are not masked.
    """
    info = await execution.info()
    if info.live:
        raise Rejected("running", "it has not ended: a cassette has all of its calls")
    recorded = await read_recorded(execution.session, execution.id)
    return await make_cassette(recorded, file, execution.session.results.get, files=files)
