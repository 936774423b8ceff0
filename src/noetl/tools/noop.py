"""`noop`: a task without an action of its own. Use it for its rules and its `set`."""

from __future__ import annotations

from msgspec import Struct

from noetl.output import Output
from noetl.tool import Call, Tool


class NoopInput(Struct):
    """`noop` has no fields of its own."""


class NoopTool(Tool):
    """Does nothing. `output.data` is `input`, or `_prev` without an `input`. Useful for rules and `set`."""

    kind = "noop"
    ignores = ("auth", "timeout", "retry")
    Input = NoopInput
    pure = True
    free_input = True
    example = """\
kind: noop
input: {greeting: hello}
"""

    async def run(self, input: NoopInput, call: Call) -> Output:  # noqa: ARG002  # the signature of Tool
        return Output(data=call.arguments or call.prev)

    async def close(self) -> None:
        """Nothing to release."""
