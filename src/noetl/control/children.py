"""Parents and children: how a child is started, what it is told, what its parent sees of its end (D58).

Parents and children as they are told of each other: started, paused, resumed, cancelled, woken (D58).

Whatever is lost on the way is made up for by the sweeper, who asks after the children of parked frames.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from noetl.engine.commands import Cancel, Command, Pause, Resume, Start, Wake
from noetl.engine.facts import Cancelled, Fact, ForChild, FrameParked, Paused, Processed, Resumed
from noetl.engine.state import State
from noetl.errors import NotFound, PlaybookError, Rejected, Unavailable
from noetl.output import JSON, Failure, Output, failed
from noetl.ports import Link

if TYPE_CHECKING:
    from noetl.control.executions import Control


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


DIGITS_MAX = 18  # of a version: more than any catalog counts


def version_of(wanted: JSON) -> int | None:
    """Which version of a playbook a task asks for (D83); None: what starts now. Raises NotFound."""
    match wanted:
        case None | "latest":
            return None
        case bool():
            pass
        case int() if wanted > 0:
            return wanted
        case str() if wanted.isascii() and wanted.isdigit() and len(wanted) <= DIGITS_MAX and int(wanted):
            return int(wanted)
    raise NotFound(f'{wanted!r:.40} is no version of a playbook: write a number from 1, or "latest"')


class Children:
    """What control tells other executions, after the commit that makes it true."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.link: Link | None = None  # to the owners of other executions

    def see(self, state: State, fact: Fact) -> None:
        match fact:
            case FrameParked(until=ForChild() as child, frame=frame, call=call):
                self._control.spawn(self.start(state, Waiting(child, frame, call)))
            case Processed() if state.parent:
                self._control.spawn(self.wake_parent(state))
            case Paused() | Resumed() | Cancelled():
                self._control.spawn(self.tell_children(state, TOLD[type(fact)]))

    async def start(self, state: State, waiting: Waiting) -> None:
        child, frame, call = waiting
        try:
            version = version_of(child.version)
            digest = await self._control.programs.find(child.path, state.digest, version)
            assert self.link is not None
            await self.link.start(child.execution_id, digest, child_start(state, waiting))
        except (NotFound, PlaybookError) as error:
            wake = Wake(frame=frame, output=failed("playbook", str(error)), call=call)
            with suppress(Unavailable, Rejected):
                await self._control.command(state.execution_id, wake)
        except (Unavailable, Rejected):
            return

    async def tell(self, execution_id: str, command: Command) -> None:
        assert self.link is not None
        with suppress(Unavailable, NotFound, Rejected):
            await self.link.command(execution_id, command)

    async def tell_children(self, state: State, command: Command) -> None:
        """Pausing, resuming and cancelling go down to children (D67, D68)."""
        for waiting in children(state):
            await self.tell(waiting.child.execution_id, command)

    async def wake_parent(self, state: State) -> None:
        await self.tell(*wake_of(state))
