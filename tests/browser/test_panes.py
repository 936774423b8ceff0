"""The timeline is zoomed, panes are resized, and an execution is debugged."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status, step, whole
from tests.browser.playbooks import GREETING, STAGES
from tests.browser.server import UiServer

WIDE: Final = Size(1440, 900)
HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
COUNTED: Final = HEAD.format(name="counted") + (
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: wait, signal: go}\n'
    '  set: {ctx.total: 41}\n'
    '  next: {arcs: [{step: pay}]}\n'
    '- step: pay\n'
    '  tool: {name: charge, kind: noop, input: {amount: "{{ ctx.total }}"}}\n'
)  # fmt: skip


def marks(page: Page) -> list[str]:
    return page.locator(".gantt-axis span").all_inner_texts()


def width(pane: Locator) -> float:
    box = pane.bounding_box()
    assert box is not None
    return box["width"]


def test_the_timeline_is_zoomed_by_dragging_and_by_buttons(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(GREETING)
    screen = open_screen(shared, WIDE)
    page = screen.settle(f"executions/{id}")
    whole = marks(page)
    axis = page.locator(".gantt-axis").bounding_box()
    assert axis is not None
    page.mouse.move(axis["x"] + axis["width"] * 0.5, axis["y"] + 8)
    page.mouse.down()
    page.mouse.move(axis["x"] + axis["width"] * 0.9, axis["y"] + 8, steps=3)
    page.mouse.up()
    zoom = page.get_by_role("group", name="Zoom of the timeline")
    expect(zoom.get_by_role("button", name="Show the whole time")).to_be_enabled()
    part = marks(page)
    assert part[0] != whole[0]
    zoom.get_by_role("button", name="Earlier").press("Enter")
    assert marks(page) != part
    zoom.get_by_role("button", name="Show the whole time").click()
    assert marks(page) == whole
    expect(zoom.get_by_role("button", name="Zoom out")).to_be_disabled()
    assert (screen.overhang(), screen.serious()) == (0, [])


def test_panes_are_resized_with_mouse_and_keys_and_stay_so(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(GREETING)
    screen = open_screen(shared, WIDE)
    page = screen.settle(f"executions/{id}")
    net, line = page.get_by_role("region", name="Net"), page.get_by_role("separator", name="Width of the net")
    before = width(net)
    box = line.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] - 250, box["y"] + 60, steps=4)
    page.mouse.up()
    dragged = width(net)
    assert dragged < before - 150
    line.press("ArrowRight")
    assert width(net) > dragged
    page.reload()
    expect(step(page, "start")).to_be_visible()
    assert width(net) < before - 100
    line.press("Home")
    assert abs(width(net) - before) < 2
    log = page.get_by_role("region", name="Log")
    height = (log.bounding_box() or {"height": 0.0})["height"]
    page.get_by_role("separator", name="Height of the log").press("ArrowUp")
    assert (log.bounding_box() or {"height": 0.0})["height"] != height
    assert (screen.overhang(), screen.serious()) == (0, [])


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (Size(1024, 768), "dark"), (PHONE, "light")])
def test_an_execution_is_held_looked_at_changed_and_continued(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    id = shared.begin(COUNTED)
    screen = open_screen(shared, size, scheme)
    page = screen.open(f"executions/{id}?tab=debug")
    page.get_by_role("combobox", name="Place of the breakpoint").fill("pay.charge")
    page.get_by_role("button", name="Set breakpoint").click()
    expect(page.get_by_role("list", name="Breakpoints")).to_contain_text("pay.charge")
    shared.signal(id, "go")
    held = page.get_by_role("region", name="Held: pay#1")
    expect(held).to_contain_text("before the task pay.charge")
    held.get_by_role("textbox", name="Expression").fill("ctx.total + 1")
    held.get_by_role("button", name="Print").click()
    expect(held.get_by_role("status")).to_contain_text("42")
    held.get_by_role("textbox", name="Value to change").fill("ctx.total")
    held.get_by_role("textbox", name="New value").fill("99")
    held.get_by_role("button", name="Set").click()
    held.get_by_role("textbox", name="Expression").fill("ctx.total")
    expect(held).to_contain_text("99")
    whole(page, shared, id)
    expect(page.locator(".stale")).to_have_count(0)  # the pane of the event has paler text until it has the new one
    assert (screen.overhang(), screen.serious()) == (0, [])
    held.get_by_role("button", name="Continue").click()
    expect_status(page, "ok")
    assert shared.ask("GET", f"/executions/{id}/output?step=pay") == {"amount": 99}


PART = COUNTED.replace("demo/", "demo/part_")
EACH = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: each, path: demo/each}\nworkflow:\n- step: start\n"
    "  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}\n"
    "  tool: {kind: playbook, path: PATH}\n"
)


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_the_page_of_a_parent_names_the_children_of_its_loop_that_are_held(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    text = EACH.replace("PATH", shared.register(PART))
    body = {"path": shared.register(text), "breakpoints": [{"place": "start/pay.charge"}]}
    id = shared.ask("POST", "/executions", body)["execution_id"]
    screen = open_screen(shared, size, scheme)
    page = screen.open(f"executions/{id}?tab=debug")
    expect(page.get_by_role("list", name="Breakpoints")).to_contain_text("start/pay.charge")
    while len(children := shared.ask("GET", f"/executions/{id}/tree")["children"]) < 2:
        continue
    second = next(each["execution"] for each in children if "[1]" in each["execution"]["parent"])
    shared.signal(second["execution_id"], "go")  # the log of the parent does not grow
    held = page.get_by_role("list", name="Held children").get_by_role("listitem")
    expect(held).to_have_count(1)
    expect(held).to_contain_text("start#1[1]")
    expect(held).to_contain_text("waits for demo/part_")
    expect(held).to_contain_text("which is held before pay.charge in pay#1")
    assert (screen.overhang(), screen.serious()) == (0, [])
    held.get_by_role("link", name="Debug the child of start#1[1]").click()
    expect(page.get_by_role("region", name="Held: pay#1")).to_contain_text("before the task pay.charge")
    assert second["execution_id"] in page.url


def test_the_page_follows_the_length_of_the_log_and_not_its_events(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(STAGES)
    screen = open_screen(shared)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    page = screen.open(f"executions/{id}")
    expect(step(page, "start")).to_contain_text("go_start")
    shared.signal(id, "go_start")
    expect(step(page, "second")).to_contain_text("go_second")
    assert any(f"/executions/{id}/growth" in url for url in asked)
    assert not any(f"/executions/{id}/stream" in url for url in asked)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_times_are_local_or_in_utc(shared: UiServer, open_screen: Opening, size: Size) -> None:
    id = shared.run(GREETING)
    screen = open_screen(shared, size)
    page = screen.settle(f"executions/{id}")
    started = page.get_by_text("started ")
    expect(started).not_to_contain_text("UTC")
    page.get_by_role("button", name="Times: local. Show UTC times").click()
    expect(started).to_contain_text(shared.head(id)["started_at"][11:19] + " UTC")
    page.reload()
    expect(started).to_contain_text("UTC")
    assert (screen.overhang(), screen.serious()) == (0, [])
