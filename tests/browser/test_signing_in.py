"""A server that asks for tokens: the page asks for one, keeps it for its tab, and says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening
from tests.browser.server import UiServer
from tests.e2e.processes import House as CommandLine


class Closed(NamedTuple):
    server: UiServer
    token: str  # may read and run


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder: Path = tmp_path_factory.mktemp("closed")
    made = CommandLine(folder).call("token", "create", "ann", "--scope", "read", "--scope", "run")
    server = UiServer(folder, "--auth")
    yield Closed(server, made.stdout.strip())
    server.close()


def sign_in(page: Page, token: str) -> None:
    page.get_by_role("textbox", name="Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_token_opens_the_page_and_stays_out_of_its_address(closed: Closed, open_screen: Opening) -> None:
    screen = open_screen(closed.server)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    page = screen.open("tools")
    sign_in(page, closed.token)
    expect(page.get_by_role("heading", level=1, name="Tools")).to_be_visible()
    assert [url for url in [page.url, *asked] if closed.token in url] == []


def test_a_token_is_kept_for_a_reload_and_not_for_another_tab(closed: Closed, open_screen: Opening) -> None:
    screen = open_screen(closed.server)
    page = screen.open("tools")
    sign_in(page, closed.token)
    heading = page.get_by_role("heading", level=1, name="Tools")
    expect(heading).to_be_visible()
    page.reload()
    expect(heading).to_be_visible()
    other = screen.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("textbox", name="Token")).to_be_visible()


def test_a_wrong_token_is_said_to_be_wrong(closed: Closed, open_screen: Opening) -> None:
    page = open_screen(closed.server).open("tools")
    sign_in(page, closed.token[:-4] + "0000")
    field = page.get_by_role("textbox", name="Token")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("token"))


def test_whoever_signs_out_is_asked_again(closed: Closed, open_screen: Opening) -> None:
    page = open_screen(closed.server).open("tools")
    sign_in(page, closed.token)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("textbox", name="Token")).to_be_empty()


def test_the_page_that_asks_has_no_serious_problem(closed: Closed, open_screen: Opening) -> None:
    screen = open_screen(closed.server)
    expect(screen.open("tools").get_by_role("textbox", name="Token")).to_be_visible()
    assert screen.serious() == []
