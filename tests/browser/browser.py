"""A headless Chromium: the console, the appearance and the response times of a page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

ROOT: Final = Path(__file__).parents[2]
BUNDLE: Final = ROOT / "src" / "noetl" / "server" / "static"
AXE: Final = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WAIT_MS: Final = 60_000  # a timeout for failures: everything appears within one or two seconds
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")

Scheme: TypeAlias = Literal["light", "dark"]

# Every page records its blocked times, the times from inputs to their painting, and the times without a frame. The
# records are bounded, because a page may be open for long.
FELT: Final = """
window.felt = {blocked: [], inputs: [], gaps: []};
const keep = (list, value) => { if (list.length < 5000) list.push(value); };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) keep(window.felt.blocked, entry.duration);
}).observe({type: "longtask"});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.interactionId) keep(window.felt.inputs, [entry.name, entry.duration]);
  }
}).observe({type: "event", durationThreshold: 16});
let last = performance.now();
const frame = (now) => { keep(window.felt.gaps, now - last); last = now; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
"""


class Size(NamedTuple):
    width: int
    height: int


DESK: Final = Size(1280, 800)
PHONE: Final = Size(390, 844)


class Felt(NamedTuple):
    """Response times in milliseconds, each the longest since `feel` was called."""

    blocked: float  # the page ran one task and handled no event; the browser reports times from 50
    input: float  # from a key or a click until the page was painted
    gap: float  # without a frame


class Problem(NamedTuple):
    """A finding of axe, and its elements."""

    rule: str
    impact: str
    where: tuple[str, ...]


def found() -> str | None:
    """The path of Chromium; None: it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser until the end of the block. Its event loop excludes all others in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=[*ARGUMENTS])
        try:
            yield browser
        finally:
            browser.close()


class Screen:
    """A window with one page. Tests use `page` like a person: with roles, labels and keys."""

    def __init__(self, browser: Browser, url: str, *, size: Size = DESK, scheme: Scheme = "light") -> None:
        self.url = url
        self.console: list[str] = []  # messages on the console, and failed requests
        self.thrown: list[str] = []  # uncaught errors
        self.foreign: list[str] = []  # requests to other hosts
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size.width, "height": size.height}, color_scheme=scheme, base_url=url,
            reduced_motion="reduce", is_mobile=size == PHONE, has_touch=size == PHONE,
        )  # fmt: skip
        self.context.set_default_timeout(WAIT_MS)
        self.context.add_init_script(FELT)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.thrown.append(f"{error.message}\n{error.stack}"))
        self.page.on("request", self._on_request)
        self.page.on("requestfailed", lambda request: self.console.append(f"no answer: {request.url}"))

    def open(self, path: str) -> Page:
        """Open a page of the UI, for example "executions"."""
        self.page.goto(f"{self.url}/ui/{path}")
        return self.page

    def settle(self, path: str) -> Page:
        """Open a page of the UI and wait until it has its heading and all its data."""
        page = self.open(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true], .skeleton")).to_have_count(0)
        return page

    def feel(self) -> None:
        """Begin to measure response times."""
        self.page.evaluate("() => { felt.blocked = []; felt.inputs = []; felt.gaps = []; }")

    def felt(self) -> Felt:
        """The response times, read after two more frames, so that the last input is included."""
        self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
        )
        got: dict[str, list[Any]] = self.page.evaluate("() => felt")
        return Felt(
            blocked=max(got["blocked"], default=0.0),
            input=max((duration for _, duration in got["inputs"]), default=0.0),
            gap=max(got["gaps"], default=0.0),
        )

    def serious(self) -> list[Problem]:
        """The serious and critical findings of axe on the current page."""
        self.page.evaluate(AXE.read_text("utf-8") + ";0")
        got: dict[str, Any] = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            Problem(each["id"], each["impact"], tuple(place["html"][:200] for place in each["nodes"][:5]))
            for each in got["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def overhang(self) -> int:
        """The number of pixels that the page is wider than the window."""
        wide: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return max(0, wide)  # negative if there is space for a scroll bar

    def refused(self) -> list[str]:
        """The messages about violations of the content security policy."""
        return [line for line in self.console if re.search("Content Security Policy|Refused to", line)]

    def keep(self, folder: Path, name: str) -> str:
        """Save a screenshot; returns its path and the messages, for the report of a failed test."""
        if self.page.is_closed():
            return "\n".join([*self.thrown, *self.console])
        picture = folder / (re.sub(r"[^\w-]+", "-", name) + ".png")
        self.page.screenshot(path=picture, full_page=True)
        lines = [f"screenshot: {picture}", f"address: {self.page.url}", *self.thrown, *self.console]
        return "\n".join(lines)

    def close(self) -> None:
        self.context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(request.url)
