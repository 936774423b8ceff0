"""Requests of debuggers; the documents of noetl.views.debugging are the responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from noetl.engine.commands import SetBreakpoint
from noetl.output import JSON
from noetl.views.debugging import BreakpointDocument

PLACE_CHARS_MAX = 1_000


class BreakpointRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A place where an execution is held. One that exists there is replaced."""

    place: Annotated[
        str, Meta(max_length=PLACE_CHARS_MAX)
    ]  # `fetch`, `fetch.get_page`, in a child `load/fetch`; `*`: what is next
    when: str | None = None  # an expression, as `iter.index == 17`: it is held only while this is true
    once: bool = False  # it is gone after it has held something

    def command(self, by: str | None = None) -> SetBreakpoint:
        return SetBreakpoint(place=self.place, when=self.when, once=self.once, by=by)


def breakpoint_requests(wanted: Iterable[SetBreakpoint]) -> tuple[BreakpointRequest, ...]:
    return tuple(BreakpointRequest(place=each.place, when=each.when, once=each.once) for each in wanted)


class BreakpointsResponse(Struct, frozen=True, kw_only=True):
    items: tuple[BreakpointDocument, ...]


class ContinueRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[str, Meta(max_length=PLACE_CHARS_MAX)] | None = None  # a run or frame; None: all that are held


class StepRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[str, Meta(max_length=PLACE_CHARS_MAX)]  # the run or frame that runs one task


class ChangeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: Annotated[str, Meta(max_length=PLACE_CHARS_MAX)]  # the run or frame that is held
    set: dict[str, JSON]  # `ctx.total` → value; also `step.*`, and `iter.*` of an iteration


class EvaluateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expression: str  # with or without its braces
    at: Annotated[str, Meta(max_length=PLACE_CHARS_MAX)] | None = None  # what is held; None: the whole execution
