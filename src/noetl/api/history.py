"""The response of the route that compares the executions of one playbook."""

from __future__ import annotations

from msgspec import Struct

from noetl.engine.state import Status
from noetl.views.history import DurationSummary, HistoryDay, StepCell


class HistoryColumn(Struct, frozen=True, kw_only=True):
    """One execution."""

    execution_id: str
    digest: str
    status: Status
    owner_alive: bool
    started_at: str
    duration_s: float  # of one that has not ended: until it was last updated
    error: str | None
    steps: dict[str, StepCell] | None  # None: its log is too long, or the logs of newer ones are


class HistoryRow(Struct, frozen=True, kw_only=True):
    step: str
    durations: DurationSummary  # in the executions in which the step has ended


class PlaybookHistory(Struct, frozen=True, kw_only=True):
    """The newest executions of a playbook."""

    path: str
    executions: tuple[HistoryColumn, ...]  # the oldest first
    steps: tuple[HistoryRow, ...]
    durations: DurationSummary  # of the executions in `executions` that have ended
    days: tuple[HistoryDay, ...]  # of the newest 1,000 executions, the oldest first
