"""Webhooks: requests of other services that start executions."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from litestar import Request, Response, get, post, put
from litestar.params import PathParameter

from noetl.api.triggers import HookResponse
from noetl.control.triggers import scope_of
from noetl.errors import NotFound, Unavailable
from noetl.net.triggers import CompiledTrigger
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.playbook.model import Credential, Verify
from noetl.ports import Firing, StoredTrigger
from noetl.server.access import check_digest, check_playbook, low_scope
from noetl.server.audit import STRANGER
from noetl.server.auth import CALLER, CHALLENGE, PUBLIC, SCOPE, UNVERIFIED_SCOPE, Caller
from noetl.server.errors import ApiError
from noetl.server.params import OF_PLAYBOOK, AppContext, ContextParam, clean_text, response, route
from noetl.server.services import Services
from noetl.template.values import Moment, TemplateError
from noetl.views.log import instant

AnyRequest: TypeAlias = Request[Any, Any, Any]
HOOK_BODY_MAX: Final = 1 << 20
_FORM: Final = "application/x-www-form-urlencoded"
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_NEEDS_TOKEN: Final = "this webhook has no `verify`: the request needs a token with the scope run"
_WRONG: Final = "the signature or the token of this request is wrong"


HookPath: TypeAlias = Annotated[str, PathParameter(description="`path` of a webhook trigger")]
_STARTED: Final = {
    200: response(HookResponse, "A request with the same key has started the execution"),
    202: response(HookResponse, "The execution has started: the log contains its request"),
}
_OPTIONS: Final[dict[str, Any]] = {
    "success": _STARTED,
    "request_max_body_size": HOOK_BODY_MAX,
    "security": [{}],
    "status_code": 202,
}
_ROUTE: Final = ({SCOPE: PUBLIC, UNVERIFIED_SCOPE: "run"} | OF_PLAYBOOK, "triggers", "/hooks/{path:path}")
_ERRORS: Final = (404, 409, 422)


@route(post, *_ROUTE, "Start an execution by a webhook trigger", *_ERRORS, **_OPTIONS)
async def post_hook(request: AnyRequest, context: ContextParam, path: HookPath) -> Response[HookResponse]:
    """The trigger verifies the request; without `verify`, it needs a token with the scope `run`."""
    return await _handle(request, context, path)


@route(put, *_ROUTE, "Start an execution by a webhook trigger with the method PUT", *_ERRORS, **_OPTIONS)
async def put_hook(request: AnyRequest, context: ContextParam, path: HookPath) -> Response[HookResponse]:
    return await _handle(request, context, path)


@route(get, *_ROUTE, "Start an execution by a webhook trigger with the method GET", *_ERRORS, **_OPTIONS)
async def get_hook(request: AnyRequest, context: ContextParam, path: HookPath) -> Response[HookResponse]:
    return await _handle(request, context, path)


async def _handle(request: AnyRequest, context: AppContext, path: str) -> Response[HookResponse]:
    services, name = context.services, clean_text(path.strip("/"), "path")
    row = await services.triggers.store.find_hook(f"{request.method} {name}")
    if row is None:
        raise NotFound(f"no trigger has the address {request.method} /hooks/{name}")
    compiled = await services.triggers.compiled(row)
    body = await request.body()
    caller = await _authorize(context, request, row, compiled, body)
    if row.paused:
        await services.triggers.record_refused(row, "the trigger is paused")
        raise ApiError(409, "paused", f"the trigger {row.path}:{row.name} is paused")
    scope = _scope(request, compiled, name, body, services)
    try:
        key = compiled.delivery_key(scope, Moment(instant(services.clock.now()), name))
    except TemplateError as error:
        raise ApiError(422, "no-key", f"the key of the trigger cannot be computed: {error}") from error
    firing = await services.triggers.start(row, key or f"delivery {services.clock.new_id()}", scope)
    await services.triggers.store.record(row.path, row.name, [firing])
    if firing.status in ("started", "refused"):
        what = "webhook" if firing.status == "started" else "refused"
        context.audit.collect(caller, "start", what, firing.execution_id or "", f"{row.path}:{row.name}")
    return _response(firing)


def _response(firing: Firing) -> Response[HookResponse]:
    if firing.execution_id is None:
        code, status = ("not-started", 422) if firing.status == "failed" else ("refused", 409)
        raise ApiError(status, code, firing.detail)
    is_duplicate = firing.status == "duplicate"
    answer = HookResponse(execution_id=firing.execution_id, duplicate=is_duplicate)
    headers = {"Location": f"/executions/{firing.execution_id}"}
    return Response(answer, status_code=200 if is_duplicate else 202, headers=headers)


async def _authorize(
    context: AppContext, request: AnyRequest, row: StoredTrigger, compiled: CompiledTrigger, body: bytes
) -> Caller:
    """The caller, or a stranger if the trigger verifies the request. Raises ApiError 401 for one that is not verified:
    the history of the trigger has an entry.
    """
    verify, services = compiled.source.verify, context.services
    if verify is None:
        caller = request.scope["state"].get(CALLER)
        if not isinstance(caller, Caller):
            raise caller if isinstance(caller, Exception) else ApiError(401, "no-token", _NEEDS_TOKEN, CHALLENGE)
        if not caller.may("run"):
            raise low_scope(caller, "run")
        check_playbook(caller, "run", row.path)
        await check_digest(services, caller, row.digest, row.path)
        context.audit.sign_in(caller)
        return caller
    program = await services.playbooks.by_digest(row.digest)
    credential = next(each for each in program.playbook.keychain if each.name == verify.secret)
    try:
        secret = await _secret(services, credential)
    except (NotFound, Unavailable) as error:  # strangers do not learn which secret is missing
        await services.triggers.record_refused(row, str(error))
        raise ApiError(503, "unavailable", "this webhook cannot be verified now: its history says why") from error
    if not is_genuine(verify, secret, request.headers.get(verify.header), body):
        await services.triggers.record_refused(row, _WRONG)
        raise ApiError(401, "bad-signature", _WRONG)
    return STRANGER._replace(address=(request.scope.get("client") or ("?", 0))[0])


async def _secret(services: Services, credential: Credential) -> bytes:
    """The only value of a credential, or the one with a usual name. Raises NotFound or Unavailable."""
    values = (await services.fetch_secret(credential)).values
    names = [name for name in ("", "token", "secret", "password", "key", "value") if name in values] or list(values)
    if not names:
        raise NotFound(f'keychain entry "{credential.name}" has no value')
    return values[names[0]].reveal().encode()


def is_genuine(verify: Verify, secret: bytes, header: str | None, body: bytes) -> bool:
    """Whether a header proves that the sender knows the secret. The comparison takes the same time for any header."""
    if header is None or not secret:
        return False
    if not verify.signed:
        scheme, _, value = header.partition(" ")
        given = value.strip() if scheme.lower() == "bearer" and value else header
        return hmac.compare_digest(given.encode(), secret)
    given = header.strip().removeprefix(f"{verify.algorithm}=")
    digest = hmac.new(secret, body, getattr(hashlib, verify.algorithm)).digest()
    if verify.encoding == "hex":
        return hmac.compare_digest(given.lower().encode(), digest.hex().encode())
    return hmac.compare_digest(given.encode(), base64.b64encode(digest))


def _scope(
    request: AnyRequest, compiled: CompiledTrigger, name: str, body: bytes, services: Services
) -> dict[str, JSON]:
    """What templates of the trigger read. Headers that prove who sent the request are left out."""
    verify = compiled.source.verify
    hidden = _SECRET_HEADERS | ({verify.header.lower()} if verify is not None else set())
    headers: dict[str, JSON] = {key: value for key, value in request.headers.items() if key not in hidden}
    query: dict[str, JSON] = {key: request.query_params[key] for key in request.query_params}
    return {
        "trigger": scope_of(compiled.source, services.clock.now()),
        "request": {
            "method": request.method,
            "path": name,
            "query": query,
            "headers": headers,
            "body": _body(request.headers.get("content-type", ""), body),
        },
    }


def _body(content_type: str, body: bytes) -> JSON:
    """JSON as a value, a form as a mapping, anything else as text. Raises ApiError."""
    if not body:
        return None
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == _FORM:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1_000))
        if kind == "application/json" or kind.endswith("+json"):
            return clean_decoded(msgspec.json.decode(body))
        return clean_decoded(body.decode())
    except (ValueError, RecursionError, msgspec.DecodeError, NotJSON) as error:
        what = "JSON" if "json" in kind else "a form" if kind == _FORM else "text in UTF-8"
        raise ApiError(400, "bad-body", f"the body is not {what}") from error


ROUTES: Final = (post_hook, put_hook, get_hook)
