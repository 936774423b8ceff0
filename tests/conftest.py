"""The order of all tests, and the figures that some of them measure.

Tiers that take long begin, so that in the end no core waits while another works. Who is free takes over half of what another one has still before it (`--dist worksteal`); so the last ones should be short.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings

# A run tells what was changed, and not what chance has found meanwhile, nor how busy the machine is. To search for more:
# `scripts/test properties -- --hypothesis-profile=searching`.
settings.register_profile(
    "searching", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("same", settings.get_profile("searching"), derandomize=True)
settings.load_profile("same")

# A shell that starts us in its background lets us ignore Ctrl-C, and so would everything that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Measuring: TypeAlias = Callable[..., None]
FIGURE = "measured"
HERE = Path(__file__).parent
LONG_FIRST = ("distributed", "simulation", "browser", "chaos", "e2e", "properties", "contracts", "api")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What stands together stays together: a module starts its servers once."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    tier = item.path.relative_to(HERE).parts[0]
    return LONG_FIRST.index(tier) if tier in LONG_FIRST else len(LONG_FIRST)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Measuring:
    """Something measured, held against its limit; all of them are told when the tests are over.

    `slack`: only so many times the limit is wrong, since the machine may be slow or have much else to do.
    """

    def measured(what: str, value: float, *, at_most: float, unit: str, slack: float = 1.0) -> None:
        line = f"{what}: {value:,.0f} {unit}, at most {at_most:,.0f}"
        record_property(FIGURE, line)
        assert value <= at_most * slack, line

    return measured


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, line in report.user_properties:
            if name == FIGURE:
                terminalreporter.write_line(f"measured: {line}")
