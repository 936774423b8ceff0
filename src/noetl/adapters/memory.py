"""The ports in memory, with the guarantees of the real ones: for one process, tests and the simulator."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, NamedTuple

from noetl.adapters.result_refs import CHUNK_BYTES, RefLocation, joined, name_of
from noetl.adapters.sql import SAVED_HISTORY_MAX
from noetl.clock import Clock
from noetl.engine.state import LIVE, Status
from noetl.errors import Conflict, Fenced, NotFound, Unavailable
from noetl.ids import partition_of
from noetl.output import JSON
from noetl.ports import (
    REPLY_TIMEOUT_S,
    Append,
    Claim,
    Collect,
    FeedEvent,
    Handler,
    LogRow,
    Message,
    NoResponder,
    OwnedPartitions,
    Pointer,
    QueueTraits,
    ReplyTimeout,
    SavedValue,
    Snapshot,
    SnapshotOf,
    StoredResult,
    WorkerInfo,
    first_reply,
)


class MemoryQueue:
    """A `WorkQueue` for one process, which runs the frames of all pools. A pointer is delivered once."""

    traits = QueueTraits(durable=False, redelivers=False, separates_pools=False)

    def __init__(self) -> None:
        self._waiting: deque[Pointer] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._deliveries = 0
        self._leaving = self.closed = False

    async def put(self, pointers: Sequence[Pointer]) -> None:
        self._waiting.extend(pointers)
        for _ in range(len(pointers)):
            self._wake_one()

    @property
    def has_taker(self) -> bool:
        """Whether a slot is free: it waits for a pointer."""
        return not all(taker.done() for taker in self._takers)

    def wake_all(self) -> None:
        """Takers wait again if there is nothing for them."""
        for _ in range(len(self._takers)):
            self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    async def take(self, limit: int) -> list[Claim]:
        if self._leaving:
            raise Unavailable("the work queue is closed")
        while not self._waiting and not self._leaving:
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # a pointer was meant for this taker: another one must take it
                raise
        claims: list[Claim] = []
        while self._waiting and len(claims) < limit and not self._leaving:
            self._deliveries += 1
            claims.append(Claim(self._waiting.popleft(), self._deliveries))
        return claims

    async def done(self, claim: Claim) -> None:
        del claim

    async def leave(self) -> None:
        self._leaving = True
        self.wake_all()

    async def close(self) -> None:
        await self.leave()
        self.closed = True

    def wipe(self) -> None:
        """Forget everything, like a broker that has lost its disk."""
        self._waiting.clear()


QUEUE_MAX: Final = 10_000  # unread events of one subscriber


class MemoryFeed:
    """A `Feed` for one process."""

    def __init__(self) -> None:
        # By execution, with whether they receive lines.
        self._subscribers: dict[str | None, dict[asyncio.Queue[FeedEvent], bool]] = {}

    def publish(self, event: FeedEvent) -> None:
        for execution_id in (event.execution_id, None):
            for queue, lines in self._subscribers.get(execution_id, {}).items():
                if event.line is not None and not lines:
                    continue
                if queue.full():
                    queue.get_nowait()  # newer events are more useful
                queue.put_nowait(event)

    @asynccontextmanager
    async def subscribe(
        self, execution_id: str | None = None, *, lines: bool = True
    ) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        queue: asyncio.Queue[FeedEvent] = asyncio.Queue(QUEUE_MAX)
        subscribers = self._subscribers.setdefault(execution_id, {})
        subscribers[queue] = lines
        try:
            yield _events(queue)
        finally:
            del subscribers[queue]
            if not subscribers and self._subscribers.get(execution_id) is subscribers:
                del self._subscribers[execution_id]


async def _events(queue: asyncio.Queue[FeedEvent]) -> AsyncIterator[FeedEvent]:
    while True:
        yield await queue.get()


EXPIRY_S: Final = 15.0


class MemoryWorkerRegistry:
    """A `WorkerRegistry` for one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, WorkerInfo] = {}

    def announce(self, worker: WorkerInfo) -> None:
        self._seen[worker.name] = worker

    def workers(self) -> list[WorkerInfo]:
        oldest = self._clock.now() - timedelta(seconds=EXPIRY_S)
        self._seen = {name: worker for name, worker in self._seen.items() if worker.at >= oldest}
        return [worker for _, worker in sorted(self._seen.items())]

    def slots(self, pool: str) -> int:
        return sum(each.slots for each in self.workers() if each.pool == pool and not each.leaving)


