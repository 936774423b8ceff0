"""Bodies of the routes that list the iterations of loops."""

from __future__ import annotations

from msgspec import Struct

from noetl.output import JSON
from noetl.views.iterations import IterationStatus
from noetl.views.timeline import CallBar


class IterationItem(Struct, frozen=True, kw_only=True):
    """One iteration of a loop in a list."""

    index: int
    status: IterationStatus
    attempts: int  # calls of tasks that were repeated, and the first one; 0: no call has ended
    started_at: str | None
    duration_s: float | None  # None: it has not ended
    item: str  # on one line, shortened
    output: str  # on one line, shortened; "(stored)": it is in the result store
    error: str | None
    child: str | None  # the execution that it called last
    done_seq: int | None  # the fact of its last finished call, which has the output


class IterationsPage(Struct, frozen=True, kw_only=True):
    run: str
    count: int  # of all iterations
    counts: dict[IterationStatus, int]
    found: int  # iterations with this status and text
    can_retry: bool  # some have failed, and can be retried now
    items: tuple[IterationItem, ...]


class IterationDetails(Struct, frozen=True, kw_only=True):
    """One iteration with its item and its calls."""

    iteration: IterationItem
    step: str
    can_retry: bool  # it has failed, and can be retried now
    retried_by: str | None  # the run that retries this one
    value: JSON  # the item; null if it is not readable
    calls: tuple[CallBar, ...]  # finished calls, the oldest first
    calls_left_out: int
    complete: bool  # false: the log between its first and its last fact is too long to find all calls
