"""The pages for operators: workers and pools, limits, the schedule, and health with charts and alerts."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.browser import PHONE, Scheme, Size
from tests.browser.conftest import Opening
from tests.browser.server import UiServer

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"
SLOW: Final = HEAD.format(name="slow") + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {name: copy, kind: shell, argv: [sh, -c, "while [ ! -e $0 ]; do sleep 0.5; done", "{{ workload.file }}"]}\n'
)  # fmt: skip
ONE: Final = HEAD.format(name="one") + (
    'executor: {spec: {policy: {concurrency: {limit: 1, when_full: queue}}}}\n'
    'workflow:\n- step: start\n  tool: {kind: wait, signal: go}\n'
)  # fmt: skip
NIGHTLY: Final = HEAD.format(name="nightly") + (
    'triggers:\n'
    '- {name: night, kind: cron, cron: "0 3 * * *"}\n'
    '- {name: often, kind: interval, every_s: 600}\n'
    'workflow:\n- step: start\n  tool: {kind: noop}\n'
)  # fmt: skip
FAILING: Final = HEAD.format(name="failing") + "workflow:\n- step: start\n  tool: {kind: shell, argv: ['false']}\n"
LOOKS: Final = [(Size(1440, 900), "light"), (Size(1024, 768), "dark"), (PHONE, "dark")]


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_worker_shows_what_it_runs_and_a_limit_who_waits(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    file = server.folder / "file"
    id = server.begin(SLOW, file=str(file))
    holder, waiting = server.begin(ONE), server.begin(ONE)
    screen = open_screen(server, size, scheme)
    page = screen.open("workers")
    running = page.get_by_role("table").get_by_role("listitem")
    expect(running).to_have_count(1)
    expect(running).to_contain_text(re.compile(r"demo/slow start#1 copy"))
    expect(page.get_by_role("list", name="Pools")).to_contain_text("nothing waits")
    assert (screen.overhang(), screen.serious()) == (0, [])
    running.get_by_role("link", name="demo/slow").click()
    expect(page).to_have_url(re.compile(id))
    file.touch()

    page = screen.open("limits")
    card = page.get_by_role("region", name="demo/one")
    expect(card).to_contain_text("1 at once")
    expect(card.get_by_role("link").nth(0)).to_have_attribute("title", holder)
    expect(card.get_by_role("link").nth(1)).to_have_attribute("title", waiting)
    assert (screen.overhang(), screen.serious()) == (0, [])
    server.ask("POST", f"/executions/{holder}/signal", {"name": "go"})
    expect(card.get_by_role("link")).to_have_count(1)
    expect(card.get_by_role("link")).to_have_attribute("title", waiting)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_the_schedule_shows_a_day_and_a_week(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    server.register(NIGHTLY)
    fired = server.ask("POST", "/triggers/fire?path=demo/nightly&name=night")
    screen = open_screen(server, size, scheme)
    page = screen.open(f"schedule?day={datetime.fromisoformat(fired['at']).astimezone():%Y-%m-%d}")
    days = page.get_by_role("main").get_by_role("region")
    expect(days).to_have_count(1)
    expect(days).to_contain_text(re.compile(r"demo/nightly\s*night\s*ok"))
    page.get_by_role("button", name="Next day").click()
    expect(days).to_contain_text(re.compile(r"\d+×\s*demo/nightly\s*often: \d+ planned"))
    page.get_by_role("button", name="Week").press("Enter")
    expect(days).to_have_count(7)
    expect(days.nth(3)).to_contain_text(re.compile("03:00:00|planned"))
    page.get_by_role("button", name="Next week").click()
    expect(days.first).not_to_contain_text("today")
    assert (screen.overhang(), screen.serious()) == (0, [])
    page.get_by_role("button", name="Today").click()
    days.first.get_by_role("link", name="demo/nightly").last.click()
    expect(page).to_have_url(re.compile("/ui/(executions|triggers)"))


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_health_has_charts_and_explains_alerts(
    server: UiServer, open_screen: Opening, size: Size, scheme: Scheme
) -> None:
    server.run(FAILING)
    screen = open_screen(server, size, scheme)
    page = screen.open("health")
    alerts = page.get_by_role("region", name="Alerts")
    expect(alerts).to_contain_text("NoetlExecutionsFail", timeout=60_000)
    expect(alerts).to_contain_text("demo/failing: 1")
    expect(alerts).to_contain_text("noetl list --status error")
    expect(page.get_by_role("img", name=re.compile("Facts per second: now"))).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="24 h").press("Enter")
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("img")).to_have_count(10)
    assert (screen.overhang(), screen.serious()) == (0, [])
