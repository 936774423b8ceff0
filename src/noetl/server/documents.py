"""Documents of one execution for the routes, and the index of results that a log names."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from noetl.cache import BoundedCache
from noetl.control.live_execution import turn
from noetl.engine.loops import iteration_outputs
from noetl.errors import Damaged, NoetlError, NotFound, Rejected
from noetl.output import JSON, Output
from noetl.ports import EventStore, WorkerRegistry
from noetl.server.errors import ApiError
from noetl.server.log_readers import SLICE_FACTS, RunsCache
from noetl.server.services import Services
from noetl.views.documents import (
    OutputLocation,
    ShowDocument,
    decoded,
    given_by_playbook,
    refs_in,
    show_document,
    with_empty_pools,
)
from noetl.views.log import events_of, readable

DEPTH_MAX: Final = 16  # of results that are lists of results
OUTPUT_BYTES_MAX: Final = 64 << 20  # fetched for one response; GET /results serves larger results


async def load_show_document(runs: RunsCache, services: Services, execution_id: str) -> ShowDocument:
    """Raises NotFound, or Damaged."""
    head = await services.listing.head(execution_id)
    # An execution without a live owner makes no progress, so its durations do not grow.
    until = services.clock.now() if head.owner_alive else None
    document = await runs.query(execution_id, lambda records: show_document(records, until))
    if document.status == "running" and head.owner_alive:
        with suppress(NoetlError):  # without a readable playbook the pools are unknown
            program = await services.playbooks.by_digest(head.digest)
            return with_empty_pools(document, program, lambda pool: _has_workers(services.workers, pool))
    return document


def _has_workers(workers: WorkerRegistry, pool: str) -> bool:
    """A worker that is leaving counts, because it still completes its calls."""
    return workers.slots(pool) > 0 or any(each.pool == pool for each in workers.workers())


async def locate_output(services: Services, execution_id: str) -> OutputLocation:
    """The output of the playbook. Raises NotFound, or Rejected while it runs."""
    head = await services.listing.head(execution_id)
    if head.status in ("new", "running", "paused", "cancelling"):
        raise Rejected("not-over", f"{execution_id} has not ended: it is {head.status}")
    rows = await services.store.read(execution_id, max(0, head.seq - 2))
    return given_by_playbook(execution_id, [fact for row in rows for fact in row.facts])


class OutputLoader:
    """Loads everything that belongs to one output, up to a size limit."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._left = OUTPUT_BYTES_MAX

    async def load(self, output: Output, depth: int = 0) -> JSON:
        """The data. Raises ApiError when it is too large for one response, or Damaged."""
        if output.data is not None or output.ref is None:
            return output.data
        match output.ref:
            case {"type": "relational", "locator": {"execution_id": str(execution_id), "run": str(run)}}:
                if depth >= DEPTH_MAX:
                    raise Damaged(f"the results of {run} are nested more than {DEPTH_MAX} levels deep")
                return await self._load_loop(execution_id, run, depth)
            case {"locator": {"key": str()}}:
                return decoded(await self._fetch(output.ref), output.ref)
        return output.ref  # only the tool that stored it can read it (D56)

    async def _load_loop(self, execution_id: str, run: str, depth: int) -> JSON:
        """The results of a loop are in the log, by index; a failed iteration has the result null (D30)."""
        facts = [fact for row in await self._services.store.read(execution_id) for fact in row.facts]
        if not facts:
            raise Damaged(f"the results of {run} are in the log of {execution_id}, which does not exist")
        with readable(execution_id):
            outputs = [output for _, output in iteration_outputs(facts, run)]
        return [None if each is None else await self.load(each, depth + 1) for each in outputs]

    async def _fetch(self, ref: dict[str, JSON]) -> bytes:
        meta = ref.get("meta")
        size = meta.get("unpacked_bytes", meta.get("bytes", 0)) if isinstance(meta, dict) else 0
        self._left -= size if isinstance(size, int) and size > 0 else 0
        if self._left < 0:
            detail = f"the output has more than {OUTPUT_BYTES_MAX >> 20} MiB: fetch its parts by GET /results"
            raise ApiError(422, "output-too-large", detail)
        try:
            return await self._services.results.get(ref)
        except NotFound as error:
            raise Damaged(f"{error}: it was stored, but it no longer exists") from error


EXECUTIONS_MAX: Final = 64  # that are cached
REFS_MAX: Final = 100_000  # of one execution; a log with more refs is not cached, but read each time
_encode = msgspec.json.Encoder().encode


class _Refs:
    def __init__(self) -> None:
        self.seq = 0
        self.by_digest: dict[str, dict[str, JSON]] = {}


class ResultIndex:
    """Refs by execution and digest."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._cache: BoundedCache[str, _Refs] = BoundedCache(EXECUTIONS_MAX)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, execution_id: str, digest: str) -> dict[str, JSON]:
        """The Ref. Raises NotFound when the execution does not exist or its log does not name the result."""
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            refs = self._cache.pop(execution_id) or _Refs()
            if digest not in refs.by_digest:
                await self._read(execution_id, refs)
            if len(refs.by_digest) <= REFS_MAX and refs.seq:
                self._cache.put(execution_id, refs)
        if digest not in refs.by_digest:
            raise NotFound(f"the log of {execution_id} names no result {digest}")
        return refs.by_digest[digest]

    async def _read(self, execution_id: str, refs: _Refs) -> None:
        remaining = events_of(await self._store.read(execution_id, refs.seq), after=refs.seq)
        while events := list(islice(remaining, SLICE_FACTS)):
            for event in events:
                body = _encode(event.fact)
                if b'"locator"' in body:  # most facts contain no ref and need not be decoded
                    for ref in refs_in(msgspec.json.decode(body)):
                        if isinstance(digest := ref["meta"].get("sha256"), str):
                            refs.by_digest[digest] = ref
                refs.seq = event.seq
            await turn()
