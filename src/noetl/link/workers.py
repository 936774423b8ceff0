"""Which workers are alive: workers announce themselves, and a server can poll all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

import msgspec

from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.link.keys import SERVER, LinkGuard, LinkIdentity, LinkKeys, request_context
from noetl.ports import Message, Subscription, Transport, WorkerInfo

WORKERS_SUBJECT: Final = "noetl.workers"  # workers of isolated pools add the name of their pool
POLL_SUBJECT: Final = "noetl.roll-call"
EXPIRY_S: Final = 15.0  # three announcements
WORKERS_MAX: Final = 20_000
POLL_DELAY_S: Final = 0.05  # polls within this time are sent as one
ANSWER_S: Final = 0.25  # polls of several servers within this time after an answer have one more, at its end

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerInfo).decode


class _Seen(NamedTuple):
    worker: WorkerInfo
    since: float  # monotonic


class LinkWorkerRegistry:
    """A `WorkerRegistry` over a transport. Servers open it; workers only announce themselves."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        identity: LinkIdentity | None = None,
        guard: LinkGuard | None = None,
    ) -> None:
        """`identity`: of a worker, `guard`: of a server, if pools are isolated."""
        self._transport = transport
        self._clock = clock
        self._identity = identity
        self._guard = guard or LinkGuard(LinkKeys(), clock)
        self._seen: dict[str, _Seen] = {}
        self._slots: dict[str, int] = {}  # pool → slots, as far as they were asked for
        self._slots_until = 0.0  # monotonic: then the first worker expires
        self._subscriptions: list[Subscription] = []

    async def open(self) -> None:
        """Receive announcements from now on. Raises Unavailable."""
        for subject in (WORKERS_SUBJECT, f"{WORKERS_SUBJECT}.*"):
            self._subscriptions.append(await self._transport.subscribe(subject, self._receive))

    async def close(self) -> None:
        for each in self._subscriptions:
            await each.close()

    async def announce(self, worker: WorkerInfo) -> None:
        subject, body, identity = WORKERS_SUBJECT, _encode(worker), self._identity
        if identity is not None:
            subject = identity.subject(subject)
            body = identity.cipher.seal(body, request_context(subject))
        with suppress(Unavailable):  # the next announcement follows in a few seconds
            await self._transport.publish(subject, body)

    def workers(self) -> list[WorkerInfo]:
        oldest = self._clock.monotonic() - EXPIRY_S
        self._seen = {name: each for name, each in self._seen.items() if each.since > oldest}
        return [each.worker for _, each in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        """Cached: control asks several times for each report."""
        if self._clock.monotonic() >= self._slots_until:
            self._slots.clear()
        known = self._slots.get(pool)
        if known is None:
            workers = self.workers()
            known = sum(each.slots for each in workers if each.pool == pool and not each.leaving)
            self._slots_until = min((each.since for each in self._seen.values()), default=inf) + EXPIRY_S
            self._slots[pool] = known
        return known

    def _receive(self, message: Message) -> None:
        pool = message.subject.removeprefix(WORKERS_SUBJECT)[1:] or SERVER
        try:
            worker = _decode(self._guard.open(message.data, message.subject, pool).body)
        except (msgspec.DecodeError, RecursionError, Unavailable):
            return
        if pool not in (SERVER, worker.pool):
            return
        known = self._seen.get(worker.name)
        if known is not None or len(self._seen) < WORKERS_MAX:
            self._seen[worker.name] = _Seen(worker._replace(at=self._clock.now()), self._clock.monotonic())
            # Counting 1,000 workers again after each of 200 announcements per second is a noticeable part of a core.
            if known is None or _offer(known.worker) != _offer(worker):
                self._slots.clear()


def _offer(worker: WorkerInfo) -> tuple[str, int, bool]:
    """What the number of slots of a pool depends on."""
    return worker.pool, worker.slots, worker.leaving


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
        """For workers: call `answer` after each poll, and once for several in quick succession. It must not block.

        When a server of many dies, half of the others become owners of its partitions and of those of others.
        """
        return await self._transport.subscribe(POLL_SUBJECT, _PollAnswers(answer).receive)


class _PollAnswers:
    """The first poll is answered at once. The time between two answers does not depend on how long one takes."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer
        self._timer: asyncio.TimerHandle | None = None  # None: no answer lately
        self._waiting = False

    def receive(self, _message: Message) -> None:
        if self._timer is None:
            self._send()
        else:
            self._waiting = True

    def _send(self) -> None:
        self._waiting = False
        self._timer = asyncio.get_running_loop().call_later(ANSWER_S, self._on_time)
        self._answer()

    def _on_time(self) -> None:
        self._timer = None
        if self._waiting:
            self._send()
