"""Which workers there are, as they tell of themselves; and the call of a server who wants to hear it now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection, Listening
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ports import WorkerInfo

SUBJECT: Final = "noetl.workers"
CALL: Final = "noetl.roll-call"
FORGOTTEN_S: Final = 15.0  # three times of telling
SEEN_MAX: Final = 20_000
CALL_S: Final = 0.05  # calls within this are one

_encode = msgspec.json.Encoder().encode
_seen = msgspec.json.Decoder(WorkerInfo).decode


class _Seen(NamedTuple):
    worker: WorkerInfo
    since: float  # by our own pulse


class NatsWorkerRegistry:
    """Keeps the contract of Roster once it is open; workers use its `tell`."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._listening: Listening | None = None

    async def open(self) -> None:
        self._listening = await self._connection.subscribe(SUBJECT, self._hear)

    async def close(self) -> None:
        if self._listening is not None:
            await self._connection.unsubscribe(self._listening)

    async def tell(self, seen: WorkerInfo) -> None:
        with suppress(Unavailable):  # it is told again in a few seconds
            await self._connection.publish(SUBJECT, _encode(seen))

    def workers(self) -> list[WorkerInfo]:
        lately = self._clock.monotonic() - FORGOTTEN_S
        self._seen = {name: each for name, each in self._seen.items() if each.since > lately}
        return [each.worker for _, each in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        """Of workers that stay."""
        return sum(each.slots for each in self.workers() if each.pool == pool and not each.leaving)

    def _hear(self, message: Msg) -> None:
        try:
            worker = _seen(message.data)
        except (msgspec.DecodeError, RecursionError):
            return
        if worker.name in self._seen or len(self._seen) < SEEN_MAX:
            self._seen[worker.name] = _Seen(worker._replace(at=self._clock.now()), self._clock.monotonic())


class RollCall:
    """A server that takes over asks all workers what they have in hand; they answer by their beats."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        self._calling: asyncio.Task[None] | None = None

    def call(self) -> None:
        """Never waits; many calls are one."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CALL_S, self._go)

    def _go(self) -> None:
        self._timer = None
        self._calling = asyncio.ensure_future(self._publish())

    async def _publish(self) -> None:
        with suppress(Unavailable):
            await self._connection.publish(CALL, b"")

    async def heed(self, answer: Callable[[], None]) -> Listening:
        """For workers: `answer` is called, and must not wait."""
        return await self._connection.subscribe(CALL, lambda _: answer())
