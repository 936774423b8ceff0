"""The client of nats-py with checks that it lacks, for connections of processes and for the `nats` tool."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from typing import Any, Final

from nats.aio.client import Client, Srv
from nats.errors import AuthorizationError, SecureConnRequiredError

_USER_SEED: Final = bytes(((18 << 3) | (20 << 3) >> 5, ((20 << 3) & 31) << 3))  # "SU…" in base32
_USER: Final = bytes((20 << 3,))  # "U…"
_SEED_BYTES: Final = 36  # prefix, key, checksum
_BLOCK: Final = re.compile(r"-{3,}BEGIN ([^-\n]+)-{3,}\s*(\S+)\s*-{3,}END ")


class NatsKey:
    """The key of a user, which signs what the server asks for; the seed itself is never sent."""

    def __init__(self, seed: str, jwt: str | None = None) -> None:
        """`jwt`: says who the user is; None: the server knows the public key. Raises ValueError, without the seed."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            body = base64.b32decode(seed.strip() + "=" * (-len(seed.strip()) % 8))
        except binascii.Error:
            raise ValueError("it is not base32") from None
        if len(body) != _SEED_BYTES or body[:2] != _USER_SEED or _checksum(body[:-2]) != body[-2:]:
            raise ValueError('it is not the seed of a user, which begins with "SU"')
        self._key = Ed25519PrivateKey.from_private_bytes(body[2:-2])
        self._jwt = jwt
        public = _USER + self._key.public_key().public_bytes_raw()
        self.public = base64.b32encode(public + _checksum(public)).decode().rstrip("=")

    @staticmethod
    def from_creds(text: str) -> NatsKey:
        """From the text of a `.creds` file. Raises ValueError, without any of it."""
        blocks = {title.strip(): body for title, body in _BLOCK.findall(text)}
        jwt, seed = blocks.get("NATS USER JWT"), blocks.get("USER NKEY SEED")
        if jwt is None or seed is None:
            raise ValueError("it is not the text of a .creds file, with a user JWT and a seed")
        return NatsKey(seed, jwt)

    @staticmethod
    def of(creds: str | None, nkey: str | None) -> NatsKey | None:
        """From the fields of a credential. Raises ValueError, which names the field."""
        try:
            if creds is not None:
                return NatsKey.from_creds(creds)
            return None if nkey is None else NatsKey(nkey)
        except ValueError as error:
            raise ValueError(f'the field "{"nkey" if creds is None else "creds"}" cannot be used: {error}') from None

    def __repr__(self) -> str:
        return "NatsKey(***)"

    def jwt(self) -> bytes:
        return (self._jwt or "").encode()

    def sign(self, nonce: str) -> bytes:
        return base64.b64encode(self._key.sign(nonce.encode()))

    @property
    def has_jwt(self) -> bool:
        return self._jwt is not None


def _checksum(body: bytes) -> bytes:
    return binascii.crc_hqx(body, 0).to_bytes(2, "little")


class StrictNatsClient(Client):
    """Sends nothing to a server without TLS if TLS is required, and reports a refused login as such."""

    def __init__(self, *, secure: bool, key: NatsKey | None = None) -> None:
        super().__init__()
        self._secure = secure
        self._key = key

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._secure and not info.get("tls_required"):
            raise SecureConnRequiredError
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        """The server may close the connection before the client has read why it refuses the login."""
        if self._key is not None:  # nats-py itself would need another library to sign
            self._auth_configured, self._signature_cb = True, self._key.sign
            self._user_jwt_cb = self._key.jwt if self._key.has_jwt else None
            self._public_nkey = self._key.public
        try:
            await super()._process_connect_init()
            if not self.is_connected:  # nats-py takes the end of the stream for an answer
                raise ConnectionResetError("the server closed the connection during the login")
        except ConnectionError as error:
            if self._server_info.get("auth_required"):
                raise AuthorizationError from error
            raise

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """nats-py sends the ping before messages that wait to be sent, so that `flush` could return before them."""
        if self._pending and self._transport is not None and self.is_connected:
            waiting, self._pending, self._pending_data_size = self._pending, [], 0
            self._transport.writelines(waiting)
        await super()._send_ping(future)

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is not None:
            # nats-py leaves the transport of a refused attempt open.
            self._transport.close()  # type: ignore[no-untyped-call]  # nats-py has no types there
        await super()._connect_to_server(s)
