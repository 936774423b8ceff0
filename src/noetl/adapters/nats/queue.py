"""The work queue on NATS JetStream: one stream of pointers, and one durable pull consumer for each pool.

Each pointer is one message; many are published in one round trip. Claims are not extended: a call longer than
`ack_wait` causes one more delivery, which `begin` refuses. Stream and consumers are created when they are
missing. The log is the source of truth, so a deleted stream costs one sweep.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from noetl.adapters.nats import subjects
from noetl.adapters.nats.connection import NatsConnection, NatsRequest, NatsSubscription
from noetl.adapters.nats.permissions import POOL_NAME
from noetl.background import BackgroundTasks
from noetl.cache import BoundedCache
from noetl.clock import Clock, SystemClock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import DIRECT, Claim, NoResponder, Pointer, QueueTraits, ReplyTimeout

STREAM: Final = subjects.STREAM
SUBJECT: Final = subjects.SUBJECT
ACK_WAIT_S: Final = 30
AGE_S: Final = 300  # the sweeper puts an untaken pointer again long before: old ones must not accumulate
DEDUP_S: Final = 120
MESSAGES_MAX: Final = 1_000_000
UNACKED_MAX: Final = 100_000  # slots of all workers of a pool; the default of 1,000 would limit them silently
PULLS_MAX: Final = 20_000  # waiting workers of a pool
NEXT: Final = subjects.NEXT

# How long a pull waits for work; and how long NATS keeps assigning work to a worker that has stalled.
PULL_S: Final = 5.0
HEARTBEAT_S: Final = 2.0  # of the server while a pull waits; two missed ones: it does not know of the pull
# A missing stream is created after this delay and never at once: nats-server 2.15 reuses the files of a
# stream that is created while its namesake is being deleted, and then stores nothing.
RECREATE_S: Final = 0.5
PUT_TIMEOUT_S: Final = 4.0  # for a stored pointer: after a full disk executions go on within ten seconds
TIMEOUTS_MAX: Final = 2  # puts in a row without an answer; then the stream counts as broken in this way
LINGER_S: Final = 0.02  # how long a taker of several pointers waits for more after the first
BATCH_MAX: Final = 512
PUT_MAX: Final = 1_024  # messages in flight
HELD_MAX: Final = 16_384  # claims without `done`; the oldest are forgotten

# The end of a pull: it is complete, it has expired, or the server may not know of it.
_PullEnd: TypeAlias = Literal["full", "expired", "unknown"]
_encode = msgspec.json.Encoder().encode
_pointer = msgspec.json.Decoder(tuple[str, str, int]).decode
_NS: Final = 1_000_000_000
_OTHER_CONFIG: Final = 10058  # the stream exists with another configuration
_NO_STREAM: Final = 10059


class _ApiError(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _StreamConfig(Struct):
    retention: str = ""
    subjects: tuple[str, ...] = ()


class _ApiReply(Struct):
    error: _ApiError | None = None
    config: _StreamConfig | None = None


_api_reply = msgspec.json.Decoder(_ApiReply).decode


class WorkStream:
    """Creates the stream and its consumers."""

    def __init__(self, connection: NatsConnection, clock: Clock, replicas: int = 1) -> None:
        """`replicas`: of the stream in a NATS cluster."""
        self._connection = connection
        self._clock = clock
        self._replicas = replicas

    async def create(self) -> None:
        """Raises Unavailable, even if another program uses the name or the subjects of the stream."""
        config: dict[str, JSON] = {
            "name": STREAM,
            "subjects": [f"{SUBJECT}.>"],
            "retention": "workqueue",
            "storage": "file",
            "discard": "new",  # a full stream refuses pointers, and the sweeper puts them again
            "max_msgs": MESSAGES_MAX,
            "max_age": AGE_S * _NS,
            "duplicate_window": DEDUP_S * _NS,
            "num_replicas": self._replicas,
        }
        reply = await self._call(f"STREAM.CREATE.{STREAM}", config)
        if reply.error is not None and reply.error.err_code == _OTHER_CONFIG:
            reply = await self._call(f"STREAM.INFO.{STREAM}", {})
            found = reply.config  # an operator may have changed it; it only has to be a work queue
            if found is not None and (found.retention, found.subjects) != ("workqueue", (f"{SUBJECT}.>",)):
                message = f'the stream "{STREAM}" in NATS belongs to another program'
                raise Unavailable(f"{message}: rename or remove it")
        _raise_error(reply)

    async def recreate(self, wait_s: float) -> None:
        """Replace a stream that accepts messages and does not store them. Raises Unavailable.

        If NATS does not answer another request either, the connection has failed, and the stream keeps its messages.
        """
        await self._call(f"STREAM.INFO.{STREAM}", {})
        await self._call(f"STREAM.DELETE.{STREAM}", {})
        await self._clock.sleep(wait_s)
        await self.create()

    async def create_consumer(self, pool: str) -> bool:
        """False: there is no stream. Raises Unavailable."""
        subject = f"{SUBJECT}.{pool}"
        config: dict[str, JSON] = {
            "name": pool,
            "durable_name": pool,
            "filter_subject": subject,
            "deliver_policy": "all",
            "replay_policy": "instant",
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * _NS,
            "max_deliver": -1,  # the engine counts attempts; a limit here would leave messages undelivered
            "max_ack_pending": UNACKED_MAX,
            "max_waiting": PULLS_MAX,
        }
        body: dict[str, JSON] = {"stream_name": STREAM, "config": config}
        reply = await self._call(f"CONSUMER.CREATE.{STREAM}.{pool}.{subject}", body)
        if reply.error is not None and reply.error.err_code == _NO_STREAM:
            return False
        _raise_error(reply)
        return True

    async def _call(self, operation: str, body: dict[str, JSON]) -> _ApiReply:
        try:
            reply = await self._connection.request(f"$JS.API.{operation}", [msgspec.json.encode(body)])
        except NoResponder as error:
            message = "JetStream does not answer: is it enabled in the configuration of NATS?"
            raise Unavailable(message) from error
        return _api_reply(reply)


def _raise_error(reply: _ApiReply) -> None:
    if reply.error is not None:
        raise Unavailable(f"NATS cannot create the work queue: {reply.error.description}")


def _check_stored(reply: bytes) -> None:
    """Raises Unavailable if NATS has not stored the message."""
    if b'"error"' in reply and (error := _api_reply(reply).error) is not None:
        raise Unavailable(f"the work queue in NATS refuses pointers ({error.description})")


class _Taker:
    """A call of `take` that waits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.claims: list[Claim] = []
        self.result: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        if not self.result.done():
            self.result.set_result(self.claims)


