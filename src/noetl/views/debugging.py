"""What a debugger shows: breakpoints, what is held and where, changes by hand, and values of the scopes there.

Values of the keychain are never read: an expression that names it gives a mask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from noetl.engine.breakpoints import Hold, author_step, hold_at, holds_of
from noetl.engine.facts import ForChild
from noetl.engine.moves import Work, work_of
from noetl.engine.pipeline import task_scope
from noetl.engine.results import absent, restore
from noetl.engine.scopes import named_refs, owner_of
from noetl.engine.state import State, Status
from noetl.engine.stored import described, filled, key_of, marks_on
from noetl.errors import NotFound, Rejected
from noetl.net.program import CompiledPipeline, Program
from noetl.output import JSON
from noetl.playbook.source import Document, Path
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template
from noetl.views.log import instant
from noetl.views.runs import Runs

HOLDS_SHOWN_MAX: Final = 200
CHILDREN_SHOWN_MAX: Final = 100
EXPRESSION_CHARS_MAX: Final = 16_384
STORED_BYTES_MAX: Final = 16_777_216  # of the stored values that one expression reads
MASK: Final = "***"
KEYCHAIN: Final = "keychain"


class Reads(NamedTuple):
    """Reads values that are not in the log."""

    result: Callable[[dict[str, JSON]], Awaitable[bytes]]
    item: Callable[[dict[str, JSON], int], Awaitable[JSON]]  # of a loop: the Ref of its items, and the index


class BreakpointDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place where an execution is held."""

    place: str  # a step or a block; a task of it, `fetch.get_page`; in a child, `load/fetch`; `*`: what is next
    when: str | None = None  # a template: only while it is true
    once: bool = False  # it is gone after it has held something
    line: int | None = None  # in the text of the playbook


class HoldDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run or a frame that is held."""

    at: str  # its id: the run that has not begun, or the frame
    place: str  # what is next: `fetch`, or `fetch.get_page`
    run: str
    step: str  # or the block
    task: str | None = None  # that is next; None: it is held before the step
    iteration: int | None = None
    calls: int = 0  # calls of the frame so far
    attempt: int = 1  # of the task
    breakpoint: str | None = None  # its place; None: a single step has ended here
    error: str | None = None  # why the condition could not be evaluated, or the breakpoint does not fit
    line: int | None = None  # in the text of the playbook


class OpenChildDocument(Struct, frozen=True, kw_only=True):
    """A child that a frame waits for. It has breakpoints of its own."""

    at: str  # the frame
    execution_id: str
    path: str


class HeldChildDocument(Struct, frozen=True, kw_only=True):
    """A child, or a child of a child, in which breakpoints hold something."""

    at: str  # the frame that waits for it, behind the frames around that one: `load#1[3]`, `load#1[3]/inner#1`
    execution_id: str
    path: str
    held: tuple[HoldDocument, ...]
    held_left_out: int


class ChangeDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values that someone has changed by hand."""

    seq: int
    time: str
    at: str  # the run or the frame
    set: dict[str, JSON]
    by: str | None = None  # None: a command on the machine of the database


class DebugDocument(Struct, frozen=True, kw_only=True):
    """Where a debugged execution is."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    breakpoints: tuple[BreakpointDocument, ...]
    held: tuple[HoldDocument, ...]  # in the order of scheduling
    held_left_out: int
    changes: tuple[ChangeDocument, ...]  # the last ones, the newest last
    children: tuple[OpenChildDocument, ...] = ()  # the first ones
    held_children: tuple[HeldChildDocument, ...] = ()  # of the first 100 children and their children


class ScopesDocument(Struct, frozen=True, kw_only=True):
    """The scopes that templates see at a place. A large value is replaced by its size."""

    at: str | None
    place: str | None
    scopes: dict[str, JSON]


class EvaluationDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of an expression, or why it has none."""

    value: JSON | UnsetType = UNSET
    masked: bool = False  # it reads the keychain, whose values are never shown
    error: str | None = None


