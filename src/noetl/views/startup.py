"""Whether an execution began at all, as the first facts of its log say: what did not has no step to show."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from noetl.engine import Event
from noetl.engine.facts import Evaluated
from noetl.errors import Rejected
from noetl.output import Failure

FACTS: Final = 2  # of a log that say it


def why_not_begun(events: Iterable[Event]) -> Failure | None:
    """Why a request could not run (D65); None: it could. `events`: the first of a log."""
    for event in islice(events, FACTS):
        match event.fact:
            case Evaluated(error=error):
                return error
    return None


def must_have_begun(events: Iterable[Event], again: str) -> None:
    """Raises Rejected for a request that could not run. `again`: how one asks anew."""
    if (error := why_not_begun(events)) is not None:
        raise Rejected("never-began", f"it never began: {error.message}; mend that, and {again}")
