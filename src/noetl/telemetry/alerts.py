"""The alerts that an operator needs: the source of the Prometheus rules in deploy/ and of the table in the guide."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct


class Alert(Struct, frozen=True, kw_only=True):
    """A condition over the metrics that a person has to look at."""

    name: str
    expression: str  # PromQL; true while the condition holds
    for_s: int  # how long the condition must hold
    severity: Literal["page", "ticket"]  # page: executions make no progress; ticket: look at it today
    meaning: str
    action: str


ALERTS: Final = (
    Alert(
        name="NoetlWorkWaits",
        expression="max by (pool) (noetl_frames_oldest_seconds) > 60",
        for_s=60,
        severity="page",
        meaning="work is waiting: the pool has too few workers, or none",
        action="run `noetl doctor`; add workers or slots",
    ),
    Alert(
        name="NoetlPoolWithoutWorkers",
        expression="max by (pool) (noetl_frames_waiting) > 0 unless on (pool) max by (pool) (noetl_workers) > 0",
        for_s=120,
        severity="page",
        meaning="a pool has work and no live worker",
        action="start a worker with `noetl worker --pool POOL`",
    ),
    Alert(
        name="NoetlStoreUnavailable",
        expression="sum(rate(noetl_store_unavailable_total[5m])) > 0",
        for_s=60,
        severity="page",
        meaning="the log does not answer; no data is lost, but executions make no progress",
        action="check PostgreSQL, or the disk of the database file",
    ),
    Alert(
        name="NoetlQueueUnavailable",
        expression="sum(rate(noetl_queue_unavailable_total[5m])) > 0",
        for_s=60,
        severity="page",
        meaning="NATS does not answer; no data is lost, but workers receive no work",
        action="check NATS: its connections, and the free space of its disk",
    ),
    Alert(
        name="NoetlNoServer",
        expression="absent(noetl_partitions_owned) or sum(noetl_partitions_owned) == 0",
        for_s=60,
        severity="page",
        meaning="no server owns executions",
        action="check the servers and their logs",
    ),
    Alert(
        name="NoetlFramesLost",
        expression="sum(rate(noetl_frames_lost_total[5m])) > 0.1",
        for_s=300,
        severity="ticket",
        meaning="workers die or stall; their frames are executed again",
        action="check the logs of the workers",
    ),
    Alert(
        name="NoetlStaleWrites",
        expression="sum(rate(noetl_stale_writes_refused_total[5m])) > 0",
        for_s=600,
        severity="ticket",
        meaning="servers take executions from each other, because they stall for longer than their lease",
        action="check CPU and memory of the servers",
    ),
    Alert(
        name="NoetlOverloaded",
        expression="histogram_quantile(0.99, sum by (le, instance) (rate(noetl_loop_lag_seconds_bucket[5m]))) > 0.1",
        for_s=300,
        severity="ticket",
        meaning="a server is overloaded: its event loop is delayed",
        action="add a server",
    ),
    Alert(
        name="NoetlExecutionsFail",
        expression='sum by (playbook) (rate(noetl_executions_ended_total{status="error"}[15m])) > 0',
        for_s=0,
        severity="ticket",
        meaning="executions fail",
        action="run `noetl list --status error`",
    ),
)
