"""The Logs tab: live lines, merged and of one call, a search, colours and a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
# Prints in colour, then works until the file exists.
TALKING: Final = HEAD.format(name="talking") + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool:\n'
    '    kind: shell\n'
    '    sh: "printf \'\\\\033[32mconnected\\\\033[0m\\\\n\'; until test -e {{ workload.file }}; do sleep 0.1; done; echo finished >&2"\n'
    '  next: {arcs: [{step: each}]}\n'
    '- step: each\n'
    '  loop: {in: "{{ range(40) }}", iterator: number}\n'
    '  tool: {kind: python, input: {number: "{{ iter.number }}"}, code: "def main(number): print(\'item\', number)"}\n'
)  # fmt: skip


def lines(page: Page) -> Locator:
    return page.get_by_role("region", name="Log lines").get_by_role("listitem")


def test_lines_appear_while_the_task_runs(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "go"
    id = server.begin(TALKING, file=str(file))
    page = open_screen(server).open(f"executions/{id}")
    page.get_by_role("tab", name="Logs").click()
    expect(lines(page)).to_have_count(1)
    expect(lines(page).locator(".ansi-green")).to_have_text("connected")
    file.touch()
    expect_status(page, "ok")
    expect(page.get_by_text("42 lines")).to_be_visible()
    expect(lines(page).filter(has_text="item 39")).to_be_visible()


@pytest.mark.parametrize(("size", "scheme"), [(Size(1440, 900), "light"), (PHONE, "dark")])
def test_logs_are_searched_limited_to_one_call_and_saved(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    file = server.folder / "go"
    file.touch()
    id = server.run(TALKING, file=str(file))
    screen = open_screen(server, size, scheme)
    page = screen.open(f"executions/{id}?tab=logs")
    expect(page.get_by_text("42 lines")).to_be_visible()
    page.get_by_role("searchbox", name="Search the logs").fill("ITEM 1")
    expect(page.get_by_text("11 of 42 lines")).to_be_visible()
    lines(page).filter(has_text="item 17").get_by_role("button", name="each#1[17]/1", exact=True).click()
    expect(page).to_have_url(re.compile(r"log=each"))
    expect(page.get_by_text("1 of 1 lines")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert Path(saved.value.path()).read_text("utf-8") == "each#1[17]/1 out | item 17\n"
    assert (screen.overhang(), screen.serious()) == (0, [])
