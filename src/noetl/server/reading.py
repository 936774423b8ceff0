"""The documents of an execution, as `show` tells it (D76): for whoever asks, and whoever has waited."""

from __future__ import annotations

from contextlib import suppress

from noetl.errors import NoetlError
from noetl.ports import WorkerRegistry
from noetl.server.log_readers import Memory
from noetl.server.services import Services
from noetl.views.documents import ShowDocument, show_document, with_empty_pools


async def shown(memory: Memory, desk: Services, execution_id: str) -> ShowDocument:
    """Raises NotFound, or Damaged."""
    head = await desk.listing.head(execution_id)
    # What nobody runs does not go on: its time stands still.
    until = desk.clock.now() if head.owner_alive else None
    document = await memory.ask(execution_id, lambda runs: show_document(runs, until))
    if document.status == "running" and head.owner_alive:
        with suppress(NoetlError):  # a playbook that can not be read any more has no pools to tell of
            program = await desk.playbooks.by_digest(head.digest)
            return with_empty_pools(document, program, lambda pool: _has_workers(desk.roster, pool))
    return document


def _has_workers(roster: WorkerRegistry, pool: str) -> bool:
    """One that is leaving still has what it began."""
    return roster.slots(pool) > 0 or any(each.pool == pool for each in roster.workers())
