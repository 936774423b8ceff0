"""The size of the list and of the page of an execution: all files of the bundle that the browser requests, with those
of web workers, compressed with gzip."""

from __future__ import annotations

import gzip
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.browser import BUNDLE, Screen
from tests.browser.conftest import Opening
from tests.browser.execution import expect_status
from tests.browser.server import UiServer
from tests.conftest import Measuring

LIST_KB_MAX = 150
EXECUTION_KB_MAX = 250
PLAYBOOK = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: light, path: demo/light}\n"
    "workflow:\n- {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n- {step: end, tool: {kind: noop}}\n"
)


def requested_files(screen: Screen) -> set[str]:
    """Grows while the screen requests files."""
    files: set[str] = set()
    screen.page.on("request", lambda each: files.add(urlsplit(each.url).path))
    return files


def kilobytes(files: set[str]) -> float:
    """The compressed size of the page and of its files; requests for other paths go to the API."""
    names = {path.removeprefix("/ui/") for path in files if path.startswith("/ui/")}
    paths = [BUNDLE / "index.html", *(BUNDLE / name for name in names if (BUNDLE / name).is_file())]
    return sum(len(gzip.compress(path.read_bytes(), 6)) for path in paths) / 1_000


def test_the_list_is_light(shared: UiServer, open_screen: Opening, figure: Measuring) -> None:
    screen = open_screen(shared)
    files = requested_files(screen)
    expect(screen.open("").get_by_role("heading", level=1)).to_be_visible()
    assert any(path.endswith(".js") for path in files), files
    figure("list of executions, gzipped", kilobytes(files), at_most=LIST_KB_MAX, unit="KB")


def test_the_page_of_an_execution_is_light(shared: UiServer, open_screen: Opening, figure: Measuring) -> None:
    id = shared.run(PLAYBOOK)
    screen = open_screen(shared)
    files = requested_files(screen)
    expect_status(screen.open(f"executions/{id}"), "ok")
    expect(screen.page.locator(".step-card").first).to_be_visible()
    assert any("layout.worker" in path for path in files), files
    figure("page of an execution, gzipped", kilobytes(files), at_most=EXECUTION_KB_MAX, unit="KB")
