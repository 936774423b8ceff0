"""The pages of triggers and of saved values: read, pause, resume, fire, change, remove."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
NIGHTLY: Final = HEAD.format(name="nightly") + (
    'triggers:\n'
    '- {name: night, kind: cron, cron: "0 3 * * *", timezone: Europe/Zurich}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: noop}\n'
)  # fmt: skip
LOOKS: Final = [(Size(1440, 900), "light"), (Size(1024, 768), "dark"), (PHONE, "dark")]


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_trigger_is_paused_resumed_and_fired(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    server.register(NIGHTLY)
    screen = open_screen(server, size, scheme)
    page = screen.settle("triggers")
    card = page.get_by_role("region", name="demo/nightly:night")
    expect(card).to_contain_text("0 3 * * *")
    card.get_by_role("button", name="Details of").click()
    expect(card.get_by_role("heading", name="Next times")).to_be_visible()
    expect(card).to_contain_text("It has not fired yet.")
    card.get_by_role("button", name="Pause").click()
    expect(card).to_contain_text("None: it is paused.")
    card.get_by_role("button", name="Resume").click()
    expect(card).to_contain_text("next ")
    card.get_by_role("button", name="Fire").click()
    expect(card).to_contain_text("fired once")
    assert (screen.overhang(), screen.serious()) == (0, [])
    card.get_by_role("table").get_by_role("link").click()
    expect(page).to_have_url(re.compile("/ui/executions/"))
    expect(page.get_by_role("main").locator("header")).to_contain_text("demo/nightly")


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_saved_value_is_set_changed_and_removed(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    server.register(NIGHTLY)
    screen = open_screen(server, size, scheme)
    page = screen.settle("saved")
    page.get_by_role("combobox", name="Playbook").select_option("demo/nightly")
    page.get_by_role("button", name="Set a value").click()
    page.get_by_role("textbox", name="Key").fill("cursor")
    page.get_by_role("textbox", name="Value").fill("{not json")
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_role("dialog")).to_contain_text("Enter JSON")
    page.get_by_role("textbox", name="Value").fill('{"page": 7}')
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_role("cell", name='{"page":7}')).to_be_visible()
    page.get_by_role("button", name="Change cursor").click()
    page.get_by_role("textbox", name="Value").fill("8")
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_role("cell", name="8", exact=True)).to_be_visible()
    assert (screen.overhang(), screen.serious()) == (0, [])
    page.get_by_role("button", name="History of cursor").click()
    expect(page.get_by_role("dialog").get_by_role("row")).to_have_count(2)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Remove cursor").click()
    expect(page.get_by_text("has no saved values")).to_be_visible()