class _Owner(NamedTuple):
    server: str
    epoch: int
    until: float


class MemorySaved:
    """A `SavedStore` for the lifetime of the process."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, list[SavedValue]]] = {}  # path → key → oldest first

    def add(self, path: str, value: SavedValue) -> None:
        entries = self._entries.setdefault(path, {}).setdefault(value.key, [])
        entries.append(value)
        del entries[:-SAVED_HISTORY_MAX]

    async def current(self, path: str) -> list[SavedValue]:
        last = [entries[-1] for _, entries in sorted(self._entries.get(path, {}).items())]
        return [each for each in last if not each.removed]

    async def history(self, path: str, key: str) -> list[SavedValue]:
        return self._entries.get(path, {}).get(key, [])[::-1]

    async def put(self, path: str, value: SavedValue) -> None:
        self.add(path, value)


class MemoryStore:
    """An `EventStore` with `Partitions`, for the lifetime of the process."""

    def __init__(self, clock: Clock, partitions: int) -> None:
        self._clock = clock
        self._partitions = partitions
        self.rows: dict[str, list[LogRow]] = {}
        self.saved = MemorySaved()
        self._heads: dict[str, int] = {}
        self._statuses: dict[str, Status] = {}
        self._snapshots: dict[tuple[str, SnapshotOf], Snapshot] = {}
        self._unnotified: dict[str, tuple[datetime, int]] = {}
        self._live: dict[int, dict[str, None]] = {number: {} for number in range(partitions)}
        self._owners: dict[int, _Owner] = {}
        self._servers: dict[str, float] = {}

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        return [self._append(each) for each in appends]

    def _append(self, each: Append) -> Conflict | Fenced | None:
        partition = partition_of(each.execution_id, self._partitions)
        owner = self._owners.get(partition)
        if owner is None or owner.epoch != each.owner:
            return Fenced(f"partition {partition} has another owner")
        head = self._heads.get(each.execution_id, 0)
        if each.first_seq != head + 1:
            return Conflict(f"{each.execution_id} is at seq {head}, not at {each.first_seq - 1}")
        self.rows.setdefault(each.execution_id, []).append(LogRow(each.first_seq, each.at, each.facts))
        for path, key, value in each.saved:
            self.saved.add(path, SavedValue(key, value, each.at, each.execution_id))
        if each.notifies:
            self._unnotified[each.execution_id] = (each.at, head + len(each.facts))
        self._heads[each.execution_id] = head + len(each.facts)
        self._statuses[each.execution_id] = each.status
        if each.status in LIVE:
            self._live[partition][each.execution_id] = None
        else:
            self._live[partition].pop(each.execution_id, None)
        return None

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        rows = self.rows.get(execution_id, [])
        last = float("inf") if up_to is None else up_to
        return [row for row in rows if row.first_seq + len(row.facts) - 1 > after and row.first_seq <= last]

    async def status(self, execution_id: str) -> Status | None:
        return self._statuses.get(execution_id)

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        return self._snapshots.get((execution_id, of))

    async def keep(self, execution_id: str, snapshot: Snapshot, of: SnapshotOf = "state") -> None:
        kept = self._snapshots.get((execution_id, of))
        if kept is None or kept.seq <= snapshot.seq or kept.schema != snapshot.schema:
            self._snapshots[execution_id, of] = snapshot

    async def unnotified(self, before: datetime, limit: int) -> list[str]:
        found = sorted((at, execution_id) for execution_id, (at, _) in self._unnotified.items() if at < before)
        return [execution_id for _, execution_id in found[:limit]]

    async def notified(self, execution_id: str, seq: int) -> None:
        if self._unnotified.get(execution_id, (None, seq + 1))[1] <= seq:
            del self._unnotified[execution_id]

    async def live(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        found = (execution_id for partition in partitions for execution_id in self._live[partition])
        return [(execution_id, self._heads[execution_id]) for execution_id in found]

    async def own(self, server: str, partitions: Sequence[int], ttl_s: float) -> OwnedPartitions:
        epochs = {partition: self._own(partition, server, ttl_s) for partition in partitions}
        ours = {partition: epoch for partition, epoch in epochs.items() if epoch is not None}
        return OwnedPartitions(ours, self._clock.now())

    def _own(self, partition: int, server: str, ttl_s: float) -> int | None:
        now = self._clock.monotonic()
        owner = self._owners.get(partition)
        if owner is not None and owner.server != server and now < owner.until:
            return None
        # An expired lease gets a new epoch, even if no other server acquired it meanwhile.
        kept = owner is not None and owner.server == server and now < owner.until
        epoch = owner.epoch if owner and kept else (owner.epoch if owner else 0) + 1
        self._owners[partition] = _Owner(server, epoch, now + ttl_s)
        return epoch

    async def let_go(self, server: str, partitions: Sequence[int]) -> None:
        for partition in partitions:
            owner = self._owners.get(partition)
            if owner is not None and owner.server == server:
                # The new epoch refuses late appends of the last owner.
                self._owners[partition] = _Owner("", owner.epoch + 1, self._clock.monotonic())

    async def servers(self, server: str, ttl_s: float) -> list[str]:
        now = self._clock.monotonic()
        self._servers[server] = now + ttl_s
        return sorted(name for name, until in self._servers.items() if until > now)

    def owner(self, execution_id: str) -> str | None:
        """The server with the lease of the execution's partition."""
        owner = self._owners.get(partition_of(execution_id, self._partitions))
        return owner.server if owner and self._clock.monotonic() < owner.until else None

    def epoch(self, execution_id: str) -> int:
        owner = self._owners.get(partition_of(execution_id, self._partitions))
        return owner.epoch if owner else 0


