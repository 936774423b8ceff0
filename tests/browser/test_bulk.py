"""Several executions are selected in the list, and cancelled, retried, labelled or deleted together after a plan."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import DESK, PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL, FAILING, GREETING
from tests.browser.server import UiServer


def boxes(page: Page) -> Locator:
    return page.get_by_role("region", name="Executions").get_by_role("checkbox")


def bar(page: Page) -> Locator:
    return page.get_by_role("group", name="Selected executions")


def statuses(server: UiServer) -> list[str]:
    return sorted(each["status"] for each in server.ask("GET", "/executions")["items"])


def test_all_that_match_a_filter_are_cancelled_after_a_plan(server: UiServer, open_screen: Opening) -> None:
    for _ in range(30):
        server.begin(APPROVAL)
    for _ in range(4):
        server.run(GREETING)
    page = open_screen(server).open("executions")
    page.get_by_role("button", name="Select all").click()
    expect(bar(page)).to_contain_text("34 selected")
    bar(page).get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("30 executions will be cancelled.")
    expect(dialog).to_contain_text("4 executions stay as they are: already ended: ok")
    assert statuses(server).count("cancelled") == 0
    dialog.get_by_role("textbox", name="Reason").fill("wrong month")
    dialog.get_by_role("button", name="Cancel 30 executions").click()
    expect(dialog).to_contain_text("30 executions were cancelled.")
    result = dialog.get_by_role("region", name="Result for each execution")
    expect(result.get_by_role("row")).to_have_count(31)
    dialog.get_by_role("button", name="Close").last.click()
    expect(bar(page)).to_have_count(0)
    expect(page.get_by_role("region", name="Executions").get_by_text("cancelled").first).to_be_visible()
    while "running" in statuses(server) or "cancelling" in statuses(server):
        continue
    assert statuses(server) == ["cancelled"] * 30 + ["ok"] * 4
    entries = server.ask("GET", "/audit?action=command&limit=100")["items"]
    assert [each["what"] for each in entries] == ["cancel"] * 30


def test_a_range_is_selected_with_shift_and_the_keyboard(shared: UiServer, open_screen: Opening) -> None:
    for _ in range(6):
        shared.run(GREETING)
    page = open_screen(shared).open("executions")
    expect(boxes(page).nth(5)).to_be_visible()
    boxes(page).nth(1).click()
    boxes(page).nth(4).click(modifiers=["Shift"])
    expect(bar(page)).to_contain_text("4 selected")
    boxes(page).nth(2).focus()
    page.keyboard.press("Space")
    expect(bar(page)).to_contain_text("3 selected")
    bar(page).get_by_role("button", name="Clear").click()
    expect(bar(page)).to_have_count(0)


def test_failed_executions_are_retried_and_then_deleted(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "orders.csv"
    for _ in range(3):
        server.run(FAILING, file=str(file))
    page = open_screen(server).open("executions?status=error")
    file.write_text("1,2,3")
    expect(boxes(page)).to_have_count(3)
    page.get_by_role("button", name="Select all").click()
    bar(page).get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Retry 3 executions").click()
    expect(dialog).to_contain_text("3 executions were retried.")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("No matching executions")).to_be_visible()
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.get_by_role("region", name="Executions").get_by_text("ok", exact=True)).to_have_count(3)
    boxes(page).first.click()
    bar(page).get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete 1 execution").click()
    expect(dialog).to_contain_text("1 execution was deleted.")
    page.keyboard.press("Escape")
    expect(boxes(page)).to_have_count(2)
    assert statuses(server) == ["ok", "ok"]


def test_executions_are_labelled_together_and_found_by_a_label(server: UiServer, open_screen: Opening) -> None:
    labelled, other = server.run(GREETING), server.run(GREETING)
    page, watching = open_screen(server).open("executions"), open_screen(server).open("executions")
    expect(boxes(watching)).to_have_count(2)
    page.get_by_role("checkbox", name=labelled).click()
    bar(page).get_by_role("button", name="Label").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Labels").fill("incident")
    expect(dialog).to_contain_text("write key=value to add a label")
    dialog.get_by_role("textbox", name="Labels").fill("incident=4711, team=shop")
    dialog.get_by_role("button", name="Label 1 execution").click()
    expect(dialog).to_contain_text("1 execution was labelled.")
    dialog.get_by_role("button", name="Close").last.click()
    for each in (page, watching):  # other lists show it, too
        expect(each.get_by_role("link", name="incident=4711")).to_have_count(1)
    page.get_by_role("link", name="incident=4711").click()
    expect(boxes(page)).to_have_count(1)
    expect(page.get_by_label("Total")).to_have_text("1 matches")
    assert "label=incident%3D4711" in page.url
    page.reload()
    expect(page.get_by_role("checkbox", name=labelled)).to_have_count(1)
    page.get_by_role("button", name="Remove the filter incident=4711").click()
    expect(boxes(page)).to_have_count(2)
    page.get_by_role("listitem").filter(has_text=labelled).get_by_role("link", name="demo/greeting").click()
    expect(page.get_by_role("group", name="Labels")).to_contain_text("team=shop")
    page.get_by_role("button", name="Label…").click()
    dialog.get_by_role("textbox", name="Labels").fill("-team, seen=yes")
    dialog.get_by_role("button", name="Label 1 execution").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("group", name="Labels")).to_contain_text("seen=yes")
    expect(page.get_by_role("group", name="Labels")).not_to_contain_text("team=shop")
    assert server.head(labelled)["labels"] == {"incident": "4711", "seen": "yes"}
    assert server.head(other)["labels"] == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_selection_and_the_plan_are_accessible(
    shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    shared.run(GREETING)
    screen = open_screen(shared, size=size, scheme=scheme)
    page = screen.settle("executions")
    boxes(page).first.click()
    expect(bar(page)).to_contain_text("1 selected")
    assert (screen.serious(), screen.overhang()) == ([], 0)
    bar(page).get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 execution will be deleted.")
    assert screen.serious() == []
