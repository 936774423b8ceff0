"""What to do about an execution that failed or never began, for those who tell of it."""

from __future__ import annotations

import re
from typing import Final

from noetl.cli.looking import Shelf
from noetl.views.documents import ErrorDocument, ShowDocument
from noetl.views.log import STARTUP_FACTS, events_of, require_started

_UNFOLDED: Final = re.compile(r'write different values to "(ctx\.[^"]+)" and no reducer')


def cure(error: ErrorDocument) -> str | None:
    """What the playbook must say, where the error itself does not; None: nothing is known."""
    unfolded = _UNFOLDED.search(error.message) if error.kind == "ctx-conflict" else None
    if unfolded is None:
        return None
    how = f"loop.spec.policy.reduce: {{{unfolded[1]}: last}}"
    return f"{how} would keep the last one; append, sum and others fold them too"


def printed_lines(error: ErrorDocument) -> list[str]:
    """What the call that failed printed last, under a heading; nothing when it printed nothing."""
    lines = error.printed.splitlines()
    return ["printed:", *(f"  {line}" for line in lines)] if lines else []


def did_not_begin(document: ShowDocument) -> bool:
    """It ended before its first step (D65): there is nothing to retry."""
    return document.status == "error" and not document.steps


async def refuse_what_never_began(disk: Shelf, execution_id: str) -> None:
    """Raises Rejected for a request that could not run: no step of it can be told or taken up."""
    first = events_of(await disk.store.read(execution_id, 0, STARTUP_FACTS))
    require_started(first, f"run it anew: noetl run FILE{disk.flag}")
