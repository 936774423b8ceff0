"""Tokens: who may ask for what. A secret is told once, when it is made."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Annotated, Final

from litestar import delete, get, post
from litestar.params import JSONBody, PathParameter
from msgspec import Meta, Struct

from noetl.control.api_tokens import digest_of, new_token
from noetl.server.auth import Scope
from noetl.server.params import ADMIN, DeskGiven, RoomGiven, clean_text, refusals
from noetl.views.log import instant

TAGS: Final = ["tokens"]
EXPIRY_MAX_S: Final = 10 * 366 * 86_400


class TokenAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str  # as it stands in the log for what its bearer does
    scopes: list[Scope]
    expires_in_s: Annotated[float, Meta(gt=0, le=EXPIRY_MAX_S)] | None = None  # None: never


class TokenMade(Struct, frozen=True, kw_only=True):
    id: str
    token: str  # it is not shown again


class ApiTokenItem(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None


class TokensShown(Struct, frozen=True, kw_only=True):
    items: tuple[ApiTokenItem, ...]


@get("/tokens", opt=ADMIN, tags=TAGS, summary="All tokens, without their secrets", responses=refusals())
async def tokens(desk: DeskGiven) -> TokensShown:
    return TokensShown(
        items=tuple(
            ApiTokenItem(
                id=each.id,
                name=each.name,
                scopes=tuple(sorted(each.scopes)),
                created_at=instant(each.created_at),
                expires_at=None if each.expires_at is None else instant(each.expires_at),
            )
            for each in await desk.tokens.list()
        )
    )


@post("/tokens", opt=ADMIN, tags=TAGS, summary="Make a token", responses=refusals(409, 422))
async def add_token(desk: DeskGiven, data: JSONBody[TokenAsked]) -> TokenMade:
    length_s = data.expires_in_s
    expires_at = None if length_s is None else desk.clock.now() + timedelta(seconds=length_s)
    token, text = new_token(data.name, data.scopes, expires_at, desk.clock, os.urandom)
    await desk.tokens.add(token, digest_of(text))
    return TokenMade(id=token.id, token=text)


@delete("/tokens/{id:str}", opt=ADMIN, tags=TAGS, summary="Revoke a token", responses=refusals(404))
async def remove_token(
    room: RoomGiven, id: Annotated[str, PathParameter(description="the id of a token, not the token")]
) -> None:
    """It opens nothing more here at once; on other servers within 5 s."""
    await room.desk.tokens.remove(clean_text(id, "id"))
    room.keeper.forget()


ROUTES = [tokens, add_token, remove_token]
