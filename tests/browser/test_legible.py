"""The execution page shows why an execution never began, guards, waits, and printed output."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import DESK, PHONE, Size
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status, inspector, step
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
KEYLESS: Final = HEAD.format(name="keyless") + (
    "keychain: [{name: nobody_has_this, kind: stored}]\n"
    "workflow:\n"
    "- step: start\n"
    "  tool: {kind: noop}\n"
)  # fmt: skip
CHOICE: Final = HEAD.format(name="choice") + (
    'workload: {n: 7}\n'
    'workflow:\n'
    '- step: start\n'
    '  set: {ctx.n: "{{ workload.n }}"}\n'
    '  next:\n'
    '    arcs:\n'
    '    - {step: small_orders, when: "{{ ctx.n < 5 and workload.n < 5 }}"}\n'
    '    - {step: large_orders, when: "{{ ctx.n >= 5 and workload.n >= 5 }}"}\n'
    '- step: small_orders\n'
    '  tool: {kind: noop}\n'
    '- step: large_orders\n'
    '  tool: {kind: wait, signal: the_accountant_looked}\n'
    '  next: {arcs: [{step: finish}]}\n'
    '- step: finish\n'
    '  tool: {kind: noop}\n'
)  # fmt: skip
PRINTING: Final = HEAD.format(name="printing") + (
    'workflow:\n'
    '- step: start\n'
    '  tool:\n'
    '  - {name: first, kind: python, code: "def main(): print(\'the first has printed\')"}\n'
    '  - {name: second, kind: python, code: "def main(): print(\'the second has printed\')"}\n'
)  # fmt: skip

# The bounding boxes of the graph elements, and the texts that do not fit on their cards.
NET: Final = """
() => {
  const boxes = (name) => [...document.querySelectorAll(name)].map((each) => {
    const { left, top, right, bottom } = each.getBoundingClientRect();
    return [left, top, right, bottom];
  });
  const cut = [...document.querySelectorAll(".step-name > .cut, .step-summary")].filter(
    (each) => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight,
  );
  return {
    pane: boxes(".net-pane"), drawn: boxes(".step-card, .net-mark, .arc-label"), cards: boxes(".step-card"),
    controls: boxes(".react-flow__controls"), cut: cut.map((each) => each.textContent),
  };
}
"""
# Whether the graph fits: the guard of the arc that did not fire is completely visible.
FITS: Final = """
() => {
  const pane = document.querySelector(".net-pane").getBoundingClientRect();
  const labels = [...document.querySelectorAll(".arc-label")].map((each) => each.getBoundingClientRect());
  return labels.length > 0 && labels.every((each) => each.left >= pane.left && each.right <= pane.right);
}
"""


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_an_execution_that_never_began_shows_the_reason_and_offers_no_retry(
    shared: UiServer, open_screen: Opening, size: Size
) -> None:
    id = shared.run(KEYLESS)
    screen = open_screen(shared, size)
    page = screen.settle(f"executions/{id}")
    expect_status(page, "error")
    net = page.get_by_role("region", name="Net")
    expect(net.get_by_role("heading", name="Not started")).to_be_visible()
    expect(net).to_contain_text("nobody_has_this")
    expect(page.get_by_role("button", name=re.compile("Retry|Try again"))).to_have_count(0)
    assert (screen.overhang(), screen.serious()) == (0, [])


def test_the_list_offers_no_retry_for_an_execution_that_never_began(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(KEYLESS)
    page = open_screen(shared).settle("executions?path=demo/keyless")
    row = page.get_by_role("listitem").filter(has_text=id)
    expect(row).to_contain_text("error")
    expect(row.get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_guards_and_waits_are_readable_and_no_button_covers_a_step(
    shared: UiServer, open_screen: Opening, size: Size
) -> None:
    id = shared.begin(CHOICE)
    page = open_screen(shared, size).open(f"executions/{id}")
    expect(step(page, "large_orders")).to_contain_text("waits for the signal the_accountant_looked")
    page.wait_for_function(FITS)
    net: dict[str, Any] = page.evaluate(NET)
    (pane,), (controls,) = net["pane"], net["controls"]
    assert [box for box in net["drawn"] if not inside(box, pane)] == []
    assert [box for box in net["cards"] if overlap(box, controls)] == []
    assert net["cut"] == []


def test_each_call_of_a_step_shows_what_it_printed(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(PRINTING)
    page = open_screen(shared).settle(f"executions/{id}")
    page.get_by_role("tab", name="Step").click()
    expect(inspector(page)).to_contain_text("the second has printed")
    expect(inspector(page)).not_to_contain_text("the first has printed")
    page.get_by_role("button", name="Output of start#1/1").click()
    expect(inspector(page)).to_contain_text("the first has printed")


def test_a_step_that_ran_once_needs_no_choice_of_a_run(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(PRINTING)
    page: Page = open_screen(shared).settle(f"executions/{id}")
    page.get_by_role("tab", name="Step").click()
    expect(inspector(page).get_by_role("heading", name="start#1")).to_be_visible()
    page.get_by_role("tab", name="Why").click()
    expect(inspector(page)).to_contain_text("start ran once.")


def inside(box: list[float], of: list[float]) -> bool:
    return box[0] >= of[0] and box[1] >= of[1] and box[2] <= of[2] and box[3] <= of[3]


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
