"""`reach`: checks whether a server accepts connections. It connects, measures the time, and disconnects."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from noetl.output import Failure, Output, failed
from noetl.tool import Call, Tool


class ReachInput(Struct, kw_only=True):
    """The fields of the task."""

    host: Annotated[str, Meta(description="host name or IP address", examples=["db.example.com"])]
    port: Annotated[Annotated[int, Meta(ge=1, le=65535)], Meta(description="TCP port")]


class ReachSpec(Struct, kw_only=True):
    """The options under `spec`."""

    connect_s: Annotated[float, Meta(gt=0, description="timeout of one connection attempt, in seconds")] = 5.0


class ReachPart(Struct, kw_only=True):
    """The tool's own part of the output, `output.reach`."""

    took_ms: Annotated[float | None, Meta(description="time until the server accepted, in milliseconds")] = None


class Reach(Tool):
    """Checks whether a server accepts connections. `output.data` is true, or the call fails."""

    kind = "reach"
    Input = ReachInput
    Spec = ReachSpec
    defaults = {"timeout": 30}
    output = "reach"
    OutputPart = ReachPart
    example = """\
kind: reach
host: 127.0.0.1
port: 5432
"""

    async def run(self, input: ReachInput, call: Call) -> Output:
        import asyncio  # Imported here, because `noetl check` loads this module and makes no call.

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
            # ValueError: an invalid host name, for example one that contains a NUL character.
            failure = Failure(kind="reach", message=f"{input.host}:{input.port}: {error}", retryable=True)
            return Output(status="error", error=failure)
        took_ms = round((loop.time() - begun) * 1000, 3)
        writer.close()
        return Output(data=True, own={"reach": {"took_ms": took_ms}})

    async def close(self) -> None:
        """Nothing to release: the tool keeps no state between calls."""
