"""The guide and the dashboard know every metric, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from noetl.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "operating.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "noetl.json"
NAMES = {meter.name: meter for meter in Metrics().registry.meters}
TABLE_BEGIN = "<!-- metrics -->"
TABLE_END = "<!-- end of metrics -->"


def metrics_table() -> str:
    """A Markdown table of all metrics, with kind, labels and meaning."""
    rows = [
        f"| `{meter.name}` | {meter.kind} | {' '.join(f'`{label}`' for label in meter.labels) or '–'} "
        f"| {meter.meaning} |"
        for meter in Metrics().registry.meters
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def with_metrics_table(page: str) -> str:
    """The page with the current table between its marks."""
    head, _, rest = page.partition(TABLE_BEGIN)
    _, _, tail = rest.partition(TABLE_END)
    return f"{head}{TABLE_BEGIN}\n{metrics_table()}\n{TABLE_END}{tail}"


def test_the_guide_holds_the_table_of_metrics_as_it_is() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    assert page == with_metrics_table(page), "put metrics_table() of this module between the marks"


def test_every_metric_has_a_row_with_its_labels() -> None:
    rows = {re.findall("`([^`]+)`", row)[0]: row for row in metrics_table().splitlines()[2:]}
    assert list(rows) == list(NAMES)
    for name, meter in NAMES.items():
        assert all(f"`{label}`" in rows[name] for label in meter.labels)


def test_every_metric_that_the_guide_names_is_there() -> None:
    named = set(re.findall(r"\bnoetl_[a-z_]+\b", GUIDE.read_text(encoding="utf-8")))
    assert {name for name in named if _plain(name) not in NAMES} <= {"noetl_build_info"}


def test_the_dashboard_asks_for_metrics_that_are_there_by_labels_that_they_have() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(asked) >= 10
    for expression in asked:
        names = re.findall(r"\b(noetl_[a-z_]+|process_[a-z_]+)\b", expression)
        assert names, expression
        ours = [NAMES[_plain(name)] for name in names if name.startswith("noetl_")]
        labels = {label for meter in ours for label in meter.labels} | {"le", "instance"}
        for by in re.findall(r"by \(([^)]*)\)", expression):
            assert set(re.split(r",\s*", by)) <= labels, expression


def _plain(name: str) -> str:
    return name if name in NAMES else re.sub(r"_(bucket|sum|count)$", "", name)
