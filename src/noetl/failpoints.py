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
