"""A real Chromium, headless, and what a page of it says, looks like and feels like to the one who uses it."""

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
WAIT_MS: Final = 60_000  # for what never comes: all that is waited for comes within one or two seconds
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")

Scheme: TypeAlias = Literal["light", "dark"]

# Kept by every page from its start: what blocked it, how long inputs took until they were painted, and how long no
# frame came. Bounded, since a page may be open for long.
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
    """In milliseconds, each the longest of its kind since one began to feel."""

    blocked: float  # the page did one thing and heard nothing; below 50 is not told
    input: float  # from a key or a click until its answer was painted
    gap: float  # no frame


class Problem(NamedTuple):
    """What axe found, and where."""

    rule: str
    impact: str
    where: tuple[str, ...]


def found() -> str | None:
    """Where Chromium lies, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One that ends with the block. It holds a loop of its own: nobody else may run one meanwhile in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=[*ARGUMENTS])
        try:
            yield browser
        finally:
            browser.close()


class Screen:
    """A window with one page. `page` is used as a person does: by roles, labels and keys."""

    def __init__(self, browser: Browser, url: str, *, size: Size = DESK, scheme: Scheme = "light") -> None:
        self.url = url
        self.said: list[str] = []  # on the console, and requests that came to nothing
        self.thrown: list[str] = []  # and not caught by anyone
        self.foreign: list[str] = []  # requests to somebody else
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size.width, "height": size.height}, color_scheme=scheme, base_url=url,
            reduced_motion="reduce", is_mobile=size == PHONE, has_touch=size == PHONE,
        )  # fmt: skip
        self.context.set_default_timeout(WAIT_MS)
        self.context.add_init_script(FELT)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.thrown.append(f"{error.message}\n{error.stack}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", lambda request: self.said.append(f"no answer: {request.url}"))

    def open(self, path: str) -> Page:
        """A place in the UI: "executions"."""
        self.page.goto(f"{self.url}/ui/{path}")
        return self.page

    def settle(self, path: str) -> Page:
        """A place in the UI, when it has its heading and nothing on it waits for data any more."""
        page = self.open(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true], .skeleton")).to_have_count(0)
        return page

    def feel(self) -> None:
        """From now on."""
        self.page.evaluate("() => { felt.blocked = []; felt.inputs = []; felt.gaps = []; }")

    def felt(self) -> Felt:
        """After the next two frames, so that what was asked for last is in it."""
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
        """What axe calls serious or critical on the page as it stands."""
        self.page.evaluate(AXE.read_text("utf-8") + ";0")
        got: dict[str, Any] = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            Problem(each["id"], each["impact"], tuple(place["html"][:200] for place in each["nodes"][:5]))
            for each in got["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def overhang(self) -> int:
        """Pixels that one would have to scroll to the right for."""
        wide: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return max(0, wide)  # less, where room is kept for a scroll bar

    def refused(self) -> list[str]:
        """What the browser would not do because the page's own rules forbid it."""
        return [line for line in self.said if re.search("Content Security Policy|Refused to", line)]

    def keep(self, folder: Path, name: str) -> str:
        """A picture and what was said, for whoever looks at a test that failed."""
        if self.page.is_closed():
            return "\n".join([*self.thrown, *self.said])
        picture = folder / (re.sub(r"[^\w-]+", "-", name) + ".png")
        self.page.screenshot(path=picture, full_page=True)
        told = [f"picture: {picture}", f"address: {self.page.url}", *self.thrown, *self.said]
        return "\n".join(told)

    def close(self) -> None:
        self.context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        self.said.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(request.url)
