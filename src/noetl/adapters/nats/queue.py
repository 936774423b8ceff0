"""The work queue on NATS JetStream: one stream of pointers, and one durable pull consumer for each pool.

A message is one pointer, so that each can go to another worker; they are published together, so that many
cost one round trip. Claims are not kept alive by in-progress acks: a call that outlasts `ack_wait` costs one
more delivery, which `begin` refuses and its taker acknowledges.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, Literal, TypeAlias

import msgspec
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import ANSWER_S, Connection, Listening, NobodyThere, Said, Silence
from noetl.adapters.nats.stream import ACK_WAIT_S, NEXT, SUBJECT, Stream, checked_pool, is_pool, stored
from noetl.clock import Clock, SystemClock
from noetl.errors import Unavailable
from noetl.ports import Claim, Pointer

# So long a worker waits for work before it looks around; and so long NATS gives work to one that has stalled.
PULL_S: Final = 5.0
HEARTBEAT_S: Final = 2.0  # the server tells that it knows of our waiting; silence for two: it does not
# What is gone is made again after this, and never at once: nats-server 2.15 takes the files of a stream that
# is made while its namesake is being deleted, and then it stores nothing any more.
GONE_S: Final = 0.5
SILENCES_MAX: Final = 2  # puts in a row without an answer; then the stream is taken for such a one
LINGER_S: Final = 0.02  # for more of them, for whoever takes several
BATCH_MAX: Final = 512
PUT_MAX: Final = 1_024  # messages under way at once
HELD_MAX: Final = 16_384  # claims whose ends we wait for; the oldest are forgotten

# Of a pull: all that was asked for has come; its time is up; or it is unknown whether anybody knows of it.
_End: TypeAlias = Literal["full", "late", "unheard"]
_encode = msgspec.json.Encoder().encode
_pointer = msgspec.json.Decoder(tuple[str, str, int]).decode
_NS: Final = 1_000_000_000


class _Taker:
    """A slot that waits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.claims: list[Claim] = []
        self.came: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()

    def go(self) -> None:
        if not self.came.done():
            self.came.set_result(self.claims)


