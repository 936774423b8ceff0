"""Tasks of a person, with at most five clicks each. docs/guides/ui.md lists the same clicks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening
from tests.browser.execution import expect_status
from tests.browser.playbooks import APPROVAL, FAILING, GREETING
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
# Item 4321 fails until the file exists; the others call nothing.
ORDERS: Final = HEAD.format(name="orders") + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}\n'
    '  loop: {in: "{{ range(5000) }}", iterator: order, spec: {mode: parallel, max_in_flight: 64}}\n'
    '  tool:\n'
    '  - name: look\n'
    '    kind: noop\n'
    '    spec: {policy: {rules: [{when: "{{ iter.order != 4321 }}", then: {do: break}}, {else: {then: {do: continue}}}]}}\n'
    '  - {name: store, kind: shell, argv: ["test", "-e", "{{ workload.file }}"]}\n'
)  # fmt: skip
QUESTION: Final = HEAD.format(name="refund") + (
    'executor: {spec: {entry_step: ask}}\n'
    'workflow:\n'
    '- step: ask\n'
    '  tool: {kind: wait, signal: refund, title: "Refund 120 € for order A-17?"}\n'
)  # fmt: skip
ONE: Final = HEAD.format(name="one") + (
    'executor: {spec: {policy: {concurrency: {limit: 1, when_full: queue}}}}\n'
    'workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n'
)  # fmt: skip
TYPO: Final = HEAD.format(name="typo") + (
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: shell, argv: ["ecko", "hello"]}\n'
)  # fmt: skip
TALKING: Final = HEAD.format(name="talking") + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: shell, argv: [sh, -c, "echo one; while [ ! -e $0 ]; do sleep 0.1; done; echo two", "{{ workload.file }}"]}\n'
)  # fmt: skip
DAILY: Final = HEAD.format(name="daily") + (
    'input: {day: {type: date, default: "2026-11-17"}}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: noop, input: {day: "{{ workload.day }}"}}\n'
)  # fmt: skip

COUNT = (
    "window.clicks = 0; window.addEventListener('click', (event) => { if (event.isTrusted) window.clicks += 1; }, true)"
)


@contextmanager
def clicks(page: Page, expected: int) -> Iterator[None]:
    """The page is not loaded again meanwhile, so that the count is kept."""
    page.evaluate(COUNT)
    yield
    assert page.evaluate("window.clicks") == expected <= 5


def test_stop_30_executions(server: UiServer, open_screen: Opening) -> None:
    for _ in range(30):
        server.begin(APPROVAL)
    server.run(GREETING)
    page = open_screen(server).settle("executions")
    with clicks(page, 4):
        page.get_by_role("button", name="Open", exact=True).click()
        page.get_by_role("button", name="Select all").click()
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel 30 executions").click()
        expect(page.get_by_role("dialog")).to_contain_text("30 executions were cancelled.")


def test_roll_back_a_version(server: UiServer, open_screen: Opening) -> None:
    server.register(GREETING)
    server.register(GREETING.replace("hello", "good morning"))
    page = open_screen(server).settle("playbooks")
    with clicks(page, 4):
        page.get_by_role("link", name="demo/greeting", exact=True).click()
        page.get_by_role("tab", name="Versions").click()
        page.get_by_role("button", name="Roll back to version 1").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("version 1")


def test_find_since_when_a_playbook_fails_or_is_slow(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "orders.csv"
    file.write_text("1,2,3")
    server.run(FAILING, file=str(file))
    file.unlink()
    server.run(FAILING, file=str(file))
    page = open_screen(server).settle("playbooks")
    with clicks(page, 2):
        page.get_by_role("link", name="History of demo/import").click()
        expect(page.get_by_text("It fails since")).to_be_visible()
        page.get_by_role("button", name="read", exact=True).click()
        expect(page.get_by_role("figure")).to_contain_text("Duration of read")


def test_find_the_failed_item_of_a_large_loop_and_retry_it(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "file"
    server.run(ORDERS, file=str(file))
    file.touch()
    page = open_screen(server).settle("executions")
    with clicks(page, 4):
        page.get_by_role("link", name="demo/orders").click()
        page.get_by_role("tab", name="Iterations").click()
        page.get_by_role("button", name="failed 1").click()
        expect(page.get_by_role("region", name="Iterations").get_by_role("listitem")).to_contain_text("4321")
        page.get_by_role("button", name="Retry iteration 4321").click()
        expect_status(page, "ok")


def test_approve_a_refund_from_a_link(server: UiServer, open_screen: Opening) -> None:
    id = server.begin(QUESTION)
    server.follow(id, '"type":"signal"')
    page = open_screen(server).settle(f"approvals/{id}?frame=ask%231")
    with clicks(page, 1):
        expect(page.get_by_role("heading", level=1)).to_have_text("Refund 120 € for order A-17?")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("region", name="Decision")).to_contain_text("approved by local")
    assert server.head(id)["waits"] == []


def test_see_why_nothing_runs(server: UiServer, open_screen: Opening) -> None:
    server.begin(ONE)
    waiting = server.begin(ONE)
    page = open_screen(server).settle("executions")
    with clicks(page, 2):
        page.locator(f'a[href$="{waiting}"]').click()
        notice = page.get_by_role("status").filter(has_text="waits for the limit of 1 execution")
        notice.get_by_role("link", name="Limits").click()
        expect(page.get_by_role("region", name="demo/one")).to_contain_text("Holding 1")


def test_fix_a_typo_and_fork(server: UiServer, open_screen: Opening) -> None:
    id = server.run(TYPO)
    page = open_screen(server).settle("executions")
    with clicks(page, 4):
        page.get_by_role("link", name="demo/typo").click()
        page.get_by_role("link", name="Fork…").click()
        page.get_by_role("textbox", name=re.compile("^Playbook")).click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(TYPO.replace("ecko", "echo"))
        page.get_by_role("button", name="Start the fork").click()
        expect(page).not_to_have_url(re.compile(f"{id}|/fork"))
        expect_status(page, "ok")


def test_follow_the_logs_of_a_running_execution(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "file"
    server.begin(TALKING, file=str(file))
    page = open_screen(server).settle("executions")
    with clicks(page, 2):
        page.get_by_role("link", name="demo/talking").click()
        page.get_by_role("tab", name="Logs").click()
        lines = page.get_by_role("region", name="Log lines").get_by_role("listitem")
        expect(lines).to_have_count(1)
        file.touch()
        expect(lines).to_have_count(2)
        expect(lines.last).to_contain_text("two")


def test_run_again_with_another_date(server: UiServer, open_screen: Opening) -> None:
    id = server.run(DAILY)
    page = open_screen(server).settle("executions")
    with clicks(page, 4):
        page.get_by_role("link", name="demo/daily").click()
        page.get_by_role("button", name="Run again…").click()
        day = page.get_by_role("dialog").get_by_label("day")
        day.click()
        day.fill("2026-11-18")
        page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()
        expect(page).not_to_have_url(re.compile(id))
        expect_status(page, "ok")
    expect(page.get_by_role("main")).to_contain_text("2026-11-18")
