"""Bodies of the route with the course of the server's metrics and its alerts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class HealthPoint(Struct, frozen=True, kw_only=True):
    """The server around one moment. Rates and means are of the time since the point before."""

    at: str
    executions_per_min: float
    failed_per_min: float
    facts_per_s: float
    live: float  # executions in memory
    waiting: float  # frames that no worker has begun
    oldest_s: float  # age of the first of them
    busy: float
    slots: float
    commit_ms: float | None  # null: there were none
    request_ms: float | None
    lost: float  # frames that were lost since the point before


class AlertItem(Struct, frozen=True, kw_only=True):
    name: str
    severity: Literal["page", "ticket"]
    state: Literal["ok", "pending", "firing"]  # pending: the condition holds, but not for long enough
    since: str | None  # when the condition began to hold
    detail: str  # the numbers behind it
    meaning: str
    action: str
    expression: str  # for Prometheus
    for_s: int


class HealthHistory(Struct, frozen=True, kw_only=True):
    server_since: str | None  # the first sample; null: there is none yet
    interval_s: float  # between two samples
    points: tuple[HealthPoint, ...]  # the newest last
    alerts: tuple[AlertItem, ...]  # firing ones first
