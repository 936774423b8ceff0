"""Pages with long names, a failed loop and big numbers: nothing is cut off or on top of something else."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.playbooks import APPROVAL
from tests.browser.server import UiServer

PATH: Final = "data-platform/warehouse/europe/nightly_customer_lifetime_value_recalculation"
STEP: Final = "recalculate_customer_lifetime_value_per_region"
CREDENTIAL: Final = "customer_data_platform_europe_production_readonly"
TEXT: Final = (
    f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: recalculation, path: {PATH}}}\n"
    "triggers:\n"
    "- {name: night, kind: cron, cron: '0 3 * * *', timezone: America/Argentina/Buenos_Aires}\n"
    "workload: {threshold: 1234567890123}\n"
    "executor: {spec: {entry_step: " + STEP + "}}\n"
    "workflow:\n"
    f"- step: {STEP}\n"
    "  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}\n"
    "  loop: {in: '{{ range(40) }}', iterator: customer}\n"
    "  tool:\n"
    "    kind: python\n"
    "    input: {n: '{{ iter.customer }}'}\n"
    "    code: |\n"
    "      def main(n):\n"
    "          print('customer', n)\n"
    "          if n == 5:\n"
    "              raise ValueError('no orders in warehouse_eu_central_1.customers.orders_2026_11_17')\n"
)
LOOKS: Final = [(Size(1440, 900), "light"), (Size(1024, 768), "dark"), (PHONE, "light")]


@pytest.fixture(scope="module")
def long(shared: UiServer) -> str:
    """The id of an execution with long names, which has failed; other pages have long names as well."""
    shared.ask("PUT", f"/credentials/{CREDENTIAL}", {"value": "quiet"})
    shared.begin(APPROVAL)
    return shared.run(TEXT)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_no_page_is_wider_than_the_window(
    shared: UiServer, long: str, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    screen = open_screen(shared, size, scheme)
    execution = f"executions/{long}"
    pages = (
        "executions", f"{execution}?step={STEP}", f"{execution}?tab=iterations", f"{execution}/fork",
        f"{execution}/iteration?run={STEP}%231&index=5", f"playbooks/history?path={PATH}", "playbooks", "triggers",
        "schedule", "credentials", "audit", "health", "approvals",
    )  # fmt: skip
    wide = {}
    for path in pages:
        page = screen.settle(path)
        wide[path] = screen.overhang()
        current = page.get_by_role("navigation", name="Pages").locator("[aria-current]")
        expect(current).to_be_in_viewport()
    assert {path: pixels for path, pixels in wide.items() if pixels} == {}


@pytest.mark.usefixtures("long")
def test_a_row_of_the_list_has_room_for_its_texts_on_a_phone(shared: UiServer, open_screen: Opening) -> None:
    page = open_screen(shared, PHONE).settle("executions")
    expect(page.get_by_role("link", name="Decide demo/refund")).to_be_visible()
    cut = page.evaluate("""() => [...document.querySelectorAll(".execution-row")].flatMap((row) => {
        const box = row.getBoundingClientRect();
        return [...row.querySelectorAll("b, .row-error, .row-waits, .badge, .button, .cell-started, .cell-duration")]
            .map((each) => [each.textContent, each.getBoundingClientRect()])
            .filter(([, inner]) => inner.top < box.top || inner.bottom > box.bottom)
            .map(([text]) => text);
    })""")
    assert cut == []


def test_a_failed_loop_has_the_same_words_everywhere(shared: UiServer, long: str, open_screen: Opening) -> None:
    page = open_screen(shared, Size(1440, 900)).settle(f"executions/{long}?step={STEP}&tab=iterations")
    count = re.compile(r"[\d,]+ not run")
    expect(page.get_by_role("tabpanel").filter(has_text=count)).not_to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^not run 34$"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^waiting"))).to_have_count(0)
    page.get_by_role("button", name=re.compile("^not run")).click()
    rows = page.get_by_role("region", name="Iterations").get_by_role("listitem")
    expect(rows.first).to_contain_text("not run")
    page = open_screen(shared, Size(1440, 900)).settle(f"executions/{long}?step={STEP}&seq=8")
    expect(page.get_by_text(re.compile(r"^\d+ waiting$"))).to_be_visible()  # then, it still ran


def test_a_line_of_the_logs_shows_the_item_of_its_call(shared: UiServer, long: str, open_screen: Opening) -> None:
    page = open_screen(shared, Size(1024, 768)).settle(f"executions/{long}?tab=logs")
    item = page.get_by_role("button", name=f"{STEP}#1[5]/1", exact=True).get_by_text("#1[5]/1")
    box = item.bounding_box()
    text = page.get_by_role("button", name="out: customer 5").bounding_box()
    assert box is not None
    assert text is not None
    assert 0 < box["x"] < box["x"] + box["width"] <= text["x"]
