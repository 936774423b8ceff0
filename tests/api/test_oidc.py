"""Sign-in with OpenID Connect: the whole flow against a real provider, and attacks from a hostile one."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey

from noetl.clock import SystemClock
from noetl.ports import RoleGrant
from noetl.runtime.sign_in import group_roles
from noetl.secret import Secret
from noetl.server.oidc import CACHED_S, KEYS_S, OidcProvider, OidcSettings, SignInAttempt, SignInRefused
from noetl.server.services import ServerSettings
from noetl.server.sessions import SessionLimits
from noetl.testing import FakeClock
from tests.api.browsers import Browser
from tests.api.hostile_provider import (
    ACCESS_TOKEN,
    CLIENT_ID,
    CLIENT_SECRET,
    CODE,
    MOVED,
    HostileProvider,
    hostile_provider,
    key_set,
    new_key,
)
from tests.api.servers import ApiServer, logged, opened, serve
from tests.api.test_sessions import audit
from tests.identity_provider import ROLES, IdentityProvider, RegisteredClient, identity_provider
from tests.playbooks import HEAD
from tests.ports import free_port

SCOPES = "openid profile email groups"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with identity_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


def with_provider(
    folder: Path,
    provider: IdentityProvider,
    work: Callable[[ApiServer, Browser], Awaitable[None]],
    *,
    limits: SessionLimits | None = None,
    is_public: bool = False,
    **metadata: Any,
) -> None:
    """A server that is a client of the real provider. `is_public`: without a secret."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    client = provider.register(url, **metadata)
    oidc = settings_for(provider, client, url)
    if is_public:
        oidc = oidc._replace(client_secret=None)

    async def inside(server: ApiServer) -> None:
        await work(server, Browser(server.api.session, url))

    settings = ServerSettings(public_url=url, oidc=oidc, sessions=limits or SessionLimits())
    serve(folder, inside, settings, port=port)


def settings_for(provider: IdentityProvider, client: RegisteredClient, url: str) -> OidcSettings:
    roles = group_roles(json.dumps(ROLES))
    return OidcSettings(provider.issuer, client.id, Secret(client.secret), url, roles, SCOPES)


# The real provider


