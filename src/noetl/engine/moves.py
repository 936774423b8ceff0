"""What a frame wants next: a call, a wait, to be parked. Said by the pipeline machine, done by the worker."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

from noetl.engine.facts import FrameParked, TaskDone
from noetl.engine.state import Frame
from noetl.net.program import CompiledPipeline, CompiledTask
from noetl.output import JSON, Output
from noetl.playbook.model import Credential

_in_order = msgspec.json.Encoder(order="deterministic").encode


class FramePlace(NamedTuple):
    """Where a frame runs: what its templates see besides the frame itself."""

    execution_id: str
    workload: dict[str, JSON]
    input: dict[str, JSON]  # of the step or the block
    iter: dict[str, JSON] | None  # item, index and parent; None: no loop around it
    folder: str | None = None  # of the playbook's file, for tools that read files beside it
    items: dict[str, JSON] | None = None  # a Ref: where the item lies, when it does not stand in `iter`
    opens: dict[str, JSON] | None = None  # a Ref: no frame is to be run, the items of its loop are to be read
    closes: dict[str, JSON] | None = None  # a Ref: nor here: what is read of the results is to be evaluated
    keychain: tuple[Credential, ...] = ()  # where its secrets are found


class Work(NamedTuple):
    """One frame, ready to be taken up: a copy that the worker may change."""

    pipeline: CompiledPipeline
    frame: Frame
    place: FramePlace


class RunTask(NamedTuple):
    task: CompiledTask
    fields: dict[str, JSON]
    input: dict[str, JSON]
    attempt: int
    entry: str
    scope: dict[str, JSON]  # what the templates of the task see
    folder: str | None = None
    keychain: tuple[Credential, ...] = ()

    @property
    def key(self) -> str:
        """The idempotency key: one for each entry into a task, the same for all its attempts (P3)."""
        return hashlib.sha256(self.entry.encode()).hexdigest()

    @property
    def input_hash(self) -> str | None:
        """Tells whether two calls were made with the same, and nothing about its secrets (D20).

        None: the call is pure, and is as good made again; or what it is given can not be written down.
        """
        task = self.task
        if task.pure:
            return None
        fields = _without(self.fields, task.secret_fields | task.code.keys())  # the digest knows the code
        parts = (fields, _without(self.input, task.secret_inputs))
        try:
            return hashlib.sha256(_in_order(parts)).hexdigest()[:16]
        except (ValueError, OverflowError):
            return None


def _without(values: dict[str, JSON], keys: Container[str]) -> dict[str, JSON]:
    return {key: value for key, value in values.items() if key not in keys} if keys else values


class Answered(NamedTuple):
    """The call that the frame was parked in has come back."""

    task: CompiledTask
    input: dict[str, JSON]
    output: Output
    scope: dict[str, JSON]


class Decided(NamedTuple):
    """No call is made: skipped, or it can not be made."""

    fact: TaskDone


class Park(NamedTuple):
    fact: FrameParked


class Wait(NamedTuple):
    until: datetime


class Over(NamedTuple):
    """Nothing is left to do."""


Move: TypeAlias = RunTask | Answered | Decided | Park | Wait | Over
