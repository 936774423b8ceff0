"""The documents of an execution, as `show` tells it (D76): for whoever asks, and whoever has waited."""

from __future__ import annotations

from noetl.server.desk import Desk
from noetl.server.logs import Memory
from noetl.views.documents import ShowDocument, show_document


async def shown(memory: Memory, desk: Desk, execution_id: str) -> ShowDocument:
    """Raises NotFound, or Damaged."""
    head = await desk.listing.head(execution_id)
    # What nobody runs does not go on: its time stands still.
    until = desk.clock.now() if head.owner_alive else None
    return await memory.ask(execution_id, lambda runs: show_document(runs, until))
