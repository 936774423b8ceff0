"""`resolve`: fetches the payload behind a reference, the whole or a part of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.tool import Tool


class ResolveInput(Struct, kw_only=True):
    """Which reference, and how much of it."""

    ref: Annotated[JSON, Meta(description="a Ref", examples=['"{{ ctx.rows_ref }}"'])]
    path: Annotated[str | None, Meta(description="a JSONPath into the payload")] = None
    slice: Annotated[str | list[int] | None, Meta(description="`from:to` of a list of rows")] = None
    columns: Annotated[list[str] | None, Meta(description="only these columns of rows")] = None


class Resolve(Tool):
    """Fetches what a Ref points at, whole or in part, also the results of a loop."""

    kind = "resolve"
    Input = ResolveInput
    pure = True
    defaults = {"timeout": 60}
