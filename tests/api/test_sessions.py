"""Sessions of the web UI: a cookie instead of a token, protected from other sites, and ended on the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.control.api_tokens import digest_of
from noetl.server.services import ServerSettings
from tests.api.browsers import Browser
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

SECURED = ServerSettings()
PUBLIC = "https://noetl.example.com"


def browse(
    folder: Path, work: Callable[[ApiServer, Browser], Awaitable[None]], settings: ServerSettings = SECURED
) -> None:
    async def inside(server: ApiServer) -> None:
        await work(server, Browser(server.api.session, server.api.url))

    serve(folder, inside, settings)


async def audit(server: ApiServer, *actions: str) -> list[tuple[str, ...]]:
    """The oldest first: action, what, who, detail."""
    read = await server.api.ask("GET", "/audit", token=await server.token("admin", name="auditor"))
    found = [(each["action"], each["what"], each["who"], each["detail"]) for each in reversed(read.json["items"])]
    return [each for each in found if each[0] in actions]


def test_a_token_is_exchanged_for_a_session_with_its_rights(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        answer = await browser.sign_in(await server.token("run", name="ann"))
        assert (answer.status, answer.json) == (201, {"name": "ann", "scopes": ["run"], "open": False})
        [cookie] = browser.set_cookies
        value = browser.cookies["noetl-session"]
        assert cookie == f"noetl-session={value}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict"
        assert (await browser.ask("GET", "/whoami")).json == answer.json
        assert (await browser.ask("GET", "/tokens")).json["code"] == "low-scope"
        assert (await browser.change("POST", "/playbooks/check", {"text": ""})).status == 200

    browse(tmp_path, work)


def test_the_store_and_the_audit_trail_contain_no_secret(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        token = await server.token("admin", name="ann")
        await browser.sign_in(token)
        stored = await server.services.sessions.list()
        text = repr(stored) + repr(await audit(server, "sign-in", "sign-out", "denied"))
        for secret in (browser.cookies["noetl-session"], token, token.rpartition("_")[2]):
            assert secret not in text
        database = b"".join(path.read_bytes() for path in tmp_path.glob("noetl.db*") if path.is_file())
        assert digest_of(browser.cookies["noetl-session"]) in database
        assert browser.cookies["noetl-session"].encode() not in database
        assert token.encode() not in database

    browse(tmp_path, work)


def test_signing_out_ends_the_session_on_the_server(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("run", name="ann"))
        stolen = dict(browser.cookies)
        answer = await browser.change("DELETE", "/session")
        assert (answer.status, browser.cookies) == (204, {})
        browser.cookies.update(stolen)
        refused = await browser.ask("GET", "/whoami")
        assert (refused.status, refused.json["code"]) == (401, "no-session")
        assert (await browser.change("DELETE", "/session")).status == 204  # again: without effect
        assert await audit(server, "sign-in", "sign-out") == [
            ("sign-in", "session", "ann", "with a token"),
            ("sign-out", "session", "ann", ""),
            ("sign-in", "token", "auditor", ""),
        ]

    browse(tmp_path, work)


def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    cookies: dict[str, str] = {}

    async def sign_in(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("run", name="ann"))
        cookies.update(browser.cookies)

    async def again(_server: ApiServer, browser: Browser) -> None:
        browser.cookies.update(cookies)
        assert (await browser.ask("GET", "/whoami")).json["name"] == "ann"

    browse(tmp_path, sign_in)
    browse(tmp_path, again)


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("run", name="ann"))
        [token] = await server.services.tokens.list()
        admin = await server.token("admin")
        assert (await server.api.ask("DELETE", f"/tokens/{token.id}", token=admin)).status == 204
        refused = await browser.ask("GET", "/whoami")
        assert (refused.status, refused.json["code"]) == (401, "bad-token")

    browse(tmp_path, work)


@pytest.mark.parametrize("token", ["", "noetl_", "hunter2", "noetl_0000000000000000_" + "x" * 43, "noetl_" + "x" * 300])
def test_a_wrong_token_gives_no_session_and_is_in_the_audit_trail(tmp_path: Path, token: str) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        answer = await browser.sign_in(token)
        assert (answer.status, answer.json["code"], browser.set_cookies) == (401, "bad-token", [])
        assert await audit(server, "denied") == [("denied", "POST /session", "", "bad-token")]

    browse(tmp_path, work)


def test_a_session_can_use_no_expired_token(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        answer = await browser.sign_in(await server.expired("admin"))
        assert (answer.status, answer.json["code"], browser.set_cookies) == (401, "expired-token", [])

    browse(tmp_path, work)


# Other sites


FOREIGN = [
    "https://evil.example",
    "http://127.0.0.1:1",  # another port is another site
    "http://127.0.0.1",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "null",
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_another_site_cannot_use_a_session(tmp_path: Path, origin: str) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("admin", name="ann"))
        port = browser.url.rpartition(":")[2]
        sent = {"Origin": origin.format(port=port)}
        for method, path in (("GET", "/whoami"), ("POST", "/tokens"), ("DELETE", "/session")):
            answer = await browser.change(method, path, {} if method == "POST" else None, **sent)
            assert (answer.status, answer.json["code"]) == (403, "foreign-origin")
            assert "access-control-allow-origin" not in answer.headers
        assert (await browser.ask("GET", "/whoami")).status == 200

    browse(tmp_path, work)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_states_another_site_cannot_use_a_session(tmp_path: Path, site: str) -> None:
    """`same-site` is another port or another name of the same domain."""

    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("admin", name="ann"))
        answer = await browser.ask("GET", "/whoami", Sec_Fetch_Site=site)
        assert (answer.status, answer.json["code"]) == (403, "foreign-origin")

    browse(tmp_path, work)


@pytest.mark.parametrize("missing", ["Origin", "X-NoETL-CSRF"])
def test_a_change_needs_the_origin_and_the_header(tmp_path: Path, missing: str) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        token = await server.token("admin", name="ann")
        await browser.sign_in(token)
        changes: list[tuple[str, str, Any]] = [
            ("POST", "/tokens", {"name": "forged", "scopes": ["admin"]}),
            ("PUT", "/credentials/forged", {"value": "x"}),
            ("DELETE", "/session", None),
            ("POST", "/session", {"token": token}),
        ]
        for method, path, body in changes:
            answer = await browser.change(method, path, body, **{missing: ""})
            assert (answer.status, answer.json["code"]) == (403, "no-csrf-header"), path
        assert [each.name for each in await server.services.tokens.list()] == ["ann"]
        assert await server.services.secrets.list() == []
        assert (await browser.ask("GET", "/whoami")).status == 200

    browse(tmp_path, work)


STARTS = HEAD.replace("path: t", "path: shop/read") + (
    "executor: {spec: {methods: [GET]}}\n"
    "triggers:\n- {name: hook, kind: webhook, path: shop/hook, method: GET}\n"
    "workflow:\n- {step: start, tool: {kind: noop}}\n"
)


@pytest.mark.parametrize("path", ["/run/shop/read", "/hooks/shop/hook", "/%2Frun/shop/read", "/%2Fhooks//shop/hook/"])
def test_an_image_on_a_page_of_another_port_starts_nothing(tmp_path: Path, path: str) -> None:
    """Over http a browser sends such a request with the cookie, and without Origin and Sec-Fetch-Site."""

    async def work(server: ApiServer, browser: Browser) -> None:
        token = await server.token("admin", name="ann")
        registered = await server.api.ask("POST", "/playbooks", {"text": STARTS}, token=token)
        assert registered.status == 201, registered.json
        await browser.sign_in(token)
        answer = await browser.ask("GET", path)
        assert (answer.status, answer.json["code"]) == (403, "no-csrf-header")
        assert (await browser.ask("GET", "/executions")).json["items"] == []
        stated: list[dict[str, Any]] = [
            {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}, {"X-NoETL-CSRF": "1"},
        ]  # fmt: skip
        for headers in stated:
            assert (await browser.ask("GET", path, **headers)).status in (200, 202), headers

    browse(tmp_path, work)


def test_a_token_in_the_header_needs_neither_and_wins_over_a_cookie(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("read", name="ann"))
        admin = f"Bearer {await server.token('admin', name='root')}"
        made = await browser.ask("POST", "/tokens", json={"name": "new", "scopes": ["read"]}, Authorization=admin)
        assert made.status == 201
        assert (await browser.ask("GET", "/whoami", Authorization=admin)).json["name"] == "root"
        assert (await browser.ask("GET", "/whoami", Authorization="Bearer noetl_no")).json["code"] == "bad-token"

    browse(tmp_path, work)


# Fixation, unknown cookies


@pytest.mark.parametrize("value", ["x" * 43, "", "x" * 5_000, "../../etc/passwd", '"', "%00"])
def test_a_cookie_that_the_server_did_not_set_is_no_session(tmp_path: Path, value: str) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        answer = await browser.ask("GET", "/whoami", Cookie=f"noetl-session={value}")
        assert answer.status == 401
        assert (await browser.ask("GET", "/health", Cookie=f"noetl-session={value}")).status == 200
        assert await server.services.sessions.list() == []

    browse(tmp_path, work)


def test_a_sign_in_never_adopts_the_secret_that_the_browser_had(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        token = await server.token("run", name="ann")
        browser.cookies["noetl-session"] = planted = "p" * 43
        await browser.sign_in(token)
        first = browser.cookies["noetl-session"]
        assert first != planted
        await browser.sign_in(token)
        assert browser.cookies["noetl-session"] != first
        for old in (planted, first):  # the former session of this browser has ended
            assert (await browser.ask("GET", "/whoami", Cookie=f"noetl-session={old}")).status == 401
        assert len(await server.services.sessions.list()) == 1

    browse(tmp_path, work)


# https


def test_behind_https_the_cookie_is_secure_and_bound_to_the_host(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        host = browser.url.removeprefix("http://")
        token = await server.token("run", name="ann")
        answer = await browser.change("POST", "/session", {"token": token}, Origin=f"https://{host}")
        assert answer.status == 201
        [cookie] = browser.set_cookies
        assert cookie.startswith("__Host-noetl-session=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
        assert (await browser.ask("GET", "/whoami")).status == 200

    browse(tmp_path, work)


def test_with_a_public_address_only_its_pages_can_use_a_session(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        token = await server.token("run", name="ann")
        answer = await browser.change("POST", "/session", {"token": token})  # the address of the proxy's backend
        assert (answer.status, answer.json["code"]) == (403, "foreign-origin")
        assert PUBLIC in answer.json["detail"]
        answer = await browser.change("POST", "/session", {"token": token}, Origin=PUBLIC)
        assert answer.status == 201
        name, value = next(iter(browser.cookies.items()))
        assert name == "__Host-noetl-session"
        assert (await browser.ask("GET", "/whoami", Cookie=f"noetl-session={value}")).status == 401
        assert (await browser.ask("GET", "/whoami", Origin=PUBLIC)).status == 200

    browse(tmp_path, work, ServerSettings(public_url=PUBLIC))


# Listing and ending the sessions of others


def test_an_admin_lists_and_ends_sessions(tmp_path: Path) -> None:
    async def work(server: ApiServer, browser: Browser) -> None:
        await browser.sign_in(await server.token("run", name="ann"))
        server.api.token = await server.token("admin", name="root")
        [item] = (await server.api.get("/sessions"))["items"]
        assert (item["name"], item["user"][:6]) == ("ann", "token:")
        assert browser.cookies["noetl-session"] not in str(item)
        for status in (204, 404):
            assert (await server.api.ask("DELETE", f"/sessions/{item['id']}")).status == status
        assert (await browser.ask("GET", "/whoami")).json["code"] == "no-session"
        assert await audit(server, "sign-out") == [("sign-out", "end the session", "root", "")]

    browse(tmp_path, work)


def test_an_open_server_has_no_sessions(tmp_path: Path) -> None:
    async def work(_server: ApiServer, browser: Browser) -> None:
        assert (await browser.ask("GET", "/session")).json == {"open": True, "oidc": None}
        assert (await browser.sign_in("noetl_x")).json["code"] == "open-server"
        assert (await browser.ask("GET", "/session/oidc")).json["code"] == "no-provider"

    browse(tmp_path, work, ServerSettings(open=True))
