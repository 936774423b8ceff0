"""Texts of playbooks for workers, which have no catalog of their own: any server tells them."""

from __future__ import annotations

from hashlib import sha256

from noetl.adapters.nats.connection import Connection
from noetl.errors import Damaged
from noetl.link.client import Asking
from noetl.link.messages import READING, TextOf
from noetl.ports import PlaybookText


class NatsTexts:
    """`get` of a catalog; whoever compiles them keeps them."""

    def __init__(self, connection: Connection) -> None:
        self._asking = Asking(connection)

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound, Unavailable, or Damaged when it is not the text of that digest."""
        sent = await self._asking.any("text", TextOf(digest), READING.text)
        if sha256(sent.text.encode()).hexdigest() != digest:
            raise Damaged(f"what came as the playbook {digest[:12]} is another text")
        return PlaybookText(digest, sent.path, sent.text, sent.origin)
