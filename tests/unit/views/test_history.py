"""Cells of steps, percentiles and days of the history of a playbook."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from noetl.views.history import DurationSummary, StepCell, by_day, step_cells, step_order, summarized
from noetl.views.runs import RunRecord

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(id: str, status: str, seconds: float, **more: object) -> RunRecord:
    step = id.partition("#")[0]
    ended = None if status == "running" else START + timedelta(seconds=seconds)
    run = RunRecord(id=id, step=step, scheduled_at=START, started_at=START, ended_at=ended, status=status)
    for name, value in more.items():
        setattr(run, name, value)
    return run


def test_a_retried_run_does_not_count_and_the_worst_status_wins() -> None:
    runs = [
        record("fetch#1", "error", 1),
        record("fetch#2", "ok", 2, retry_of="fetch#1"),
        record("load#1", "ok", 1),
        record("load#2", "error", 3),
        record("tidy#1", "error", 1, handled=True),
        record("undo#1", "ok", 1, compensates="load#1"),
        record("slow#1", "running", 0),
    ]
    assert step_cells(runs, START + timedelta(seconds=9)) == {
        "fetch": StepCell(status="ok", runs=1, duration_s=2),
        "load": StepCell(status="error", runs=2, duration_s=4),
        "tidy": StepCell(status="handled", runs=1, duration_s=1),
        "slow": StepCell(status="running", runs=1, duration_s=9),
    }


def test_percentiles_are_durations_that_occurred() -> None:
    assert summarized([]) == DurationSummary(count=0)
    assert summarized([3.0]) == DurationSummary(count=1, p50_s=3.0, p95_s=3.0)
    assert summarized(float(each) for each in range(1, 101)) == DurationSummary(count=100, p50_s=50.0, p95_s=95.0)
    assert summarized([1.0, 1.0, 1.0, 90.0]) == DurationSummary(count=4, p50_s=1.0, p95_s=90.0)


def test_days_are_in_order_and_count_failures() -> None:
    first, second = by_day([(START, 2.0, True), (START - timedelta(days=1), 1.0, False), (START, 4.0, False)])
    assert (first.day, first.failed, first.durations.p95_s) == ("2026-01-30", 0, 1.0)
    assert (second.day, second.failed, second.durations) == (
        "2026-01-31", 1, DurationSummary(count=2, p50_s=2.0, p95_s=4.0)
    )  # fmt: skip


def test_steps_of_the_playbook_come_before_those_of_older_versions() -> None:
    assert step_order(["a", "b"], [{"b": 1}, {"old": 1, "a": 1}]) == ["a", "b", "old"]
