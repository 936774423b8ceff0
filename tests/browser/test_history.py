"""The history of a playbook: a grid of steps and executions, the durations, and the rollback to an older version."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.browser import DESK, PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.playbooks import FAILING, GREETING
from tests.browser.server import UiServer


@pytest.fixture(scope="module")
def nightly(shared: UiServer) -> list[str]:
    """Ten executions succeed, then ten fail."""
    file = shared.folder / "orders.csv"
    file.write_text("1,2,3")
    ids = [shared.run(FAILING, file=str(file)) for _ in range(10)]
    file.unlink()
    return ids + [shared.run(FAILING, file=str(file)) for _ in range(10)]


def test_the_grid_shows_since_when_a_step_fails(shared: UiServer, open_screen: Opening, nightly: list[str]) -> None:
    page = open_screen(shared).settle("playbooks/history?path=demo/import")
    grid = page.get_by_role("region", name="Steps in the newest executions")
    row = grid.get_by_role("row").filter(has=page.get_by_role("button", name="read", exact=True))
    names = [each.get_attribute("aria-label") or "" for each in row.get_by_role("link").all()]
    assert [name.split(",")[0] for name in names] == ["read: ok"] * 10 + ["read: error"] * 10
    expect(page.get_by_text("It fails since")).to_be_visible()
    row.get_by_role("link").nth(10).click()
    expect(page).to_have_url(f"{shared.url}/ui/executions/{nightly[10]}?step=read")
    expect(page.get_by_text("FileNotFoundError").first).to_be_visible()


def test_the_trend_shows_percentiles_of_the_playbook_and_of_a_step(
    shared: UiServer, open_screen: Opening, nightly: list[str]
) -> None:
    assert len(nightly) == 20
    page = open_screen(shared).settle("playbooks/history?path=demo/import")
    trend = page.get_by_role("figure")
    expect(trend).to_contain_text("Duration of the execution")
    expect(trend).to_contain_text("p95")
    step = page.get_by_role("button", name="read", exact=True)
    step.focus()
    page.keyboard.press("Enter")
    expect(trend).to_contain_text("Duration of read, by execution")
    expect(trend.locator("rect")).to_have_count(20)


def test_an_older_version_becomes_current_after_a_plan(server: UiServer, open_screen: Opening) -> None:
    trigger = "triggers:\n- {name: %s, kind: interval, every_s: 86400}\n"
    server.register(GREETING + trigger % "daily")
    server.register(GREETING.replace("hello", "good morning") + trigger % "weekly")
    page = open_screen(server).open("playbooks/one?path=demo/greeting&tab=versions")
    page.get_by_role("button", name="Roll back to version 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("use version 1 instead of version 2")
    expect(dialog).to_contain_text("These triggers no longer fire: weekly.")
    expect(dialog.get_by_role("region", name="Changes")).to_contain_text("good morning")
    assert server.ask("GET", "/playbooks/one?path=demo/greeting")["version"] == 2
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("version 1")
    expect(page.get_by_role("row").filter(has_text="current")).to_contain_text("1")
    assert server.ask("GET", "/playbooks/one?path=demo/greeting")["version"] == 1
    assert [each["name"] for each in server.ask("GET", "/triggers")["items"]] == ["daily"]
    assert server.ask("GET", "/audit?action=register")["items"][0]["what"] == "rollback"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_history_is_accessible(
    shared: UiServer, open_screen: Opening, nightly: list[str], size: Size, scheme: Scheme
) -> None:
    assert len(nightly) == 20
    screen = open_screen(shared, size=size, scheme=scheme)
    screen.settle("playbooks/history?path=demo/import")
    assert (screen.serious(), screen.overhang()) == ([], 0)
