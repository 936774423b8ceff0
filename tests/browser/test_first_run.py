"""The first use of the UI: an empty catalog, a pasted playbook with a mistake, its fix and its first run."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening
from tests.browser.execution import expect_status, inspector, slider, step
from tests.browser.playbooks import MISTAKEN
from tests.browser.server import UiServer


def paste(page: Page, text: str) -> None:
    """Replace the text in the editor from the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    page.get_by_role("textbox", name=re.compile("^Playbook")).focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")


def test_a_playbook_is_pasted_fixed_run_watched_and_its_output_opened(server: UiServer, open_screen: Opening) -> None:
    page = open_screen(server).open("")
    page.get_by_role("link", name="Go to playbooks").click()
    page.get_by_role("button", name="New playbook").first.click()
    page.get_by_role("link", name="Empty").click()

    paste(page, MISTAKEN)
    problem = page.get_by_role("list", name="Problems").get_by_role("listitem").filter(has_text="unknown-step")
    expect(problem).to_contain_text("finsh")
    page.get_by_role("button", name="Run…").click()
    form = page.get_by_role("form", name="Run this playbook")
    expect(form.get_by_role("button", name="Save and run")).to_be_disabled()

    problem.get_by_role("button", name="Fix: finish").click()
    expect(problem).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="Sound")).to_be_visible()
    form.get_by_role("textbox", name="name").fill("Ada")
    form.get_by_role("button", name="Save and run").click()

    expect(page).to_have_url(re.compile(r"/ui/executions/[0-9a-f-]{36}"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("demo/greeting@1")
    expect_status(page, "ok")
    expect(step(page, "finish")).to_contain_text("done")

    slider(page).focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("seq=1$"))
    expect(inspector(page)).to_contain_text("playbook.execution.requested")
    for name in ("start", "shout", "finish"):
        expect(step(page, name)).not_to_contain_text("done")
    page.keyboard.press("End")
    step(page, "finish").click()
    expect(inspector(page)).to_contain_text("hello, Ada")
