"""Monitoring, from the tables of metrics and alerts: the Grafana dashboard, the Prometheus rules, and the tables in
docs/guides/operating.md. `python -m scripts.reference` writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from noetl.telemetry.alerts import ALERTS, Alert
from noetl.telemetry.metrics import Meter, Metrics

ROOT = Path(__file__).parents[1]
DASHBOARD = ROOT / "deploy/grafana/noetl.json"
RULES = ROOT / "deploy/prometheus/noetl.rules.yaml"
GUIDE = ROOT / "docs/guides/operating.md"
METERS: Final[dict[str, Meter]] = {meter.name: meter for meter in Metrics().registry.meters}
WINDOW = "$__rate_interval"
COLUMNS, WIDTH, HEIGHT = 3, 8, 7
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str  # of Grafana: ops, s, short, bytes
    queries: tuple[Query, ...]


def _meter(name: str, by: tuple[str, ...]) -> Meter:
    meter = METERS[name]
    unknown = set(by) - {*meter.labels, "instance"}
    assert not unknown, f"{name} has no label {', '.join(unknown)}"
    return meter


def _legend(by: tuple[str, ...], otherwise: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by) or otherwise


def rate(name: str, *by: str, where: str = "") -> Query:
    """How often a counter grows, or a histogram is observed, in a second."""
    counted = f"{name}_count" if _meter(name, by).kind == "histogram" else name
    return Query(f"sum by ({', '.join(by)}) (rate({counted}{where}[{WINDOW}]))", _legend(by, name))


def quantile(share: float, name: str, *by: str) -> Query:
    """A quantile of a histogram."""
    assert _meter(name, by).kind == "histogram", name
    labels = ", ".join(("le", *by))
    expression = f"histogram_quantile({share}, sum by ({labels}) (rate({name}_bucket[{WINDOW}])))"
    return Query(expression, _legend(by, f"p{share * 100:g}"))


def value(name: str, *by: str, over: str = "sum") -> Query:
    """The current value of a gauge, over all processes."""
    assert _meter(name, by).kind == "gauge", name
    return Query(f"{over} by ({', '.join(by)}) ({name})", _legend(by, name))


def of_process(expression: str) -> tuple[Query, ...]:
    """A metric of the library of Prometheus."""
    return (Query(f"sum by (instance) ({expression})", "{{instance}}"),)


def percentiles(name: str) -> tuple[Query, ...]:
    return quantile(0.5, name), quantile(0.99, name)


PANELS: Final = (
    Panel("Executions ended", "ops", (rate("noetl_executions_ended_total", "status"),)),
    Panel("Live executions", "short", (value("noetl_executions_live", "status"),)),
    Panel("Execution time", "s", percentiles("noetl_execution_seconds")),
    Panel("Calls by kind", "ops", (rate("noetl_task_seconds", "kind", "status"),)),
    Panel("Call time, p99", "s", (quantile(0.99, "noetl_task_seconds", "kind"),)),
    Panel("Retries", "ops", (rate("noetl_task_retries_total", "kind"),)),
    Panel("Frames waiting", "short", (value("noetl_frames_waiting", "pool"),)),
    Panel("Oldest frame", "s", (value("noetl_frames_oldest_seconds", "pool", over="max"),)),
    Panel("Slots", "short", (
        value("noetl_worker_slots", "pool", over="max"), value("noetl_worker_slots_busy", "pool", over="max"),
    )),
    Panel("Commit time", "s", percentiles("noetl_store_append_seconds")),
    Panel("Facts per second", "ops", (rate("noetl_facts_total", "fact"),)),
    Panel("Refused requests and unavailable services", "ops", (
        rate("noetl_store_appends_total", "result", where='{result!="ok"}'),
        rate("noetl_link_refused_total", "operation", "why"),
        rate("noetl_queue_unavailable_total", "operation"),
    )),
    Panel("Requests of workers, p99", "s", (quantile(0.99, "noetl_link_seconds", "operation"),)),
    Panel("API, p99", "s", (quantile(0.99, "noetl_api_request_seconds", "route"),)),
    Panel("Live streams", "short", (value("noetl_followers", "instance"),)),
    Panel("Partitions", "short", (value("noetl_partitions_owned", "instance"),)),
    Panel("Frames lost", "ops", (rate("noetl_frames_lost_total"),)),
    Panel("Delay of the event loop, p99", "s", (quantile(0.99, "noetl_loop_lag_seconds", "instance"),)),
    Panel("Memory", "bytes", of_process("process_resident_memory_bytes")),
    Panel("Size of executions in memory", "bytes", (
        value("noetl_state_bytes", "instance"), value("noetl_state_limit_bytes", "instance", over="max"),
    )),
    Panel("CPU", "short", of_process(f"rate(process_cpu_seconds_total[{WINDOW}])")),
    Panel("Spans", "ops", (rate("noetl_spans_total", "result"),)),
)  # fmt: skip


def dashboard() -> str:
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    board = {
        "title": "NoETL",
        "uid": "noetl",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [variable]},
        "panels": [_panel(place, panel) for place, panel in enumerate(PANELS)],
    }
    return json.dumps(board, indent=1) + "\n"


def _panel(place: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(place, COLUMNS)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": DATASOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query.expression, "legendFormat": query.legend}
            for number, query in enumerate(panel.queries)
        ],
    }


def rules() -> str:
    """The alerts as a file of Prometheus; every string is written as JSON, which is YAML."""
    head = "# Written by scripts/monitoring.py from src/noetl/telemetry/alerts.py; do not edit.\ngroups:\n"
    return head + "- name: noetl\n  rules:\n" + "".join(_rule(alert) for alert in ALERTS)


def _rule(alert: Alert) -> str:
    return (
        f"  - alert: {alert.name}\n"
        f"    expr: {json.dumps(alert.expression)}\n"
        f"    for: {alert.for_s}s\n"
        f"    labels: {{severity: {alert.severity}}}\n"
        f"    annotations: {{summary: {json.dumps(alert.meaning)}, action: {json.dumps(alert.action)}}}\n"
    )


def metrics_table() -> str:
    """A Markdown table of all metrics, with kind, labels and meaning."""
    rows = [
        f"| `{meter.name}` | {meter.kind} | {' '.join(f'`{label}`' for label in meter.labels) or '–'} "
        f"| {meter.meaning} |"
        for meter in METERS.values()
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def alerts_table() -> str:
    rows = [
        f"| `{alert.name}` | `{alert.expression.replace('|', chr(92) + '|')}` for {alert.for_s} s "
        f"| {alert.meaning} | {alert.action} |"
        for alert in ALERTS
    ]
    return "\n".join(["| alert | condition | meaning | action |", "|---|---|---|---|", *rows])


def guide() -> str:
    """The guide with the current tables between their marks."""
    page = GUIDE.read_text(encoding="utf-8")
    for name, made in (("metrics", metrics_table()), ("alerts", alerts_table())):
        head, found, rest = page.partition(f"<!-- {name} -->")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        assert found, f"{GUIDE} has no mark for the table of {name}"
        assert end, f"{GUIDE} has no end of the table of {name}"
        page = f"{head}{found}\n{made}\n{end}{tail}"
    return page


def files() -> dict[Path, str]:
    """All generated files with their content."""
    return {DASHBOARD: dashboard(), RULES: rules(), GUIDE: guide()}
