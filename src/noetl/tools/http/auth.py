"""`auth` of an `http` task: the Authorization header, and one renewal after a refusal (D57, D84)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Auth, Call
from noetl.tools.errors import InvalidInput
from noetl.tools.http.request import CONTROL, HttpRequest
from noetl.tools.jsonpath import find

if TYPE_CHECKING:
    from noetl.tools.http.client import HttpClient

UNAUTHORIZED: Final = 401


async def send_with_auth(client: HttpClient, request: HttpRequest, response: str, call: Call) -> Output:
    """After a 401 the server has done nothing, so any method may be sent once more. Raises InvalidInput."""
    assert call.auth is not None
    output = await client.send(with_authorization(request, call.auth), response, call)
    if not is_refused(output, call.spec):
        return output
    try:
        renewed = await call.auth.renew()
    except NoetlError as error:
        return failed("credential", str(error))
    if renewed.values == call.auth.values:
        return output  # the server would refuse the same credential again
    return await client.send(with_authorization(request, renewed), response, call)


def explain_missing_auth(output: Output) -> Output:
    """If a task without `auth` gets a 401, its message explains how to add a credential."""
    error = output.error
    if error is None or error.details.get("status") != UNAUTHORIZED:
        return output
    message = f"{error.message}; the task has no `auth`: name a keychain entry there"
    return replace(output, error=replace(error, message=message))


def with_authorization(request: HttpRequest, auth: Auth) -> HttpRequest:
    """Raises InvalidInput; its message contains no secret."""
    if any(name.lower() == "authorization" for name in request.headers):
        raise InvalidInput("both `auth` and `headers` set the header Authorization; remove one of them")
    return request._replace(headers={**request.headers, "Authorization": _header(auth)})


def _header(auth: Auth) -> str:
    if auth.kind == "basic":
        pair = f"{auth.values['user'].reveal()}:{auth.values['password'].reveal()}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if "" not in auth.values:
        raise InvalidInput(f'keychain entry "{auth.name}" has the kind "{auth.kind}", which HTTP requests cannot use')
    token = auth.values[""].reveal()
    if CONTROL.search(token):
        raise InvalidInput(f'keychain entry "{auth.name}" contains a line break or another control character')
    return f"Bearer {token}"


def is_refused(output: Output, spec: dict[str, JSON]) -> bool:
    """Did the server refuse the credential? By the status 401, or by `spec.auth.expired_when`."""
    own = output.own.get("http")
    if isinstance(own, dict) and own.get("status") == UNAUTHORIZED:
        return True
    match spec.get("auth"):
        case {"expired_when": {"path": str(path), "equals": list(values)}} if output.status == "ok":
            try:
                return find(path, output.data) in values
            except InvalidInput:
                return False
    return False