def test_a_person_signs_in_with_the_roles_of_their_groups(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        assert (await browser.ask("GET", "/session")).json == {"open": False, "oidc": "127.0.0.1"}
        answer = await browser.sign_in_as("ann", "/session/oidc?next=/ui/executions")
        assert (answer.status, answer.headers["location"]) == (303, "/ui/executions")
        assert list(browser.cookies) == ["noetl-session"]  # the cookie of the sign-in is gone
        assert (await browser.ask("GET", "/whoami")).json == {
            "name": "ann",
            "scopes": ["run"],
            "open": False,
            "roles": ROLES["orders-team"],
        }
        assert (await audit(server, "sign-in"))[0] == ("sign-in", "session", "ann", "with 127.0.0.1")

    with_provider(tmp_path, provider, work)


def test_the_roles_limit_what_a_person_does_and_the_log_names_the_person(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        server.api.token = await server.token("run", "write", name="author")
        noop = "workflow:\n- step: start\n  tool: {kind: noop}\n"
        for path in ("orders/import", "billing/import"):
            await server.api.register(HEAD.replace("path: t", f"path: {path}") + noop)
        await browser.sign_in_as("ann")
        started = await browser.change("POST", "/executions?wait=60", {"path": "orders/import"})
        assert started.status in (200, 201), started.body
        head = await server.api.get(f"/executions/{started.json['execution_id']}/head")
        assert head["path"] == "orders/import"
        assert (await browser.change("POST", "/executions", {"path": "billing/import"})).status == 404
        refused = await browser.change("PUT", "/credentials/orders/db", {"value": "x"})
        assert refused.json["detail"] == 'the user "ann" lacks the scope "write"'
        assert ("start", "start", "ann", "orders/import") in await audit(server, "start")
        assert ("sign-in", "session", "ann", "with 127.0.0.1") in await audit(server, "sign-in")
        assert ("denied", "PUT /credentials/{name}", "ann", "low-scope") in await audit(server, "denied")

    with_provider(tmp_path, provider, work)


def test_a_person_without_a_role_is_refused_by_name(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        answer = await browser.sign_in_as("stranger")
        assert (answer.status, answer.headers["location"], browser.cookies) == (303, "/ui/?sign-in=no-role", {})
        denied = ("denied", "GET /session/oidc/callback", "stranger", "sign-in-no-role")
        assert await audit(server, "denied") == [denied]
        assert await server.services.sessions.list() == []

    with_provider(tmp_path, provider, work)


def test_a_public_client_signs_in_with_pkce_alone(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(_server: ApiServer, browser: Browser) -> None:
        assert (await browser.sign_in_as("root")).headers["location"] == "/ui/"
        assert (await browser.ask("GET", "/whoami")).json["scopes"] == ["admin", "run"]

    with_provider(tmp_path, provider, work, is_public=True, token_endpoint_auth_method="none")


def test_a_code_counts_once(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        location = await browser.begin()
        attempt = dict(browser.cookies)
        callback = await browser.authenticate(location, "ann")
        assert (await browser.ask("GET", callback)).headers["location"] == "/ui/"
        session = dict(browser.cookies)
        replayed = await browser.ask("GET", callback)
        assert replayed.headers["location"] == "/ui/?sign-in=state"  # the cookie of the sign-in is gone
        thief = Browser(server.api.session, browser.url)
        thief.cookies.update(attempt)  # even with it: the provider accepts a code once
        assert (await thief.ask("GET", callback)).headers["location"] == "/ui/?sign-in=provider"
        assert thief.cookies == {}
        assert browser.cookies == session
        assert (await browser.ask("GET", "/whoami")).json["name"] == "ann"

    with_provider(tmp_path, provider, work)


def test_the_code_of_another_sign_in_is_refused(tmp_path: Path, provider: IdentityProvider) -> None:
    """A link with a code of an attacker does not sign the victim in as the attacker."""

    async def work(server: ApiServer, browser: Browser) -> None:
        attacker = Browser(server.api.session, browser.url)
        callback = await attacker.authenticate(await attacker.begin(), "root")
        await browser.begin()
        assert (await browser.ask("GET", callback)).headers["location"] == "/ui/?sign-in=state"
        location = await browser.begin()
        own_state = parse_qs(urlsplit(location).query)["state"][0]
        code = parse_qs(urlsplit(callback).query)["code"][0]
        mixed = f"/session/oidc/callback?code={quote(code)}&state={own_state}"
        assert (await browser.ask("GET", mixed)).headers["location"] == "/ui/?sign-in=provider"  # PKCE
        assert (await browser.ask("GET", "/whoami")).status == 401

    with_provider(tmp_path, provider, work)


def test_the_answer_of_a_provider_that_refuses_is_no_session(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        state = parse_qs(urlsplit(await browser.begin()).query)["state"][0]
        answer = await browser.ask("GET", f"/session/oidc/callback?error=access_denied&state={state}")
        assert answer.headers["location"] == "/ui/?sign-in=denied"
        assert ("denied", "GET /session/oidc/callback", "", "sign-in-denied") in await audit(server, "denied")

    with_provider(tmp_path, provider, work)


def test_a_sign_in_ends_the_former_session_and_adopts_no_planted_cookie(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        browser.cookies["noetl-session"] = planted = "p" * 43
        await browser.sign_in_as("ann")
        first = browser.cookies["noetl-session"]
        await browser.sign_in_as("ann")
        for old in (planted, first):
            assert (await browser.ask("GET", "/whoami", Cookie=f"noetl-session={old}")).status == 401
        assert len(await server.services.sessions.list()) == 1

    with_provider(tmp_path, provider, work)


def test_a_person_has_a_limited_number_of_sessions(tmp_path: Path, provider: IdentityProvider) -> None:
    async def work(server: ApiServer, _browser: Browser) -> None:
        browsers = [Browser(server.api.session, server.api.url) for _ in range(3)]
        for each in browsers:
            await each.sign_in_as("ann")
        assert [(await each.ask("GET", "/whoami")).status for each in browsers] == [401, 200, 200]

    with_provider(tmp_path, provider, work, limits=SessionLimits(per_user=2))


# A hostile provider


def against(
    folder: Path,
    work: Callable[[ApiServer, Browser, HostileProvider], Awaitable[None]],
    **changes: Any,
) -> None:
    async def whole() -> None:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(180), hostile_provider() as provider:
            settings = ServerSettings(public_url=url, oidc=provider.settings(url, **changes))
            async with opened(folder, settings, port=port) as server:
                await work(server, Browser(server.api.session, url), provider)

    asyncio.run(whole())


async def end_of(browser: Browser, provider: HostileProvider) -> str:
    """Where a sign-in ends."""
    answer = await browser.ask("GET", provider.follow(await browser.begin()))
    assert answer.status == 303
    return answer.headers["location"]


def test_a_valid_answer_signs_in_and_nothing_secret_is_logged_or_stored(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        sent: list[str] = []

        def forge(claims: dict[str, Any]) -> str:
            sent.append(provider.sign(claims))
            return sent[-1]

        provider.forge = forge
        with logged() as logs:
            assert await end_of(browser, provider) == "/ui/"
            provider.claims = {"aud": "another"}
            assert await end_of(Browser(browser.session, browser.url), provider) == "/ui/?sign-in=identity"
        [(_, form, authorization), *_] = [each for each in provider.requests if each[0] == "/token"]
        assert authorization.startswith("Basic ")
        entries = repr(await audit(server, "sign-in", "denied"))
        database = b"".join(path.read_bytes() for path in tmp_path.glob("noetl.db*") if path.is_file()).decode(
            "latin-1"
        )
        secrets = [CODE, CLIENT_SECRET, ACCESS_TOKEN, *sent, form["code_verifier"][0], browser.cookies["noetl-session"]]
        assert logs.getvalue().count("sign-in.refused") == 1
        for secret in secrets:
            assert secret not in logs.getvalue() + entries + database

    against(tmp_path, work)


def _hs256_with(secret: bytes) -> Callable[[HostileProvider], Callable[[dict[str, Any]], str]]:
    def made(provider: HostileProvider) -> Callable[[dict[str, Any]], str]:
        key = secret or provider.key.as_pem(private=False)
        return lambda claims: jwt.encode(
            {"alg": "HS256", "kid": "k1"}, claims, OctKey.import_key(key.hex()), algorithms=["HS256"]
        )

    return made


def _unsigned(_provider: HostileProvider) -> Callable[[dict[str, Any]], str]:
    parts = [b'{"alg":"none","kid":"k1"}']

    def forge(claims: dict[str, Any]) -> str:
        return ".".join(
            urlsafe_b64encode(each).decode().rstrip("=") for each in (*parts, msgspec.json.encode(claims), b"")
        )

    return forge


def _other_key(provider: HostileProvider) -> Callable[[dict[str, Any]], str]:
    other = new_key()
    return lambda claims: provider.sign(claims, other)


def _own_key_in_header(provider: HostileProvider) -> Callable[[dict[str, Any]], str]:
    other = new_key()
    return lambda claims: provider.sign(claims, other, jwk=dict(other.as_dict(private=False)))


def _changed_after_signing(provider: HostileProvider) -> Callable[[dict[str, Any]], str]:
    def forge(claims: dict[str, Any]) -> str:
        head, _, signature = provider.sign(claims).split(".")
        _, body, _ = provider.sign({**claims, "sub": "root"}).split(".")
        return f"{head}.{body}.{signature}"

    return forge


FORGED: dict[str, Callable[[HostileProvider], Callable[[dict[str, Any]], str]]] = {
    "alg none": _unsigned,
    "HS256 with the public key": _hs256_with(b""),
    "HS256 with the client secret": _hs256_with(CLIENT_SECRET.encode()),
    "another key with the same id": _other_key,
    "a key in the header": _own_key_in_header,
    "claims changed after signing": _changed_after_signing,
    "an unknown key": lambda provider: lambda claims: provider.sign(claims, new_key("k2"), kid="k2"),
    "no token": lambda _provider: lambda _claims: "",
    "not a token": lambda _provider: lambda _claims: "a.b.c",
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_id_token_is_refused(tmp_path: Path, how: str) -> None:
    async def work(server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        assert await end_of(browser, provider) == "/ui/"  # the same request with a valid token
        stranger = Browser(browser.session, browser.url)
        provider.forge = FORGED[how](provider)
        assert await end_of(stranger, provider) == "/ui/?sign-in=identity"
        assert stranger.cookies == {}
        assert ("denied", "GET /session/oidc/callback", "", "sign-in-identity") in await audit(server, "denied")

    against(tmp_path, work)


CLAIMS: dict[str, dict[str, Any]] = {
    "wrong nonce": {"nonce": "of-another-sign-in"},
    "no nonce": {"nonce": None},
    "wrong audience": {"aud": "another-client"},
    "an audience that begins like ours": {"aud": CLIENT_ID + "-2"},
    "no audience": {"aud": None},
    "several audiences without azp": {"aud": [CLIENT_ID, "another-client"]},
    "authorized for another client": {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
    "azp of another client": {"azp": "another-client"},
    "wrong issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "expired": {"exp": 1_000_000_000},
    "no expiry": {"exp": None},
    "expiry as text": {"exp": "2999-01-01"},
    "issued in the future": {"iat": 32_503_680_000, "exp": 32_503_690_000},
    "not valid yet": {"nbf": 32_503_680_000},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject is not text": {"sub": ["ann"]},
    "subject is a number": {"sub": 5},
    "a blank subject, and no name": {"sub": " ", "preferred_username": None, "email": " ", "name": ""},
    "expiry is no number": {"exp": float("nan")},
    "a long subject": {"sub": "x" * 256},
    "a subject with control characters": {"sub": "ann\nroot"},
}


@pytest.mark.parametrize("what", CLAIMS)
def test_an_id_token_with_wrong_claims_is_refused(tmp_path: Path, what: str) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.claims = CLAIMS[what]
        assert await end_of(browser, provider) == "/ui/?sign-in=identity"
        assert browser.cookies == {}

    against(tmp_path, work)


@pytest.mark.parametrize("state", ["", "x" * 43, "é", "?"])
def test_a_wrong_state_is_refused_before_the_provider_is_asked(tmp_path: Path, state: str) -> None:
    async def work(server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.follow(await browser.begin())
        answer = await browser.ask("GET", f"/session/oidc/callback?code={CODE}&state={quote(state)}")
        assert answer.headers["location"] == "/ui/?sign-in=state"
        assert "/token" not in provider.paths
        assert browser.cookies == {}
        assert ("denied", "GET /session/oidc/callback", "", "sign-in-state") in await audit(server, "denied")

    against(tmp_path, work)


def test_a_callback_without_a_sign_in_is_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        callback = provider.follow(await browser.begin())
        stranger = Browser(server.api.session, browser.url)
        assert (await stranger.ask("GET", callback)).headers["location"] == "/ui/?sign-in=state"
        for cookie in ("", "x", "x" * 43, ".", "\u00e9" * 43):
            answer = await stranger.ask("GET", callback, Cookie=f"noetl-sign-in={cookie}")
            assert answer.headers["location"] == "/ui/?sign-in=state"
        assert "/token" not in provider.paths

    against(tmp_path, work)


NEXT = [
    "https://evil.example", "//evil.example", "/\\evil.example", "/ui\\evil", "/ui/\r\nSet-Cookie: a=b", "/uievil",
    "javascript:alert(1)", "/ui@evil.example", "/ui/#https://evil.example", "https:/ui/", "/ui/\u2028", " /ui/", "/",
    "/tokens", "/ui/" + "x" * 600,
]  # fmt: skip


@pytest.mark.parametrize("page", NEXT)
def test_no_sign_in_leads_to_another_site(tmp_path: Path, page: str) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        location = await browser.begin(f"/session/oidc?next={quote(page, safe='')}")
        answer = await browser.ask("GET", provider.follow(location))
        assert answer.headers["location"] == "/ui/"
        # A page in a cookie that something else has set is checked again.
        attempt = SignInAttempt.begin("/ui/")
        assert SignInAttempt.of_cookie(attempt._replace(page=page).cookie) == attempt

    against(tmp_path, work)


@pytest.mark.parametrize(
    "page", ["/ui", "/ui/", "/ui/executions?status=error&path=orders%2F*", "/ui/executions/0a:b@c"]
)
def test_a_sign_in_returns_to_the_page_that_was_open(tmp_path: Path, page: str) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        location = await browser.begin(f"/session/oidc?next={quote(page, safe='')}")
        assert (await browser.ask("GET", provider.follow(location))).headers["location"] == page

    against(tmp_path, work)


BROKEN: dict[str, tuple[str, web.Response]] = {
    "an error": ("/token", web.Response(status=500, text="secret of the provider")),
    "invalid_grant": ("/token", web.json_response({"error": "invalid_grant"}, status=400)),
    "HTML": ("/token", web.Response(text="<html>")),
    "no ID token": ("/token", web.json_response({"access_token": ACCESS_TOKEN})),
    "too large": ("/token", web.Response(body=b"[" * (2 << 20))),
    "no keys": ("/keys", web.json_response({"keys": []})),
    "only symmetric keys": ("/keys", web.json_response({"keys": [{"kty": "oct", "k": "AAAA", "kid": "k1"}]})),
    "damaged keys": ("/keys", web.json_response({"keys": [{"kty": "RSA", "n": "!", "e": "?", "kid": "k1"}]})),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_provider_gives_no_session(tmp_path: Path, how: str) -> None:
    async def work(server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        path, response = BROKEN[how]
        provider.responses[path] = web.Response(
            status=response.status, body=response.body, headers=dict(response.headers)
        )
        with logged() as logs:
            assert await end_of(browser, provider) == "/ui/?sign-in=provider"
        assert "secret of the provider" not in logs.getvalue()
        assert ("denied", "GET /session/oidc/callback", "", "sign-in-provider") in await audit(server, "denied")

    against(tmp_path, work)


ENDPOINTS = ("/.well-known/openid-configuration", "/token", "/keys", "/userinfo")


@pytest.mark.parametrize("path", ENDPOINTS)
def test_no_redirect_of_the_provider_is_followed(tmp_path: Path, path: str) -> None:
    """It leads to a valid answer, which would sign the person in."""

    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.claims = {"groups": None}
        provider.userinfo = {"sub": "ann", "groups": ["orders-team"]}
        provider.responses[path] = web.Response(status=307, headers={"Location": f"{provider.issuer}{MOVED}{path}"})
        place = await browser.begin()
        if path not in provider.paths:
            answer = await browser.ask("GET", provider.follow(place))
            place = answer.headers["location"]
        assert place == "/ui/?sign-in=provider"
        assert provider.paths.count(path) == 1
        assert [each for each in provider.paths if each.startswith(MOVED)] == []

    against(tmp_path, work)


@pytest.mark.parametrize("part", [b"", b'{"id_token": "'])
@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_provider_that_stalls_ends_the_sign_in(path: str, part: bytes) -> None:
    async def work() -> None:
        async with asyncio.timeout(180), hostile_provider() as hostile:
            provider = OidcProvider(hostile.settings("http://127.0.0.1:1"), SystemClock(), request_s=0.5)
            attempt = SignInAttempt.begin("/ui/")
            hostile.nonce = attempt.nonce
            hostile.claims = {"groups": None}
            hostile.stalled[path] = part
            try:
                with pytest.raises(SignInRefused, match=f"{path}: .*Timeout"):
                    await provider.finish(attempt, {"code": CODE, "state": attempt.state})
            finally:
                await provider.close()
            assert hostile.paths.count(path) == 1

    asyncio.run(work())


DISCOVERY: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "a token endpoint without https": {"token_endpoint": "http://evil.example/token"},
    "keys without https": {"jwks_uri": "http://evil.example/keys"},
    "a script as the login page": {"authorization_endpoint": "javascript:alert(1)"},
    "no token endpoint": {"token_endpoint": None},
}


@pytest.mark.parametrize("how", DISCOVERY)
def test_a_wrong_discovery_document_ends_the_sign_in(tmp_path: Path, how: str) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.discovery = DISCOVERY[how]
        assert await browser.begin() == "/ui/?sign-in=provider"
        provider.discovery = {}
        assert await end_of(browser, provider) == "/ui/"  # a wrong document is not kept

    against(tmp_path, work)


def test_an_unreachable_provider_ends_the_sign_in(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser, _provider: HostileProvider) -> None:
        assert await browser.begin() == "/ui/?sign-in=provider"

    against(tmp_path, work, issuer=f"http://127.0.0.1:{free_port()}")


def test_an_answer_that_names_another_provider_is_refused(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        callback = provider.follow(await browser.begin())
        answer = await browser.ask("GET", f"{callback}&iss={quote('https://evil.example', safe='')}")
        assert answer.headers["location"] == "/ui/?sign-in=identity"
        assert "/token" not in provider.paths

    against(tmp_path, work)


# Groups


def test_groups_may_come_from_the_user_info_of_the_same_person_only(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.claims = {"groups": None}
        provider.userinfo = {"sub": "ann", "groups": ["orders-team"]}
        assert await end_of(browser, provider) == "/ui/"
        assert provider.requests[-1] == ("/userinfo", {}, f"Bearer {ACCESS_TOKEN}")
        provider.userinfo = {"sub": "root", "groups": ["orders-team"]}
        assert await end_of(browser, provider) == "/ui/?sign-in=identity"

    against(tmp_path, work)


@pytest.mark.parametrize(
    ("name", "claim", "signed_in"),
    [
        ("groups", {"groups": "orders-team"}, True),  # one group as text
        ("groups", {"groups": ["other"]}, False),
        ("groups", {"groups": "orders-team-2"}, False),
        ("groups", {"groups": [["orders-team"]]}, False),
        ("groups", {"groups": {"orders-team": True}}, False),
        ("groups", {"groups": ["*"]}, False),  # the name of everyone is not a group
        ("realm_access.roles", {"realm_access": {"roles": ["orders-team"]}}, True),
        ("https://example.com/groups", {"https://example.com/groups": ["orders-team"]}, True),
    ],
)
def test_the_claim_decides_the_groups(tmp_path: Path, name: str, claim: dict[str, Any], signed_in: bool) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.claims = {"groups": None, **claim}
        assert await end_of(browser, provider) == ("/ui/" if signed_in else "/ui/?sign-in=no-role")

    against(tmp_path, work, groups_claim=name)


def test_everyone_may_have_a_role(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.claims = {"groups": ["unknown"]}
        assert await end_of(browser, provider) == "/ui/"
        assert (await browser.ask("GET", "/whoami")).json["scopes"] == ["read"]

    against(tmp_path, work, roles={"*": (RoleGrant(role="viewer"),)})


def test_the_secret_is_sent_in_the_form_if_the_provider_wants_that(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser, provider: HostileProvider) -> None:
        provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        assert await end_of(browser, provider) == "/ui/"
        [(_, form, authorization)] = [each for each in provider.requests if each[0] == "/token"]
        assert (form["client_secret"], authorization) == ([CLIENT_SECRET], "")

    against(tmp_path, work)


# Caches


def test_new_keys_of_the_provider_are_found_and_unknown_ones_cause_few_requests() -> None:
    async def work() -> None:
        clock = FakeClock()
        async with hostile_provider() as hostile:
            provider = OidcProvider(hostile.settings("http://127.0.0.1:1"), clock)
            attempt = SignInAttempt.begin("/ui/")
            hostile.nonce = attempt.nonce
            at = int(clock.now().timestamp())
            hostile.claims = {"iat": at, "exp": at + 100_000}
            answer = {"code": CODE, "state": attempt.state}
            assert (await provider.finish(attempt, answer)).user == "oidc:ann"
            hostile.key = new_key("k2")
            hostile.forge = lambda claims: hostile.sign(claims, kid="k2")
            hostile.published = key_set(hostile.key)
            for _ in range(3):
                with pytest.raises(SignInRefused):
                    await provider.finish(attempt, answer)
            assert hostile.paths.count("/keys") == 1
            clock.advance(KEYS_S)
            assert (await provider.finish(attempt, answer)).user == "oidc:ann"
            assert hostile.paths.count("/keys") == 2
            assert hostile.paths.count("/.well-known/openid-configuration") == 1
            clock.advance(CACHED_S)
            await provider.finish(attempt, answer)
            assert hostile.paths.count("/.well-known/openid-configuration") == 2
            await provider.close()

    asyncio.run(work())
