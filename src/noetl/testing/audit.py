"""Audit a log in a test independently of the engine, then fold it."""

from __future__ import annotations

from noetl.engine.state import State
from noetl.ports import LogRow
from noetl.views.audit import findings
from noetl.views.log import events_of, folded


def audit(execution_id: str, rows: list[LogRow]) -> State:
    """The state that the log folds to. Raises AssertionError with the findings of the audit."""
    found = findings(events_of(rows))
    assert not found, f"{execution_id}: " + "; ".join(
        f"{each.seq} {each.code}: {each.message}" for each in found
    )
    return folded(execution_id, events_of(rows))
