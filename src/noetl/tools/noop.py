"""`noop`: does nothing itself; the rules and `set` around it do the work of routing."""

from __future__ import annotations

from msgspec import Struct

from noetl.output import Output
from noetl.tool import Call, Tool


class NoopInput(Struct):
    """`noop` has no fields of its own."""


class NoopTool(Tool):
    """Does nothing. Its data is its `input`, or `_prev` without one: for routing, counters and rules."""

    kind = "noop"
    Input = NoopInput
    pure = True
    free_input = True
    example = """\
kind: noop
input: {greeting: hello}
"""

    async def run(self, input: NoopInput, call: Call) -> Output:  # noqa: ARG002  # the seam's signature
        return Output(data=call.arguments or call.prev)

    async def close(self) -> None:
        """It holds nothing."""
