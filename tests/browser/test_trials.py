"""Tests and what-if in the UI: both run a text without calls, and say what differs."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import PHONE, Scheme, Screen, Size
from tests.browser.conftest import Opening
from tests.browser.server import UiServer

ORDERS: Final = (
    "apiVersion: noetl.io/v2\n"
    "kind: Playbook\n"
    "metadata: {name: orders, path: demo/orders}\n"
    "workload: {pages: 3}\n"
    "workflow:\n"
    "- step: start\n"
    "  loop: {in: '{{ range(workload.pages) }}', iterator: n}\n"
    "  tool: {name: get, kind: python, code: 'def main(n): return [n, n]', input: {n: '{{ iter.n }}'}}\n"
    "  set: {ctx.rows: '{{ output.data | length }}'}\n"
    "  next: {arcs: [{step: store, when: '{{ ctx.rows > 2 }}'}, {step: small}]}\n"
    "- step: store\n"
    "  tool: {name: put, kind: python, code: 'def main(rows): return rows', input: {rows: '{{ ctx.rows }}'}}\n"
    "- step: small\n"
    "  tool: {kind: noop}\n"
)
EDITED: Final = ORDERS.replace("ctx.rows > 2", "ctx.rows > 4").replace(
    "{n: '{{ iter.n }}'}", "{n: '{{ iter.n + 10 }}'}"
)
TESTS: Final = (
    "playbook: orders.yaml\n"
    "tests:\n"
    "- name: three pages are stored\n"
    "  stubs: [{call: start.get, output: []}, {call: store.put, output: done}]\n"
    "  expect: {route: [start, store]}\n"
    "- name: one page is small\n"
    "  workload: {pages: 1}\n"
    "  stubs: [{call: start.get, output: []}]\n"
    "  expect: {route: [start, store]}\n"
)
LOOKS: Final = [(Size(1440, 900), "light"), (Size(1024, 768), "dark"), (PHONE, "light")]


def is_clean(screen: Screen) -> None:
    assert (screen.overhang(), screen.serious()) == (0, [])


def replace_text(page: Page, editor: Locator, text: str) -> None:
    editor.focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_tests_of_a_playbook_run_in_the_editor(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    shared.register(ORDERS)
    screen = open_screen(shared, size, scheme)
    page = screen.open("playbooks/one?path=demo/orders&tab=tests")
    tests = page.get_by_role("textbox", name="Tests")
    expect(tests).to_contain_text("call: start")
    replace_text(page, tests, TESTS)
    page.get_by_role("button", name="Run the tests").click()
    expect(page.get_by_text("1 of 2 passed")).to_be_visible()
    results = page.get_by_role("list", name="Results").get_by_role("listitem")
    expect(results.nth(0)).to_contain_text("passed: three pages are stored")
    expect(results.nth(1)).to_contain_text("expected start → store, got start → small")
    expect(page.get_by_text("3 of 3 steps")).to_be_visible()
    is_clean(screen)
    # A mistake in the tests is shown with its line, and a reload keeps the tests.
    replace_text(page, tests, TESTS.replace("start.get", "start.gett"))
    page.get_by_role("button", name="Run the tests").click()
    expect(page.get_by_role("alert")).to_contain_text('line 4: the playbook has no call "start.gett"')
    page.reload()
    expect(page.get_by_role("textbox", name="Tests")).to_contain_text("start.gett")
    assert shared.ask("GET", "/executions?path=demo/orders")["items"] == []


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_an_edited_text_is_compared_with_one_execution(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    id = server.run(ORDERS)
    screen = open_screen(server, size, scheme)
    page = screen.open(f"executions/{id}")
    page.get_by_role("link", name="What if…").click()
    editor = page.get_by_role("textbox", name=re.compile("^Playbook"))
    expect(editor).to_contain_text("demo/orders")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Routes, calls and output are those of the recorded execution.")).to_be_visible()
    replace_text(page, editor, EDITED)
    page.get_by_role("button", name="Compare").click()
    report = page.get_by_role("status", name="What would have been different")
    expect(report).to_contain_text("First divergence: the input or the code of start.get differs in start#1[0]")
    expect(report).to_contain_text("0 of 3 calls answered for the same input (0 %)")
    routes = report.get_by_role("table", name="Routes").get_by_role("row")
    expect(routes.nth(2)).to_have_text(re.compile("^store–$"))
    expect(routes.nth(3)).to_have_text(re.compile("^–small$"))
    expect(report.get_by_role("table", name="Calls that differ").get_by_role("row")).to_have_count(4)
    is_clean(screen)
    assert len(server.ask("GET", "/executions")["items"]) == 1, "nothing was started"


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_an_edited_text_is_compared_with_the_last_executions(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    for pages in (1, 3, 9):
        server.run(ORDERS, pages=pages)
    screen = open_screen(server, size, scheme)
    page = screen.open("playbooks/one?path=demo/orders&tab=what-if")
    editor = page.get_by_role("textbox", name=re.compile("^Playbook"))
    replace_text(page, editor, ORDERS.replace("ctx.rows > 2", "ctx.rows > 4"))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("1 of 3 executions would differ.")).to_be_visible()
    rows = page.get_by_role("region", name="Compared executions").get_by_role("row")
    expect(rows.nth(2)).to_contain_text("start → small happens and was not recorded")
    rows.nth(2).get_by_role("button", name=re.compile("^Details")).click()
    expect(page.get_by_role("table", name="Routes").get_by_role("row")).to_have_count(4)
    is_clean(screen)
