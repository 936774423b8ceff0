"""`noetl output`: the data that a playbook or a step gave back, whole, wherever it lies."""

from __future__ import annotations

import asyncio
import sys

from noetl.cli import files
from noetl.cli.encoded import as_document
from noetl.cli.exits import FAILED, OK
from noetl.cli.finding import find_execution
from noetl.cli.looking import Shelf, execution_of, log_of, opened
from noetl.cli.screen import Screen, is_terminal
from noetl.engine.iterations import iteration_outputs
from noetl.errors import Damaged, NotFound
from noetl.escape import one_line, visible
from noetl.output import JSON, Output
from noetl.views.log import readable
from noetl.views.outputs import OutputLocation, decoded, given_by_playbook, given_by_step
from noetl.views.styled_text import Styled

DEPTH_MAX = 16  # of results that are lists of results


def run_output(given: str, step: str | None, db: str | None, *, raw: bool) -> int:
    with opened(db) as disk:
        return asyncio.run(_output(disk, given, step, raw=raw))


async def _output(disk: Shelf, given: str, step: str | None, *, raw: bool) -> int:
    if step is None:
        found = await _of_playbook(disk, given)
    else:
        log = await log_of(disk, given)
        with readable(log.id):
            found = given_by_step(log.id, log.events(), step)
    if found.output is not None and (found.error is None or found.output.data or found.output.ref):
        _write(await _whole(disk, found.output), raw=raw)
    sys.stdout.flush()
    if found.error is not None:
        words = f"{one_line(found.error.kind)}: {one_line(found.error.message)}"
        Screen(sys.stderr).line(Styled("error", "error"), f": {words}")
    elif found.output is None:
        raise NotFound(found.why)
    return OK if found.error is None else FAILED


async def _of_playbook(disk: Shelf, given: str) -> OutputLocation:
    """Its last facts say it, however long its log is."""
    execution = await execution_of(disk, await find_execution(disk.listing, given, disk.flag))
    id = execution.execution_id
    if execution.live:
        return OutputLocation(None, None, f"{id} has not ended")
    rows = await disk.store.read(id, max(0, execution.seq - 2))
    return given_by_playbook(id, [fact for row in rows for fact in row.facts])


async def _whole(disk: Shelf, output: Output, depth: int = 0) -> JSON:
    """Its data; what lies elsewhere is fetched."""
    if output.data is not None or output.ref is None:
        return output.data
    match output.ref:
        case {"type": "relational", "locator": {"execution_id": str(execution_id), "run": str(run)}}:
            if depth >= DEPTH_MAX:
                raise Damaged(f"the results of {run} lie more than {DEPTH_MAX} levels deep")
            return await _of_loop(disk, execution_id, run, depth)
        case {"locator": {"key": str()}}:
            return decoded(await _fetched(disk, output.ref), output.ref)
    return output.ref  # It lies where only its tool finds it (D56).


async def _of_loop(disk: Shelf, execution_id: str, run: str, depth: int) -> JSON:
    """A loop's results are in the log, by index; those that failed are null (D30)."""
    facts = [fact for row in await disk.store.read(execution_id) for fact in row.facts]
    if not facts:
        raise Damaged(f"the results of {run} lie in the log of {execution_id}, which is not there")
    with readable(execution_id):
        outputs = [output for _, output in iteration_outputs(facts, run)]
    return [None if each is None else await _whole(disk, each, depth + 1) for each in outputs]


async def _fetched(disk: Shelf, ref: dict[str, JSON]) -> bytes:
    try:
        return await disk.results.get(ref)
    except NotFound as error:
        raise Damaged(f"{error}: it was stored, and its file is gone") from error


def _write(data: JSON, *, raw: bool) -> None:
    if not raw or not isinstance(data, str):
        files.put(as_document(data).encode(), None)
    elif is_terminal(sys.stdout):
        sys.stdout.write("".join(f"{visible(line)}\n" for line in data.splitlines()))
    else:
        files.put(data.encode("utf-8", "replace"), None)
