"""Messages for triggers of a server on one file: NATS is connected when the first trigger needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.clock import Clock
from noetl.errors import Rejected, install_hint
from noetl.ports import MessageHandler, MessageSelection
from noetl.tool import AddressPolicy

if TYPE_CHECKING:
    from noetl.adapters.nats.connection import NatsConnection
    from noetl.adapters.nats.messages import NatsMessages


class LazyMessages:
    """A `MessageSource`. The library of NATS is an optional extra, and most servers on a file do not need it."""

    def __init__(self, url: str | None, policy: AddressPolicy, clock: Clock) -> None:
        """`url`: of the server's own NATS; None: only triggers with a credential can receive."""
        self._url, self._policy, self._clock = url, policy, clock
        self._connection: NatsConnection | None = None
        self._source: NatsMessages | None = None

    async def receive(self, selection: MessageSelection, handle: MessageHandler) -> None:
        await self._opened().receive(selection, handle)

    async def forget(self, selection: MessageSelection) -> None:
        await self._opened().forget(selection)

    def _opened(self) -> NatsMessages:
        """Raises Rejected."""
        if self._source is None:
            try:
                from noetl.adapters.nats.connection import NatsConnection
                from noetl.adapters.nats.messages import NatsMessages
            except ImportError as error:
                raise Rejected(
                    "no-adapter", f"triggers of kind nats require an extra: {install_hint('nats')}"
                ) from error
            self._connection = None if self._url is None else NatsConnection(self._url, "noetl server", self._clock)
            self._source = NatsMessages(self._connection, self._policy, self._clock)
        return self._source

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
