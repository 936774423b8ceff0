"""Places where a process may be killed on purpose, to prove that nothing acknowledged is lost (test 3).

`NOETL_FAILPOINT=name` kills this process by SIGKILL when it comes there, `name:3` when it comes there for the
third time. Without it a failpoint costs two look-ups. The table is complete: tests go through all of it.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "NOETL_FAILPOINT"

FAILPOINTS: Final[dict[str, str]] = {
    "sqlite.before-commit": "everything of a group is written in its transaction, nothing is durable",
    "sqlite.after-commit": "a group is durable, nobody has been told",
    "sqlite.append.torn": "the head of an execution is moved on, its facts are not inserted yet",
    "sqlite.snapshot.before": "a snapshot is about to replace an older one",
    "sqlite.snapshot.after": "a snapshot is written in its transaction",
    "sqlite.hold.locked": "this process has its lock file, no row names it yet",
    "sqlite.hold.before-take-over": "the owner was found dead, its execution is still in its name",
    "sqlite.hold.after-take-over": "an execution is in our name, not committed",
    "sqlite.inbox.before-done": "commands are carried out, their rows are still there",
    "sqlite.checkpoint.before": "the log's file is about to be written back into the database",
    "files.put.before-write": "the temporary file is made and empty",
    "files.put.before-rename": "the temporary file is whole and synced, it has no name yet",
    "files.put.after-rename": "the result has its name, its folder is not synced",
    "files.put.after": "the result is durable, nobody has been told",
    "control.before-commit": "facts are decided and in our state, none of them is on record",
    "control.after-commit": "facts are on record, nobody has been told",
    "control.before-dispatch": "whoever asked has an answer, what has become due is not handed out",
    "control.before-snapshot": "the state is frozen, nothing of it is kept",
    "control.before-start-loop": "the items of a loop are stored in pages, the loop has not started",
    "control.before-wake": "a child's end is on record, its parent knows nothing of it",
    "worker.before-begin": "a pointer is taken from the queue, its frame is not begun",
    "worker.before-start-loop": "a loop over a Ref is ours to open, nothing of it is read",
    "worker.before-call": "a frame is granted, its effect has not begun",
    "worker.after-call": "the effect is done, nothing is reported",
    "worker.before-store": "an output is too large for the log, nothing of it is stored",
    "worker.after-store": "the large output is stored, no event names it",
    "worker.after-report": "the report is on record and answered, nothing has followed from it",
    "worker.before-ack": "the frame's work is on record, the queue does not know it",
}


class _Armed:
    """The one failpoint that kills, and how often it is still passed."""

    def __init__(self, name: str, hits: int) -> None:
        self.name = name
        self.hits_left = hits


def _armed(setting: str | None) -> _Armed | None:
    if not setting:
        return None
    name, _, count = setting.partition(":")
    assert name in FAILPOINTS, f"{VARIABLE} names no failpoint: {name}"
    hits = int(count or "1")
    assert hits >= 1, f"{VARIABLE} counts from 1"
    return _Armed(name, hits)


_ARMED: Final = _armed(os.environ.get(VARIABLE))


def failpoint(name: str) -> None:
    """Die here, if that is what was asked for."""
    assert name in FAILPOINTS, f"{name} is not in the table of failpoints"
    if _ARMED is None or _ARMED.name != name:
        return
    _ARMED.hits_left -= 1
    if _ARMED.hits_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
