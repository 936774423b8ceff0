"""A server with tokens: the page asks for a token, keeps it for its tab, and reports a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening
from tests.browser.server import UiServer
from tests.e2e.processes import Workspace as CommandLine


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


def test_a_token_is_kept_for_a_reload_and_not_for_another_tab(secured: SecuredServer, open_screen: Opening) -> None:
    screen = open_screen(secured.server)
    page = screen.open("tools")
    sign_in(page, secured.token)
    heading = page.get_by_role("heading", level=1, name="Tools")
    expect(heading).to_be_visible()
    page.reload()
    expect(heading).to_be_visible()
    other = screen.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("textbox", name="Token")).to_be_visible()


def test_a_wrong_token_is_reported(secured: SecuredServer, open_screen: Opening) -> None:
    page = open_screen(secured.server).open("tools")
    sign_in(page, secured.token[:-4] + "0000")
    field = page.get_by_role("textbox", name="Token")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("token"))


def test_the_page_asks_for_a_token_again_after_signing_out(secured: SecuredServer, open_screen: Opening) -> None:
    page = open_screen(secured.server).open("tools")
    sign_in(page, secured.token)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("textbox", name="Token")).to_be_empty()


def test_the_sign_in_page_has_no_serious_problem(secured: SecuredServer, open_screen: Opening) -> None:
    screen = open_screen(secured.server)
    expect(screen.open("tools").get_by_role("textbox", name="Token")).to_be_visible()
    assert screen.serious() == []
