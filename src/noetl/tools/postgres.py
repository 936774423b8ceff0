"""`postgres`: SQL on a PostgreSQL database, values bound and never pasted."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.tool import Tool


class PostgresInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: Annotated[str | None, Meta(description="one statement, rows come back")] = None
    command: Annotated[str | None, Meta(description="one or more statements, in one transaction")] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None, Meta(description="bound parameters, by place or by name")
    ] = None


class Postgres(Tool):
    """Runs SQL on PostgreSQL, signed in by `auth`. Values are bound, never pasted into the text."""

    kind = "postgres"
    Input = PostgresInput
    one_of = (("query", "command"),)
    defaults = {"timeout": 60}
    output = "pg"
