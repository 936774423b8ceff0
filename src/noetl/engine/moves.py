"""The moves of a pipeline, and the work that a worker needs to run a frame."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from noetl.engine.apply import fresh_frame
from noetl.engine.breakpoints import breaks_of
from noetl.engine.facts import FrameParked, TaskDone
from noetl.engine.limits import is_waiting
from noetl.engine.loops import iteration
from noetl.engine.state import Frame, Run, State
from noetl.ids import frame_id, frame_parts
from noetl.net.program import CompiledPipeline, CompiledTask, Program
from noetl.output import JSON, Output
from noetl.playbook.model import Credential

_in_order = msgspec.json.Encoder(order="deterministic").encode


class Delegation(Struct, frozen=True):
    """A decision that a worker makes, because it reads or makes values that are in the result store (D91)."""

    decision: str  # "fetch#2!route"
    digest: str  # of what it depends on: control rejects the decision if that has changed
    state: bytes  # the part of the state that it reads, as a snapshot


class Decision(NamedTuple):
    delegation: Delegation
    program: Program


class FramePlace(Struct, frozen=True):
    """The surroundings of a frame: what its templates see besides the frame itself."""

    execution_id: str
    workload: dict[str, JSON]
    input: dict[str, JSON]  # of the step or the block
    iter: dict[str, JSON] | None  # item, index and parent; None: it is in no loop
    folder: str | None = None  # of the playbook's file, for tools that read files beside it
    items: dict[str, JSON] | None = None  # a Ref: where the item is stored, when it is not in `iter`
    opens: dict[str, JSON] | None = None  # a Ref: run no frame, but read the items of its loop
    closes: dict[str, JSON] | None = None  # a Ref: run no frame, but evaluate what is read from its results
    keychain: tuple[Credential, ...] = ()  # where to find its secrets
    stored: bool = False  # some values of the execution are in the result store (D91)
    marks: dict[str, JSON] = {}  # "ctx.rows" → its value in the log, where a worker has put the stored value
    saved: dict[str, JSON] = {}
    decides: Decision | None = None  # run no frame, but make this decision for control
    origins: tuple[str, ...] = ()  # the executions that this one was forked from
    breaks: dict[str, str | None] | None = None  # breakpoints in its tasks: place → condition; None: there are none


class Work(Struct, frozen=True):
    """One frame, ready to run: a copy that the worker may change."""

    pipeline: CompiledPipeline
    frame: Frame
    place: FramePlace


class RunTask(Struct, frozen=True):
    task: CompiledTask
    fields: dict[str, JSON]
    input: dict[str, JSON]
    attempt: int
    entry: str
    scope: dict[str, JSON]  # what the templates of the task see
    folder: str | None = None
    keychain: tuple[Credential, ...] = ()
    origins: tuple[str, ...] = ()  # the executions whose results it may read, as it was forked from them

    @property
    def key(self) -> str:
        """The idempotency key: one for each entry into a task, the same for all its attempts (P3)."""
        return hashlib.sha256(self.entry.encode()).hexdigest()

    @property
    def input_hash(self) -> str | None:
        """Equal for two calls with the same input; it reveals nothing about secrets (D20).

        None: the call is pure and can be repeated, or its input cannot be encoded.
        """
        task = self.task
        if task.pure:
            return None
        # The digest of the playbook covers the code.
        fields = _without(self.fields, task.secret_fields | task.code.keys())
        parts = (fields, _without(self.input, task.secret_inputs))
        try:
            return hashlib.sha256(_in_order(parts)).hexdigest()[:16]
        except (ValueError, OverflowError):
            return None


def _without(values: dict[str, JSON], keys: Container[str]) -> dict[str, JSON]:
    return {key: value for key, value in values.items() if key not in keys} if keys else values


class Answered(Struct, frozen=True):
    """The call in which the frame was parked has returned."""

    task: CompiledTask
    input: dict[str, JSON]
    output: Output
    scope: dict[str, JSON]


class Decided(Struct, frozen=True):
    """No call is made: the task is skipped, or cannot be called."""

    fact: TaskDone


class Park(Struct, frozen=True):
    fact: FrameParked
    document: str | None = None  # the text of the playbook that it calls; None: the catalog has it


class Wait(Struct, frozen=True):
    until: datetime


class FrameEnded(Struct, frozen=True):
    """The frame is over."""


Move: TypeAlias = RunTask | Answered | Decided | Park | Wait | FrameEnded


def due(state: State, *, at_most: int | None = None) -> Iterator[str]:
    """Every frame that a worker could run now, in the order of scheduling.

    `at_most` is limits.in_flight: the number of frames of one execution that may run at once (D45).
    """
    runs = state.runs.values() if state.status == "running" and state.held is None else ()
    return islice((frame for run in runs for frame in due_of(run)), at_most)


def due_of(run: Run) -> Iterator[str]:
    if run.output is not None or (run.looped and run.loop is None) or is_waiting(run):
        return
    indexes: list[int | None] = [None]
    if run.loop is not None:
        indexes = list(run.loop.flying)
    for index in indexes:
        frame = run.frames.get(index)
        if frame is None or (frame.parked is None and frame.pc >= 0):
            yield frame_id(run.id, index)


def work_of(program: Program, state: State, frame: str) -> Work:
    owner, index = frame_parts(frame)
    run = state.runs[owner]
    pipeline = program.pipeline(run.step, block=run.block)
    around = None if index is None and run.parent is None else iteration(program, state, run, index)
    stored = run.loop.ref if run.loop is not None and run.loop.items is None else None
    place = FramePlace(
        execution_id=state.execution_id,
        workload=state.workload,
        saved=state.saved,
        input=run.input,
        iter=around,
        folder=program.folder,
        items=stored,
        keychain=program.keychain_of(state.execution_id),
        stored=state.stored,
        origins=state.origins,
        breaks=breaks_of(state, pipeline) if state.breakpoints else None,
    )
    known = run.frames.get(index)
    return Work(pipeline, fresh_frame(run, index) if known is None else replace(known), place)
