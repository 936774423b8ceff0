"""The ring buffer of samples, and the conditions of the alerts."""

from __future__ import annotations

import pytest

from noetl.telemetry.alerts import ALERTS
from noetl.telemetry.history import CONDITIONS, INTERVAL_S, POINTS_MAX, SAMPLES_MAX, MetricsHistory, quantile
from noetl.telemetry.metrics import Metrics
from noetl.testing import FakeClock


def after(history: MetricsHistory, clock: FakeClock, seconds: float) -> dict[str, tuple[str, bool]]:
    """Take samples for so long; the alerts whose conditions hold then: the detail, and whether they fire."""
    for _ in range(int(seconds / INTERVAL_S)):
        clock.advance(INTERVAL_S)
        history.take()
    return {each.alert.name: (each.detail, each.firing) for each in history.alerts if each.since is not None}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def history(metrics: Metrics, clock: FakeClock) -> MetricsHistory:
    history = MetricsHistory(metrics, clock)
    history.take()
    return history


def test_every_alert_has_a_condition() -> None:
    assert CONDITIONS.keys() == {each.name for each in ALERTS}


def test_the_buffer_is_bounded_and_charts_get_few_points(history: MetricsHistory, clock: FakeClock) -> None:
    assert after(history, clock, 25 * 3600) == {}
    assert len(history.samples) == SAMPLES_MAX
    points = history.points(24 * 3600)
    assert len(points) <= POINTS_MAX
    assert points[-1] is history.samples[-1]
    assert len(history.points(600)) == 41


def test_waiting_work_is_pending_and_then_fires_until_it_is_gone(
    history: MetricsHistory, metrics: Metrics, clock: FakeClock
) -> None:
    metrics.process.oldest_s.read = lambda: {"gpu": 75.0}
    metrics.process.waiting.read = lambda: {"gpu": 3}
    metrics.process.workers.read = lambda: {"default": 2}
    found = after(history, clock, 15)
    assert found == {
        "NoetlWorkWaits": ("the first waiting frame of gpu: 75 s", False),
        "NoetlPoolWithoutWorkers": ("gpu: 3 frames", False),
    }
    assert [firing for _, firing in after(history, clock, 60).values()] == [True, False]
    metrics.process.oldest_s.read = metrics.process.waiting.read = dict
    assert after(history, clock, 15) == {}


def test_counters_alert_while_they_grow(history: MetricsHistory, metrics: Metrics, clock: FakeClock) -> None:
    metrics.store.unavailable.add("append", 4)
    metrics.process.lost.add(by=2)  # fewer than one in ten seconds
    found = after(history, clock, 75)
    assert found == {"NoetlStoreUnavailable": ("4 requests to the log without an answer in the last 5 minutes", True)}
    assert after(history, clock, 300) == {}


def test_a_late_event_loop_and_failed_executions(history: MetricsHistory, metrics: Metrics, clock: FakeClock) -> None:
    for _ in range(100):
        metrics.process.lag_s.observe(0.4)
    metrics.facts.ended.add(("orders", "error"))
    metrics.facts.ended.add(("orders", "ok"), 5)
    found = after(history, clock, 15)
    assert found["NoetlExecutionsFail"] == ("in the last 15 minutes, orders: 1", True)
    assert found["NoetlOverloaded"][0].startswith("the event loop was late by ")


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    assert quantile([0, 0, 0], (0.1, 1.0), 0.99) == 0.0
    assert quantile([98, 2, 0], (0.1, 1.0), 0.99) == 1.0
    assert quantile([99, 1, 0], (0.1, 1.0), 0.99) == 0.1
