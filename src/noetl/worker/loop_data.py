"""Start and end of loops whose data Control never holds: items behind a Ref, large results (D44, D52)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.json import decode

from noetl.engine.commands import EndLoop, StartLoop
from noetl.engine.results import pick_results
from noetl.engine.stored import stored_bytes
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.output import JSON, Failure
from noetl.paging import items_in, put_pages
from noetl.worker.retry import Stopped, retry

if TYPE_CHECKING:
    from noetl.worker.frame_driver import FrameDriver


async def open_loop(driver: FrameDriver, ref: dict[str, JSON]) -> None:
    """Read the items behind the Ref, store them in pages, and start the loop."""
    try:
        start = await _start(driver, ref)
    except Unavailable:
        raise Stopped from None
    await _send(driver, start)


async def close_loop(driver: FrameDriver, ref: dict[str, JSON]) -> None:
    """Evaluate what `set` and arcs read from all results, and end the loop."""
    try:
        data = decode(await driver.worker.refs.get(ref))
    except NoetlError:
        raise Stopped from None  # a damaged result: nothing is decided without it
    results = pick_results(driver.work, data)
    picked = await driver.values.record_picked(results)
    await _send(driver, EndLoop(run=driver.work.frame.id, picked=picked or {}, stored=picked is not results))


async def _send(driver: FrameDriver, command: StartLoop | EndLoop) -> None:
    with suppress(Rejected, NotFound):  # the loop is over, or another worker was faster
        worker = driver.worker
        await retry(worker.clock, lambda: worker.link.command(driver.execution_id, command))


async def read_items(driver: FrameDriver, ref: dict[str, JSON], workload: dict[str, JSON]) -> list[JSON] | Failure:
    """The items behind a Ref, or why there are none. Raises Unavailable."""
    try:
        return items_in(await driver.readable(workload).get(ref), _content_type(ref))
    except Unavailable:
        raise
    except (NoetlError, ValueError, msgspec.DecodeError) as error:
        return Failure(kind="loop", message=f'loop.in of "{driver.work.pipeline.name}": {error}')


async def _start(driver: FrameDriver, ref: dict[str, JSON]) -> StartLoop:
    run = driver.work.frame.id
    items = await read_items(driver, ref, driver.work.place.workload)
    if isinstance(items, Failure):
        return StartLoop(run=run, source=ref, error=items)
    if not stored_bytes(items):
        return StartLoop(run=run, source=ref, count=len(items), items=items)
    pages = await put_pages(driver.worker.results, driver.execution_id, items)
    return StartLoop(run=run, source=ref, count=len(items), ref=pages)


def _content_type(ref: dict[str, JSON]) -> str:
    return str((ref.get("meta") or {}).get("content_type", "application/json"))
