"""Which workers are alive: workers announce themselves, and a server can poll all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ports import Message, Subscription, Transport, WorkerInfo

WORKERS_SUBJECT: Final = "noetl.workers"
POLL_SUBJECT: Final = "noetl.roll-call"
EXPIRY_S: Final = 15.0  # three announcements
WORKERS_MAX: Final = 20_000
POLL_DELAY_S: Final = 0.05  # polls within this time are sent as one

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerInfo).decode


class _Seen(NamedTuple):
    worker: WorkerInfo
    since: float  # monotonic


class LinkWorkerRegistry:
    """A `WorkerRegistry` over a transport. Servers open it; workers only announce themselves."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._subscription: Subscription | None = None

    async def open(self) -> None:
        """Receive announcements from now on. Raises Unavailable."""
        self._subscription = await self._transport.subscribe(WORKERS_SUBJECT, self._receive)

    async def close(self) -> None:
        if self._subscription is not None:
            await self._subscription.close()

    async def announce(self, worker: WorkerInfo) -> None:
        with suppress(Unavailable):  # the next announcement follows in a few seconds
            await self._transport.publish(WORKERS_SUBJECT, _encode(worker))

    def workers(self) -> list[WorkerInfo]:
        oldest = self._clock.monotonic() - EXPIRY_S
        self._seen = {name: each for name, each in self._seen.items() if each.since > oldest}
        return [each.worker for _, each in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        return sum(each.slots for each in self.workers() if each.pool == pool and not each.leaving)

    def _receive(self, message: Message) -> None:
        try:
            worker = _decode(message.data)
        except (msgspec.DecodeError, RecursionError):
            return
        if worker.name in self._seen or len(self._seen) < WORKERS_MAX:
            self._seen[worker.name] = _Seen(worker._replace(at=self._clock.now()), self._clock.monotonic())


class WorkerPoll:
    """A server that takes over partitions asks all workers for their frames; they answer with heartbeats."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def send(self) -> None:
        """Poll without waiting. Calls in quick succession are one poll."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_DELAY_S, self._send)

    def _send(self) -> None:
        self._timer = None
        self._sending = asyncio.ensure_future(self._publish())

    async def _publish(self) -> None:
        with suppress(Unavailable):
            await self._transport.publish(POLL_SUBJECT, b"")

    async def subscribe(self, answer: Callable[[], None]) -> Subscription:
        """For workers: call `answer` at each poll. It must not block."""
        return await self._transport.subscribe(POLL_SUBJECT, lambda _: answer())
