"""`wait`: for seconds, until an instant, or for a signal such as a person's approval; it holds no worker."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.tool import Tool


class WaitInput(Struct, kw_only=True):
    """What to wait for: one of the three."""

    seconds: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="so long")] = None
    until: Annotated[
        str | None, Meta(description="an instant with its time zone", examples=["2026-01-31T12:00:00Z"])
    ] = None
    signal: Annotated[
        str | None, Meta(description="the name of a signal; `output.data` is what it brings")
    ] = None


class WaitTool(Tool):
    """Waits for time or for a signal. The frame is parked meanwhile, and holds no worker (D83)."""

    kind = "wait"
    Input = WaitInput
    one_of = (("seconds", "until", "signal"),)
    example = """\
kind: wait
seconds: 0.01
"""
