"""How many requests one caller may make: a bucket each, which fills by itself."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import Final

from noetl.clock import Clock

CALLERS_MAX: Final = 10_000  # that are remembered; whoever asked longest ago is forgotten first


class RateLimiter:
    """Of all callers."""

    def __init__(self, clock: Clock, per_s: float, burst: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and since when

    def take(self, caller: str) -> int:
        """One more request: 0 when it may be made, else the seconds after which it may be tried again."""
        now = self._clock.monotonic()
        left, since = self._buckets.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        late = 0 if left >= 1 else max(1, ceil((1 - left) / self._per_s))
        self._buckets[caller] = (left - 1 if not late else left, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        return late
