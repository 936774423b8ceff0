"""`reach`: does a server take connections? It connects, says how long that took, and hangs up."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from noetl.output import Failure, Output, failed
from noetl.tool import Call, Tool


class ReachInput(Struct, kw_only=True):
    """Where to."""

    host: Annotated[str, Meta(description="a name or an address", examples=["db.example.com"])]
    port: Annotated[Annotated[int, Meta(ge=1, le=65535)], Meta(description="its port")]


class ReachSpec(Struct, kw_only=True):
    """How patient it is."""

    connect_s: Annotated[float, Meta(gt=0, description="how long one connection may take")] = 5.0


class Reach(Tool):
    """Asks whether a server takes connections; `output.data` is true, or there is an error."""

    kind = "reach"
    Input = ReachInput
    Spec = ReachSpec
    defaults = {"timeout": 30}
    output = "reach"
    example = """\
kind: reach
host: 127.0.0.1
port: 5432
"""

    async def run(self, input: ReachInput, call: Call) -> Output:
        import asyncio  # What only a call needs is imported when there is one.

        try:
            spec = msgspec.convert(call.spec, ReachSpec)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(spec.connect_s):
                _reader, writer = await asyncio.open_connection(input.host, input.port)
        except TimeoutError:
            message = f"{input.host}:{input.port} did not answer within {spec.connect_s:g} s"
            return failed("reach", message, retryable=True)
        except (OSError, ValueError) as error:
            # ValueError: a name that can not be one, such as one with a NUL in it.
            failure = Failure(kind="reach", message=f"{input.host}:{input.port}: {error}", retryable=True)
            return Output(status="error", error=failure)
        took_ms = round((loop.time() - begun) * 1000, 3)
        writer.close()
        return Output(data=True, own={"reach": {"took_ms": took_ms}})

    async def close(self) -> None:
        """It holds nothing between calls."""
