"""`wait`: waits for a duration, a time or a signal such as an approval. It occupies no worker meanwhile."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.playbook.model import InputType
from noetl.tool import Tool


class FormField(Struct, kw_only=True, forbid_unknown_fields=True):
    """A field of the answer, declared like an input of a playbook."""

    type: Annotated[InputType, Meta(description="type of the value")] = "string"
    desc: Annotated[str | None, Meta(description="shown beside the field")] = None
    default: Annotated[JSON, Meta(description="a field without a default is required")] = None
    required: Annotated[bool | None, Meta(description="false: it may stay empty")] = None
    enum: Annotated[list[JSON] | None, Meta(description="the allowed values")] = None
    pattern: Annotated[str | None, Meta(description="regular expression for the whole text")] = None
    min: Annotated[float | str | None, Meta(description="least value, or least length")] = None
    max: Annotated[float | str | None, Meta(description="greatest value, or greatest length")] = None
    format: Annotated[str | None, Meta(description="format of the text, such as email")] = None


class WaitInput(Struct, kw_only=True):
    """What to wait for: exactly one of `seconds`, `until` and `signal`."""

    seconds: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="duration to wait, in seconds")] = None
    until: Annotated[
        str | None, Meta(description="date and time to wait for, with a time zone", examples=["2026-01-31T12:00:00Z"])
    ] = None
    signal: Annotated[
        str | None, Meta(description="name of the signal to wait for; `output.data` is the data sent with the signal")
    ] = None
    title: Annotated[
        str | None, Meta(description="with `signal`: the question that a person has to decide, as the web UI shows it")
    ] = None
    text: Annotated[str | None, Meta(description="with `signal`: explains the question")] = None
    data: Annotated[JSON, Meta(description="with `signal`: what the decision is about, shown as a table")] = None
    form: Annotated[
        dict[str, FormField] | None,
        Meta(
            description="with `signal`: the fields of the answer, declared like `input`; `approved` and `comment` are "
            "part of every answer"
        ),
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
