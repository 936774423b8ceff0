"""What to do about an execution that failed or never began, for those who tell of it."""

from __future__ import annotations

import re
from typing import Final

from noetl.cli.looking import Shelf
from noetl.views.documents import ErrorShown, ShowDocument
from noetl.views.log import FACTS, events_of, must_have_begun

_UNFOLDED: Final = re.compile(r'write different values to "(ctx\.[^"]+)" and no reducer')


def cure(error: ErrorShown) -> str | None:
    """What the playbook must say, where the error itself does not; None: nothing is known."""
    unfolded = _UNFOLDED.search(error.message) if error.kind == "ctx-conflict" else None
    if unfolded is None:
        return None
    how = f"loop.spec.policy.reduce: {{{unfolded[1]}: last}}"
    return f"{how} would keep the last one; append, sum and others fold them too"


def printed_lines(error: ErrorShown) -> list[str]:
    """What the call that failed printed last, under a heading; nothing when it printed nothing."""
    lines = error.printed.splitlines()
    return ["printed:", *(f"  {line}" for line in lines)] if lines else []


def did_not_begin(document: ShowDocument) -> bool:
    """It ended before its first step (D65): there is nothing to retry."""
    return document.status == "error" and not document.steps


async def refuse_what_never_began(disk: Shelf, execution_id: str) -> None:
    """Raises Rejected for a request that could not run: no step of it can be told or taken up."""
    first = events_of(await disk.store.read(execution_id, 0, FACTS))
    must_have_begun(first, f"run it anew: noetl run FILE{disk.flag}")