def hold_document(hold: Hold, lines: Lines | None = None) -> HoldDocument:
    frame, why = hold.frame, hold.why
    return HoldDocument(
        at=hold.at,
        place=why.place,
        run=hold.run.id,
        step=author_step(hold.run.step),
        task=why.place.partition(".")[2] or None,
        iteration=None if frame is None else frame.index,
        calls=0 if frame is None else frame.calls,
        attempt=1 if frame is None else frame.attempt,
        breakpoint=why.breakpoint,
        error=why.error,
        line=None if lines is None else lines.of(why.place),
    )


def change_documents(runs: Runs) -> tuple[ChangeDocument, ...]:
    return tuple(
        ChangeDocument(seq=seq, time=instant(at), at=fact.at, set=fact.set, by=fact.by)
        for seq, at, fact in runs.changes
    )


def held_documents(state: State) -> tuple[HoldDocument, ...]:
    return tuple(hold_document(each) for each in islice(holds_of(state), HOLDS_SHOWN_MAX))


def debug_document(runs: Runs, lines: Lines | None = None) -> DebugDocument:
    state = runs.state
    held = list(holds_of(state))
    return DebugDocument(
        execution_id=state.execution_id,
        path=state.path,
        digest=state.digest,
        status=state.status,
        seq=state.seq,
        breakpoints=tuple(
            BreakpointDocument(
                place=place, when=each.when, once=each.once, line=None if lines is None else lines.of(place)
            )
            for place, each in state.breakpoints.items()
        ),
        held=tuple(hold_document(each, lines) for each in held[:HOLDS_SHOWN_MAX]),
        held_left_out=max(0, len(held) - HOLDS_SHOWN_MAX),
        changes=change_documents(runs),
        children=tuple(islice(_open_children(state), CHILDREN_SHOWN_MAX)),
    )


def _open_children(state: State) -> Iterator[OpenChildDocument]:
    for run in state.runs.values() if state.live else ():
        for frame in run.frames.values() if run.output is None else ():
            if isinstance(frame.parked, ForChild):
                child = frame.parked
                yield OpenChildDocument(at=frame.id, execution_id=child.execution_id, path=child.path)


async def with_held_children(
    document: DebugDocument, read: Callable[[OpenChildDocument], Awaitable[DebugDocument | None]]
) -> DebugDocument:
    """With what is held in the children, too. `read`: the document of a child; None: it cannot be read."""
    found: list[HeldChildDocument] = []
    waiting = [("", child) for child in document.children]
    for within, child in waiting:  # grows while children have children
        inner = await read(child)
        if inner is None:
            continue
        at = f"{within}{child.at}"
        waiting += [(f"{at}/", each) for each in inner.children[: CHILDREN_SHOWN_MAX - len(waiting)]]
        if inner.held:
            found.append(
                HeldChildDocument(
                    at=at,
                    execution_id=child.execution_id,
                    path=child.path,
                    held=inner.held,
                    held_left_out=inner.held_left_out,
                )
            )
    return replace(document, held_children=tuple(found)) if found else document


class Lines:
    """The lines of steps and tasks in the text of a playbook."""

    def __init__(self, program: Program, document: Document) -> None:
        self._document = document
        self._paths: dict[str, Path] = {}
        for pipeline in program.pipelines:
            self._add(pipeline.name, pipeline)
        for block in program.blocks.values():
            self._add(author_step(block.name), block)

    def _add(self, name: str, pipeline: CompiledPipeline) -> None:
        self._paths.setdefault(name, tuple(pipeline.source.at))
        for task in pipeline.source_tasks:
            self._paths.setdefault(f"{name}.{task.name}", tuple(task.source.at))

    def of(self, place: str) -> int | None:
        path = self._paths.get(place)
        tree = None if path is None else self._document.find(path)
        return None if tree is None else self._document.mark(tree.start).line


# Values


