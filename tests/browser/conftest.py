"""Fixtures of the browser tests: the built UI, a Chromium for each module, servers, windows; screenshots of failures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.browser import BUNDLE, DESK, WAIT_MS, Scheme, Screen, Size, chromium, found
from tests.browser.server import UiServer

Opening: TypeAlias = Callable[..., Screen]
SCREENS = pytest.StashKey[list[Screen]]()
SERVERS = pytest.StashKey[list[UiServer]]()


@pytest.fixture(scope="session", autouse=True)
def ready() -> None:
    """`scripts/browser` installs Chromium and builds the UI, or reports why it cannot."""
    if found() is None:
        pytest.skip("Chromium is not installed: apt-get install --no-install-recommends chromium")
    assert (BUNDLE / "index.html").is_file(), "the UI is not built: make ui"
    expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not for the whole session: tests of other folders run event loops in this thread.
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """A server for tests that only add data."""
    server = UiServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UiServer]:
    """A server with an empty database for one test."""
    server = UiServer(tmp_path)
    request.node.stash.setdefault(SERVERS, []).append(server)
    yield server
    server.close()


@pytest.fixture
def open_screen(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Opening]:
    """Opens windows. No window may have uncaught errors, policy violations or requests to other hosts."""
    screens = request.node.stash.setdefault(SCREENS, [])
    with ExitStack() as closing:

        def opened(server: UiServer, size: Size = DESK, scheme: Scheme = "light") -> Screen:
            screen = Screen(browser, server.url, size=size, scheme=scheme)
            closing.callback(screen.close)
            screens.append(screen)
            return screen

        yield opened
        for screen in screens:
            assert (screen.thrown, screen.refused(), screen.foreign) == ([], [], [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take a screenshot of a failed test while its window is open."""
    report = yield
    if call.when == "call" and report.failed and item.config.cache is not None:
        folder = item.config.cache.mkdir("browser")
        screens: list[Screen] = item.stash.get(SCREENS, [])
        for place, screen in enumerate(screens):
            report.sections.append((f"window {place}", screen.keep(folder, f"{item.name}-{place}")))
        for server in item.stash.get(SERVERS, []):
            report.sections.append(("server", server.process.output()))
    return report
