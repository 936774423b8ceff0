"""Watching and commanding an execution: retry, approval, pause; the page survives reloads and server restarts."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Opening
from tests.browser.execution import events, expect_status, inspector, place, slider, step, whole
from tests.browser.playbooks import APPROVAL, FAILING, GREETING, LARGE, LOOP, STAGES
from tests.browser.server import UiServer


def test_a_failed_run_shows_the_reason_and_is_retried(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "orders.csv"
    id = server.run(FAILING, file=str(file))
    page = open_screen(server).open(f"executions/{id}")
    expect_status(page, "error")
    step(page, "read").click()
    expect(inspector(page)).to_contain_text("No such file or directory")
    file.write_text("1,2,3")
    page.get_by_role("button", name="Retry failed parts").click()
    expect_status(page, "ok")
    expect(step(page, "report")).to_contain_text("done")
    expect(page.get_by_role("button", name="Retry failed parts")).to_have_count(0)


def test_an_approval_is_given(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(APPROVAL, amount=900)
    page = open_screen(shared).open(f"executions/{id}")
    expect(step(page, "approve")).to_contain_text("approval")
    page.get_by_role("button", name="Signal approval", exact=True).click()
    dialog = page.get_by_role("dialog", name="Send a signal")
    data = dialog.get_by_role("textbox", name=re.compile("^Data"))
    data.fill("{approved}")
    expect(dialog.get_by_role("button", name="Send")).to_be_disabled()
    data.fill('{"approved": true}')
    dialog.get_by_role("button", name="Send").click()
    expect_status(page, "ok")
    step(page, "pay").click()
    expect(inspector(page)).to_contain_text("900")
    inspector(page).get_by_role("tab", name="Why").click()
    expect(inspector(page)).to_contain_text("ctx.approval.approved")
    step(page, "refuse").click()
    expect(inspector(page)).to_contain_text("refuse did not run")


def test_an_execution_is_paused_resumed_and_cancelled(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(STAGES)
    page = open_screen(shared).open(f"executions/{id}")
    page.get_by_role("button", name="Pause").click()
    expect_status(page, "paused")
    page.get_by_role("button", name="Resume").click()
    expect_status(page, "running")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the execution").click()
    expect_status(page, "cancelled")


def test_a_reload_keeps_the_position_in_the_log(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(GREETING)
    page = open_screen(shared).open(f"executions/{id}?tab=events")
    events(page).filter(has_text="ctx.patched").or_(events(page).filter(has_text="step.done")).first.click()
    expect(page).to_have_url(re.compile(r"seq=\d+"))
    seq = place(page)
    assert 1 < seq < whole(page, shared, id)
    page.reload()
    expect(slider(page)).to_have_value(str(seq))
    expect(events(page).locator("[aria-current=true]")).to_contain_text(str(seq))


def test_a_reload_of_a_running_execution_keeps_it_live(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(STAGES)
    page = open_screen(shared).open(f"executions/{id}")
    expect(step(page, "start")).to_contain_text("go_start")
    page.reload()
    shared.signal(id, "go_start")
    expect(step(page, "second")).to_contain_text("go_second")


def test_the_page_recovers_when_its_server_was_killed(server: UiServer, open_screen: Opening) -> None:
    id = server.begin(STAGES)
    page = open_screen(server).open(f"executions/{id}")
    expect(step(page, "start")).to_contain_text("go_start")
    server.process.kill()
    expect(page.get_by_role("status").filter(has_text="does not answer")).to_be_visible()
    server.start_again()
    server.signal(id, "go_start")
    expect(step(page, "second")).to_contain_text("go_second")
    expect(page.get_by_role("status").filter(has_text="does not answer")).to_have_count(0)


def test_the_list_recovers_when_its_server_was_stopped(server: UiServer, open_screen: Opening) -> None:
    id = server.begin(STAGES)
    page = open_screen(server).open("executions")
    row = page.get_by_role("region", name="Executions").get_by_role("listitem").filter(has_text=id)
    expect(row).to_contain_text("running")
    server.process.stop()
    server.start_again()
    server.ask("POST", f"/executions/{id}/cancel", {})
    expect(row).to_contain_text("cancelled")


def test_a_loop_is_followed_while_it_runs(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(LOOP, many=2_000)
    page = open_screen(shared).open(f"executions/{id}")
    expect_status(page, "ok")
    expect(step(page, "square")).to_contain_text("2,000/2,000")


def test_keys_move_the_cursor_and_play(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(GREETING)
    page = open_screen(shared).open(f"executions/{id}")
    expect(step(page, "finish")).to_contain_text("done")
    end = whole(page, shared, id)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(slider(page)).to_have_value(str(end - 2))
    page.keyboard.press("l")
    expect(slider(page)).to_have_value(str(end))
    page.keyboard.press("[")
    expect(slider(page)).to_have_value("1")
    page.keyboard.press("Space")
    expect(slider(page)).to_have_value(str(end))


def test_space_presses_the_button_that_has_the_focus(shared: UiServer, open_screen: Opening) -> None:
    id = shared.begin(STAGES)
    page = open_screen(shared).open(f"executions/{id}")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("dialog", name="Cancel this execution?")).to_be_visible()


def test_a_link_opens_the_position_at_which_it_was_made(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(GREETING)
    page = open_screen(shared).open(f"executions/{id}?seq=3&step=start")
    expect(slider(page)).to_have_value("3")
    expect(step(page, "start")).not_to_contain_text("done")
    page.get_by_role("group", name="Time travel").get_by_role("button", name="End").click()
    expect(step(page, "start")).to_contain_text("done")
    expect(page).not_to_have_url(re.compile("seq="))


def test_a_large_output_is_fetched_on_demand_and_shown_as_a_table(shared: UiServer, open_screen: Opening) -> None:
    id = shared.run(LARGE)
    page = open_screen(shared).open(f"executions/{id}?step=start")
    inspector(page).get_by_role("button", name="Show content").click()
    expect(inspector(page).get_by_role("row").filter(has_text="many words")).not_to_have_count(0)
    assert inspector(page).get_by_role("row").count() < 500


def test_an_unknown_execution_is_reported_as_not_found(shared: UiServer, open_screen: Opening) -> None:
    page = open_screen(shared).open("executions/0199b3c2-0000-7000-8000-000000000000")
    expect(page.get_by_role("heading", level=1)).to_have_text("Execution not found")
