"""Actions on many executions: which of them an action would change."""

from __future__ import annotations

from noetl.api.bulk import BulkAction
from noetl.engine.state import LIVE
from noetl.ports import ExecutionHead


def nothing_to_do(action: BulkAction, head: ExecutionHead, seq: int | None = None) -> str | None:
    """Why the execution stays as it is; None: the action would change it. The head alone decides.

    `seq`: of its last event when a person decided; None: it does not matter.
    """
    if action == "cancel":
        if head.status == "cancelling":
            return "being cancelled already"
        return None if head.status in LIVE else f"already ended: {head.status}"
    if head.status in LIVE:
        return "not ended yet"
    if action == "retry" and head.status == "ok":
        return "nothing failed"
    return None if seq in (None, head.seq) else "changed since the plan"
