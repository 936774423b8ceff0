"""The virtual clock of noetl.runtime, under the name that tests import."""

from __future__ import annotations

from noetl.runtime.fake_clock import IDLE_ROUNDS, START, FakeClock

__all__ = ["IDLE_ROUNDS", "START", "FakeClock"]
