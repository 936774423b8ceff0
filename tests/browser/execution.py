"""The elements of the execution page, by role and label."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.server import UiServer


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Position in the log")


def place(page: Page) -> int:
    """The position in the log that the page shows."""
    return int(slider(page).input_value())


def last(page: Page) -> int:
    return int(slider(page).get_attribute("max") or 0)


def whole(page: Page, server: UiServer, id: str) -> int:
    """Wait until the page has all facts of a finished execution; returns the number of the last one."""
    seq: int = server.head(id)["seq"]
    expect(slider(page)).to_have_attribute("max", str(seq))
    return seq


def step(page: Page, name: str) -> Locator:
    """The card of a step in the graph."""
    return page.get_by_role("button", name=re.compile(f"^Step {name}\\b"))


def events(page: Page) -> Locator:
    return page.get_by_role("region", name="Events").get_by_role("listitem")


def inspector(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Inspector")


def status(page: Page) -> Locator:
    return page.get_by_role("main").locator("header")


def expect_status(page: Page, words: str) -> None:
    expect(status(page)).to_contain_text(words)
