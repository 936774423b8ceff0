"""The catalog with folders, labels, last status and next firing; uses of a credential; saved views of the list."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.browser import DESK, PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.playbooks import FAILING, GREETING
from tests.browser.server import UiServer

SYNC = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sync, path: shop/orders/sync, description: Copies the orders, labels: {team: data}}
keychain:
- {name: warehouse, kind: stored}
triggers:
- {name: daily, kind: interval, every_s: 86400}
workflow:
- step: start
  tool: {kind: noop}
"""


def test_the_catalog_shows_folders_labels_status_and_the_next_start(shared: UiServer, open_screen: Opening) -> None:
    shared.register(SYNC)
    id = shared.run(FAILING, file="/no/such/file")
    page = open_screen(shared).open("playbooks")
    row = page.get_by_role("row").filter(has_text="shop/orders/sync")
    for text in ("Copies the orders", "team=data", "uses warehouse", "never"):
        expect(row).to_contain_text(text)
    expect(row.get_by_role("cell").nth(2)).not_to_have_text("")
    failed = page.get_by_role("row").filter(has=page.get_by_role("link", name="demo/import", exact=True))
    expect(failed.get_by_role("link", name="error")).to_have_attribute("href", f"/ui/executions/{id}")
    folder = page.get_by_role("button", name="shop/orders/ 1")
    folder.focus()
    page.keyboard.press("Enter")
    expect(row.get_by_text("Copies the orders")).to_have_count(0)


def test_a_credential_says_which_playbooks_use_it(shared: UiServer, open_screen: Opening) -> None:
    shared.register(SYNC)
    shared.ask("PUT", "/credentials/warehouse", {"value": "quiet"})
    page = open_screen(shared).open("credentials")
    page.get_by_role("button", name="Used by… warehouse").click()
    page.get_by_role("dialog").get_by_role("link", name="shop/orders/sync").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("shop/orders/sync")


def test_a_filter_is_saved_under_a_name_and_removed(shared: UiServer, open_screen: Opening) -> None:
    shared.run(GREETING)
    screen = open_screen(shared)
    page = screen.open("executions?status=error")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_role("textbox", name="Name").fill("Failures")
    page.keyboard.press("Enter")
    page = screen.open("executions")
    views = page.get_by_role("navigation", name="Saved views")
    views.get_by_role("link", name="Failures").click()
    expect(page).to_have_url(f"{shared.url}/ui/executions?status=error")
    expect(page.get_by_label("Status")).to_have_value("error")
    assert screen.serious() == []
    page.get_by_role("button", name="Remove the view Failures").click()
    expect(views).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_catalog_is_accessible(shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme) -> None:
    shared.register(SYNC)
    shared.run(GREETING)
    screen = open_screen(shared, size=size, scheme=scheme)
    page = screen.settle("playbooks")
    expect(page.get_by_text("Copies the orders")).to_be_visible()
    assert (screen.serious(), screen.overhang()) == ([], 0)
