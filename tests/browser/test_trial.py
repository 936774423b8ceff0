"""Tasks of a person, with at most five clicks each. docs/guides/ui.md lists the same clicks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL, FAILING, GREETING
from tests.browser.server import UiServer

COUNT = (
    "window.clicks = 0; window.addEventListener('click', (event) => { if (event.isTrusted) window.clicks += 1; }, true)"
)


@contextmanager
def clicks(page: Page, expected: int) -> Iterator[None]:
    """The page is not loaded again meanwhile, so that the count is kept."""
    page.evaluate(COUNT)
    yield
    assert page.evaluate("window.clicks") == expected <= 5


def test_stop_30_executions(server: UiServer, open_screen: Opening) -> None:
    for _ in range(30):
        server.begin(APPROVAL)
    server.run(GREETING)
    page = open_screen(server).settle("executions")
    with clicks(page, 4):
        page.get_by_role("button", name="Open", exact=True).click()
        page.get_by_role("button", name="Select all").click()
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel 30 executions").click()
        expect(page.get_by_role("dialog")).to_contain_text("30 executions were cancelled.")


def test_roll_back_a_version(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    server.register(GREETING.replace("hello", "good morning"))
    page = open_screen(server).settle("playbooks")
    with clicks(page, 4):
        page.get_by_role("link", name="demo/greeting", exact=True).click()
        page.get_by_role("tab", name="Versions").click()
        page.get_by_role("button", name="Roll back to version 1").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("version 1")


def test_find_since_when_a_playbook_fails_or_is_slow(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "orders.csv"
    file.write_text("1,2,3")
    server.run(FAILING, file=str(file))
    file.unlink()
    server.run(FAILING, file=str(file))
    page = open_screen(server).settle("playbooks")
    with clicks(page, 2):
        page.get_by_role("link", name="History of demo/import").click()
        expect(page.get_by_text("It fails since")).to_be_visible()
        page.get_by_role("button", name="read", exact=True).click()
        expect(page.get_by_role("figure")).to_contain_text("Duration of read")
