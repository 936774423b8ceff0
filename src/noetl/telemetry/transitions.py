"""What is told once and not a thousand times: who owns what, and which stores are away."""

from __future__ import annotations

from typing import Final

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.telemetry.logs import Log

EVERY_S: Final = 30.0  # the same trouble is told again after this


class Ownership:
    """Tells which partitions came to us and which went."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._owned: frozenset[int] = frozenset()

    def see(self, owned: frozenset[int]) -> None:
        """After each round of keeping them."""
        came, went = owned - self._owned, self._owned - owned
        if came:
            self._log.info("partitions.taken", partitions=sorted(came), owned=len(owned))
        if went:
            self._log.warning("partitions.gone", partitions=sorted(went), owned=len(owned))
        self._owned = owned


class Trouble:
    """Something is away: told when it begins, now and then while it lasts, and when it is over."""

    def __init__(self, log: Log, clock: Clock, what: str) -> None:
        self._log = log
        self._clock = clock
        self._what = what  # "store", "queue", "results"
        self._begun: float | None = None
        self._told = 0.0
        self._count = 0

    def tell(self, error: Unavailable) -> None:
        now = self._clock.monotonic()
        self._count += 1
        if self._begun is None:
            self._begun = now
        elif now < self._told + EVERY_S:
            return
        self._told = now
        self._log.warning(
            f"{self._what}.unavailable",
            error=error,
            times=self._count,
            for_s=round(now - self._begun, 1),
        )

    def over(self) -> None:
        """It answers. This is asked after every commit, so it must cost nothing."""
        if self._begun is not None:
            away_s = self._clock.monotonic() - self._begun
            self._begun, times, self._count = None, self._count, 0
            self._log.info(f"{self._what}.back", times=times, away_s=round(away_s, 1))