class NatsQueue:
    """Keeps the contract of WorkQueue. All slots of a worker share one pull, for as many as wait."""

    def __init__(
        self,
        connection: Connection,
        pool: str | None = None,
        *,
        replicas: int = 1,
        clock: Clock | None = None,
        patience_s: float = ANSWER_S,
    ) -> None:
        """`pool`: whose work is taken; None: this one only puts."""
        self._connection = connection
        self._pool = None if pool is None else checked_pool(pool)
        self._clock = clock or SystemClock()
        self._stream = Stream(connection, self._clock, replicas)
        self._patience_s = patience_s  # for the word that something was stored
        self._opened = False
        self._silences = 0
        self._puts = count(1)
        self._name = self._clock.new_id()
        self._takers: deque[_Taker] = deque()
        self._fetching: asyncio.Task[None] | None = None
        self._inbox: Listening | None = None
        self._pulls = count(1)
        self._pull = ""  # the subject of the one that is out
        self._room = 0  # messages that it may still bring
        self._over: asyncio.Future[_End] | None = None
        self._heard = 0
        self._held: dict[int, tuple[str, float]] = {}  # delivery → where its end is told, and since when
        self._deliveries = count(1)
        self._leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        connection.losses.append(self._lose)

    async def open(self) -> None:
        """Make what is missing. Whoever does not, makes it by putting and taking. Raises Unavailable."""
        await self._stream.make()
        if self._pool is not None:
            await self._stream.make_consumer(self._pool)
        self._opened = True

    # Putting

    async def put(self, pointers: Sequence[Pointer]) -> None:
        """To a pool whose name can be none nobody would come: what is for one is passed over."""
        if not self._opened:
            await self.open()
        pointers = [pointer for pointer in pointers if is_pool(pointer.pool)]
        for first in range(0, len(pointers), PUT_MAX):
            said = [self._said(pointer) for pointer in pointers[first : first + PUT_MAX]]
            try:
                await self._put(said)
            except NobodyThere:
                await self._clock.sleep(self._a_while())
                await self._stream.make()
                await self._put(said)  # under the same ids: what came is not doubled

    async def _put(self, said: Sequence[Said]) -> None:
        try:
            answers = await self._connection.gather(said, self._patience_s)
        except Silence:
            self._silences += 1
            if self._silences >= SILENCES_MAX:
                self._silences = 0
                await self._stream.remake(self._a_while())
            raise
        self._silences = 0
        for answer in answers:
            stored(answer)

    def _a_while(self) -> float:
        """Not the same for all who have seen it go."""
        return GONE_S * (1 + self._clock.chance())

    def _said(self, pointer: Pointer) -> Said:
        execution_id, frame, dispatch, pool = pointer
        # Unlike our own repetition, that of another owner, or after a reload, must not be swallowed.
        id = f"{execution_id}/{frame}:{dispatch}:{self._name}:{next(self._puts)}"
        body = _encode((execution_id, frame, dispatch))
        return Said(f"{SUBJECT}.{pool}", (body,), {"Nats-Msg-Id": id})

    # Taking

    async def take(self, limit: int) -> list[Claim]:
        assert self._pool is not None, "this one only puts"
        if self._leaving:
            raise Unavailable("nothing is taken any more")
        taker = _Taker(limit)
        self._takers.append(taker)
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._fetch(self._pool))
            self._fetching.add_done_callback(self._fell)
        try:
            return await taker.came
        except asyncio.CancelledError:
            for claim in taker.claims:
                await self._give_back(claim)  # it was meant for us, and we are gone: somebody else comes
            raise
        finally:
            with suppress(ValueError):
                self._takers.remove(taker)

    async def done(self, claim: Claim) -> None:
        """Said and not waited for: the queue may know less than the log."""
        held = self._held.pop(claim.delivery, None)
        if held is not None:
            await self._connection.publish(held[0], b"+ACK")

    async def leave(self) -> None:
        """Nothing new is taken; what has been taken may still be done."""
        self._leaving = True
        if self._fetching is not None:
            self._fetching.cancel()
        self._release()
        if self._inbox is not None:
            await self._connection.unsubscribe(self._inbox)  # and the server knows of no waiting any more
            self._inbox = None

    async def close(self) -> None:
        """What was taken and is not done goes to others at once."""
        await self.leave()
        now = asyncio.get_running_loop().time()
        for delivery, (_, since) in list(self._held.items()):
            if now - since < ACK_WAIT_S:
                await self._give_back(Claim(Pointer("", "", 0), delivery))

    async def _give_back(self, claim: Claim) -> None:
        held = self._held.pop(claim.delivery, None)
        if held is not None:
            with suppress(Unavailable):  # then it comes back when its time is up
                await self._connection.publish(held[0], b"-NAK")

    # The one that fetches for all

    async def _fetch(self, pool: str) -> None:
        try:
            while self._waiting():
                end: _End = "unheard"
                with suppress(Unavailable):  # the connection comes back by itself
                    if not self._opened:
                        await self.open()
                    end = await self._pulled(pool)
                if end == "late":
                    self._release()
                elif end == "unheard":
                    self._opened = False
                    await self._clock.sleep(self._a_while())
        finally:
            self._fetching = None

    def _fell(self, task: asyncio.Task[None]) -> None:
        """A bug of ours is loud, and nobody waits for ever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            for taker in self._takers:
                if not taker.came.done():
                    taker.came.set_exception(error)

    def _waiting(self) -> int:
        """For so many more there is somebody."""
        return sum(each.limit - len(each.claims) for each in self._takers if not each.came.done())

    async def _pulled(self, pool: str) -> _End:
        """One request for as many as there are slots that wait, until it is over."""
        if self._inbox is None:
            self._inbox = await self._connection.subscribe(f"{await self._connection.inbox()}.*", self._hear)
        self._pull = f"{self._inbox.subject[:-1]}{next(self._pulls)}"
        self._room = min(self._waiting(), BATCH_MAX)
        over: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        self._over = over
        times = {"expires": int(PULL_S * _NS), "idle_heartbeat": int(HEARTBEAT_S * _NS)}
        ask = _encode({"batch": self._room, **times})
        await self._connection.publish(f"{NEXT}.{pool}", ask, reply=self._pull)
        while True:
            heard = self._heard
            await asyncio.wait([over], timeout=2 * HEARTBEAT_S)
            if over.done():
                return over.result()
            if heard == self._heard:
                return "unheard"

    def _lose(self) -> None:
        """Requests are not restored with a connection."""
        self._end("unheard")

    def _end(self, end: _End) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(end)

    def _release(self) -> None:
        """Those who have waited for long look around, and come again."""
        while self._takers:
            self._takers.popleft().go()

    def _hear(self, message: Msg) -> None:
        self._heard += 1
        status = message.headers.get("Status") if message.headers and not message.data else None
        if status is None:
            self._came(message)
        elif message.subject == self._pull and status != "100":
            self._end("late" if status == "408" else "unheard")  # else the consumer, or the stream, is gone

    def _came(self, message: Msg) -> None:
        self._room -= 1
        claim = self._claim(message)
        taker = next((each for each in self._takers if not each.came.done()), None)
        if claim is None:
            self._spawn(self._connection.publish(message.reply, b"+TERM"))  # not one of ours
        elif taker is None or self._leaving:
            self._spawn(self._give_back(claim))
        else:
            taker.claims.append(claim)
            if len(taker.claims) >= taker.limit:
                taker.go()
            elif len(taker.claims) == 1:
                asyncio.get_running_loop().call_later(LINGER_S, taker.go)
        if self._room <= 0:
            self._end("full")

    def _claim(self, message: Msg) -> Claim | None:
        try:
            execution_id, frame, dispatch = _pointer(message.data)
        except msgspec.DecodeError:
            return None
        delivery = next(self._deliveries)
        while len(self._held) >= HELD_MAX:
            del self._held[next(iter(self._held))]
        self._held[delivery] = message.reply, asyncio.get_running_loop().time()
        pool = message.subject.rpartition(".")[2]
        return Claim(Pointer(execution_id, frame, dispatch, pool), delivery)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(self._said_in_vain(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _said_in_vain(self, work: Coroutine[object, object, None]) -> None:
        with suppress(Unavailable):
            await work
