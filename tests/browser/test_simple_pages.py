"""The pages for tools, credentials, workers and health show the data of the server."""

from __future__ import annotations

import re

from playwright.sync_api import expect

import noetl
from tests.browser.conftest import Opening
from tests.browser.server import UiServer


def test_a_search_finds_a_tool_and_shows_its_fields(shared: UiServer, open_screen: Opening) -> None:
    page = open_screen(shared).open("tools")
    page.get_by_role("searchbox", name="Find a tool").fill("signal")
    kinds = page.get_by_role("navigation", name="Kinds of tools").get_by_role("link")
    expect(kinds).to_have_count(1)
    kinds.click()
    expect(page.get_by_role("heading", name="wait", exact=True)).to_be_visible()
    fields = page.get_by_role("region", name="Fields").get_by_role("rowheader")
    expect(fields).to_have_text(["seconds", "until", "signal", "title", "text", "data", "form"])


def test_a_credential_is_stored_replaced_and_removed_and_never_shown(server: UiServer, open_screen: Opening) -> None:
    page = open_screen(server).open("credentials")
    expect(page.get_by_role("heading", name="No credentials are stored")).to_be_visible()
    for words, button in (("first-secret", "Set a credential"), ("second-secret", "Replace db/main")):
        page.get_by_role("button", name=button).click()
        dialog = page.get_by_role("dialog")
        if button.startswith("Set"):
            dialog.get_by_role("textbox", name="Name").fill("db/main")
        dialog.get_by_role("textbox", name="Value").fill(words)
        dialog.get_by_role("button", name="Store it").click()
        expect(dialog).to_have_count(0)
    row = page.get_by_role("row", name="db/main")
    expect(row.get_by_role("cell").nth(1)).to_have_text("2")
    page.reload()
    expect(row).to_be_visible()
    assert "secret" not in page.content().replace("secrets set", "")
    page.get_by_role("button", name="Remove db/main").click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("heading", name="No credentials are stored")).to_be_visible()


def test_the_worker_of_the_server_is_shown_with_its_slots(shared: UiServer, open_screen: Opening) -> None:
    page = open_screen(shared).open("workers")
    (worker,) = shared.ask("GET", "/workers")["workers"]
    row = page.get_by_role("row", name=re.compile("^" + re.escape(worker["name"])))
    expect(row).to_contain_text(f"0 of {worker['slots']}")


def test_the_audit_page_shows_who_did_what_and_filters(server: UiServer, open_screen: Opening) -> None:
    server.ask("PUT", "/credentials/audited", {"value": "hidden-value"})
    id = server.ask("POST", "/tokens", {"name": "ci", "scopes": ["read"]})["id"]
    page = open_screen(server).open("audit")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="audited")).to_contain_text("version 1")
    expect(rows.filter(has_text=id)).to_contain_text("ci: read")
    page.get_by_role("combobox", name="Action").select_option("secret")
    expect(rows.filter(has_text=id)).to_have_count(0)
    expect(rows.filter(has_text="audited")).to_have_count(1)
    page.get_by_role("textbox", name="Who").fill("nobody")
    expect(page.get_by_role("heading", name="No entries")).to_be_visible()
    assert "hidden-value" not in page.content()


def test_the_health_page_shows_readiness_and_version(shared: UiServer, open_screen: Opening) -> None:
    page = open_screen(shared).open("health")
    expect(page.get_by_text("ready", exact=True)).to_be_visible()
    expect(page.get_by_role("definition").filter(has_text=noetl.__version__)).to_be_visible()
