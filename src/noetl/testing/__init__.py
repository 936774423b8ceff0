"""Helpers for tests of NoETL and of its users: a fake clock, an in-memory runtime, contracts and a simulator.

The public names are imported on first use, so that importing this package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.testing.fake_clock import FakeClock
    from noetl.testing.memory_runtime import runtime
    from noetl.testing.suites import run_tests

__all__ = ["FakeClock", "run_tests", "runtime"]

_MODULES = {
    "FakeClock": "noetl.testing.fake_clock",
    "run_tests": "noetl.testing.suites",
    "runtime": "noetl.testing.memory_runtime",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
