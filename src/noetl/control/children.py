"""Parents and children (D58): Control starts children, forwards commands to them, and wakes their parents.

All messages are sent after the commit that causes them. The sweeper repeats lost messages: it checks the
children of parked frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from noetl.control.refusals import describe_first_problem
from noetl.engine.breakpoints import breakpoints_for_child
from noetl.engine.commands import Cancel, Command, Pause, Report, Resume, Start, Wake
from noetl.engine.facts import (
    Cancelled,
    Fact,
    ForChild,
    ForDocument,
    ForkOrigin,
    FrameParked,
    Paused,
    Processed,
    Resumed,
)
from noetl.engine.state import State
from noetl.errors import NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.escape import shorten
from noetl.ids import frame_parts
from noetl.net.notify import split_digest
from noetl.output import JSON, Failure, Output, failed
from noetl.ports import Link

if TYPE_CHECKING:
    from noetl.control.executions import Control


BY_PARENT = "its parent"
PAUSE_CHILD, RESUME_CHILD = Pause(by=BY_PARENT), Resume(by=BY_PARENT)
CANCEL_CHILD = Cancel(reason="its parent was cancelled", by=BY_PARENT)
FORWARDED: dict[type[Fact], Command] = {Paused: PAUSE_CHILD, Resumed: RESUME_CHILD}


def cancel_child(*, compensate: bool) -> Cancel:
    """A child undoes its completed steps if its parent does (D116)."""
    return replace(CANCEL_CHILD, compensate=compensate)


class ChildCall(NamedTuple):
    """A child, and the call of the frame that waits for it."""

    child: ForChild
    frame: str
    call: int


def child_calls(state: State) -> list[ChildCall]:
    """The children that frames wait for."""
    return [
        ChildCall(frame.parked, frame.id, frame.calls + 1)
        for run in state.runs.values()
        for frame in run.frames.values()
        if isinstance(frame.parked, ForChild)
    ]


def _is_open(state: State, waiting: ChildCall) -> bool:
    """Whether the frame still waits for the child."""
    owner, index = frame_parts(waiting.frame)
    run = state.runs.get(owner)
    frame = None if run is None else run.frames.get(index)
    return frame is not None and frame.parked == waiting.child


def child_start(state: State, waiting: ChildCall) -> Start:
    """The start request of a child. A repetition differs at most in the breakpoints, and only the first one counts."""
    parent = f"{state.execution_id}/{waiting.frame}@{waiting.call}"
    kept = waiting.child.fork
    fork = None if kept is None else ForkOrigin(execution=kept, seq=0)
    breakpoints = breakpoints_for_child(state, waiting.frame, BY_PARENT) if state.breakpoints else ()
    return Start(
        workload=waiting.child.workload, parent=parent, depth=state.depth + 1, fork=fork, breakpoints=breakpoints
    )


def parent_wake(state: State) -> tuple[str, Wake]:
    """The parent of an ended child, and the command for it. It names the call: a late Wake wakes no other."""
    assert state.parent is not None
    execution_id, _, place = state.parent.partition("/")
    frame, _, call = place.rpartition("@")
    return execution_id, Wake(frame=frame, output=child_output(state), call=int(call))


def child_output(state: State) -> Output:
    """The output of a child for its parent; a failure becomes one of kind `playbook` (D58)."""
    output = state.end_output or Output()
    if state.status == "ok":
        return output
    cause = state.failure
    message = cause.message if cause else f"the child was {state.status}"
    error = Failure(kind="playbook", message=message, details={"kind": cause.kind} if cause else {})
    return replace(output, status="error", error=error)


def without_document(report: Report, found: str | Output) -> Report:
    """The report as it is recorded: with the path of the document, or the answer that it cannot run (D103)."""
    parked = report.parked
    assert parked is not None
    assert isinstance(parked.until, ForChild)
    if isinstance(found, str):
        return replace(report, document=None, parked=replace(parked, until=replace(parked.until, path=found)))
    until = ForDocument(digest=parked.until.digest or "", workload=parked.until.workload)
    return replace(report, document=None, answer=found, parked=replace(parked, until=until))


PROBLEMS_MAX = 50  # of a document, in the details of the error
TEXT_CHARS_MAX = 400  # of each of their texts


def refused_document(problems: Sequence[Problem], text: str) -> Output:
    """The answer to a task whose document cannot run: rules can test it, or send it back to the author (D103)."""
    lines = text.splitlines()
    found: list[JSON] = []
    for each in problems[:PROBLEMS_MAX]:
        texts = {"message": each.message, "source": "".join(lines[each.line - 1 : each.line]).strip(), "fix": each.fix}
        shown = {key: shorten(value, TEXT_CHARS_MAX) for key, value in texts.items() if value}
        found.append({"code": each.code, "line": each.line, "column": each.column, **shown})
    message = describe_first_problem(problems, "the document")
    return Output(status="error", error=Failure(kind="playbook", message=message, details={"problems": found}))


DIGITS_MAX = 18  # of a version number


def version_of(wanted: JSON) -> int | None:
    """The playbook version that a task asks for (D83); None: the current one. Raises NotFound."""
    match wanted:
        case None | "latest":
            return None
        case bool():
            pass
        case int() if wanted > 0:
            return wanted
        case str() if wanted.isascii() and wanted.isdigit() and len(wanted) <= DIGITS_MAX and int(wanted):
            return int(wanted)
    raise NotFound(f'{wanted!r:.40} is not a playbook version: use a number from 1, or "latest"')


RELAYED = frozenset({FrameParked, Processed, Paused, Resumed, Cancelled})  # facts that concern other executions


class Children:
    """Sends messages to parent and child executions, after the commit that causes them."""

    def __init__(self, control: Control, link: Link) -> None:
        """`link`: to the owners of the other executions."""
        self._control = control
        self._link = link

    def on_fact(self, state: State, fact: Fact) -> None:
        match fact:
            case FrameParked(until=ForChild() as child, frame=frame, call=call):
                waiting = ChildCall(child, frame, call)
                if _is_open(state, waiting):  # a fork begins with the facts of children that have ended
                    self._control.spawn(self.start(state, waiting))
            case Processed() if state.parent and split_digest(state.digest)[1] is None:  # else a notification
                self._control.spawn(self.wake_parent(state))
            case Paused() | Resumed():
                self._control.spawn(self._send_to_children(state, FORWARDED[type(fact)]))
            case Cancelled(compensate=compensate):
                self._control.spawn(self._send_to_children(state, cancel_child(compensate=compensate)))

    async def with_document(self, digest: str, report: Report) -> Report:
        """Store the playbook that a task has made, before the fact that names it; its problems are the answer.

        `digest`: of the calling playbook (D103).
        """
        assert report.document is not None
        try:
            program = await self._control.programs.add_document(report.document, digest)
        except PlaybookError as error:
            return without_document(report, refused_document(error.problems, report.document))
        except Rejected as error:
            return without_document(report, failed("playbook", str(error)))
        return without_document(report, program.playbook.path)

    async def start(self, state: State, waiting: ChildCall) -> None:
        child, frame, call = waiting
        try:
            version = version_of(child.version)
            digest = child.digest or await self._control.programs.find(child.path, state.digest, version)
            await self._link.start(child.execution_id, digest, child_start(state, waiting))
        except (NotFound, PlaybookError) as error:
            wake = Wake(frame=frame, output=failed("playbook", str(error)), call=call)
            with suppress(Unavailable, Rejected):
                await self._control.command(state.execution_id, wake)
        except (Unavailable, Rejected):
            return

    async def send(self, execution_id: str, command: Command) -> None:
        with suppress(Unavailable, NotFound, Rejected):
            await self._link.command(execution_id, command)

    async def _send_to_children(self, state: State, command: Command) -> None:
        """Pausing, resuming and cancelling apply to children, too (D67, D68)."""
        for waiting in child_calls(state):
            await self.send(waiting.child.execution_id, command)

    async def wake_parent(self, state: State) -> None:
        await self.send(*parent_wake(state))
