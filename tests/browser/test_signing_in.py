"""Signing in: with a token, which becomes a session of all tabs, and with an OpenID Connect provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import Screen
from tests.browser.conftest import Opening
from tests.browser.server import UiServer
from tests.e2e.processes import Workspace as CommandLine
from tests.identity_provider import PASSWORD, ROLES, IdentityProvider, identity_provider
from tests.ports import free_port


class SecuredServer(NamedTuple):
    server: UiServer
    token: str  # may read and run


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    folder: Path = tmp_path_factory.mktemp("secured")
    made = CommandLine(folder).call("token", "create", "ann", "--scope", "read", "--scope", "run")
    server = UiServer(folder, "--auth")
    yield SecuredServer(server, made.stdout.strip())
    server.close()


def sign_in(page: Page, token: str) -> None:
    page.get_by_role("textbox", name="Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_token_opens_the_page_and_stays_out_of_its_address(secured: SecuredServer, open_screen: Opening) -> None:
    screen = open_screen(secured.server)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    page = screen.open("tools")
    sign_in(page, secured.token)
    expect(page.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    assert [url for url in [page.url, *asked] if secured.token in url] == []


STORED = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"


def test_a_session_holds_for_a_reload_and_another_tab_and_scripts_find_no_secret(
    secured: SecuredServer, open_screen: Opening
) -> None:
    screen = open_screen(secured.server)
    page = screen.open("tools")
    sign_in(page, secured.token)
    heading = page.get_by_role("heading", level=1, name="Tools")
    expect(heading).to_be_visible()
    page.reload()
    expect(heading).to_be_visible()
    other = screen.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    [cookie] = screen.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("noetl-session", True, "Strict")
    stored = page.evaluate(STORED)
    assert secured.token not in stored
    assert cookie["value"] not in stored


def test_a_session_can_change_something(secured: SecuredServer, open_screen: Opening) -> None:
    """The browser sends the headers that protect a session from other sites."""
    page = open_screen(secured.server).open("tools")
    sign_in(page, secured.token)
    expect(page.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    headers = "{'Content-Type': 'application/json', 'X-NoETL-CSRF': '1'}"
    sent = f"fetch('/playbooks/check', {{method: 'POST', body: '{{\"text\": \"\"}}', headers: {headers}}})"
    assert page.evaluate(f"{sent}.then((answer) => answer.status)") == 200


def test_a_wrong_token_is_reported(secured: SecuredServer, open_screen: Opening) -> None:
    page = open_screen(secured.server).open("tools")
    sign_in(page, secured.token[:-4] + "0000")
    field = page.get_by_role("textbox", name="Token")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("token"))


def test_the_page_asks_for_a_token_again_after_signing_out(secured: SecuredServer, open_screen: Opening) -> None:
    screen = open_screen(secured.server)
    page = screen.open("tools")
    sign_in(page, secured.token)
    expect(page.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    [cookie] = screen.context.cookies()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("textbox", name="Token")).to_be_empty()
    assert screen.context.cookies() == []
    request = Request(f"{secured.server.url}/whoami", headers={"Cookie": f"noetl-session={cookie['value']}"})
    with pytest.raises(HTTPError, match="401"):  # a copy of the cookie is worthless
        urlopen(request, timeout=60)


def test_the_sign_in_page_has_no_serious_problem(secured: SecuredServer, open_screen: Opening) -> None:
    screen = open_screen(secured.server)
    expect(screen.open("tools").get_by_role("textbox", name="Token")).to_be_visible()
    assert screen.serious() == []


class ProviderServer(NamedTuple):
    server: UiServer
    provider: IdentityProvider


@pytest.fixture(scope="module")
def with_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderServer]:
    folder, port = tmp_path_factory.mktemp("with_provider"), free_port()
    with identity_provider(folder) as provider:
        url = f"http://127.0.0.1:{port}"
        client = provider.register(url)
        secret = folder / "client-secret"
        secret.write_text(client.secret + "\n")
        variables = {
            "NOETL_PUBLIC_URL": url,
            "NOETL_OIDC_ISSUER": provider.issuer,
            "NOETL_OIDC_CLIENT_ID": client.id,
            "NOETL_OIDC_CLIENT_SECRET_FILE": str(secret),
            "NOETL_OIDC_SCOPES": "openid profile email groups",
            "NOETL_OIDC_ROLES": json.dumps(ROLES),
        }
        server = UiServer(folder, port=port, variables=variables)  # a provider is set: it is not open by default
        yield ProviderServer(server, provider)
        server.close()


def sign_in_at_provider(page: Page, user: str) -> None:
    page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    page.get_by_label("Login").fill(user)
    page.get_by_label("Login").press("Enter")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("textbox", name="Password").press("Enter")


def leave_provider(screen: Screen, with_provider: ProviderServer) -> None:
    """Requests to the provider itself are expected."""
    screen.foreign[:] = [url for url in screen.foreign if not url.startswith(with_provider.provider.issuer)]


def test_a_person_signs_in_with_a_provider_once_for_all_tabs_and_signs_out(
    with_provider: ProviderServer, open_screen: Opening
) -> None:
    screen = open_screen(with_provider.server)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    page = screen.open("tools")
    sign_in_at_provider(page, "ann")
    expect(page.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    assert page.url == f"{with_provider.server.url}/ui/tools"
    other = screen.context.new_page()
    other.goto(f"{with_provider.server.url}/ui/playbooks")
    expect(other.get_by_role("heading", level=1, name="Playbooks")).to_be_visible()
    expect(other.get_by_title("Signed in as ann")).to_be_visible()
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()
    page.reload()  # the other tab is signed out too
    expect(page.get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()
    leave_provider(screen, with_provider)
    [callback] = [url for url in asked if url.startswith(f"{with_provider.server.url}/session/oidc/callback")]
    for secret in parse_qs(urlsplit(callback).query)["code"] + parse_qs(urlsplit(callback).query)["state"]:
        assert secret not in with_provider.server.process.output()


def test_a_person_without_a_role_reads_why(with_provider: ProviderServer, open_screen: Opening) -> None:
    screen = open_screen(with_provider.server)
    page = screen.open("tools")
    sign_in_at_provider(page, "stranger")
    expect(page.get_by_role("alert")).to_contain_text("none of your groups has a role")
    assert [each for each in screen.context.cookies() if each["name"].startswith("noetl")] == []
    leave_provider(screen, with_provider)
    assert screen.serious() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_page_with_a_provider_has_no_serious_problem(
    with_provider: ProviderServer, open_screen: Opening, scheme: str
) -> None:
    screen = open_screen(with_provider.server, scheme=scheme)
    expect(screen.open("tools").get_by_role("link", name="Sign in with 127.0.0.1")).to_be_visible()
    assert screen.serious() == []
