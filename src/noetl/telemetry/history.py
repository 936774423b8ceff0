"""The course of the metrics of this process over the last day, in memory, and the alerts that follow from it.

Every 15 seconds a few numbers are kept in a ring buffer. They are of this process only; Prometheus sees all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from noetl.clock import Clock
from noetl.telemetry.alerts import ALERTS, Alert
from noetl.telemetry.metrics import NONE, Counter, Gauge, Histogram, Labels, Metrics, labelled

INTERVAL_S: Final = 15.0
KEPT_S: Final = 24 * 3_600.0
SAMPLES_MAX: Final = int(KEPT_S / INTERVAL_S)
POINTS_MAX: Final = 240  # of a chart
POOLS_SHOWN: Final = 20


class MetricsSample(NamedTuple):
    """The state of the process at one moment. Counters count from its start."""

    at: float  # seconds since the epoch
    started: float
    ended_ok: float
    ended_error: float
    facts: float
    waiting: float
    oldest_s: float
    busy: float
    slots: float
    live: float
    append_count: float
    append_s: float
    request_count: float
    request_s: float
    lost: float
    stale: float
    store_unavailable: float
    queue_unavailable: float
    lag: tuple[int, ...]  # counts of the buckets of noetl_loop_lag_seconds
    pools: tuple[tuple[str, float, float, float], ...]  # name, frames waiting, age of the oldest, workers
    failed: tuple[tuple[str, float], ...]  # playbook → executions that ended in error
    partitions: float  # -1: not measured


class AlertState(NamedTuple):
    alert: Alert
    since: float | None  # seconds since the epoch; None: the condition does not hold
    firing: bool  # it has held for long enough
    detail: str  # the numbers behind it


class MetricsHistory:
    """Samples of one process. `take` is called every 15 seconds."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self.samples: deque[MetricsSample] = deque(maxlen=SAMPLES_MAX)
        self._since: dict[str, float] = {}  # alert → when its condition began to hold
        self.alerts: tuple[AlertState, ...] = tuple(AlertState(each, None, False, "") for each in ALERTS)

    async def run(self) -> None:
        """Take samples forever."""
        while True:
            self.take()
            await self._clock.sleep(INTERVAL_S)

    def take(self) -> None:
        for prepare in self._metrics.registry.before_read:
            prepare()
        self.samples.append(_sample(self._metrics, self._clock.now().timestamp()))
        now, found = self.samples[-1].at, []
        for alert in ALERTS:
            detail = CONDITIONS[alert.name](self)
            if detail is None:
                self._since.pop(alert.name, None)
                found.append(AlertState(alert, None, False, ""))
            else:
                since = self._since.setdefault(alert.name, now)
                found.append(AlertState(alert, since, now - since >= alert.for_s, detail))
        self.alerts = tuple(found)

    def before(self, seconds: float) -> MetricsSample:
        """The sample this many seconds before the last one, or the first one."""
        at = self.samples[-1].at - seconds
        return self.samples[min(bisect_left(self.samples, at, key=lambda each: each.at), len(self.samples) - 1)]

    def grown(self, name: str, seconds: float) -> float:
        """How much a counter has grown in the last seconds."""
        return float(getattr(self.samples[-1], name) - getattr(self.before(seconds), name))

    def points(self, seconds: float) -> list[MetricsSample]:
        """At most POINTS_MAX samples of the last seconds, in equal steps, the newest included."""
        if not self.samples:
            return []
        first = bisect_left(self.samples, self.samples[-1].at - seconds, key=lambda each: each.at)
        chosen = list(self.samples)[first:]
        step = -(-len(chosen) // POINTS_MAX)
        return chosen[::-1][::step][::-1]


def _sample(metrics: Metrics, at: float) -> MetricsSample:
    process, facts, store = metrics.process, metrics.facts, metrics.store
    waiting, oldest, workers = _read(process.waiting), _read(process.oldest_s), _read(process.workers)
    names = sorted({*waiting, *oldest, *workers})[:POOLS_SHOWN]
    appends, requests = _totals(store.append_s), _totals(process.request_s)
    return MetricsSample(
        at=at,
        started=sum(facts.started.values.values()),
        ended_ok=_ended(facts.ended, "ok"),
        ended_error=_ended(facts.ended, "error"),
        facts=sum(facts.facts.values.values()),
        waiting=sum(waiting.values()),
        oldest_s=max(oldest.values(), default=0.0),
        busy=sum(_read(process.busy).values()) or sum(_read(process.leased).values()),
        slots=sum(_read(process.slots).values()),
        live=sum(_read(process.executions).values()),
        append_count=appends[0],
        append_s=appends[1],
        request_count=requests[0],
        request_s=requests[1],
        lost=sum(process.lost.values.values()),
        stale=sum(store.stale.values.values()),
        store_unavailable=sum(store.unavailable.values.values()),
        queue_unavailable=sum(metrics.queue.unavailable.values.values()),
        lag=tuple(process.lag_s.of().counts),
        pools=tuple((name, waiting.get(name, 0), oldest.get(name, 0), workers.get(name, 0)) for name in names),
        failed=tuple(
            (labelled(labels)[0], value)
            for labels, value in facts.ended.values.items()
            if labelled(labels)[1] == "error"
        ),
        partitions=-1.0 if process.partitions.read is None else sum(_read(process.partitions).values()),
    )


def _read(gauge: Gauge) -> dict[str, float]:
    found: Mapping[Labels, float] = gauge.read() if gauge.read is not None else {}
    return {"" if labels == NONE else labelled(labels)[0]: value for labels, value in found.items()}


def _ended(counter: Counter, status: str) -> float:
    return float(sum(value for labels, value in counter.values.items() if labelled(labels)[1] == status))


def _totals(histogram: Histogram) -> tuple[float, float]:
    """The number of observations, and their sum."""
    cells = list(histogram.cells.values())
    return float(sum(sum(cell.counts) for cell in cells)), float(sum(cell.total for cell in cells))


# The conditions of the alerts, on the samples: a text with the numbers while one holds, else None


def _work_waits(history: MetricsHistory) -> str | None:
    late = [f"{name or 'default'}: {age:.0f} s" for name, _, age, _ in history.samples[-1].pools if age > 60]
    return f"the first waiting frame of {', '.join(late)}" if late else None


def _without_workers(history: MetricsHistory) -> str | None:
    if history.samples[-1].slots == 0 and not history._metrics.process.workers.read:
        return None  # an embedded server serves all pools itself
    alone = [
        f"{name}: {count:.0f} frames" for name, count, _, workers in history.samples[-1].pools if count and not workers
    ]
    return ", ".join(alone) or None


def _grows(name: str, seconds: float, words: str, least: float = 0.0) -> Callable[[MetricsHistory], str | None]:
    def condition(history: MetricsHistory) -> str | None:
        grown = history.grown(name, seconds)
        return f"{grown:.0f} {words} in the last {seconds / 60:.0f} minutes" if grown > least * seconds else None

    return condition


def _no_server(history: MetricsHistory) -> str | None:
    return "this server owns no partitions" if history.samples[-1].partitions == 0 else None


def _overloaded(history: MetricsHistory) -> str | None:
    now, before = history.samples[-1].lag, history.before(300).lag
    counts = [each - old for each, old in zip(now, before, strict=True)]
    late = quantile(counts, history._metrics.process.lag_s.bounds, 0.99)
    return f"the event loop was late by {late:.2f} s (p99 of 5 minutes)" if late > 0.1 else None


def _fail(history: MetricsHistory) -> str | None:
    before = dict(history.before(900).failed)
    new = [(name, value - before.get(name, 0)) for name, value in history.samples[-1].failed]
    shown = [f"{name}: {count:.0f}" for name, count in new if count > 0]
    return f"in the last 15 minutes, {', '.join(shown)}" if shown else None


def quantile(counts: list[int], bounds: tuple[float, ...], share: float) -> float:
    """The upper bound of the bucket with this share of the observations; 0: there are none."""
    total, seen = sum(counts), 0
    for count, bound in zip(counts, (*bounds, bounds[-1]), strict=True):
        seen += count
        if total and seen >= share * total:
            return bound
    return 0.0


CONDITIONS: Final[dict[str, Callable[[MetricsHistory], str | None]]] = {
    "NoetlWorkWaits": _work_waits,
    "NoetlPoolWithoutWorkers": _without_workers,
    "NoetlStoreUnavailable": _grows("store_unavailable", 300, "requests to the log without an answer"),
    "NoetlQueueUnavailable": _grows("queue_unavailable", 300, "requests to NATS without an answer"),
    "NoetlNoServer": _no_server,
    "NoetlFramesLost": _grows("lost", 300, "frames lost", 0.1),
    "NoetlStaleWrites": _grows("stale", 300, "stale writes refused"),
    "NoetlOverloaded": _overloaded,
    "NoetlExecutionsFail": _fail,
}
