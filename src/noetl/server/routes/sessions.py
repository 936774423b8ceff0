"""Signing in to the web UI and out again: with an API token, or with an OpenID Connect provider."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from litestar import Request, Response, delete, get, post
from litestar.datastructures import Cookie
from litestar.params import JSONBody, PathParameter, QueryParameter

from noetl.api.admin import SessionItem, SessionList, SessionRequest, SignInMethods, WhoamiResponse
from noetl.control.api_tokens import digest_of
from noetl.ports import WebSession
from noetl.server.auth import PUBLIC, SCOPE, Caller, bearer_token
from noetl.server.errors import ApiError
from noetl.server.oidc import ATTEMPT_S, CALLBACK, OidcProvider, SignInAttempt, SignInRefused
from noetl.server.params import (
    ADMIN,
    OF_ALL,
    TEXT_CHARS_MAX,
    AppContext,
    CallerParam,
    ContextParam,
    ServicesParam,
    clean_text,
    route,
)
from noetl.server.params import response as described
from noetl.server.routes.admin import whoami_of
from noetl.server.sessions import SESSION_COOKIE
from noetl.telemetry.logs import get_logger

ATTEMPT_COOKIE: Final = "noetl-sign-in"
_PUBLIC: Final = {SCOPE: PUBLIC}
_REDIRECTS: Final[dict[str, Any]] = {"include_in_schema": False, "security": [{}]}
_ENDED: Final = {204: described(None, "The session has ended, or there was none")}
_ANSWER: Final = ("code", "state", "error", "iss")  # the parameters of the callback

log = get_logger("api")


@route(get, _PUBLIC, "sessions", "/session", "How the web UI can sign in", security=[{}])
async def sign_in_methods(context: ContextParam) -> SignInMethods:
    settings = context.settings
    return SignInMethods(open=settings.open, oidc=None if settings.oidc is None else settings.oidc.label)


@route(post, _PUBLIC, "sessions", "/session", "Exchange a token for a session", 409, security=[{}])
async def sign_in(
    request: Request[Any, Any, Any], context: ContextParam, data: JSONBody[SessionRequest]
) -> Response[WhoamiResponse]:
    """For browsers: the session is in a cookie that scripts cannot read. Programs send the token itself.

    The request needs the headers `Origin` and `X-NoETL-CSRF: 1`, as all requests of a session that change something.
    """
    if context.settings.open:
        raise ApiError(409, "open-server", "this server needs no sign-in")
    headers = _headers(request)
    context.cookies.check_origin("POST", headers)
    text = bearer_token(f"Bearer {data.token}")
    assert text is not None
    caller = await context.authenticator.authenticate(text, _address(request))
    token = await context.authenticator.find_token(digest_of(text))
    assert token is not None, "it was found a moment ago"
    session, secret = await context.sessions.begin_for_token(token, digest_of(text))
    response = Response(whoami_of(context, caller), status_code=201)
    response.set_cookie(await _begin(request, context, caller._replace(session=session.id), secret, "with a token"))
    return response


@route(delete, _PUBLIC, "sessions", "/session", "End the session", success=_ENDED, security=[{}])
async def sign_out(request: Request[Any, Any, Any], context: ContextParam) -> Response[None]:
    """Other servers of a cluster reject the session within 5 s."""
    headers = _headers(request)
    response = Response(None, status_code=204)
    if context.cookies.read_session(headers) is not None:
        context.cookies.check_origin("DELETE", headers)
        await _end(request, context)
    response.set_cookie(context.cookies.clear(SESSION_COOKIE, secure=context.cookies.is_secure(headers)))
    return response


# OpenID Connect


@route(get, _PUBLIC, "sessions", "/session/oidc", "Sign in with the provider", **_REDIRECTS)
async def begin_oidc(
    request: Request[Any, Any, Any],
    context: ContextParam,
    page: Annotated[str, QueryParameter(name="next", description="shown afterwards", max_length=TEXT_CHARS_MAX)] = "/",
) -> Response[bytes]:
    provider, attempt = _provider(context), SignInAttempt.begin(page)
    try:
        url = await provider.authorization_url(attempt)
    except SignInRefused as refused:
        return _refuse(request, context, refused)
    response = _redirect(url)
    secure = context.cookies.is_secure(_headers(request))
    # Lax: the provider sends the browser back from another site, and a strict cookie would stay behind.
    cookie = context.cookies.make(ATTEMPT_COOKIE, attempt.cookie, ATTEMPT_S, secure=secure, same_site="lax")
    response.set_cookie(cookie)
    return response


@route(get, _PUBLIC, "sessions", CALLBACK, "The provider sends the browser back", **_REDIRECTS)
async def finish_oidc(request: Request[Any, Any, Any], context: ContextParam) -> Response[bytes]:
    headers, provider = _headers(request), _provider(context)
    secure = context.cookies.is_secure(headers)
    attempt = SignInAttempt.of_cookie(context.cookies.read(headers, ATTEMPT_COOKIE))
    answer = {name: request.query_params[name] for name in _ANSWER if name in request.query_params}
    try:
        person = await provider.finish(attempt, answer)
        assert attempt is not None, "it has a state"
        session, secret = await context.sessions.begin_for_person(*person)
    except SignInRefused as refused:
        response = _refuse(request, context, refused)
    else:
        response = _redirect(attempt.page)
        caller = Caller(person.user, person.name, frozenset(), person.roles, _address(request), session.id)
        response.set_cookie(await _begin(request, context, caller, secret, f"with {provider.settings.label}"))
    response.set_cookie(context.cookies.clear(ATTEMPT_COOKIE, secure=secure))  # an answer counts once
    return response


def _provider(context: AppContext) -> OidcProvider:
    if context.oidc is None:
        raise ApiError(404, "no-provider", "this server has no OpenID Connect provider: sign in with a token")
    return context.oidc


def _refuse(request: Request[Any, Any, Any], context: AppContext, refused: SignInRefused) -> Response[bytes]:
    """Back to the sign-in page, which explains the code."""
    log.warning("sign-in.refused", code=refused.code, reason=str(refused))
    who, address = refused.person, _address(request)
    caller = None if who is None else Caller(who.user, who.name, frozenset(), address=address)
    what = f"{request.method} {request.scope.get('path_template', '')}"
    context.audit.deny(caller, address, what, f"sign-in-{refused.code}")
    return _redirect(f"/ui/?{urlencode({'sign-in': refused.code})}")


def _redirect(url: str) -> Response[bytes]:
    return Response(b"", status_code=303, headers={"Location": url})


# Sessions


async def _begin(request: Request[Any, Any, Any], context: AppContext, caller: Caller, secret: str, how: str) -> Cookie:
    """The cookie of a new session. The former session of the browser ends."""
    await _end(request, context)
    await context.audit.record(caller, "sign-in", "session", caller.session, how)
    secure = context.cookies.is_secure(_headers(request))
    return context.cookies.make(SESSION_COOKIE, secret, context.sessions.limits.lifetime_s, secure=secure)


async def _end(request: Request[Any, Any, Any], context: AppContext) -> None:
    secret = context.cookies.read_session(_headers(request))
    ended = None if secret is None else await context.sessions.end(secret)
    if ended is not None:
        await context.audit.record(_holder(ended, _address(request)), "sign-out", "session", ended.id)


def _holder(session: WebSession, address: str) -> Caller:
    return Caller(session.user.removeprefix("token:"), session.name, frozenset(), address=address)


@route(get, ADMIN | OF_ALL, "sessions", "/sessions", "List the sessions of the web UI")
async def sessions(services: ServicesParam) -> SessionList:
    """Expired sessions are listed until the next sign-in."""
    return SessionList(items=tuple(map(SessionItem.from_session, await services.sessions.list())))


@route(delete, ADMIN | OF_ALL, "sessions", "/sessions/{id:str}", "End a session", 404)
async def remove_session(
    context: ContextParam, caller: CallerParam, id: Annotated[str, PathParameter(description="the id of a session")]
) -> None:
    """This server rejects the session at once, other servers within 5 s."""
    known = clean_text(id, "id")
    await context.sessions.remove(known)
    await context.audit.record(caller, "sign-out", "end the session", known)


def _headers(request: Request[Any, Any, Any]) -> dict[bytes, bytes]:
    return dict(request.scope["headers"])


def _address(request: Request[Any, Any, Any]) -> str:
    return str((request.scope.get("client") or ("?", 0))[0])


ROUTES = [sign_in_methods, sign_in, sign_out, begin_oidc, finish_oidc, sessions, remove_session]
