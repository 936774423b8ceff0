"""`auth` of an `http` task: the Authorization header, and one renewal when a server refuses it (D57, D84)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Auth, Call
from noetl.tools.http.request import CONTROL, Request, Unfit
from noetl.tools.jsonpath import PathError, find

if TYPE_CHECKING:
    from noetl.tools.http.client import Client

UNAUTHORIZED: Final = 401


async def send_signed_in(client: Client, request: Request, response: str, call: Call) -> Output:
    """A 401 means that nothing was done: whatever the verb is, it may be sent once more. Raises Unfit."""
    assert call.auth is not None
    output = await client.send(authorized(request, call.auth), response, call)
    if not is_refused(output, call.spec):
        return output
    try:
        renewed = await call.auth.renew()
    except NoetlError as error:
        return failed("credential", str(error))
    if renewed.values == call.auth.values:
        return output  # the same again would be refused again
    return await client.send(authorized(request, renewed), response, call)


def without_auth(output: Output) -> Output:
    """A 401 asks who is there: a task that does not say it is told where that is said."""
    error = output.error
    if error is None or error.details.get("status") != UNAUTHORIZED:
        return output
    message = f"{error.message}; the task has no `auth`, which would name an entry of the keychain"
    return replace(output, error=replace(error, message=message))


def authorized(request: Request, auth: Auth) -> Request:
    """Raises Unfit, without any value in it."""
    if any(name.lower() == "authorization" for name in request.headers):
        raise Unfit("`auth` sends the header Authorization, and `headers` has one too")
    return request._replace(headers={**request.headers, "Authorization": _header(auth)})


def _header(auth: Auth) -> str:
    if auth.kind == "basic":
        pair = f"{auth.values['user'].reveal()}:{auth.values['password'].reveal()}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if "" not in auth.values:
        raise Unfit(f'keychain entry "{auth.name}" of kind "{auth.kind}" can not sign in to an HTTP server')
    token = auth.values[""].reveal()
    if CONTROL.search(token):
        raise Unfit(f'keychain entry "{auth.name}" holds a line break or another control character')
    return f"Bearer {token}"


def is_refused(output: Output, spec: dict[str, JSON]) -> bool:
    """By its status; or by its body, where the playbook says how to see it."""
    own = output.own.get("http")
    if isinstance(own, dict) and own.get("status") == UNAUTHORIZED:
        return True
    match spec.get("auth"):
        case {"expired_when": {"path": str(path), "equals": list(values)}} if output.status == "ok":
            try:
                return find(path, output.data) in values
            except PathError:
                return False
    return False