class NatsQueue:
    """A `WorkQueue`. All slots of a worker share one pull for as many pointers as slots wait."""

    traits = QueueTraits(durable=True, redelivers=True, separates_pools=True)

    def __init__(
        self,
        connection: NatsConnection,
        pool: str | None = None,
        *,
        replicas: int = 1,
        clock: Clock | None = None,
        timeout_s: float = PUT_TIMEOUT_S,
    ) -> None:
        """`pool`: from which this object takes; None: it only puts. `timeout_s`: for a stored message."""
        if pool is not None and not POOL_NAME.fullmatch(pool):
            message = f'"{pool[:80]}" is not a valid pool name: use 1 to 200 letters, digits, - and _'
            raise Rejected("bad-pool", message)
        self._connection = connection
        self._pool = pool
        self._clock = clock or SystemClock()
        self._stream = WorkStream(connection, self._clock, replicas)
        self._timeout_s = timeout_s
        self._opened = False
        self._timeouts = 0
        self._puts = count(1)
        self._name = self._clock.new_id()
        self._takers: deque[_Taker] = deque()
        self._fetching: asyncio.Task[None] | None = None
        self._inbox: NatsSubscription | None = None
        self._pulls = count(1)
        self._pull = ""  # the reply subject of the current pull
        self._room = 0  # messages that it may still deliver
        self._pull_end: asyncio.Future[_PullEnd] | None = None
        self._received = 0
        # Delivery → the subject for its acknowledgement, and since when.
        self._held: BoundedCache[int, tuple[str, float]] = BoundedCache(HELD_MAX)
        self._deliveries = count(1)
        self._leaving = False
        self._tasks = BackgroundTasks()
        connection.on_lost.append(self._on_lost)

    async def open(self) -> None:
        """Create what is missing. `put` and `take` call it if needed. Raises Unavailable.

        The consumer comes first: the user of an isolated pool may create it, and not the stream.
        """
        if self._pool is None:
            await self._stream.create()
        elif not await self._stream.create_consumer(self._pool):
            await self._stream.create()
            if not await self._stream.create_consumer(self._pool):
                raise Unavailable("the work queue in NATS does not exist")
        self._opened = True

    # Putting

    async def put(self, pointers: Sequence[Pointer]) -> None:
        """Skips pointers to a pool with an invalid name: no worker can have that pool."""
        if not self._opened:
            await self.open()
        pointers = [pointer for pointer in pointers if POOL_NAME.fullmatch(pointer.pool)]
        for first in range(0, len(pointers), PUT_MAX):
            requests = [self._request(pointer) for pointer in pointers[first : first + PUT_MAX]]
            try:
                await self._put(requests)
            except NoResponder:
                await self._clock.sleep(self._recreate_delay())
                await self._stream.create()
                await self._put(requests)  # with the same ids: stored ones are not duplicated

    async def _put(self, requests: Sequence[NatsRequest]) -> None:
        try:
            replies = await self._connection.request_all(requests, self._timeout_s)
        except ReplyTimeout:
            self._timeouts += 1
            if self._timeouts >= TIMEOUTS_MAX:
                self._timeouts = 0
                await self._stream.recreate(self._recreate_delay())
            raise
        self._timeouts = 0
        for reply in replies:
            _check_stored(reply)

    def _recreate_delay(self) -> float:
        """Random, because many processes notice a missing stream at the same time."""
        return RECREATE_S * (1 + self._clock.chance())

    def _request(self, pointer: Pointer) -> NatsRequest:
        execution_id, frame, dispatch, pool = pointer
        # NATS drops repeated ids. Only our own retry may repeat one: a new owner, or one that has reloaded
        # the execution, counts dispatches from the start.
        id = f"{execution_id}/{frame}:{dispatch}:{self._name}:{next(self._puts)}"
        body = _encode((execution_id, frame, dispatch))
        return NatsRequest(f"{SUBJECT}.{pool}", (body,), {"Nats-Msg-Id": id})

    # Taking

    async def take(self, limit: int) -> list[Claim]:
        assert self._pool is not None, "this queue only puts"
        if self._leaving:
            raise Unavailable("the work queue is closed")
        taker = _Taker(limit)
        self._takers.append(taker)
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._fetch(self._pool))
            self._fetching.add_done_callback(self._on_fetch_failed)
        try:
            return await taker.result
        except asyncio.CancelledError:
            for claim in taker.claims:
                await self._give_back(claim)  # another worker must not wait for `ack_wait`
            raise
        finally:
            with suppress(ValueError):
                self._takers.remove(taker)

    def give(self, pointer: Pointer) -> bool:
        """Pass a pointer to a taker without NATS. False: none waits."""
        taker = None if self._leaving or pointer.pool != self._pool else self._next_taker()
        if taker is None:
            return False
        taker.claims.append(Claim(pointer, DIRECT))
        taker.finish()
        return True

    def _next_taker(self) -> _Taker | None:
        return next((each for each in self._takers if not each.result.done()), None)

    async def done(self, claim: Claim) -> None:
        """Does not wait for NATS: the queue may know less than the log."""
        held = self._held.pop(claim.delivery)
        if held is not None:
            await self._connection.publish(held[0], b"+ACK")

    async def leave(self) -> None:
        self._leaving = True
        if self._fetching is not None:
            self._fetching.cancel()
        self._release_takers()
        if self._inbox is not None:
            await self._inbox.close()  # the server forgets the pull
            self._inbox = None

    async def close(self) -> None:
        await self.leave()
        now = asyncio.get_running_loop().time()
        for delivery, (_, since) in self._held.items():
            if now - since < ACK_WAIT_S:
                await self._give_back(Claim(Pointer("", "", 0), delivery))

    async def _give_back(self, claim: Claim) -> None:
        held = self._held.pop(claim.delivery)
        if held is not None:
            await self._answer(held[0], b"-NAK")

    # The pull that all takers share

    async def _fetch(self, pool: str) -> None:
        try:
            while self._wanted():
                end: _PullEnd = "unknown"
                with suppress(Unavailable):  # the connection comes back automatically
                    if not self._opened:
                        await self.open()
                    end = await self._pull_once(pool)
                if end == "expired":
                    self._release_takers()
                elif end == "unknown":
                    self._opened = False
                    await self._clock.sleep(self._recreate_delay())
        finally:
            self._fetching = None

    def _on_fetch_failed(self, task: asyncio.Task[None]) -> None:
        """Raise a bug of `_fetch` in all takers: none of them waits forever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            for taker in self._takers:
                if not taker.result.done():
                    taker.result.set_exception(error)

    def _wanted(self) -> int:
        """How many more pointers the takers can use."""
        return sum(each.limit - len(each.claims) for each in self._takers if not each.result.done())

    async def _pull_once(self, pool: str) -> _PullEnd:
        """Request as many pointers as the takers can use, and wait for the end of the request."""
        if self._inbox is None:
            subject = f"{await self._connection.new_inbox()}.*"
            self._inbox = await self._connection.subscribe(subject, self._receive)
        self._pull = f"{self._inbox.subject[:-1]}{next(self._pulls)}"
        self._room = min(self._wanted(), BATCH_MAX)
        pull_end: asyncio.Future[_PullEnd] = asyncio.get_running_loop().create_future()
        self._pull_end = pull_end
        times = {"expires": int(PULL_S * _NS), "idle_heartbeat": int(HEARTBEAT_S * _NS)}
        request = _encode({"batch": self._room, **times})
        await self._connection.publish(f"{NEXT}.{pool}", request, reply=self._pull)
        while True:
            received = self._received
            await asyncio.wait([pull_end], timeout=2 * HEARTBEAT_S)
            if pull_end.done():
                return pull_end.result()
            if received == self._received:
                return "unknown"

    def _on_lost(self) -> None:
        """NATS forgets pulls when a connection is lost."""
        self._end_pull("unknown")

    def _end_pull(self, end: _PullEnd) -> None:
        if self._pull_end is not None and not self._pull_end.done():
            self._pull_end.set_result(end)

    def _release_takers(self) -> None:
        """Return from `take`, possibly with nothing, so that callers can check whether to continue."""
        while self._takers:
            self._takers.popleft().finish()

    def _receive(self, message: Msg) -> None:
        self._received += 1
        status = message.headers.get("Status") if message.headers and not message.data else None
        if status is None:
            self._receive_pointer(message)
        elif message.subject == self._pull and status != "100":
            # Every other status than "expired" means that the consumer or the stream is gone.
            self._end_pull("expired" if status == "408" else "unknown")

    def _receive_pointer(self, message: Msg) -> None:
        self._room -= 1
        claim = self._claim(message)
        taker = self._next_taker()
        if claim is None:
            self._tasks.spawn(self._answer(message.reply, b"+TERM"))  # of another program
        elif taker is None or self._leaving:
            self._tasks.spawn(self._give_back(claim))
        else:
            taker.claims.append(claim)
            if len(taker.claims) >= taker.limit:
                taker.finish()
            elif len(taker.claims) == 1:
                asyncio.get_running_loop().call_later(LINGER_S, taker.finish)
        if self._room <= 0:
            self._end_pull("full")

    def _claim(self, message: Msg) -> Claim | None:
        try:
            execution_id, frame, dispatch = _pointer(message.data)
        except msgspec.DecodeError:
            return None
        delivery = next(self._deliveries)
        self._held.put(delivery, (message.reply, asyncio.get_running_loop().time()))
        pool = message.subject.rpartition(".")[2]
        return Claim(Pointer(execution_id, frame, dispatch, pool), delivery)

    async def _answer(self, subject: str, word: bytes) -> None:
        with suppress(Unavailable):  # then NATS delivers the message again after `ack_wait`
            await self._connection.publish(subject, word)
