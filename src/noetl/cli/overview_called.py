"""The executions that an execution has called and that stand below none of its steps: those of its loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container

from noetl.cli.finding import short
from noetl.cli.looking import STYLES, Log, Shelf, execution_of
from noetl.engine.facts import ForChild, FrameParked
from noetl.errors import NotFound
from noetl.escape import one_line
from noetl.views.styled_text import Styled, table

CALLED_SHOWN = 50


async def called_lines(disk: Shelf, log: Log, shown: Container[str]) -> AsyncIterator[list[Styled]]:
    """Who they are, how they stand, and which frame has called them; `shown` are told of elsewhere."""
    found = {
        fact.until.execution_id: fact
        for row in log.rows
        for fact in row.facts
        if isinstance(fact, FrameParked) and isinstance(fact.until, ForChild)
    }
    called = [fact for id, fact in found.items() if id not in shown]
    if not called:
        return
    yield []
    yield [Styled("called", "strong")]
    for line in table([await _row(disk, fact) for fact in called[:CALLED_SHOWN]]):
        yield line
    if len(called) > CALLED_SHOWN:
        see = f"noetl events {short(log.id)}{disk.flag}"
        yield [Styled(f"  … {len(called) - CALLED_SHOWN:,} more, see {see}", "faint")]


async def _row(disk: Shelf, fact: FrameParked) -> list[Styled]:
    assert isinstance(fact.until, ForChild)
    id, path = fact.until.execution_id, one_line(fact.until.path)
    try:
        standing: str = (await execution_of(disk, id)).standing
    except NotFound:
        standing = "is being started"
    status = Styled(standing, STYLES.get(standing, ""))
    return [
        Styled(short(id), "name"),
        Styled(path),
        status,
        Styled(f"by {one_line(fact.frame)}", "faint"),
    ]
