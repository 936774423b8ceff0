"""Stored secrets: their names are listed, their values are written and never shown."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import delete, get, put
from litestar.params import JSONBody, PathParameter
from msgspec import Struct

from noetl.server.params import READ, WRITE, DeskGiven, clean_text, refusals
from noetl.views.log import instant

TAGS: Final = ["credentials"]

CredentialName = Annotated[str, PathParameter(description="the name that playbooks know it by")]


class CredentialShown(Struct, frozen=True, kw_only=True):
    name: str
    version: int
    at: str  # when it was set


class CredentialsShown(Struct, frozen=True, kw_only=True):
    items: tuple[CredentialShown, ...]


class ValueGiven(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: str


class Stored(Struct, frozen=True, kw_only=True):
    name: str
    version: int


@get("/credentials", opt=READ, tags=TAGS, summary="Names and versions", responses=refusals())
async def credentials(desk: DeskGiven) -> CredentialsShown:
    found = await desk.secrets.list()
    items = (CredentialShown(name=each.name, version=each.version, at=instant(each.at)) for each in found)
    return CredentialsShown(items=tuple(items))


@put("/credentials/{name:path}", opt=WRITE, tags=TAGS, summary="Set a value", responses=refusals(422))
async def set_credential(desk: DeskGiven, name: CredentialName, data: JSONBody[ValueGiven]) -> Stored:
    """It is encrypted, and shown to nobody; tasks get it by `auth` or `keychain`."""
    known = clean_text(name.removeprefix("/"), "name")
    return Stored(name=known, version=await desk.secrets.set(known, data.value))


@delete("/credentials/{name:path}", opt=WRITE, tags=TAGS, summary="Remove a value", responses=refusals(404))
async def remove_credential(desk: DeskGiven, name: CredentialName) -> None:
    await desk.secrets.remove(clean_text(name.removeprefix("/"), "name"))


ROUTES = [credentials, set_credential, remove_credential]
