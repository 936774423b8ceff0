"""The course of the metrics of this server over the last day, and its alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Final

from litestar import get
from litestar.params import QueryParameter

from noetl.api.health import AlertItem, HealthHistory, HealthPoint
from noetl.server.params import OF_ALL, READ, ContextParam, route
from noetl.telemetry.history import INTERVAL_S, KEPT_S, AlertState, MetricsSample
from noetl.views.log import instant

HOUR_S: Final = 3_600
_ORDER: Final = {"firing": 0, "pending": 1, "ok": 2}


@route(get, READ | OF_ALL, "server", "/health/history", "Metrics of this server over time, and its alerts")
async def health_history(
    context: ContextParam,
    seconds: Annotated[int, QueryParameter(description="how far back", ge=60, le=int(KEPT_S))] = HOUR_S,
) -> HealthHistory:
    """Kept in memory since the start of this server, for a day at most."""
    history = context.settings.history
    if history is None:
        return HealthHistory(server_since=None, interval_s=INTERVAL_S, points=(), alerts=())
    chosen = history.points(seconds)
    alerts = sorted(map(_alert, history.alerts), key=lambda each: _ORDER[each.state])
    return HealthHistory(
        server_since=_time(history.samples[0].at) if history.samples else None,
        interval_s=INTERVAL_S,
        points=tuple(_point(before, now) for before, now in pairwise(chosen)),
        alerts=tuple(alerts),
    )


def _point(before: MetricsSample, now: MetricsSample) -> HealthPoint:
    passed = max(0.001, now.at - before.at)

    def rate(name: str) -> float:
        return float(round((getattr(now, name) - getattr(before, name)) / passed, 4))

    def mean_ms(name: str) -> float | None:
        count = getattr(now, f"{name}_count") - getattr(before, f"{name}_count")
        spent = getattr(now, f"{name}_s") - getattr(before, f"{name}_s")
        return round(1000 * spent / count, 3) if count else None

    return HealthPoint(
        at=_time(now.at),
        executions_per_min=round(60 * rate("started"), 3),
        failed_per_min=round(60 * rate("ended_error"), 3),
        facts_per_s=rate("facts"),
        live=now.live,
        waiting=now.waiting,
        oldest_s=round(now.oldest_s, 1),
        busy=now.busy,
        slots=now.slots,
        commit_ms=mean_ms("append"),
        request_ms=mean_ms("request"),
        lost=now.lost - before.lost,
    )


def _alert(state: AlertState) -> AlertItem:
    alert = state.alert
    return AlertItem(
        name=alert.name,
        severity=alert.severity,
        state="ok" if state.since is None else "firing" if state.firing else "pending",
        since=None if state.since is None else _time(state.since),
        detail=state.detail,
        meaning=alert.meaning,
        action=alert.action,
        expression=alert.expression,
        for_s=alert.for_s,
    )


def _time(at: float) -> str:
    return instant(datetime.fromtimestamp(at, UTC))


ROUTES: Final = (health_history,)
