"""The only module that reads the time, sleeps or draws random numbers; all others receive a Clock."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time, sleep, randomness and unique ids."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def chance(self) -> float:
        """A random number from 0 up to 1."""
        ...

    def new_id(self) -> str: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    def chance(self) -> float:
        return random.random()

    def new_id(self) -> str:
        """A UUIDv7: it sorts by time and needs no coordination."""
        millis = int(self.now().timestamp() * 1000)
        bits = secrets.randbits(74)
        digits = f"{millis << 80 | 0x7 << 76 | bits >> 62 << 64 | 0b10 << 62 | bits & (1 << 62) - 1:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