class PlaceScopes:
    """The scopes at a place, and the stored values that belong in them."""

    def __init__(self, program: Program, state: State, at: str | None) -> None:
        """`at`: what is held; None: the execution as a whole. Raises Rejected."""
        hold = None if at is None else hold_at(state, at)
        self.at = at
        self.place = None if hold is None else hold.why.place
        self._stored: dict[str, dict[str, JSON]] = {}  # slot of the frame → Ref
        self._work: Work | None = None
        self._state = state
        self.scope: dict[str, JSON] = {
            "workload": state.workload,
            "ctx": state.ctx if hold is None else hold.run.ctx,
            "saved": state.saved,
            "execution_id": state.execution_id,
        }
        if hold is None:
            return
        self.scope |= {"input": hold.run.input, "step": hold.run.values}
        if hold.frame is not None:
            self._work = work_of(program, state, hold.at)
            self._stored = absent(self._work.frame)
            self.scope = task_scope(self._work)

    def document(self) -> ScopesDocument:
        return ScopesDocument(at=self.at, place=self.place, scopes=described(self.scope))

    async def evaluate(self, expression: str, reads: Reads) -> EvaluationDocument:
        """The value of an expression, with or without its braces. Large values are read from the result store."""
        written = expression.strip()
        if not written or len(written) > EXPRESSION_CHARS_MAX:
            return EvaluationDocument(error=f"an expression has 1 to {EXPRESSION_CHARS_MAX:,} characters")
        if "{{" not in written:
            written = f"{{{{ {written} }}}}"
        try:
            template = compile_template(written)
        except BadTemplate as error:
            return EvaluationDocument(error="; ".join(fault.message for fault in error.faults))
        if template.calls:
            return EvaluationDocument(
                error=f"{', '.join(sorted(template.calls))}() has no value here: it has one in a call"
            )
        if any(read.path and read.path[0] == KEYCHAIN for read in template.reads):
            return EvaluationDocument(value=MASK, masked=True)
        try:
            scope = await self._filled(template, reads)
            return EvaluationDocument(value=template(scope))
        except TemplateError as error:
            return EvaluationDocument(error=self._explained(template, error.message))
        except (NotFound, Rejected) as error:
            return EvaluationDocument(error=str(error))

    def _explained(self, template: Template, message: str) -> str:
        """The log has the output of an earlier task only if the playbook reads it by name."""
        tasks = () if self._work is None else [task.name for task in self._work.pipeline.tasks]
        for read in template.reads:
            if read.path and read.path[0] in tasks and read.path[0] not in self.scope:
                reason = f'the output of "{read.path[0]}" is not kept, because no template reads it by this name'
                return f"{message}: {reason}; output and _prev are of the last task"
        return message

    async def _filled(self, template: Template, reads: Reads) -> dict[str, JSON]:
        """The scope with the stored values that the template reads. Raises Rejected for values that are too large."""
        scope, size = self.scope, 0

        async def fetch(ref: dict[str, JSON]) -> JSON:
            nonlocal size
            size += int((ref.get("meta") or {}).get("bytes") or 0)
            if size > STORED_BYTES_MAX:
                message = f"it reads more than {STORED_BYTES_MAX:,} bytes from the result store"
                raise Rejected("payload-too-large", f"{message}: see noetl output")
            return msgspec.json.decode(await reads.result(ref))

        roots = {str(read.path[0]) for read in template.reads if read.path}
        if self._work is not None:
            slots = {slot: ref for slot, ref in self._stored.items() if _names(slot) & roots}
            restore(self._work.frame, {slot: await fetch(ref) for slot, ref in slots.items()})
            if "iter" in roots:
                self._work = await _with_item(self._work, reads)
            scope = task_scope(self._work)
        refs = {key_of(ref): ref for read in template.reads for ref in marks_on(scope, read.path)}
        if refs:
            state = self._state
            owners = {state.execution_id, *state.origins, *map(owner_of, named_refs(state.workload))}
            if any(owner_of(ref) not in owners for ref in refs.values()):
                raise Rejected("foreign-ref", "it reads a value that data of the execution takes from another one")
        values = {key: await fetch(ref) for key, ref in refs.items()}
        complete: dict[str, JSON] = filled(scope, values) if values else scope
        return complete


async def _with_item(work: Work, reads: Reads) -> Work:
    """The work with the item of the iteration, if that is in the result store."""
    place, loop = work.place, work.pipeline.loop
    if place.items is None or place.iter is None or loop is None or loop.iterator in place.iter:
        return work
    item = await reads.item(place.items, place.iter["index"])
    return replace(work, place=replace(place, iter={**place.iter, loop.iterator: item}))


def _names(slot: str) -> set[str]:
    """The names under which templates read a slot of a frame."""
    return {"output", "_prev"} if slot == "last" else {slot.removeprefix("task ")}
