"""Actions on many executions: which of them an action would change."""

from __future__ import annotations

from noetl.api.bulk import BulkRequest
from noetl.engine.state import LIVE
from noetl.labels import changed_labels
from noetl.ports import ExecutionHead


def nothing_to_do(request: BulkRequest, head: ExecutionHead, seq: int | None = None) -> str | None:
    """Why the execution stays as it is; None: the action would change it. The head alone decides.

    `seq`: of its last event when a person decided; None: it does not matter. Raises Rejected for bad labels.
    """
    action = request.action
    if action == "label":
        return None if changed_labels(head.labels, request.labels) != head.labels else "it has these labels already"
    if action == "cancel":
        if head.status == "cancelling":
            return "being cancelled already"
        return None if head.status in LIVE else f"already ended: {head.status}"
    if head.status in LIVE:
        return "not ended yet"
    if action == "retry" and head.status == "ok":
        return "nothing failed"
    return None if seq in (None, head.seq) else "changed since the plan"
