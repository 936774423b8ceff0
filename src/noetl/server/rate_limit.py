"""Rate limiting: a token bucket for each caller."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import Final

from noetl.clock import Clock

CALLERS_MAX: Final = 10_000  # with a bucket; the least recently seen caller is dropped first


class RateLimiter:
    """The buckets of all callers."""

    def __init__(self, clock: Clock, per_s: float, burst: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # content, time of last update

    def take(self, caller: str) -> int:
        """Count one request. Returns 0 when it is allowed, otherwise the seconds to wait before a retry."""
        now = self._clock.monotonic()
        left, since = self._buckets.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        wait_s = 0 if left >= 1 else max(1, ceil((1 - left) / self._per_s))
        self._buckets[caller] = (left - 1 if not wait_s else left, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        return wait_s
