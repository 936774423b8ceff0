"""Take the screenshots in docs/images/ui: every page of the web UI, light and dark.

`make pictures` runs it. It starts a server and a Chromium, and ends both.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, get_args

from playwright.sync_api import Browser, Page, expect

from tests.browser.browser import BUNDLE, DESK, PHONE, ROOT, WAIT_MS, Scheme, Screen, Size, chromium, found
from tests.browser.playbooks import APPROVAL, FAILING, LOOP
from tests.browser.server import UiServer
from tests.browser.showcase import ORDERS
from tests.browser.test_approvals import REFUND
from tests.browser.test_iterations import FEW
from tests.browser.test_operations import NIGHTLY

FOLDER: Final = ROOT / "docs" / "images" / "ui"
BYTES_MAX: Final = 200_000
EXAMPLES: Final = ROOT / "examples"
RUN: Final = ("hello", "word_count")  # the examples without other requirements


class Runs(NamedTuple):
    """The executions on the screenshots."""

    orders: str
    waiting: str
    failed: str
    loop: str
    items: str  # a loop with a failed item
    question: str  # waits for a person


class Picture(NamedTuple):
    name: str
    path: str
    size: Size = DESK
    prepare: Callable[[Page], object] = lambda _: None


def main() -> int:
    if found() is None or not (BUNDLE / "index.html").is_file():
        print("the screenshots need Chromium and the built UI: sh scripts/browser", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=WAIT_MS)
    with tempfile.TemporaryDirectory() as folder:
        server = UiServer(Path(folder))
        try:
            runs = prepared(server)
            with chromium() as browser:
                large = [file for file in taken(browser, server, runs) if file.stat().st_size > BYTES_MAX]
        finally:
            server.close()
    for file in large:
        print(f"{file.relative_to(ROOT)} has more than {BYTES_MAX:,} bytes", file=sys.stderr)
    return 1 if large else 0


def prepared(server: UiServer) -> Runs:
    """Register all examples, and run executions that succeed, fail, wait, and have many iterations."""
    for example in sorted(EXAMPLES.glob("*.yaml")):
        text = example.read_text("utf-8")
        server.run(text) if example.stem in RUN else server.register(text)
    server.ask("PUT", "/credentials/warehouse", {"value": "quiet"})
    loop = server.run(LOOP)
    file = server.folder / "orders.csv"
    for text in ("1,2,3", "4,5,6", "7,8,9"):
        file.write_text(text, "utf-8")
        server.run(FAILING, file=str(file))
    failed = server.run(FAILING, file="/data/orders.csv")
    items = server.run(FEW, file=str(server.folder / "none"))
    server.register(NIGHTLY)
    server.ask("POST", "/triggers/fire?path=demo/nightly&name=night")
    question = server.begin(REFUND)
    server.follow(question, '"type":"signal"')
    orders = server.begin(ORDERS, flag=str(server.folder / "flag-1"))
    server.signal(orders, "approval", {"approved": True})
    server.begin(APPROVAL)
    waiting = server.begin(ORDERS, flag=str(server.folder / "flag-2"))
    server.follow(waiting, '"type":"signal"')
    return Runs(orders, waiting, failed, loop, items, question)


def pictures(runs: Runs) -> Iterator[Picture]:
    yield Picture(
        "executions",
        "executions",
        prepare=lambda page: expect(page.get_by_role("img", name=re.compile("^Steps:")).first).to_be_visible(),
    )
    yield Picture("execution", f"executions/{runs.orders}?step=start")
    yield Picture("execution-waiting", f"executions/{runs.waiting}?step=review")
    yield Picture("execution-failed", f"executions/{runs.failed}?step=read&tab=events")
    yield Picture("execution-loop", f"executions/{runs.loop}?seq=12000&step=square")
    yield Picture("iterations", f"executions/{runs.items}?tab=iterations&iterations=failed")
    yield Picture("fork", f"executions/{runs.failed}/fork", prepare=planned)
    yield Picture("compare", f"executions/{runs.orders}/compare?with={runs.waiting}")
    yield Picture("approval", f"approvals/{runs.question}?frame=ask%231")
    yield Picture("history", "playbooks/history?path=demo/import")
    yield Picture("execution-phone", f"executions/{runs.orders}", PHONE)
    yield Picture("playbooks", "playbooks")
    yield Picture("playbook", "playbooks/one?path=shop/nightly_orders", prepare=proved)
    yield Picture("playbook-problem", "playbooks/one?path=shop/nightly_orders", prepare=mistake)
    yield Picture("playbook-run", "playbooks/one?path=shop/nightly_orders&tab=run", prepare=proved)
    for name in ("schedule", "tools", "credentials", "workers", "health"):
        yield Picture(name, name)


def planned(page: Page) -> None:
    expect(page.get_by_role("region", name="Plan", exact=True)).to_contain_text("Redone")
    expect(page.get_by_role("textbox", name=re.compile("^Playbook"))).to_be_visible()


def proved(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="Sound")).to_be_visible()


def mistake(page: Page) -> None:
    """A playbook with a typo, and the problem that the check reports."""
    page.get_by_role("textbox", name=re.compile("^Playbook")).focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(ORDERS.replace("step: pay_out\n          when", "step: payout\n          when"))
    expect(page.get_by_role("list", name="Problems")).to_be_visible()
    page.get_by_role("list", name="Problems").get_by_role("button").first.click()


def taken(browser: Browser, server: UiServer, runs: Runs) -> Iterator[Path]:
    for scheme in get_args(Scheme):
        for picture in pictures(runs):
            screen = Screen(browser, server.url, size=picture.size, scheme=scheme)
            page = screen.settle(picture.path)
            picture.prepare(page)
            file = FOLDER / f"{picture.name}-{scheme}.png"
            page.screenshot(path=file, animations="disabled")
            screen.close()
            yield file


if __name__ == "__main__":
    raise SystemExit(main())
