"""The list of executions: live updates, filters in the address, commands in its rows."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL, FAILING, GREETING
from tests.browser.server import UiServer

MANY = 300  # three pages of the API


def rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Executions").get_by_role("listitem")


def row(page: Page, id: str) -> Locator:
    return rows(page).filter(has_text=id)


def test_an_empty_list_shows_how_to_begin(server: UiServer, open_screen: Opening) -> None:
    page = open_screen(server).open("executions")
    expect(page.get_by_role("heading", name="No executions yet")).to_be_visible()
    expect(page.get_by_text("noetl init && noetl run hello.yaml")).to_be_visible()


def test_a_new_execution_appears_and_changes_without_a_reload(shared: UiServer, open_screen: Opening) -> None:
    shared.run(GREETING)
    page = open_screen(shared).open("executions")
    expect(rows(page).first).to_be_visible()
    id = shared.begin(APPROVAL)
    expect(row(page, id)).to_contain_text("running")
    shared.signal(id, "approval", {"approved": True})
    expect(row(page, id)).to_contain_text("ok")


def test_filters_are_in_the_address_and_stay_after_a_reload(shared: UiServer, open_screen: Opening) -> None:
    failed, done = shared.run(FAILING, file="/no/such/file"), shared.run(GREETING)
    page = open_screen(shared).open("executions")
    expect(row(page, done)).to_be_visible()
    filters = page.get_by_role("group", name="Filters")
    filters.get_by_role("button", name="error").click()
    expect(page).to_have_url(re.compile("status=error"))
    expect(row(page, failed)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    page.reload()
    expect(row(page, failed)).to_be_visible()
    expect(filters.get_by_role("button", name="error")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(row(page, done)).to_be_visible()


def test_the_list_of_a_playbook_has_only_its_executions(shared: UiServer, open_screen: Opening) -> None:
    failed, done = shared.run(FAILING, file="/no/such/file"), shared.run(GREETING)
    page = open_screen(shared).open("executions")
    page.get_by_role("textbox", name="Playbook path").fill("demo/import")
    page.keyboard.press("Enter")
    expect(row(page, failed)).to_be_visible()
    expect(row(page, done)).to_have_count(0)


def test_an_execution_is_cancelled_from_its_row_after_a_confirmation(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(APPROVAL)
    page = open_screen(shared).open("executions")
    row(page, id).get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Reason").fill("no longer needed")
    dialog.get_by_role("button", name="Cancel the execution").click()
    expect(row(page, id)).to_contain_text("cancelled")
    expect(dialog).to_have_count(0)


def test_an_execution_is_retried_from_its_row(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "orders.csv"
    id = server.run(FAILING, file=str(file))
    page = open_screen(server).open("executions")
    expect(row(page, id)).to_contain_text("error")
    file.write_text("1,2,3")
    row(page, id).get_by_role("button", name="Retry").click()
    expect(row(page, id)).to_contain_text("ok")


def test_a_long_list_has_only_visible_executions_in_the_page(server: UiServer, open_screen: Opening) -> None:
    first = server.run(GREETING)
    for _ in range(MANY - 1):
        server.ask("POST", "/executions", {"path": "demo/greeting"})
    page = open_screen(server).open("executions")
    expect(rows(page).first).to_be_visible()
    region = page.get_by_role("region", name="Executions")
    region.focus()
    while row(page, first).count() == 0:  # the next page loads when its position becomes visible
        page.keyboard.press("End")
        assert rows(page).count() < 100
    expect(row(page, first)).to_be_visible()
