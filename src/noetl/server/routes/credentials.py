"""Stored secrets: the API lists their names and sets their values, but never returns a value."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import delete, get, put
from litestar.params import JSONBody, PathParameter

from noetl.api.admin import CredentialItem, CredentialList, CredentialStored, CredentialValue
from noetl.server.params import READ, WRITE, ServicesParam, clean_text, error_responses
from noetl.views.log import instant

TAGS: Final = ["credentials"]

CredentialName = Annotated[str, PathParameter(description="the name that playbooks use")]


@get("/credentials", opt=READ, tags=TAGS, summary="List names and versions of secrets", responses=error_responses())
async def credentials(services: ServicesParam) -> CredentialList:
    found = await services.secrets.list()
    items = (CredentialItem(name=each.name, version=each.version, at=instant(each.at)) for each in found)
    return CredentialList(items=tuple(items))


@put("/credentials/{name:path}", opt=WRITE, tags=TAGS, summary="Set a value", responses=error_responses(422))
async def set_credential(
    services: ServicesParam, name: CredentialName, data: JSONBody[CredentialValue]
) -> CredentialStored:
    """The value is encrypted and never returned. Tasks use it through `auth` or `keychain`."""
    known = clean_text(name.removeprefix("/"), "name")
    return CredentialStored(name=known, version=await services.secrets.set(known, data.value))


@delete("/credentials/{name:path}", opt=WRITE, tags=TAGS, summary="Remove a value", responses=error_responses(404))
async def remove_credential(services: ServicesParam, name: CredentialName) -> None:
    await services.secrets.remove(clean_text(name.removeprefix("/"), "name"))


ROUTES = [credentials, set_credential, remove_credential]
