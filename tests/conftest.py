"""The order of all tests: tiers that take long begin, so that in the end no core waits while another works.

Who is free takes over half of what another one has still before it (`--dist worksteal`); so the last ones should be short.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell that starts us in its background lets us ignore Ctrl-C, and so would everything that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
LONG_FIRST = ("distributed", "simulation", "browser", "chaos", "e2e", "properties", "contracts", "api")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What stands together stays together: a module starts its servers once."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    tier = item.path.relative_to(HERE).parts[0]
    return LONG_FIRST.index(tier) if tier in LONG_FIRST else len(LONG_FIRST)
