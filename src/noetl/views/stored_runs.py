"""Run records as bytes and back, so that a reader of a long log can continue from a stored copy."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from datetime import datetime
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from noetl.engine import facts
from noetl.engine.snapshot import freeze_slices, shape_of, thaw
from noetl.engine.snapshot import schema as state_schema
from noetl.views.runs import LoopProgress, PrintedOutput, RunRecord, Runs

_PORTION: Final = 100  # records that are encoded in one step


class RunFields(Struct, array_like=True):
    """What `Runs` has computed, without its state."""

    steps: list[RunRecord]
    begun_at: datetime | None
    failed_at: tuple[str, str | None] | None
    fork: facts.ForkOrigin | None
    changes: tuple[tuple[int, datetime, facts.ScopeChanged], ...]
    cancelled: facts.Cancelled | None
    calling: list[str]


class _Stored(Struct, array_like=True):
    state: msgspec.Raw  # as `freeze_slices` writes it
    fields: RunFields


def fields_of(runs: Runs) -> RunFields:
    return RunFields(
        list(runs.steps.values()), runs.begun_at, runs.failed_at, runs.fork, runs.changes, runs.cancelled,
        sorted(runs.calling),
    )  # fmt: skip


def freeze_runs(runs: Runs) -> Generator[None, None, bytes]:
    """The records and their state, in small steps. They must not change meanwhile."""
    state = yield from freeze_slices(runs.state)
    fields = fields_of(runs)
    steps = []
    for first in range(0, len(fields.steps), _PORTION):
        steps.append(_encode(fields.steps[first : first + _PORTION])[1:-1])
        yield
    encoded = [msgspec.Raw(b"[%b]" % b",".join(steps)), *msgspec.structs.astuple(fields)[1:]]
    return _encode([msgspec.Raw(state), encoded])


def thaw_runs(frozen: bytes) -> Runs:
    """The same records. Raises ValueError for bytes that `freeze_runs` has not made."""
    try:
        stored = _decoder().decode(frozen)
    except msgspec.DecodeError as error:
        raise ValueError("these are not stored run records") from error
    state, fields = thaw(bytes(stored.state)), stored.fields
    runs = Runs(state.execution_id)
    runs.state, runs.stored = state, state.seq
    runs.begun_at, runs.failed_at = fields.begun_at, fields.failed_at
    runs.fork, runs.changes, runs.cancelled = fields.fork, fields.changes, fields.cancelled
    runs.steps = {record.id: record for record in fields.steps}
    runs.live = {record.id: record for record in runs.records() if record.ended_at is None}
    runs.calling = set(fields.calling)
    return runs


@cache
def schema() -> str:
    """The name of the shape of the records: a copy of another shape is ignored."""
    tuples = [[kind.__name__, *map(str, kind.__annotations__.values())] for kind in (LoopProgress, PrintedOutput)]
    described = msgspec.json.encode([state_schema(), shape_of(_Stored), tuples], order="sorted")
    return hashlib.sha256(described).hexdigest()[:16]


@cache
def _decoder() -> msgspec.json.Decoder[_Stored]:
    return msgspec.json.Decoder(_Stored)


_encode = msgspec.json.Encoder().encode
