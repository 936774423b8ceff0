"""Large results as rows: in pages with a search, and as files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import Response
from litestar.params import QueryParameter

from noetl.server.log_readers import checked_id
from noetl.server.params import (
    PAGE,
    SEQ_MAX,
    TEXT_CHARS_MAX,
    ContextParam,
    ExecutionId,
    Limit,
    read_execution,
    response,
)
from noetl.views.rows import RowsPage

DigestParam = Annotated[
    str | None, QueryParameter(name="digest", description="sha256 of a stored result, in hex", max_length=64)
]
RunParam = Annotated[
    str | None,
    QueryParameter(name="run", description="a loop: the results of its iterations", max_length=TEXT_CHARS_MAX),
]


@read_execution("/rows", "A large result as rows, in pages", 422)
async def rows(
    context: ContextParam,
    execution_id: ExecutionId,
    digest: DigestParam = None,
    run: RunParam = None,
    *,
    offset: Annotated[int, QueryParameter(description="rows to skip", ge=0, le=SEQ_MAX)] = 0,
    limit: Limit = PAGE,
    text: Annotated[str, QueryParameter(description="only rows that contain it", max_length=TEXT_CHARS_MAX)] = "",
) -> RowsPage:
    """Give `digest` or `run`. Results above 64 MiB have no rows: `GET /results` serves them."""
    loaded = await context.rows.load(checked_id(execution_id), digest, run)
    return await context.cpu_pool.run(loaded.rows.page, offset, limit, text)


@read_execution(
    "/rows/file",
    "A large result as a file",
    422,
    success={200: response(bytes, "All rows, as an attachment", "*/*")},
)
async def rows_file(
    context: ContextParam,
    execution_id: ExecutionId,
    digest: DigestParam = None,
    run: RunParam = None,
    *,
    format: Annotated[Literal["json", "csv"], QueryParameter()] = "json",
) -> Response[bytes]:
    """CSV has a line with the names of the columns; lists and maps in it are JSON."""
    loaded = await context.rows.load(checked_id(execution_id), digest, run)
    make = loaded.rows.csv if format == "csv" else lambda: msgspec.json.encode(loaded.value)
    body = await context.cpu_pool.run(make)
    kind = "text/csv; charset=utf-8" if format == "csv" else "application/json"
    headers = {"Content-Disposition": f'attachment; filename="result.{format}"'}
    return Response(body, media_type=kind, headers=headers)


ROUTES = [rows, rows_file]
