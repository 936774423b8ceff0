"""The page of an execution tells what happens: running calls, loops, stalls, large results, and one status everywhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from tests.browser.browser import PHONE, Size
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status, inspector, step
from tests.browser.playbooks import LARGE
from tests.browser.server import NOETL, UiServer

WIDE: Final = Size(1440, 900)
MEDIUM: Final = Size(1024, 768)
HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"

# Works until the file exists.
SLOW: Final = HEAD.format(name="slow") + (
    'workload: {file: "", many: 1}\n'
    'workflow:\n'
    '- step: start\n'
    '  loop: {in: "{{ range(workload.many) }}", iterator: number, spec: {mode: parallel, max_in_flight: 2}}\n'
    '  tool:\n'
    '    name: build_index\n'
    '    kind: shell\n'
    '    sh: "until test -e {{ workload.file }}; do sleep 0.1; done"\n'
    '  next: {arcs: [{step: after}]}\n'
    '- step: after\n'
    '  tool: {kind: noop}\n'
)  # fmt: skip
# Bad items fail, and the loop continues.
PARTIAL: Final = HEAD.format(name="partial") + (
    'workload: {cities: [oslo, rome, paris], bad: [rome]}\n'
    'workflow:\n'
    '- step: start\n'
    '  spec: {policy: {failure: {mode: best_effort, tolerate: 3}}}\n'
    '  loop: {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel}}\n'
    '  tool:\n'
    '    name: weather\n'
    '    kind: python\n'
    '    input: {city: "{{ iter.city }}", bad: "{{ workload.bad }}"}\n'
    '    code: |\n'
    '      def main(city, bad):\n'
    '          if city in bad:\n'
    '              raise ValueError(f"no weather station in {city}: " + "the answer was empty, " * 8)\n'
    '          return {"city": city}\n'
)  # fmt: skip
REFS: Final = LARGE + (
    '  set: {ctx.report: "{{ output.data }}"}\n'
    '  next: {arcs: [{step: each}]}\n'
    '- step: each\n'
    '  loop: {in: "{{ range(400) }}", iterator: number, spec: {mode: parallel, max_in_flight: 50}}\n'
    '  tool: {kind: noop, input: {number: "{{ iter.number }}", text: "{{ range(90) | join(\'-\') }}"}}\n'
)  # fmt: skip


def test_a_running_call_shows_its_task_item_worker_and_time(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "go"
    id = server.begin(SLOW, file=str(file), many=5)
    page = open_screen(server, WIDE).open(f"executions/{id}?step=start")
    expect(step(page, "start")).to_contain_text("2 running · 3 waiting")
    expect(inspector(page)).to_contain_text("3 waiting, at most 2 at a time")
    running = inspector(page).get_by_role("listitem").filter(has_text="build_index")
    expect(running.nth(1)).to_contain_text(re.compile(r"build_index\[1\] 1.* s.*on \S+"))
    file.touch()
    expect_status(page, "ok")
    expect(step(page, "start")).to_contain_text("done 5/5")


def test_failed_iterations_do_not_count_as_done(shared: UiServer, open_screen: Opening) -> None:
    some = shared.run(PARTIAL)
    page = open_screen(shared, WIDE).open(f"executions/{some}?step=start")
    expect(step(page, "start")).to_contain_text("2 ok · 1 failed")
    expect(page.get_by_role("group", name="Timeline", exact=True)).to_contain_text("2/3 · 1 failed")
    expect(inspector(page)).to_contain_text("3 iterations:2 ok1 failed")
    all_of_them = shared.run(PARTIAL, bad=["oslo", "rome", "paris"])
    page.goto(f"{shared.url}/ui/executions/{all_of_them}")
    expect(step(page, "start")).to_contain_text("3 failed")
    expect(step(page, "start")).not_to_contain_text("done")
    expect(step(page, "start")).to_have_class(re.compile(r"\berror\b"))


@pytest.mark.parametrize("size", [WIDE, MEDIUM, PHONE])
def test_the_list_of_failed_calls_says_which_item_and_keeps_its_layout(
    shared: UiServer, open_screen: Opening, size: Size
) -> None:
    id = shared.run(PARTIAL)
    screen = open_screen(shared, size)
    page = screen.settle(f"executions/{id}?step=start")
    call = inspector(page).get_by_role("listitem").filter(has_text="weather")
    expect(call).to_contain_text(re.compile(r'weather\[1\] "rome".*error, fail'))
    box, pane = call.bounding_box(), inspector(page).bounding_box()
    assert box is not None
    assert pane is not None
    assert box["x"] >= pane["x"]
    assert box["x"] + box["width"] <= pane["x"] + pane["width"]
    cut: list[str] = call.evaluate(
        "(row) => [...row.querySelectorAll('span, code')].filter((each) => each.scrollWidth > each.clientWidth + 1"
        " && getComputedStyle(each).display !== 'inline').map((each) => each.textContent)"
    )
    assert cut == []
    assert (screen.overhang(), screen.serious()) == (0, [])


def test_a_paused_execution_has_one_status_everywhere(server: UiServer, open_screen: Opening) -> None:
    file = server.folder / "go"
    id = server.begin(SLOW, file=str(file))
    page = open_screen(server).open(f"executions/{id}?step=after")
    expect(step(page, "start")).to_contain_text("1 running")
    page.get_by_role("button", name="Pause").click()
    expect_status(page, "paused")
    file.touch()
    expect(step(page, "start")).to_contain_text("paused by local")
    expect(page.get_by_role("status").filter(has_text="paused by local")).to_be_visible()
    inspector(page).get_by_role("tab", name="Why").click()
    expect(inspector(page)).to_contain_text("Nothing runs now: paused by local")
    page.goto(f"{server.url}/ui/executions")
    expect(page.get_by_role("listitem").filter(has_text=id)).to_contain_text("paused")


def test_a_cancelled_execution_has_one_status_everywhere(server: UiServer, open_screen: Opening) -> None:
    id = server.begin(SLOW, file=str(server.folder / "never"))
    page = open_screen(server).open(f"executions/{id}?step=start")
    expect(step(page, "start")).to_contain_text("1 running")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the execution").click()
    expect(page.locator(".toast")).to_contain_text(re.compile("Cancel(led|ling: running calls have 10 s to stop)"))
    expect_status(page, "cancelled")
    expect(step(page, "start")).to_contain_text("cancelled")
    expect(inspector(page)).to_contain_text("cancelled")


def test_an_interrupted_execution_says_that_no_process_runs_it(server: UiServer, open_screen: Opening) -> None:
    book = server.folder / "slow.yaml"
    book.write_text(SLOW.replace('file: ""', f"file: {server.folder / 'never'}"))
    run = subprocess.Popen([NOETL, "run", book, "--db", server.folder / "noetl.db"], stderr=subprocess.DEVNULL)
    try:
        found: list[dict[str, Any]] = []
        while not found:
            assert run.poll() is None
            found = server.ask("GET", "/executions?open=true")["items"]
        id = found[0]["execution_id"]
        page = open_screen(server).open(f"executions/{id}?step=start")
        expect(step(page, "start")).to_contain_text("1 running")
    finally:
        run.kill()
        run.wait()
    expect_status(page, "interrupted")
    expect(page.get_by_role("status").filter(has_text="no process runs it")).to_be_visible()
    expect(step(page, "start")).to_contain_text("interrupted")
    expect(page.get_by_role("group", name="Timeline", exact=True)).to_contain_text("interrupted: no process runs it")
    expect(inspector(page)).to_contain_text("interrupted")


def test_large_results_and_references_are_opened_searched_and_downloaded(
    shared: UiServer, open_screen: Opening
) -> None:
    id = shared.run(REFS)
    screen = open_screen(shared, WIDE)
    page = screen.open(f"executions/{id}?step=start")
    pane = inspector(page)
    pane.get_by_role("button", name="Show content").first.click()
    expect(pane.get_by_role("columnheader", name="row integer")).to_be_visible()
    expect(pane).to_contain_text("1–50 of 3,000")
    pane.get_by_role("button", name="Next rows").click()
    expect(pane).to_contain_text("51–100 of 3,000")
    pane.get_by_role("searchbox", name="Search the rows").fill('"row":2718,')
    expect(pane).to_contain_text("1–1 of 1 found in 3,000")
    with page.expect_download() as saved:
        pane.get_by_role("button", name="CSV").click()
    lines = Path(saved.value.path()).read_text("utf-8").splitlines()
    assert (lines[0], len(lines)) == ("row,text", 3001)
    pane.get_by_role("tab", name="Context").click()
    pane.get_by_role("button", name="Show content").click()
    expect(pane).to_contain_text("1–50 of 3,000")
    step(page, "each").click()
    pane.get_by_role("button", name="Show content").click()
    expect(pane).to_contain_text("1–50 of 400")
    expect(pane.get_by_role("columnheader", name="number integer")).to_be_visible()
    assert screen.serious() == []
