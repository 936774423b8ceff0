"""`noetl output`: the data that a playbook or a step gave back, whole, wherever it lies."""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import NamedTuple

import msgspec

from noetl.cli import files
from noetl.cli.encoded import as_document
from noetl.cli.exits import FAILED, OK
from noetl.cli.finding import find_execution
from noetl.cli.looking import Log, Shelf, execution_of, log_of, opened, readable
from noetl.cli.screen import Piece, Screen, is_terminal
from noetl.engine import apply
from noetl.engine.facts import Evaluated, Finished, LoopDone, StepDone, StepFailed
from noetl.engine.iterations import iteration_outputs
from noetl.engine.state import State
from noetl.errors import Damaged, NotFound
from noetl.net.visible import one_line, visible
from noetl.output import JSON, Failure, Output

DEPTH_MAX = 16  # of results that are lists of results


class Given(NamedTuple):
    """What is known of the output that was asked for."""

    output: Output | None  # None: there is none
    error: Failure | None
    why: str  # there is none


def run_output(given: str, step: str | None, db: str | None, *, raw: bool) -> int:
    with opened(db) as disk:
        return asyncio.run(_output(disk, given, step, raw=raw))


async def _output(disk: Shelf, given: str, step: str | None, *, raw: bool) -> int:
    if step is None:
        found = await _of_playbook(disk, given)
    else:
        log = await log_of(disk, given)
        with readable(log.id):
            found = _of_step(log, step)
    if found.output is not None and (found.error is None or found.output.data or found.output.ref):
        _write(await _whole(disk, found.output), raw=raw)
    sys.stdout.flush()
    if found.error is not None:
        words = f"{one_line(found.error.kind)}: {one_line(found.error.message)}"
        Screen(sys.stderr).line(Piece("error", "error"), f": {words}")
    elif found.output is None:
        raise NotFound(found.why)
    return OK if found.error is None else FAILED


async def _of_playbook(disk: Shelf, given: str) -> Given:
    """Its last facts say it, however long its log is."""
    execution = await execution_of(disk, await find_execution(disk.listing, given))
    if execution.live:
        return Given(None, None, f"{execution.execution_id} has not ended")
    for row in reversed(await disk.store.read(execution.execution_id, max(0, execution.seq - 2))):
        for fact in reversed(row.facts):
            match fact:
                case Finished(output=output, error=error):
                    return Given(output, error, f"{execution.execution_id} gave nothing back")
                case Evaluated(error=error):
                    return Given(None, error, f"{execution.execution_id} did not run")
    raise Damaged(f"the log of {execution.execution_id} does not say how it ended: see noetl audit")


def _of_step(log: Log, asked: str) -> Given:
    """Of the last run of a step or a block that has ended; or of one run, by its id."""
    state = State(execution_id=log.id)
    known = False
    found: Output | None = None
    for event in log.events():
        fact = event.fact
        apply(state, fact, event.at)
        if isinstance(fact, StepDone | LoopDone | StepFailed) and fact.run is not None:
            run = state.runs[fact.run]
            if asked in (run.id, run.step):
                found = run.output
        known = known or asked in state.firings or asked in state.runs
    error = found.error if found is not None and found.status == "error" else None
    why = f'"{asked}" has not ended' if known else f'no run of "{asked}" is on record'
    return Given(found, error, why)


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
            return _decoded(await _fetched(disk, output.ref), output.ref)
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


def _decoded(body: bytes, ref: dict[str, JSON]) -> JSON:
    kind = str(ref.get("meta", {}).get("content_type", "application/json")).partition(";")[0]
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except msgspec.DecodeError as error:
        raise Damaged(f"a stored result is no JSON: {error}") from error
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _write(data: JSON, *, raw: bool) -> None:
    if not raw or not isinstance(data, str):
        files.put(as_document(data).encode(), None)
    elif is_terminal(sys.stdout):
        sys.stdout.write("".join(f"{visible(line)}\n" for line in data.splitlines()))
    else:
        files.put(data.encode("utf-8", "replace"), None)
