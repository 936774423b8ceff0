"""Points where tests kill a process, to prove that no acknowledged data is lost (test 3).

`NOETL_FAILPOINT=name` kills this process with SIGKILL at the point, `name:3` when it reaches it for the third
time. Otherwise a failpoint costs two dictionary accesses. The table is complete: tests cover all of it.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "NOETL_FAILPOINT"

FAILPOINTS: Final[dict[str, str]] = {
    "sqlite.before-commit": "the transaction of a group is written but not committed",
    "sqlite.after-commit": "a group is durable, its callers have no answer",
    "sqlite.append.torn": "the head of an execution is updated, its facts are not inserted yet",
    "sqlite.snapshot.before": "a snapshot is about to replace an older one",
    "sqlite.snapshot.after": "a snapshot is written in its transaction",
    "sqlite.hold.locked": "this process has its lock file, but no row yet",
    "sqlite.hold.before-take-over": "the owner is dead and still owns its execution",
    "sqlite.hold.after-take-over": "we own an execution, not committed",
    "sqlite.inbox.before-done": "commands are executed, their rows still exist",
    "sqlite.checkpoint.before": "the write-ahead log is about to be copied into the database",
    "files.put.before-write": "the temporary file exists and is empty",
    "files.put.before-rename": "the temporary file is complete and synced, not renamed yet",
    "files.put.after-rename": "the result has its final name, its folder is not synced",
    "files.put.after": "the result is durable, the caller has no answer",
    "control.before-commit": "facts are decided and applied, none is committed",
    "control.after-commit": "facts are committed, the callers have no answer",
    "control.before-dispatch": "the callers have their answers, due frames are not dispatched",
    "control.before-snapshot": "the snapshot is made, not stored",
    "control.before-start-loop": "the items of a loop are stored in pages, the loop has not started",
    "control.before-wake": "the end of a child is committed, its parent is not woken",
    "worker.before-begin": "a pointer is claimed from the queue, its frame has not begun",
    "worker.before-start-loop": "the worker holds the start of a loop over a Ref, and has read nothing",
    "worker.before-call": "a frame is granted, its effect has not begun",
    "worker.after-call": "the effect is done, nothing is reported",
    "worker.before-next-try": "a try of a call has failed, and the next one that spec.retry allows has not begun",
    "worker.before-store": "an output is too large for the log, and not stored yet",
    "worker.after-store": "the large output is stored, no event refers to it",
    "worker.before-store-value": "a value of ctx, step or iter is too large for the log, and not stored yet",
    "worker.after-store-value": "the large value is stored, no event refers to it",
    "worker.before-decide": "a worker has made a decision for control, and has not sent it",
    "worker.after-report": "the report is committed and answered, the worker has not continued",
    "worker.before-ack": "the results of the frame are committed, its pointer is not acknowledged",
}


def _armed(setting: str | None) -> dict[str, int]:
    if not setting:
        return {}
    name, _, count = setting.partition(":")
    assert name in FAILPOINTS, f"{VARIABLE} is not a failpoint: {name}"
    hits = int(count or "1")
    assert hits >= 1, f"{VARIABLE} counts from 1"
    return {name: hits}


_ARMED: Final = _armed(os.environ.get(VARIABLE))  # the active failpoint, and how often it must still be reached


def failpoint(name: str) -> None:
    """Kill the process here if this failpoint is active."""
    assert name in FAILPOINTS, f"{name} is not in the table of failpoints"
    if name in _ARMED:
        _ARMED[name] -= 1
        if _ARMED[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
