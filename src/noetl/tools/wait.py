"""`wait`: waits for a duration, a time or a signal such as an approval. It occupies no worker meanwhile."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.tool import Tool


class WaitInput(Struct, kw_only=True):
    """The condition to wait for: exactly one of the three fields."""

    seconds: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="duration to wait, in seconds")] = None
    until: Annotated[
        str | None, Meta(description="date and time to wait for, with a time zone", examples=["2026-01-31T12:00:00Z"])
    ] = None
    signal: Annotated[
        str | None, Meta(description="name of the signal to wait for; `output.data` is the data sent with the signal")
    ] = None


class WaitTool(Tool):
    """Waits for a duration, a time or a signal. Meanwhile the frame is parked and occupies no worker."""

    kind = "wait"
    ignores = ("auth", "timeout", "retry")
    Input = WaitInput
    one_of = (("seconds", "until", "signal"),)
    example = """\
kind: wait
seconds: 0.01
"""
