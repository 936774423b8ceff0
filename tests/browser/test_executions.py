"""The list of executions: live updates, filters in the address, commands in its rows."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
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
    filters.get_by_role("combobox", name="Status").select_option("error")
    expect(page).to_have_url(re.compile("status=error"))
    expect(row(page, failed)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    page.reload()
    expect(row(page, failed)).to_be_visible()
    expect(filters.get_by_role("combobox", name="Status")).to_have_value("error")
    page.go_back()
    expect(row(page, done)).to_be_visible()


def test_the_list_of_a_playbook_has_only_its_executions(shared: UiServer, open_screen: Opening) -> None:
    failed, done = shared.run(FAILING, file="/no/such/file"), shared.run(GREETING)
    page = open_screen(shared).open("executions?path=demo/import")
    expect(row(page, failed)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    page.get_by_role("combobox", name="Version").select_option("1")
    expect(page).to_have_url(re.compile("version=1"))
    expect(row(page, failed)).to_be_visible()
    page.get_by_role("button", name="Remove the filter demo/import").click()
    expect(row(page, done)).to_be_visible()


@pytest.mark.parametrize("part", ["path", "id", "label", "error"])
def test_executions_are_found_by_a_part(shared: UiServer, open_screen: Opening, part: str) -> None:
    body = {"path": shared.register(FAILING), "workload": {"file": "/no/such/file"}, "labels": {"region": part}}
    failed: str = shared.ask("POST", "/executions?wait=100", body)["execution_id"]
    done = shared.run(GREETING)
    search = {"path": "IMPORT", "id": failed[-7:], "label": f"region={part}", "error": "no/such"}[part]
    page = open_screen(shared).open("executions")
    expect(row(page, done)).to_be_visible()
    page.get_by_role("searchbox", name="Search executions").fill(search)
    expect(page).to_have_url(re.compile("search="))
    expect(row(page, failed)).to_be_visible()
    expect(row(page, done)).to_have_count(0)
    total = shared.ask("GET", f"/executions?total=true&search={quote(search)}")["total"]
    expect(page.get_by_role("status", name="Total")).to_have_text(re.compile(f"^{total} match"))
    page.reload()
    expect(page.get_by_role("searchbox", name="Search executions")).to_have_value(search)
    expect(row(page, done)).to_have_count(0)


def test_executions_that_wait_for_a_person_have_a_filter(shared: UiServer, open_screen: Opening) -> None:
    done, waiting = shared.run(GREETING), shared.begin(APPROVAL)
    page = open_screen(shared).open("executions")
    expect(row(page, waiting)).to_contain_text("waits for approval")
    page.get_by_role("button", name="Waits for a person").click()
    expect(row(page, done)).to_have_count(0)
    expect(row(page, waiting)).to_be_visible()
    shared.signal(waiting, "approval", {"approved": True})
    expect(row(page, waiting)).to_have_count(0)


def test_a_range_of_time_limits_the_list(shared: UiServer, open_screen: Opening) -> None:
    before = shared.run(GREETING)
    at = shared.head(before)["updated_at"]
    after = shared.run(GREETING)
    page = open_screen(shared).open(f"executions?until={at}")
    expect(row(page, before)).to_be_visible()
    expect(row(page, after)).to_have_count(0)
    page.get_by_role("combobox", name="Started", exact=True).select_option("Last hour")
    expect(row(page, after)).to_be_visible()
    expect(page).to_have_url(re.compile("since=1h$"))


def test_back_keeps_the_place_in_the_list(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    for _ in range(150):
        server.ask("POST", "/executions", {"path": "demo/greeting"})
    page = open_screen(server).open("executions")
    expect(page.get_by_role("status", name="Total")).to_have_text("150 in total")
    region = page.get_by_role("region", name="Executions")
    newest = rows(page).first.get_by_role("link").first.get_attribute("href")
    region.evaluate("element => { element.scrollTop = 4000; }")
    expect(rows(page).locator(f"a[href='{newest}']")).to_have_count(0)  # the rows at the new place are drawn
    place = rows(page).nth(12)
    before = region.evaluate("element => element.scrollTop")
    name = place.get_by_role("link").first.get_attribute("href")
    place.get_by_role("link").first.click()
    expect(page.get_by_role("tab").first).to_be_visible()
    page.go_back()
    expect(rows(page).locator(f"a[href='{name}']")).to_be_visible()
    assert region.evaluate("element => element.scrollTop") == before


def test_the_list_says_when_it_is_out_of_date(server: UiServer, open_screen: Opening) -> None:
    id = server.run(GREETING)
    page = open_screen(server).open("executions")
    expect(row(page, id)).to_be_visible()
    server.process.kill()
    expect(page.get_by_text("may be out of date")).to_be_visible()
    expect(row(page, id)).to_be_visible()
    server.start_again()
    expect(page.get_by_text("may be out of date")).to_have_count(0)


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
