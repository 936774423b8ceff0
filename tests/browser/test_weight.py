"""The size of the first page: all requests of the browser, compressed with gzip."""

from __future__ import annotations

import gzip
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.browser import BUNDLE
from tests.browser.conftest import Opening
from tests.browser.server import UiServer
from tests.conftest import Measuring

KB_MAX = 500


def packed(path: str) -> int:
    """The compressed size of a file of the bundle."""
    name = urlsplit(path).path.removeprefix("/ui/") or "index.html"
    return len(gzip.compress((BUNDLE / name).read_bytes(), 6))


def test_the_first_page_is_at_most_500_kb(shared: UiServer, open_screen: Opening, figure: Measuring) -> None:
    screen = open_screen(shared)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(request.url))
    expect(screen.open("").get_by_role("heading", level=1)).to_be_visible()
    files = {url for url in asked if url.endswith((".js", ".css", ".svg"))}
    assert any(url.endswith(".js") for url in files), asked
    weight = packed("/ui/") + sum(packed(url) for url in files)
    figure("first page, gzipped", weight / 1_000, at_most=KB_MAX, unit="KB")
