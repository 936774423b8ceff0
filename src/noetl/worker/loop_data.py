"""Both ends of a loop whose data control never holds: items behind a Ref, results in the log (D44, D52)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.json import decode, encode

from noetl.engine.commands import EndLoop, StartLoop
from noetl.engine.results import pick_results
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.output import JSON, Failure
from noetl.paging import items_in, put_pages
from noetl.worker.stop import Stopped, insist

if TYPE_CHECKING:
    from noetl.worker.frame_driver import FrameDriver

INLINE_BYTES_MAX = 65_536  # of items that stand in the log


async def open_loop(drive: FrameDriver, ref: dict[str, JSON]) -> None:
    """Read what lies there, keep it in pages, and tell control that the loop may start."""
    try:
        start = await _start(drive, ref)
    except Unavailable:
        raise Stopped from None
    await _tell(drive, start)


async def close_loop(drive: FrameDriver, ref: dict[str, JSON]) -> None:
    """Evaluate what `set` and arcs read of all the results, and tell control that the loop may end."""
    try:
        data = decode(await drive.worker.refs.get(ref))
    except NoetlError:
        raise Stopped from None  # a result that is damaged: nothing is decided without it
    await _tell(drive, EndLoop(run=drive.work.frame.id, picked=pick_results(drive.work, data)))


async def _tell(drive: FrameDriver, command: StartLoop | EndLoop) -> None:
    with suppress(Rejected, NotFound):  # it is over, or someone was faster
        worker = drive.worker
        await insist(worker.clock, lambda: worker.link.command(drive.execution_id, command))


async def _start(drive: FrameDriver, ref: dict[str, JSON]) -> StartLoop:
    run = drive.work.frame.id
    try:
        items = items_in(await drive.worker.refs.get(ref), _content_type(ref))
    except Unavailable:
        raise
    except (NoetlError, ValueError, msgspec.DecodeError) as error:
        failure = Failure(kind="loop", message=f'loop.in of "{drive.work.pipeline.name}": {error}')
        return StartLoop(run=run, source=ref, error=failure)
    if len(encode(items)) <= INLINE_BYTES_MAX:
        return StartLoop(run=run, source=ref, count=len(items), items=items)
    pages = await put_pages(drive.worker.results, drive.execution_id, items)
    return StartLoop(run=run, source=ref, count=len(items), ref=pages)


def _content_type(ref: dict[str, JSON]) -> str:
    return str((ref.get("meta") or {}).get("content_type", "application/json"))
