"""Nets of 8 to 1,000 steps are legible: a minimum zoom with panning, a map, a search, and the shape of the pane."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.execution import step
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\nworkflow:\n"
WIDE: Final = Size(1440, 900)
MEDIUM: Final = Size(1024, 768)
TEXT_PX: Final = 9.0  # of the smaller text on a card, at the minimum zoom

# The size on the screen of the text of each visible card, and the directions in which the net is laid out.
LOOK: Final = """
() => {
  const flow = document.querySelector(".react-flow").getBoundingClientRect();
  const cards = [...document.querySelectorAll(".step-card")].map((card) => card.getBoundingClientRect());
  const zoom = new DOMMatrix(getComputedStyle(document.querySelector(".react-flow__viewport")).transform).a;
  const size = (name) => Math.min(
    ...[...document.querySelectorAll(name)].map((each) => parseFloat(getComputedStyle(each).fontSize) * zoom));
  const inside = cards.filter(({ left, top, right, bottom }) =>
    right > flow.left && left < flow.right && bottom > flow.top && top < flow.bottom);
  const spread = (of) => Math.max(...cards.map(of)) - Math.min(...cards.map(of));
  return {
    zoom, text: size(".step-summary"), visible: inside.length,
    across: spread(({ left }) => left) > spread(({ top }) => top),
  };
}
"""


def chain(count: int) -> str:
    steps = [f"stage_{place:04}" for place in range(1, count)]
    names = ["start", *steps]
    body = [
        f"- step: {name}\n  tool: {{kind: noop}}\n"
        + (f"  next: {{arcs: [{{step: {names[place + 1]}}}]}}\n" if place + 1 < count else "")
        for place, name in enumerate(names)
    ]
    return HEAD.format(name=f"chain{count}") + "".join(body)


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (MEDIUM, "dark"), (PHONE, "light")])
@pytest.mark.parametrize("count", [8, 20, 50])
def test_a_net_is_legible(shared: UiServer, open_screen: Opening, size: Size, scheme: Scheme, count: int) -> None:
    id = shared.run(chain(count))
    screen = open_screen(shared, size, scheme)
    page = screen.settle(f"executions/{id}")
    expect(step(page, "start")).to_be_visible()
    look = page.evaluate(LOOK)
    assert look["zoom"] >= 0.7
    assert look["text"] >= TEXT_PX * 0.85, look
    assert look["visible"] >= 1
    assert (screen.overhang(), screen.serious()) == (0, [])


def test_a_large_net_is_panned_searched_and_has_a_map(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(chain(50))
    page = open_screen(shared, WIDE).settle(f"executions/{id}")
    expect(page.get_by_role("img", name="Map of the net")).to_be_visible()
    far = step(page, "stage_0049")
    expect(far).not_to_be_in_viewport()
    find(page, "0049")
    expect(far).to_be_in_viewport()
    expect(far).to_have_attribute("aria-pressed", "true")
    find(page, "stage_00")
    expect(page.get_by_role("search").get_by_role("status")).to_have_text("1 of 49")
    page.get_by_role("searchbox", name="Find a step").press("Enter")
    expect(page.get_by_role("search").get_by_role("status")).to_have_text("2 of 49")
    expect(step(page, "stage_0002")).to_be_in_viewport()
    page.get_by_role("button", name="Show the beginning").click()
    expect(step(page, "start")).to_be_in_viewport()
    box = page.locator(".react-flow__pane").bounding_box()
    assert box is not None
    middle, low = box["x"] + box["width"] / 2, box["y"] + box["height"] - 60
    page.mouse.move(middle, low)
    page.mouse.down()
    page.mouse.move(middle - 2_000, low, steps=4)
    page.mouse.up()
    expect(step(page, "start")).not_to_be_in_viewport()


def test_a_small_net_has_neither_map_nor_search(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(chain(3))
    page = open_screen(shared, WIDE).settle(f"executions/{id}")
    expect(step(page, "stage_0002")).to_be_in_viewport()
    expect(page.get_by_role("searchbox", name="Find a step")).to_have_count(0)


def test_the_direction_follows_the_shape_of_the_pane(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(chain(9))
    page = open_screen(shared, WIDE).settle(f"executions/{id}")
    expect(step(page, "start")).to_be_visible()
    assert page.evaluate(LOOK)["across"], "a wide pane"
    page = open_screen(shared, PHONE).settle(f"executions/{id}")
    expect(step(page, "start")).to_be_visible()
    assert not page.evaluate(LOOK)["across"], "a high pane"


def test_1000_steps_are_found_and_shown(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(chain(1_000))
    screen = open_screen(shared, WIDE)
    page = screen.settle(f"executions/{id}")
    expect(step(page, "start")).to_be_in_viewport()
    assert page.locator(".step-card").count() < 100, "only those that are visible"
    find(page, "stage_0777")
    expect(step(page, "stage_0777")).to_be_in_viewport()
    assert page.evaluate(LOOK)["zoom"] >= 0.7
    assert screen.serious() == []


def find(page: Page, text: str) -> None:
    field = page.get_by_role("searchbox", name="Find a step")
    field.fill(text)
    field.press("Enter")
