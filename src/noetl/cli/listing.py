"""`noetl list`: the executions of a file, newest first, from one row each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import flag_at, server_at
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK
from noetl.cli.looking import STYLES, Execution, Log, Shelf, Standing, opened, screen_for
from noetl.cli.overview import document_of
from noetl.cli.screen import Screen
from noetl.cli.times import ago, duration
from noetl.engine.facts import Finished
from noetl.errors import Damaged
from noetl.escape import head, visible, width
from noetl.output import JSON, Output
from noetl.runtime.settings import database_path
from noetl.views.documents import ErrorDocument, OutputDocument, ShowDocument
from noetl.views.log import events_of, instant
from noetl.views.styled_text import Styled, table

PAGE = 100
PATH_COLUMNS_MIN = 12
_NOTHING = "nothing has run here yet; begin with: noetl run FILE"
_NONE_SUCH = "nothing to list: no execution here is what was asked for"
SHORT_CHARS = 13  # of an id: its millisecond; more where that is not enough


class Wanted(NamedTuple):
    """Which executions are asked for."""

    status: Standing | None
    limit: int
    open_only: bool


def run_list(wanted: Wanted, form: FormatChoice, db: str | None) -> int:
    if server_at(db) is None and not database_path(db).exists():
        _tell([], form, [], f"{_NOTHING}{flag_at(db)}")
        return OK
    with opened(db) as disk:
        return asyncio.run(_list(disk, wanted, form))


async def _list(disk: Shelf, wanted: Wanted, form: FormatChoice) -> int:
    now = disk.database.clock.now()
    found = [execution async for execution in _executions(disk, wanted)]
    documents = [await _document(disk, each, now) for each in found] if form == "json" else []
    everything = wanted.status is None and not wanted.open_only
    without_any = f"{_NOTHING}{disk.flag}" if everything else _NONE_SUCH
    _tell(documents, form, list(_rows(found, now)), without_any)
    return OK


async def _executions(disk: Shelf, wanted: Wanted) -> AsyncIterator[Execution]:
    """A page at a time: who lives is known only when it is asked."""
    before: str | None = None
    left = wanted.limit
    open_only = wanted.open_only or wanted.status in ("running", "interrupted", "paused")
    while left > 0:
        page = await disk.listing.executions(PAGE, before=before, open_only=open_only)
        for row in page:
            execution = Execution(*row)
            if wanted.status in (None, execution.standing) and left > 0:
                left -= 1
                yield execution
        if len(page) < PAGE:
            return
        before = page[-1].execution_id


async def _document(disk: Shelf, execution: Execution, now: datetime) -> dict[str, JSON]:
    """What `show` says, without the steps, and what its line says; a damaged log does not hide the others."""
    try:
        if execution.status == "ok":
            shown = await _of_its_end(disk, execution)
        else:
            shown = document_of(Log(execution, await disk.store.read(execution.execution_id)), now)
    except Damaged as error:
        shown = _by_head(execution, error=ErrorDocument(kind="damaged", message=str(error)))
    document: dict[str, JSON] = msgspec.to_builtins(shown)
    del document["steps"]
    return {
        "execution_id": document.pop("execution_id"),
        "path": execution.path,
        "started": instant(execution.started_at),
        "called_by": execution.parent and _caller(execution),
        **document,
        "status": execution.standing,
    }


async def _of_its_end(disk: Shelf, execution: Execution) -> ShowDocument:
    """An execution that went well says all that is asked for with its last facts, however long its log is."""
    rows = await disk.store.read(execution.execution_id, max(0, execution.seq - 2))
    ends = [event.fact.output for event in events_of(rows) if isinstance(event.fact, Finished)]
    return _by_head(execution, output=_output(ends[-1]) if ends else None)


def _by_head(
    execution: Execution, *, output: OutputDocument | None = None, error: ErrorDocument | None = None
) -> ShowDocument:
    return ShowDocument(
        execution_id=execution.execution_id,
        status="running" if execution.standing == "interrupted" else execution.standing,
        output=output,
        error=error,
        duration_s=round((execution.updated_at - execution.started_at).total_seconds(), 6),
        steps=(),
    )


def _output(output: Output | None) -> OutputDocument | None:
    if output is None:
        return None
    ref, error = output.ref or UNSET, output.error or UNSET
    return OutputDocument(status=output.status, data=output.data, ref=ref, error=error)


def _tell(
    documents: Sequence[dict[str, JSON]], form: FormatChoice, rows: list[list[Styled]], without_any: str
) -> None:
    if form == "json":
        sys.stdout.write(as_document(documents))
    elif not rows:
        Screen(sys.stderr).line(without_any)
    else:
        screen = screen_for(form)
        screen.lines(table(_fitted(rows, screen.columns), indent=""))


def _rows(found: Sequence[Execution], now: datetime) -> Iterator[list[Styled]]:
    if not found:
        return
    called = any(execution.parent for execution in found)
    titles = ["ID", "PATH", "STATUS", "STARTED", "DURATION", *(["CALLED BY"] if called else [])]
    yield [Styled(title, "faint") for title in titles]
    names = _short_ids([execution.execution_id for execution in found])
    for execution in found:
        until = now if execution.live and execution.owner_alive else execution.updated_at
        row = [
            Styled(names[execution.execution_id], "name"),
            Styled(visible(execution.path)),
            Styled(execution.standing, STYLES[execution.standing]),
            Styled(ago(execution.started_at, now), "faint"),
            Styled(duration((until - execution.started_at).total_seconds())),
        ]
        if called:
            row.append(Styled(_caller(execution)[: len(names[execution.execution_id])], "faint"))
        yield row


def _caller(execution: Execution) -> str:
    return (execution.parent or "").partition("/")[0]


def _short_ids(ids: Sequence[str]) -> dict[str, str]:
    """As short as they can be told apart by, from all that are listed."""
    length = SHORT_CHARS
    while len({id[:length] for id in ids}) < len(ids):
        length += 1
    return {id: id[:length] for id in ids}


def _fitted(rows: list[list[Styled]], columns: int) -> list[list[Styled]]:
    """The path gives way when lines would be too long."""
    others = sum(
        max(width(row[place].text) for row in rows) + 2 for place in range(len(rows[0])) if place != 1
    )
    room = max(PATH_COLUMNS_MIN, columns - others)
    return [[row[0], Styled(_cut(row[1].text, room), row[1].style), *row[2:]] for row in rows]


def _cut(text: str, columns: int) -> str:
    """The end of a path says more than its beginning."""
    if width(text) <= columns:
        return text
    return "…" + head(text[::-1], columns - 1)[::-1]
