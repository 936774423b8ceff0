"""Shapes: the paths of SQL fields, and descriptions."""

from __future__ import annotations

from noetl.playbook.shapes import describe, sql_paths
from tests.playbooks import kinds


def test_sql_fields_are_found_at_any_depth() -> None:
    found = {name: sql_paths(kinds()[name].fields.keys) for name in ("postgres", "sqlite", "noop")}
    assert found == {
        "postgres": {("query",), ("command",), ("copy", "query")},
        "sqlite": {("query",), ("command",)},
        "noop": set(),
    }


def test_sql_is_called_so() -> None:
    assert describe(kinds()["sqlite"].fields.keys["query"].shape) == "SQL, with every `{{ }}` bound as a parameter"
