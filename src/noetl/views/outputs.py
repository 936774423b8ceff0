"""The output of a playbook or a step, read from its log; and stored results decoded by their content type."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from noetl.engine import Event, apply
from noetl.engine.facts import Evaluated, Fact, Finished, LoopDone, StepDone, StepFailed
from noetl.engine.state import State
from noetl.errors import Damaged
from noetl.output import JSON, Failure, Output

NAMES_MAX = 20  # names of steps that ran, listed when the requested step did not


class OutputLocation(NamedTuple):
    """Where the requested output is."""

    output: Output | None  # None: there is none
    error: Failure | None
    why: str  # there is none


def given_by_playbook(execution_id: str, last: Sequence[Fact]) -> OutputLocation:
    """The output of the playbook, from the last facts of its log. Raises Damaged when they have none."""
    for fact in reversed(last):
        match fact:
            case Finished(output=output, error=error):
                return OutputLocation(output, error, f"{execution_id} has no output")
            case Evaluated(error=error):
                return OutputLocation(None, error, f"{execution_id} did not run")
    raise Damaged(f"the log of {execution_id} has no end: see noetl audit")


def given_by_step(execution_id: str, events: Iterable[Event], asked: str) -> OutputLocation:
    """The output of the last ended run of a step or block; or of one run, by its id."""
    state = State(execution_id=execution_id)
    known = False
    found: Output | None = None
    for event in events:
        fact = event.fact
        apply(state, fact, event.at)
        if isinstance(fact, StepDone | LoopDone | StepFailed) and fact.run is not None:
            run = state.runs[fact.run]
            if asked in (run.id, run.step):
                found = run.output
        known = known or asked in state.firings or asked in state.runs
    error = found.error if found is not None and found.status == "error" else None
    unknown = f'"{asked}" has not run; {_those_that_ran(state)}'
    return OutputLocation(found, error, f'"{asked}" has not ended' if known else unknown)


def _those_that_ran(state: State) -> str:
    names = list(state.firings)
    if not names:
        return "no step has run"
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return f"these steps ran: {', '.join(names[:NAMES_MAX])}{more}"


def content_type(ref: dict[str, JSON]) -> str:
    """The content type in the Ref, without parameters."""
    meta = ref.get("meta")
    said = meta.get("content_type", "application/json") if isinstance(meta, dict) else "application/json"
    return str(said).partition(";")[0].strip().lower()


def decoded(body: bytes, ref: dict[str, JSON]) -> JSON:
    """A stored result as data: JSON, text, or base64 of other content. Raises Damaged."""
    kind = content_type(ref)
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except msgspec.DecodeError as error:
        raise Damaged(f"a stored result is not JSON: {error}") from error
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def refs_in(value: JSON) -> Iterator[dict[str, JSON]]:
    """All Refs to stored results in a value."""
    match value:
        case {"locator": {"key": str()}, "meta": dict()}:
            yield value
        case dict():
            for each in value.values():
                yield from refs_in(each)
        case list():
            for each in value:
                yield from refs_in(each)
