"""Order and selection of tests, and the figures that some of them measure.

Long tiers run first, so that no core is idle at the end: with `--dist worksteal` an idle worker takes half of the
remaining tests of another one, and the last tests are short. tests/sizes.py says which tests `make test` leaves out.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings

from tests.sizes import FULL, is_quick

# The same examples in every run, and no deadlines: a failure points to a change, not to chance or a busy machine.
# To search for more: `scripts/test properties -- --hypothesis-profile=searching`.
settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", settings.get_profile("searching"), derandomize=True)
settings.load_profile("same")

# A shell starts background jobs with SIGINT ignored, and child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Measuring: TypeAlias = Callable[..., None]
FIGURE = "measured"
HERE = Path(__file__).parent
LONG_FIRST = ("distributed", "simulation", "browser", "chaos", "e2e", "properties", "contracts", "api")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without NOETL_TESTS=all, leave out the modules that need services, unless the command line names them."""
    if FULL or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if any(collection_path == Path(each.partition("::")[0]).absolute() for each in config.args):
        return None
    return True if not is_quick(str(collection_path.relative_to(HERE))) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by tier; the tests of a module stay together, because a module starts its services once."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    tier = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else "plugins"
    return LONG_FIRST.index(tier) if tier in LONG_FIRST else len(LONG_FIRST)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Measuring:
    """Compare a measurement with its limit; the summary lists all measurements.

    `slack`: the test fails only above this multiple of the limit, because the machine may be busy.
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
