"""The client of nats-py with checks that it lacks, for connections of processes and for the `nats` tool."""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client, Srv
from nats.errors import AuthorizationError, SecureConnRequiredError


class StrictNatsClient(Client):
    """Sends nothing to a server without TLS if TLS is required, and reports a refused login as such."""

    def __init__(self, *, secure: bool) -> None:
        super().__init__()
        self._secure = secure

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._secure and not info.get("tls_required"):
            raise SecureConnRequiredError
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        """The server may close the connection before the client has read why it refuses the login."""
        try:
            await super()._process_connect_init()
            if not self.is_connected:  # nats-py takes the end of the stream for an answer
                raise ConnectionResetError("the server closed the connection during the login")
        except ConnectionError as error:
            if self._server_info.get("auth_required"):
                raise AuthorizationError from error
            raise

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is not None:
            # nats-py leaves the transport of a refused attempt open.
            self._transport.close()  # type: ignore[no-untyped-call]  # nats-py has no types there
        await super()._connect_to_server(s)
