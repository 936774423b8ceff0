"""Secrets and tokens of a server, for the commands that keep them: values go in, and none comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from noetl.cli.contexts import Server
from noetl.cli.exits import Usage
from noetl.client import Client, CredentialInfo
from noetl.errors import NotFound
from noetl.ports import ApiToken

Tokens: TypeAlias = list[ApiToken]  # in a class that has a method `list`


class ServerSecrets:
    """What `noetl secrets` asks of a server."""

    def __init__(self, server: Server) -> None:
        self._client = Client(server.url, server.token)

    async def set(self, name: str, value: str) -> int:
        return await self._client.set_credential(name, value)

    async def remove(self, name: str) -> None:
        await self._client.remove_credential(name)

    async def list(self) -> Sequence[CredentialInfo]:
        return await self._client.credentials()

    async def rotate(self) -> int:
        raise Usage(f"the key of {self._client.url} is changed where its database is: --db PATH names a file")


class ServerTokens:
    """What `noetl token` asks of a server."""

    def __init__(self, server: Server) -> None:
        self._client = Client(server.url, server.token)

    async def create(self, name: str, scopes: frozenset[str], lasts_s: float | None) -> tuple[ApiToken, str]:
        made = await self._client.add_token(name, scopes, expires_in_s=lasts_s)
        known = {each.id: each for each in await self._client.tokens()}
        if made.id not in known:
            raise NotFound(f"the token {made.id} was made, and has been revoked meanwhile")
        return known[made.id], made.token

    async def list(self) -> Tokens:
        return await self._client.tokens()

    async def remove(self, id: str) -> None:
        await self._client.remove_token(id)
