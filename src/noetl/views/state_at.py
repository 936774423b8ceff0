"""An execution right after one of its facts: the fact, ctx, and the changes to ctx."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Struct, UnsetType

from noetl.engine import Event, apply
from noetl.engine.state import State, Status
from noetl.output import JSON
from noetl.views.log import instant, name_of

CHANGES_MAX = 200
_LEVELS = 4  # levels of mappings that are compared; deeper values are compared as a whole


class FactDocument(Struct, frozen=True, kw_only=True):
    seq: int
    at: str
    name: str
    data: dict[str, JSON]  # everything that was recorded


class CtxChange(Struct, frozen=True, kw_only=True):
    """A change of one path in ctx. A value that does not exist is unset."""

    path: str
    before: JSON | UnsetType = UNSET
    after: JSON | UnsetType = UNSET


class ExecutionMoment(Struct, frozen=True, kw_only=True):
    fact: FactDocument
    status: Status
    changes: tuple[CtxChange, ...]  # changes in ctx by this fact
    ctx_seq: int  # the last fact that changed ctx; 0: none has
    ctx: dict[str, JSON] | None  # None: the caller has this ctx already
    workload: dict[str, JSON]


class Fold:
    """A state, and the seq of the last change of its ctx."""

    def __init__(self, state: State, ctx_seq: int = 0) -> None:
        self.state = state
        self.ctx_seq = ctx_seq

    def feed(self, event: Event) -> None:
        before = self.state.ctx
        apply(self.state, event.fact, event.at)
        if self.state.ctx is not before:
            self.ctx_seq = event.seq


def fact_document(event: Event) -> FactDocument:
    data: dict[str, JSON] = msgspec.to_builtins(event.fact)
    del data["fact"]
    return FactDocument(seq=event.seq, at=instant(event.at), name=name_of(event.fact), data=data)


def moment(fold: Fold, event: Event, have: int | None) -> ExecutionMoment:
    """Advance `fold` by the event and describe the result.

    `have`: the ctx_seq of the ctx that the caller has.
    """
    before = fold.state.ctx
    fold.feed(event)
    return describe_moment(fold, event, before, have)


def describe_moment(fold: Fold, event: Event, before: dict[str, JSON], have: int | None) -> ExecutionMoment:
    """`fold`: right after the event; `before`: the ctx before it."""
    state = fold.state
    changed = [] if state.ctx is before else list(changes_between("ctx", before, state.ctx, _LEVELS))
    return ExecutionMoment(
        fact=fact_document(event),
        status=state.status,
        changes=tuple(changed[:CHANGES_MAX]),
        ctx_seq=fold.ctx_seq,
        ctx=None if have == fold.ctx_seq else state.ctx,
        workload=state.workload,
    )


def changes_between(path: str, before: JSON, after: JSON, levels: int) -> Iterator[CtxChange]:
    if before is after or before == after:
        return
    if not (levels and isinstance(before, dict) and isinstance(after, dict)):
        yield CtxChange(path=path, before=before, after=after)
        return
    for key in dict.fromkeys((*before, *after)):
        inner = f"{path}.{key}"
        if key not in after:
            yield CtxChange(path=inner, before=before[key])
        elif key not in before:
            yield CtxChange(path=inner, after=after[key])
        else:
            yield from changes_between(inner, before[key], after[key], levels - 1)
