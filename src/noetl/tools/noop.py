"""`noop`: does nothing itself; the rules and `set` around it do the work of routing."""

from __future__ import annotations

from msgspec import Struct

from noetl.tool import Tool


class NoopInput(Struct):
    """`noop` has no fields of its own."""


class Noop(Tool):
    """Does nothing. Its data is its `input`, or `_prev` without one: for routing, counters and rules."""

    kind = "noop"
    Input = NoopInput
    pure = True
    free_input = True
