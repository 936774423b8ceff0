"""The guide, the dashboard and the alerts use only metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re

import pytest

from noetl.telemetry.alerts import ALERTS
from scripts.monitoring import GUIDE, METERS, PANELS, dashboard, metrics_table

EXPRESSIONS = [query.expression for panel in PANELS for query in panel.queries] + [each.expression for each in ALERTS]


def test_every_metric_has_a_row_with_its_labels() -> None:
    rows = {re.findall("`([^`]+)`", row)[0]: row for row in metrics_table().splitlines()[2:]}
    assert list(rows) == list(METERS)
    for name, meter in METERS.items():
        assert all(f"`{label}`" in rows[name] for label in meter.labels)


def test_every_metric_that_the_guide_names_is_there() -> None:
    named = set(re.findall(r"\bnoetl_[a-z_]+\b", GUIDE.read_text(encoding="utf-8")))
    assert {name for name in named if _plain(name) not in METERS} <= {"noetl_build_info"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_panels_and_alerts_use_metrics_and_labels_that_exist(expression: str) -> None:
    names = re.findall(r"\b(noetl_[a-z_]+|process_[a-z_]+)\b", expression)
    assert names
    ours = [METERS[_plain(name)] for name in names if name.startswith("noetl_")]
    labels = {label for meter in ours for label in meter.labels} | {"le", "instance"}
    for by in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        assert set(filter(None, re.split(r",\s*", by))) <= labels
    for selector in re.findall(r"\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)[=!]", selector)) <= labels


def test_every_panel_of_the_dashboard_has_a_place_of_its_own() -> None:
    panels = json.loads(dashboard())["panels"]
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(PANELS)


def test_alerts_have_names_of_their_own() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


def _plain(name: str) -> str:
    return name if name in METERS else re.sub(r"_(bucket|sum|count)$", "", name)
