"""A log as all views read it: a sequence of events, independent of the rows in which it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeAlias

from noetl.engine import Event, apply
from noetl.engine.facts import Evaluated, Fact
from noetl.engine.state import State
from noetl.errors import Damaged, Rejected
from noetl.output import Failure

# Errors of a fold of a log that no engine has written.
_UNFIT = (LookupError, AttributeError, AssertionError, TypeError, ValueError)
LogRow: TypeAlias = tuple[int, datetime, Sequence[Fact]]  # first seq, time, facts; ports.Row has this form


def events_of(rows: Iterable[LogRow], *, after: int = 0) -> Iterator[Event]:
    """The facts of all rows, each with its own seq, without those up to `after`."""
    for first_seq, at, facts in rows:
        for seq, fact in enumerate(facts, first_seq):
            if seq > after:
                yield Event(seq, at, fact)


def folded(execution_id: str, events: Iterable[Event], *, up_to: int | None = None) -> State:
    """The state after fact `up_to`; None: after the last."""
    state = State(execution_id=execution_id)
    for event in events:
        if up_to is not None and event.seq > up_to:
            break
        apply(state, event.fact, event.at)
    return state


def name_of(fact: Fact) -> str:
    return str(fact.__struct_config__.tag)


@contextmanager
def readable(execution_id: str) -> Iterator[None]:
    """Report errors of a fold as a damaged log: another program has changed it."""
    try:
        yield
    except _UNFIT as error:
        what = f"{type(error).__name__}: {error}"
        raise Damaged(f"the log of {execution_id} cannot be read ({what}): see noetl audit {execution_id}") from error


def instant(at: datetime) -> str:
    """RFC 3339, in UTC, with a Z: the form of all times in documents and events."""
    utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return utc.isoformat()[:-6] + "Z"


STARTUP_FACTS: Final = 2  # the first facts of a log, which say whether the execution started


def startup_failure(events: Iterable[Event]) -> Failure | None:
    """Why a request could not run (D65); None: it could. `events`: the first events of a log."""
    for event in islice(events, STARTUP_FACTS):
        match event.fact:
            case Evaluated(error=error):
                return error
    return None


def require_started(events: Iterable[Event], again: str) -> None:
    """Raises Rejected for a request that could not run. `again`: the hint how to repeat it."""
    if (error := startup_failure(events)) is not None:
        raise Rejected("never-began", f"it never started: {error.message}; fix that and {again}")
