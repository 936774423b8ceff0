"""The catalog and the editor: versions and their differences, forms for workloads, problems while typing."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Opening
from tests.browser.playbooks import GREETING, LOOP, MISTAKEN
from tests.browser.server import UiServer


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name=re.compile("^Playbook"))


def test_a_search_in_the_catalog_finds_a_playbook_and_its_graph(shared: UiServer, open_screen: Opening) -> None:
    shared.register(GREETING)
    shared.register(LOOP)
    page = open_screen(shared).open("playbooks")
    page.get_by_role("searchbox", name="Find a playbook by its path").fill("GREET")
    expect(page.get_by_role("link", name="demo/squares", exact=True)).to_have_count(0)
    page.get_by_role("link", name="demo/greeting", exact=True).click()
    for step in ("start", "shout", "finish"):
        expect(page.get_by_role("button", name=re.compile(f"^Step {step}"))).to_be_visible()


def test_a_step_of_the_graph_links_to_its_line(shared: UiServer, open_screen: Opening) -> None:
    shared.register(GREETING)
    page = open_screen(shared).open("playbooks/one?path=demo/greeting")
    page.get_by_role("button", name=re.compile("^Step finish")).click()
    expect(page.locator(".cm-activeLine")).to_contain_text("step: finish")


def test_a_change_is_checked_drawn_saved_as_a_version_and_compared(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    page = open_screen(server).open("playbooks/one?path=demo/greeting")
    editor(page).focus()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("- step: alone\n  tool: {kind: noop}\n")
    problems = page.get_by_role("list", name="Problems")
    expect(problems.get_by_text("unreachable-step")).to_be_visible()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(GREETING.replace("said:", "heard:"))
    expect(problems).to_have_count(0)
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("version 2")
    page.get_by_role("tab", name="Versions").click()
    changed = page.get_by_role("region", name="Changes").get_by_role("row")
    expect(changed.filter(has_text="removed:")).to_contain_text("said:")
    expect(changed.filter(has_text="added:")).to_contain_text("heard:")


def test_a_draft_survives_a_reload(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    page = open_screen(server).open("playbooks/one?path=demo/greeting")
    editor(page).focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(GREETING.replace("world", "everybody"))
    expect(page.get_by_text("unsaved changes", exact=True)).to_be_visible()
    page.reload()
    expect(editor(page)).to_contain_text("everybody")
    page.get_by_role("button", name="Discard changes").click()
    expect(editor(page)).to_contain_text("world")


def test_a_form_has_a_field_for_each_input_and_rejects_text_for_a_number(
    shared: UiServer, open_screen: Opening
) -> None:
    shared.register(LOOP)
    page = open_screen(shared).open("playbooks/one?path=demo/squares&tab=run")
    form = page.get_by_role("form", name="Run this playbook")
    many = form.get_by_role("textbox", name="many")
    expect(many).to_have_value("10000")
    many.fill("some")
    expect(many).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_role("button", name="Run")).to_be_disabled()
    many.fill("3")
    form.get_by_role("button", name="Run").click()
    expect(page).to_have_url(re.compile(r"/ui/executions/[0-9a-f-]{36}"))
    id = page.url.rsplit("/", 1)[-1].split("?")[0]
    assert shared.ask("GET", f"/executions/{id}/state")["workload"] == {"many": 3}


def test_keys_are_completed_and_explained(shared: UiServer, open_screen: Opening) -> None:
    shared.register(GREETING)
    page = open_screen(shared).open("playbooks/one?path=demo/greeting")
    editor(page).focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("- st")
    option = page.get_by_role("option", name=re.compile("^step"))
    for _ in range(60):  # the completions come from the server: request them again until they are there
        with suppress(AssertionError):
            expect(option).to_be_visible(timeout=1_000)
            return
        page.keyboard.press("Control+Space")
    pytest.fail("the editor offers no completion")


def test_saving_a_playbook_with_an_error_shows_a_warning(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    page = open_screen(server).open("playbooks/one?path=demo/greeting")
    editor(page).focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(MISTAKEN)
    expect(page.get_by_role("list", name="Problems").get_by_text("unknown-step")).to_be_visible()
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_role("status").filter(has_text=re.compile("can ?not run"))).to_be_visible()
    assert server.ask("GET", "/playbooks/one?path=demo/greeting")["version"] == 1


def test_an_archived_playbook_is_hidden_and_can_be_shown(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    page = open_screen(server).open("playbooks")
    page.get_by_role("button", name="Archive demo/greeting").click()
    page.get_by_role("button", name="Archive it").click()
    expect(page.get_by_role("heading", name="No playbooks yet")).to_be_visible()
    page.get_by_role("checkbox", name="Include archived").check()
    expect(page.get_by_role("link", name="demo/greeting", exact=True)).to_be_visible()