_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryResults:
    """A `ResultStore` for the lifetime of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Without a clock all results are as old as possible."""
        self.place = RefLocation("blob", {})
        self._clock = clock
        self.bodies: dict[str, tuple[bytes, datetime]] = {}

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        name = name_of(execution_id, body)
        at = self._clock.now() if self._clock is not None else _LONG_AGO
        self.bodies.setdefault(name.key, (body, at))
        return self.place.ref(name, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        key = ref["locator"].get("key")
        if key not in self.bodies:
            raise NotFound(f"no result {key}")
        name = self.place.name(ref)
        body, _ = self.bodies[key]
        name.check(len(body), hashlib.sha256(body).hexdigest())
        return body

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return await self.put(execution_id, await joined(chunks), content_type)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        body = await self.get(ref)
        for first in range(0, len(body), CHUNK_BYTES):
            yield body[first : first + CHUNK_BYTES]

    async def kept(self) -> AsyncIterator[StoredResult]:
        for key in sorted(self.bodies):
            body, at = self.bodies[key]
            yield StoredResult(key, len(body), at)

    async def drop(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.bodies.pop(key, None)


PAYLOAD_LIMIT: Final = 1_048_576


class MemoryMessage(NamedTuple):
    subject: str
    reply: str
    data: bytes


class MemoryBus:
    """Connects the transports of one event loop."""

    def __init__(self, payload_limit: int = PAYLOAD_LIMIT) -> None:
        self.payload_limit = payload_limit
        self._subscriptions: dict[str, list[MemorySubscription]] = {}  # by subject, also with a wildcard
        self._turns = count()  # which subscription of a group comes next

    def add(self, subscription: MemorySubscription) -> None:
        self._subscriptions.setdefault(subscription.subject, []).append(subscription)

    def remove(self, subscription: MemorySubscription) -> None:
        subscriptions = self._subscriptions.get(subscription.subject, [])
        if subscription in subscriptions:
            subscriptions.remove(subscription)
        if not subscriptions:
            self._subscriptions.pop(subscription.subject, None)

    def deliver(self, message: MemoryMessage) -> bool:
        """Schedule the handlers of all matching subscriptions. False: there are none."""
        wildcard = f"{message.subject.rpartition('.')[0]}.*"
        groups: dict[str, list[MemorySubscription]] = {}
        for subject in (message.subject, wildcard):
            for each in self._subscriptions.get(subject, ()):
                groups.setdefault(each.group, []).append(each)
        loop = asyncio.get_running_loop()
        for group, members in groups.items():
            for each in members if not group else [members[next(self._turns) % len(members)]]:
                loop.call_soon(each.receive, message)
        return bool(groups)


class MemorySubscription:
    """One subscription of one transport."""

    def __init__(self, bus: MemoryBus, subject: str, handler: Handler, group: str) -> None:
        self._bus = bus
        self.subject, self.group = subject, group
        self._handler = handler
        self._dropped = False

    def receive(self, message: MemoryMessage) -> None:
        if not self._dropped:
            self._handler(message)  # an exception goes to the loop's exception handler

    async def close(self) -> None:
        self._bus.remove(self)
        await _next_iteration()

    async def drop(self) -> None:
        self._dropped = True
        self._bus.remove(self)


class MemoryTransport:
    """A `Transport` of a `MemoryBus`."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._inboxes = count(1)
        self._subscriptions: list[MemorySubscription] = []
        self._pending: set[asyncio.Future[bytes]] = set()
        self._opened = self._closed = False

    @property
    def payload_limit(self) -> int:
        return self._bus.payload_limit if self._opened else 0

    async def open(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        for subscription in self._subscriptions:
            await subscription.drop()
        for answer in self._pending:
            if not answer.done():
                answer.set_exception(Unavailable("the transport is closed"))

    async def publish(self, subject: str, data: bytes, *, reply: str = "") -> None:
        self._send(subject, data, reply)

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def receive(message: Message) -> None:
            try:
                whole = collect(message.data)
            except Unavailable as error:
                if not answer.done():
                    answer.set_exception(error)
                return
            if whole is not None and not answer.done():
                answer.set_result(whole)

        inbox = MemorySubscription(self._bus, f"_INBOX.{id(self)}.{next(self._inboxes)}", receive, "")
        self._bus.add(inbox)
        self._pending.add(answer)
        try:
            for data in messages:
                if not self._send(subject, data, inbox.subject):
                    raise NoResponder("no process answers on this subject")
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise ReplyTimeout(f"no answer within {timeout_s:g} s") from None
        finally:
            self._pending.discard(answer)
            await inbox.drop()

    def _send(self, subject: str, data: bytes, reply: str) -> bool:
        self._check_open()
        if len(data) > self._bus.payload_limit:
            raise Unavailable(f"a message of {len(data):,} bytes exceeds {self._bus.payload_limit:,}")
        return self._bus.deliver(MemoryMessage(subject, reply, data))

    async def subscribe(self, subject: str, handler: Handler, *, group: str = "") -> MemorySubscription:
        self._check_open()
        subscription = MemorySubscription(self._bus, subject, handler, group)
        self._bus.add(subscription)
        self._subscriptions.append(subscription)
        return subscription

    async def flush(self) -> None:
        self._check_open()
        await _next_iteration()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the transport is closed")
        self._opened = True


async def _next_iteration() -> None:
    """Return after the handlers that the loop has scheduled so far."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done
