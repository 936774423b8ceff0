"""The executions of one playbook side by side, from their heads and from a bounded number of facts."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC
from typing import Final

from noetl.api.history import HistoryColumn, HistoryRow, PlaybookHistory
from noetl.cache import BoundedCache
from noetl.control.run_records import RunRecords
from noetl.engine.state import LIVE
from noetl.errors import NotFound, PlaybookError
from noetl.ports import ExecutionFilter, ExecutionHead
from noetl.server.services import Services
from noetl.views.history import StepCell, by_day, step_cells, step_order, summarized
from noetl.views.log import instant

COLUMNS: Final = 40
COLUMNS_MAX: Final = 100
LOG_FACTS_MAX: Final = 20_000  # a longer log is not folded
REQUEST_FACTS_MAX: Final = 100_000  # that one request folds, the newest executions first
DAYS_EXECUTIONS_MAX: Final = 1_000  # whose heads are summarized by day
CACHED_COLUMNS_MAX: Final = 2_000


class PlaybookHistories:
    """Builds histories. The cells of an execution are kept until its log grows."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._cells: BoundedCache[tuple[str, int], dict[str, StepCell]] = BoundedCache(CACHED_COLUMNS_MAX)

    async def read(self, path: str, limit: int) -> PlaybookHistory:
        """The caller checks whether the path may be read."""
        wanted = ExecutionFilter(path=path)
        heads = await self._services.listing.executions(DAYS_EXECUTIONS_MAX, wanted)
        shown, left = heads[:limit], REQUEST_FACTS_MAX
        columns: list[HistoryColumn] = []
        for head in shown:
            known = self._cells.peek((head.execution_id, head.seq))
            if known is None and head.seq <= min(left, LOG_FACTS_MAX):
                left -= head.seq
                known = await self._fold(head)
            columns.append(_column(head, known))
        return PlaybookHistory(
            path=path,
            executions=tuple(reversed(columns)),
            steps=await self._rows(heads, columns),
            durations=summarized(each.duration_s for each in columns if each.status not in LIVE),
            days=by_day(
                (head.started_at.astimezone(UTC), _duration_s(head), head.status != "ok")
                for head in heads
                if head.status not in LIVE
            ),
        )

    async def _fold(self, head: ExecutionHead) -> dict[str, StepCell] | None:
        """None: it was deleted meanwhile. Raises Damaged."""
        runs = await RunRecords(self._services.store).read(head.execution_id, head.seq)
        if not runs.state.seq:
            return None
        cells = step_cells(runs.steps.values(), head.updated_at)
        return self._cells.put((head.execution_id, head.seq), cells)

    async def _rows(self, heads: list[ExecutionHead], columns: list[HistoryColumn]) -> tuple[HistoryRow, ...]:
        known: list[str] = []
        if heads:
            with suppress(NotFound, PlaybookError):
                known = list((await self._services.playbooks.by_digest(heads[0].digest)).steps)
        found = [each.steps or {} for each in columns]
        return tuple(
            HistoryRow(
                step=step,
                durations=summarized(
                    cells[step].duration_s
                    for cells in found
                    if step in cells and cells[step].status not in ("running", "scheduled")
                ),
            )
            for step in step_order(known, found)
        )


def _column(head: ExecutionHead, cells: dict[str, StepCell] | None) -> HistoryColumn:
    return HistoryColumn(
        execution_id=head.execution_id,
        digest=head.digest,
        status=head.status,
        owner_alive=head.owner_alive,
        started_at=instant(head.started_at),
        duration_s=_duration_s(head),
        error=head.error,
        steps=cells,
    )


def _duration_s(head: ExecutionHead) -> float:
    return round((head.updated_at - head.started_at).total_seconds(), 6)
