"""Parents and children: how a child is started, what it is told, what its parent sees of its end (D58)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from noetl.engine.commands import Cancel, Command, Pause, Resume, Start, Wake
from noetl.engine.facts import Cancelled, Fact, ForChild, Paused, Resumed
from noetl.engine.state import State
from noetl.output import Failure, Output

BY_PARENT = "its parent"
PAUSE_CHILD, RESUME_CHILD = Pause(by=BY_PARENT), Resume(by=BY_PARENT)
CANCEL_CHILD = Cancel(reason="its parent was cancelled", by=BY_PARENT)
TOLD: dict[type[Fact], Command] = {Paused: PAUSE_CHILD, Resumed: RESUME_CHILD, Cancelled: CANCEL_CHILD}


class Waiting(NamedTuple):
    """A child, and the call of the frame that waits for it."""

    child: ForChild
    frame: str
    call: int


def children(state: State) -> list[Waiting]:
    """The children that frames wait for."""
    return [
        Waiting(frame.parked, frame.id, frame.calls + 1)
        for run in state.runs.values()
        for frame in run.frames.values()
        if isinstance(frame.parked, ForChild)
    ]


def child_start(state: State, waiting: Waiting) -> Start:
    """What a child is started with; the same whoever starts it, and however often."""
    parent = f"{state.execution_id}/{waiting.frame}@{waiting.call}"
    return Start(workload=waiting.child.workload, parent=parent, depth=state.depth + 1)


def wake_of(state: State) -> tuple[str, Wake]:
    """Whom the end of a child wakes, and with what: the very call, so that a late one wakes no other."""
    assert state.parent is not None
    execution_id, _, place = state.parent.partition("/")
    frame, _, call = place.rpartition("@")
    return execution_id, Wake(frame=frame, output=output_of(state), call=int(call))


def output_of(state: State) -> Output:
    """What a parent sees of its child: its output, or its failure as one of kind `playbook` (D58)."""
    output = state.end_output or Output()
    if state.status == "ok":
        return output
    cause = state.failure
    message = cause.message if cause else f"the child was {state.status}"
    error = Failure(kind="playbook", message=message, details={"kind": cause.kind} if cause else {})
    return replace(output, status="error", error=error)
