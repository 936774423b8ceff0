"""The executions of one playbook side by side: the status of each step in each of them, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Final

from msgspec import Struct

from noetl.views.runs import RunRecord

# Of several runs of a step, the first of these that one of them has.
_ORDER: Final = ("error", "running", "scheduled", "cancelled", "stopped", "handled", "ok")


class StepCell(Struct, frozen=True, kw_only=True):
    """A step in one execution. A run that was retried does not count, the retry does."""

    status: str  # of its runs, the worst; handled: it failed, and an arc handled the failure
    runs: int
    duration_s: float  # of all its runs; of a running one until its execution was last updated


class DurationSummary(Struct, frozen=True, kw_only=True):
    """Half of the durations, and 95 % of them, are not longer than these."""

    count: int
    p50_s: float | None = None  # None: there are none
    p95_s: float | None = None


class HistoryDay(Struct, frozen=True, kw_only=True):
    """The executions that started on one day and have ended, by UTC."""

    day: str  # 2026-01-31
    failed: int
    durations: DurationSummary


def step_cells(runs: Iterable[RunRecord], until: datetime) -> dict[str, StepCell]:
    """The cells of one execution by step, in the order in which the steps began."""
    records = list(runs)
    again = {record.retry_of for record in records}
    by_step: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.id not in again and record.compensates is None:
            by_step.setdefault(record.step, []).append(record)
    return {step: _cell(each, until) for step, each in by_step.items()}


def _cell(records: Sequence[RunRecord], until: datetime) -> StepCell:
    found = {"handled" if record.status == "error" and record.handled else record.status for record in records}
    status = next((each for each in _ORDER if each in found), "scheduled")
    begun = [(record.started_at or record.scheduled_at, record.ended_at or until) for record in records]
    length = sum(max(0.0, (end - start).total_seconds()) for start, end in begun)
    return StepCell(status=status, runs=len(records), duration_s=round(length, 6))


def summarized(durations: Iterable[float]) -> DurationSummary:
    """By nearest rank: each percentile is a duration that occurred."""
    ordered = sorted(durations)
    if not ordered:
        return DurationSummary(count=0)
    p50, p95 = (ordered[ceil(len(ordered) * share) - 1] for share in (0.5, 0.95))
    return DurationSummary(count=len(ordered), p50_s=round(p50, 6), p95_s=round(p95, 6))


def by_day(ended: Iterable[tuple[datetime, float, bool]]) -> tuple[HistoryDay, ...]:
    """Executions as (start in UTC, duration, has it failed) → days, the oldest first."""
    days: dict[str, list[tuple[float, bool]]] = {}
    for started_at, duration_s, failed in ended:
        days.setdefault(started_at.date().isoformat(), []).append((duration_s, failed))
    return tuple(
        HistoryDay(
            day=day,
            failed=sum(failed for _, failed in each),
            durations=summarized(duration for duration, _ in each),
        )
        for day, each in sorted(days.items())
    )


def step_order(known: Iterable[str], columns: Iterable[Mapping[str, object]]) -> list[str]:
    """The steps of the playbook, then those that only other versions have."""
    order = dict.fromkeys(known)
    for cells in columns:
        order.update(dict.fromkeys(cells))
    return list(order)
