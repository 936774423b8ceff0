"""Acting on an execution: run it again, fork it by a plan, compare it with another one, copy each action."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import PHONE, Scheme, Screen, Size
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status, inspector, step
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
REPORT: Final = HEAD.format(name="report") + (
    'input:\n'
    '  day: {type: date, desc: the day of the report}\n'
    '  size: {type: string, enum: [small, large], default: small}\n'
    '  count: {type: integer, default: 3}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: noop, input: {day: "{{ workload.day }}"}}\n'
    '  next: {arcs: [{step: load}]}\n'
    '- step: load\n'
    '  tool: {kind: python, input: {n: "{{ workload.count }}"}, code: "def main(n): return 12 // (n - 3)"}\n'
    '  next: {arcs: [{step: store}]}\n'
    '- step: store\n'
    '  tool: {kind: noop}\n'
)  # fmt: skip
COUNTS: Final = HEAD.format(name="counts") + (
    'workload: {day: monday, count: 3}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: noop, input: {day: "{{ workload.day }}"}}\n'
    '  next: {arcs: [{step: load}]}\n'
    '- step: load\n'
    '  tool: {kind: python, input: {n: "{{ workload.count }}"}, code: "def main(n): return 12 // (n - 3)"}\n'
)  # fmt: skip
CHARGE: Final = HEAD.format(name="charge") + (
    'workload: {order: 1}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool:\n'
    '    kind: python\n'
    '    input: {order: "{{ workload.order }}"}\n'
    '    code: |\n'
    '      def look_up(order):\n'
    '          raise ValueError(f"the card of order {order} was declined")\n'
    '\n'
    '      def main(order):\n'
    '          look_up(order)\n'
)  # fmt: skip
SHOP: Final = HEAD.format(name="shop") + (
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: playbook, path: demo/charge, input: {order: 7}}\n'
)  # fmt: skip
LOOKS: Final = [(Size(1440, 900), "light"), (Size(1024, 768), "dark"), (PHONE, "light")]


def is_clean(screen: Screen) -> None:
    assert (screen.overhang(), screen.serious()) == (0, [])


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_an_execution_runs_again_with_another_date(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    id = shared.run(REPORT, day="2026-01-31", size="large", count=4)
    screen = open_screen(shared, size, scheme)
    page = screen.open(f"executions/{id}")
    page.get_by_role("button", name="Run again").click()
    form = page.get_by_role("dialog", name="Run again").get_by_role("form")
    expect(form.get_by_label("day")).to_have_value("2026-01-31")
    expect(form.get_by_label("size")).to_have_value("large")
    is_clean(screen)
    form.get_by_label("day").fill("2026-02-28")
    form.get_by_role("button", name="Run").click()
    expect(page).not_to_have_url(re.compile(id))
    expect_status(page, "ok")
    new = page.url.rpartition("/")[2]
    state = shared.ask("GET", f"/executions/{new}/state")
    assert state["workload"] == {"day": "2026-02-28", "size": "large", "count": 4}


def test_each_action_is_copied_as_command_request_and_python(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(REPORT, day="2026-01-31", count=3)
    screen = open_screen(shared)
    screen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = screen.settle(f"executions/{id}")
    assert copied(page, "Retry failed parts", "CLI") == f"noetl retry {id} --server {shared.url}"
    assert copied(page, "Run again", "CLI").startswith("noetl run demo/report@1 --set day=2026-01-31 --set count=3 ")
    assert copied(page, "Fork", "curl") == f"curl -X POST {shared.url}/executions/{id}/fork"
    assert f'(await session.execution("{id}")).fork()' in copied(page, "Fork", "Python")
    is_clean(screen)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_mistake_is_corrected_and_the_execution_is_forked(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    id = shared.run(REPORT, day="2026-01-31", count=3)
    screen = open_screen(shared, size, scheme)
    page = screen.open(f"executions/{id}")
    page.get_by_role("link", name="Fork…").click()
    plan = page.get_by_role("region", name="Plan", exact=True)
    expect(plan).to_contain_text("Kept (1)")
    expect(step(page, "start")).to_contain_text("kept")
    expect(step(page, "start")).to_have_class(re.compile(r"\bok\b"))
    expect(step(page, "load")).to_contain_text("redone")
    is_clean(screen)
    plan.get_by_label("Repeat from step").select_option("start")
    expect(plan).to_contain_text("Redone (2)")
    plan.get_by_label("Repeat from step").select_option("")
    line = page.locator(".cm-line").filter(has_text="12 // (n - 3)")
    line.click()
    page.keyboard.press("End")
    for _ in range(len('"}')):
        page.keyboard.press("ArrowLeft")
    for _ in range(len("(n - 3)")):
        page.keyboard.press("Backspace")
    page.keyboard.type("n")
    expect(line).to_have_count(0)
    expect(step(page, "load")).to_contain_text("redone")
    page.get_by_role("button", name="Start the fork").click()
    expect(page).not_to_have_url(re.compile("fork"))
    expect_status(page, "ok")
    new = page.url.rpartition("/")[2]
    assert shared.ask("GET", f"/executions/{new}")["fork"]["execution_id"] == id
    page.get_by_role("link", name="Compare").click()
    steps = page.get_by_role("table", name="Steps").get_by_role("row")
    expect(steps.filter(has_text="load")).to_contain_text("status")
    is_clean(screen)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_two_executions_are_compared_and_their_steps_opened(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    failed, good = server.run(COUNTS), server.run(COUNTS, day="tuesday", count=4)
    screen = open_screen(server, size, scheme)
    page = screen.open(f"executions/{failed}")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("table")).to_have_count(0)  # nothing is compared before there is a choice
    page.get_by_label("Other execution of this playbook").select_option(good)
    workload = page.get_by_role("table", name="Workload").get_by_role("row")
    expect(workload.filter(has_text="day").get_by_role("cell")).to_have_text(['"monday"', '"tuesday"'])
    expect(workload.filter(has_text="count").get_by_role("cell")).to_have_text(["3", "4"])
    load = page.get_by_role("table", name="Steps").get_by_role("row").filter(has_text="load")
    expect(load.get_by_role("cell").nth(0)).to_contain_text("error")
    expect(load.get_by_role("cell").nth(1)).to_contain_text("ok")
    expect(load.get_by_role("cell").nth(2)).to_contain_text("status")
    is_clean(screen)
    load.get_by_title("Open load in A").click()
    expect(page).to_have_url(re.compile(f"{failed}.*step=load"))
    expect(inspector(page)).to_contain_text("ZeroDivisionError")
    page.go_back()
    expect(page.get_by_label("Other execution of this playbook")).to_have_value(good)
    load.get_by_title("Open load in B").click()
    expect(page).to_have_url(re.compile(f"{good}.*step=load"))
    expect(inspector(page).get_by_role("heading", name="load#1")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="To the execution").click()
    expect(page).to_have_url(re.compile(f"executions/{failed}$"))
    # An execution compared with itself, by its id.
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Id of the other execution").fill(failed)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("They do not differ, except for times.")).to_be_visible()


def test_a_running_execution_is_forked_from_an_earlier_event(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(REPORT, day="2026-01-31", count=4)
    page = open_screen(shared).open(f"executions/{id}?seq=9")
    page.get_by_role("link", name="Fork from here…").click()
    expect(page.get_by_role("region", name="Plan", exact=True)).to_contain_text("up to 9")


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_error_of_a_child_is_shown_in_its_parent_and_links_lead_both_ways(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    shared.register(CHARGE)
    id = shared.run(SHOP)
    screen = open_screen(shared, size, scheme)
    page = screen.open(f"executions/{id}?step=start")
    child = inspector(page).get_by_role("region", name="Error of the called execution")
    expect(child).to_contain_text("the card of order 7 was declined")
    expect(child.get_by_label("Traceback")).to_contain_text("in look_up")
    is_clean(screen)
    page.get_by_role("tab", name="Children").click()
    tree = page.get_by_role("list", name="Tree of executions")
    expect(tree.get_by_role("listitem").filter(has_text="demo/charge").last).to_contain_text("error")
    tree.get_by_role("link", name="demo/charge").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("demo/charge")
    expect(page.get_by_text("called by")).to_contain_text("demo/shop")
    is_clean(screen)
    page.get_by_role("tab", name="Children").click()
    page.get_by_role("list", name="Tree of executions").get_by_role("link", name="demo/shop").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("demo/shop")


def copied(page: Page, action: str, form: str) -> str:
    page.get_by_text("Copy as…").click()
    page.get_by_role("button", name=f"Copy {action} as {form}").click()
    text: Any = page.evaluate("() => navigator.clipboard.readText()")
    return str(text)


SECRET: Final = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: deploy, path: demo/deploy}\n"
    "input: {password: {type: string, secret: true, desc: of the shop}}\n"
    "workload: {}\n"
    "workflow:\n"
    "- step: start\n"
    "  tool:\n"
    "    kind: shell\n"
    "    argv: ['true']\n"
    "    env: {PASSWORD: '{{ keychain.password }}'}\n"
)


def test_a_fork_asks_for_secret_inputs_that_are_gone(server: UiServer, open_screen: Opening) -> None:
    body = {"path": server.register(SECRET), "secrets": {"password": "quiet-river"}}
    id = server.ask("POST", "/executions?wait=100", body)["execution_id"]
    assert server.head(id)["status"] == "ok"  # its secrets are removed
    page = open_screen(server).settle(f"executions/{id}/fork")
    start = page.get_by_role("button", name="Start the fork")
    expect(page.get_by_role("region", name="Plan", exact=True)).to_contain_text("kept and not made again")
    expect(start).to_be_disabled()
    page.get_by_role("combobox", name="Repeat from step").select_option("start")
    field = page.get_by_label("password")
    expect(field).to_have_attribute("type", "password")
    field.fill("quiet-river")
    start.click()
    expect(page).not_to_have_url(re.compile(f"{id}|/fork"))
    expect_status(page, "ok")
