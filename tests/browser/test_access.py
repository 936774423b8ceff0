"""Accessibility of every page, light and dark: axe finds no serious problem, phones and keyboards work."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple, get_args

import pytest
from playwright.sync_api import expect

from tests.browser.browser import PHONE, Scheme
from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL, FAILING, GREETING, LOOP
from tests.browser.server import UiServer

PAGES = (
    "executions",
    "executions/done",
    "executions/failed",
    "executions/waiting",
    "executions/loop",
    "playbooks",
    "playbooks/one?path=demo/greeting",
    "triggers",
    "saved",
    "saved?path=demo/greeting",
    "tools",
    "credentials",
    "workers",
    "health",
    "audit",
    "executions/no-such-execution",
    "playbooks/one?path=no/such/playbook",
    "no-such-page",
)
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


class FilledServer(NamedTuple):
    """A server with data for every page."""

    server: UiServer
    ids: dict[str, str]

    def place(self, path: str) -> str:
        """The path with the id of the execution."""
        page, _, name = path.partition("/")
        return f"{page}/{self.ids[name]}" if name in self.ids else path


@pytest.fixture(scope="module")
def filled(shared: UiServer) -> FilledServer:
    shared.ask("PUT", "/credentials/warehouse", {"value": "quiet"})
    ids = {
        "done": shared.run(GREETING),
        "failed": shared.run(FAILING, file="/no/such/file"),
        "waiting": shared.begin(APPROVAL),
        "loop": shared.run(LOOP, many=50),
    }
    return FilledServer(shared, ids)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_serious_problem(filled: FilledServer, open_screen: Opening, path: str, scheme: Scheme) -> None:
    screen = open_screen(filled.server, scheme=scheme)
    screen.settle(filled.place(path))
    assert screen.serious() == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_it_without_scrolling_sideways(filled: FilledServer, open_screen: Opening, path: str) -> None:
    screen = open_screen(filled.server, size=PHONE)
    screen.settle(filled.place(path))
    assert screen.overhang() == 0


@pytest.mark.parametrize(
    ("key", "page_"),
    [
        ("e", "executions"),
        ("p", "playbooks"),
        ("t", "tools"),
        ("c", "credentials"),
        ("w", "workers"),
        ("h", "health"),
    ],
)
def test_two_keys_open_a_page(filled: FilledServer, open_screen: Opening, key: str, page_: str) -> None:
    page = open_screen(filled.server).settle("health" if page_ == "executions" else "executions")
    for _ in range(20):  # after a pause between the two keys the page ignores them: press them again
        page.keyboard.press("g")
        page.keyboard.press(key)
        with suppress(AssertionError):
            expect(page).to_have_url(re.compile(f"/ui/{page_}$"), timeout=3_000)
            break
    current = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    expect(current).to_have_text(page_.capitalize())


def test_a_key_opens_the_search_and_an_id_opens_its_execution(filled: FilledServer, open_screen: Opening) -> None:
    page = open_screen(filled.server).settle("playbooks")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name=re.compile("^Search"))).to_be_focused()
    page.keyboard.type(filled.ids["failed"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/ui/executions/{filled.ids['failed']}"))


def test_a_key_shows_all_keys_and_another_hides_them(filled: FilledServer, open_screen: Opening) -> None:
    page = open_screen(filled.server).settle("executions")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_first_tab_stop_skips_the_header(filled: FilledServer, open_screen: Opening) -> None:
    page = open_screen(filled.server).settle("executions")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_a_chosen_theme_stays_after_a_reload(filled: FilledServer, open_screen: Opening) -> None:
    page = open_screen(filled.server, scheme="light").settle("executions")
    body = page.locator("body")
    light: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    switch = page.get_by_role("button", name=re.compile("^Theme"))
    switch.click()
    switch.click()
    expect(switch).to_have_accessible_name(re.compile("dark"))
    expect(body).not_to_have_css("background-color", light)
    page.reload()
    expect(switch).to_have_accessible_name(re.compile("dark"))
    expect(body).not_to_have_css("background-color", light)
