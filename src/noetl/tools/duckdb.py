"""`duckdb`: analytical SQL inside the worker, over rows, files and references."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.tool import Tool


class DuckdbInput(Struct, kw_only=True):
    """SQL and its parameters."""

    query: Annotated[str | None, Meta(description="one statement, rows come back")] = None
    command: Annotated[str | None, Meta(description="one or more statements")] = None
    params: Annotated[
        list[JSON] | dict[str, JSON] | None, Meta(description="bound parameters, by place or by name")
    ] = None


class DuckdbSpec(Struct, kw_only=True):
    """Limits of the database."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory that DuckDB may use")] = 1024


class Duckdb(Tool):
    """Runs SQL on an in-process DuckDB."""

    kind = "duckdb"
    Input = DuckdbInput
    Spec = DuckdbSpec
    one_of = (("query", "command"),)
    defaults = {"timeout": 300, "memory_mb": 1024}
    output = "duckdb"
