"""Loads large results as rows, and keeps the last ones for the next page."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from noetl.cache import BoundedCache
from noetl.errors import NotFound
from noetl.output import JSON, Output
from noetl.server.errors import ApiError
from noetl.server.log_readers import OutputLoader, ResultIndex, TimelineCache
from noetl.server.services import CpuPool, Services
from noetl.views.rows import ResultRows

CACHED_BYTES_MAX: Final = 8 << 20  # of values as JSON; in memory they need several times as much


class LoadedRows(NamedTuple):
    value: JSON
    rows: ResultRows
    bytes: int  # of the value as JSON


class ResultRowReader:
    """Results by execution and name. Stored results and the results of ended loops never change."""

    def __init__(self, services: Services, timelines: TimelineCache, results: ResultIndex, cpu_pool: CpuPool) -> None:
        self._services = services
        self._timelines = timelines
        self._results = results
        self._cpu_pool = cpu_pool
        self._cache: BoundedCache[tuple[str, str], LoadedRows] = BoundedCache(CACHED_BYTES_MAX, lambda each: each.bytes)

    async def load(self, execution_id: str, digest: str | None, run: str | None) -> LoadedRows:
        """Give the digest of a stored result, or a loop. Raises NotFound, ApiError or Damaged."""
        if digest is not None and run is None:
            output, is_final = Output(ref=await self._results.find(execution_id, digest)), True
        elif run is not None and digest is None:
            output, is_final = await self._loop(execution_id, run)
        else:
            raise ApiError(400, "bad-request", "give either digest or run")
        key = execution_id, digest or f"run {run}"
        known = self._cache.get(key)
        if known is not None:
            return known
        value = await OutputLoader(self._services).load(output)
        loaded = await self._cpu_pool.run(_loaded, value)
        if is_final and loaded.bytes <= CACHED_BYTES_MAX:
            self._cache.put(key, loaded)
        return loaded

    async def _loop(self, execution_id: str, run: str) -> tuple[Output, bool]:
        """The results of its iterations, and whether it has ended."""
        record = (await self._timelines.get(execution_id)).runs.steps.get(run)
        if record is None or record.iterations is None:
            raise NotFound(f'no step of {execution_id} has run a loop as "{run[:100]}"')
        ref = {"type": "relational", "locator": {"execution_id": execution_id, "run": run}}
        return Output(ref=ref), record.ended_at is not None


def _loaded(value: JSON) -> LoadedRows:
    return LoadedRows(value, ResultRows(value), len(msgspec.json.encode(value)))
