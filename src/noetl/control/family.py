"""Parents and children: how a child is started, what it is told, what its parent sees of its end (D58)."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.engine.commands import Cancel, Command, Pause, Resume, Start
from noetl.engine.facts import Cancelled, Fact, ForChild, Paused, Resumed
from noetl.engine.state import State
from noetl.output import Failure, Output

BY_PARENT = "its parent"
PAUSE_CHILD, RESUME_CHILD = Pause(by=BY_PARENT), Resume(by=BY_PARENT)
CANCEL_CHILD = Cancel(reason="its parent was cancelled", by=BY_PARENT)
TOLD: dict[type[Fact], Command] = {Paused: PAUSE_CHILD, Resumed: RESUME_CHILD, Cancelled: CANCEL_CHILD}


def children(state: State) -> list[tuple[ForChild, str]]:
    """The children that frames wait for, and the frames."""
    return [
        (frame.parked, frame.id)
        for run in state.runs.values()
        for frame in run.frames.values()
        if isinstance(frame.parked, ForChild)
    ]


def child_start(state: State, child: ForChild, frame: str) -> Start:
    """What a child is started with; the same whoever starts it, and however often."""
    return Start(workload=child.workload, parent=f"{state.execution_id}/{frame}", depth=state.depth + 1)


def output_of(state: State) -> Output:
    """What a parent sees of its child: its output, or its failure as one of kind `playbook` (D58)."""
    output = state.end_output or Output()
    if state.status == "ok":
        return output
    cause = state.failure
    message = cause.message if cause else f"the child was {state.status}"
    error = Failure(kind="playbook", message=message, details={"kind": cause.kind} if cause else {})
    return replace(output, status="error", error=error)
