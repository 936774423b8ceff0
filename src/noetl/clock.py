"""The only module that reads the time, sleeps or draws random numbers; all others receive a Clock."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID


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
        high = millis << 16 | 0x7 << 12 | secrets.randbits(12)
        low = 0b10 << 62 | secrets.randbits(62)
        return str(UUID(int=high << 64 | low))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
