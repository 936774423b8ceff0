"""API tokens. The text of a token is returned only once, when it is created."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Annotated, Final

from litestar import delete, get, post
from litestar.params import JSONBody, PathParameter

from noetl.api.admin import ApiTokenItem, TokenCreated, TokenList, TokenRequest
from noetl.control.api_tokens import digest_of, new_token
from noetl.server.params import ADMIN, ContextParam, ServicesParam, clean_text, error_responses

TAGS: Final = ["tokens"]


@get("/tokens", opt=ADMIN, tags=TAGS, summary="List all tokens, without their secrets", responses=error_responses())
async def tokens(services: ServicesParam) -> TokenList:
    return TokenList(items=tuple(map(ApiTokenItem.from_token, await services.tokens.list())))


@post("/tokens", opt=ADMIN, tags=TAGS, summary="Create a token", responses=error_responses(409, 422))
async def add_token(services: ServicesParam, data: JSONBody[TokenRequest]) -> TokenCreated:
    expires_in_s = data.expires_in_s
    expires_at = None if expires_in_s is None else services.clock.now() + timedelta(seconds=expires_in_s)
    token, text = new_token(data.name, data.scopes, expires_at, services.clock, os.urandom)
    await services.tokens.add(token, digest_of(text))
    return TokenCreated(id=token.id, token=text)


@delete("/tokens/{id:str}", opt=ADMIN, tags=TAGS, summary="Revoke a token", responses=error_responses(404))
async def remove_token(
    context: ContextParam, id: Annotated[str, PathParameter(description="the id of a token, not the token")]
) -> None:
    """This server rejects the token at once, other servers within 5 s."""
    await context.services.tokens.remove(clean_text(id, "id"))
    context.authenticator.clear_cache()


ROUTES = [tokens, add_token, remove_token]
