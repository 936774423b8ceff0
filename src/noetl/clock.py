"""The only module that looks at a watch, sleeps or throws dice; everything else is given a Clock."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """What time is it; wake me later; give me a name nobody has."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def chance(self) -> float:
        """A number from 0 up to 1."""
        ...

    def new_id(self) -> str: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def chance(self) -> float:
        return random.random()

    def new_id(self) -> str:
        """A UUIDv7: sorts by time, needs no coordination."""
        millis = int(self.now().timestamp() * 1000)
        high = millis << 16 | 0x7 << 12 | secrets.randbits(12)
        low = 0b10 << 62 | secrets.randbits(62)
        return str(UUID(int=high << 64 | low))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
