"""What a playbook or a step gave back, from its log; and a stored result as data, by its content type."""

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

NAMES_MAX = 20  # of steps that ran, when another one was asked for


class OutputLocation(NamedTuple):
    """What is known of the output that was asked for."""

    output: Output | None  # None: there is none
    error: Failure | None
    why: str  # there is none


def given_by_playbook(execution_id: str, last: Sequence[Fact]) -> OutputLocation:
    """Its last facts say it, however long its log is. Raises Damaged when they do not."""
    for fact in reversed(last):
        match fact:
            case Finished(output=output, error=error):
                return OutputLocation(output, error, f"{execution_id} gave nothing back")
            case Evaluated(error=error):
                return OutputLocation(None, error, f"{execution_id} did not run")
    raise Damaged(f"the log of {execution_id} does not say how it ended: see noetl audit")


def given_by_step(execution_id: str, events: Iterable[Event], asked: str) -> OutputLocation:
    """Of the last run of a step or a block that has ended; or of one run, by its id."""
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
    unknown = f'no run of "{asked}" is on record; {_those_that_ran(state)}'
    return OutputLocation(found, error, f'"{asked}" has not ended' if known else unknown)


def _those_that_ran(state: State) -> str:
    names = list(state.firings)
    if not names:
        return "no step has run"
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return f"those that ran are {', '.join(names[:NAMES_MAX])}{more}"


def content_type(ref: dict[str, JSON]) -> str:
    """As its Ref says, without parameters."""
    meta = ref.get("meta")
    said = meta.get("content_type", "application/json") if isinstance(meta, dict) else "application/json"
    return str(said).partition(";")[0].strip().lower()


def decoded(body: bytes, ref: dict[str, JSON]) -> JSON:
    """A stored result as data: JSON, text, or base64 of what is neither. Raises Damaged."""
    kind = content_type(ref)
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except msgspec.DecodeError as error:
        raise Damaged(f"a stored result is no JSON: {error}") from error
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def refs_in(value: JSON) -> Iterator[dict[str, JSON]]:
    """The Refs to results of ours, wherever they stand in a value."""
    match value:
        case {"locator": {"key": str()}, "meta": dict()}:
            yield value
        case dict():
            for each in value.values():
                yield from refs_in(each)
        case list():
            for each in value:
                yield from refs_in(each)
