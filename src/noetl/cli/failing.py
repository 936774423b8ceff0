"""Where an execution failed, down to the iteration, and what to do about it, for those who tell of it."""

from __future__ import annotations

import re
from typing import Final

from noetl.cli.looking import Shelf
from noetl.engine.facts import Evaluated
from noetl.errors import Rejected
from noetl.ids import frame_id
from noetl.views.documents import ErrorShown, ShowDocument
from noetl.views.runs import Runs

_UNFOLDED: Final = re.compile(r'write different values to "(ctx\.[^"]+)" and no reducer')


def failed_place(runs: Runs) -> str | None:
    """The run of the first failure that nothing handled; of a loop, its iteration that failed first."""
    step, run = runs.failed_at or (None, None)
    kept = runs.state.failed.get(run) if run is not None else None
    loop = kept.loop if kept is not None else None
    if kept is None or loop is None or loop.error_at is None or kept.failure != loop.error:
        return run or step
    return frame_id(kept.id, loop.error_at)


def cure(error: ErrorShown) -> str | None:
    """What the playbook must say, where the error itself does not; None: nothing is known."""
    unfolded = _UNFOLDED.search(error.message) if error.kind == "ctx-conflict" else None
    if unfolded is None:
        return None
    how = f"loop.spec.policy.reduce: {{{unfolded[1]}: last}}"
    return f"{how} would keep the last one; append, sum and others fold them too"


def did_not_begin(document: ShowDocument) -> bool:
    """It ended before its first step (D65): there is nothing to retry."""
    return document.status == "error" and not document.steps


async def must_have_begun(disk: Shelf, execution_id: str) -> None:
    """Raises Rejected for a request whose playbook had problems: no step of it can be told or taken up."""
    for row in await disk.store.read(execution_id, 0, 2):
        for fact in row.facts:
            match fact:
                case Evaluated(error=error) if error is not None and error.kind == "problems":
                    words = f"it never began: {error.message}; mend it, and run it anew: noetl run FILE"
                    raise Rejected("never-began", words)
