"""Cassettes of the executions of a session."""

from __future__ import annotations

from pathlib import Path

from noetl.errors import Rejected
from noetl.replay.cassette import CassetteFiles, make_cassette
from noetl.replay.what_if import read_recorded
from noetl.session.execution import Execution
from noetl.session.what_if import SessionRecords


async def record(execution: Execution, file: Path, *, files: bool = False) -> CassetteFiles:
    """What a cassette of an execution contains. Raises Rejected while it runs.

    `files`: with the files that tools have stored, in which secrets are not masked.
    """
    info = await execution.info()
    if info.live:
        raise Rejected("running", "it has not ended: a cassette has all of its calls")
    recorded = await read_recorded(SessionRecords(execution.session), execution.id)
    return await make_cassette(recorded, file, execution.session.results.get, files=files)
