"""A server's side of the link: it answers for the partitions that are its own, after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from nats.aio.msg import Msg

from noetl.adapters.nats.connection import Connection, Listening
from noetl.errors import NoetlError, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.chunking import Parcels, opened, packed
from noetl.link.client import ANY, ASK
from noetl.link.messages import (
    PARTITIONS,
    Ask,
    Beat,
    Begin,
    Commanded,
    Iterations,
    Reported,
    SecretOf,
    Started,
    TextOf,
    TextSent,
    answer_sent,
    asked_in,
    command_in,
    grant_sent,
    refusal_of,
    reply_of,
)
from noetl.link.secret_channel import Keeper, Owner
from noetl.ports import PlaybookText

GROUP: Final = "noetl-servers"  # of those who can answer what any server can
ASKED_MAX: Final = 20_000  # requests in hand; more are sent away

ITERATIONS_MAX: Final = 1_000_000


class Texts(Protocol):
    """The part of a catalog that workers need."""

    async def get(self, digest: str) -> PlaybookText: ...


class Answering:
    """Each request has a task of its own: one that waits for its commit holds up no other."""

    def __init__(self, connection: Connection, owner: Owner, texts: Texts, keeper: Keeper) -> None:
        self._connection = connection
        self._owner = owner
        self._texts = texts
        self._keeper = keeper
        self._any: Listening | None = None
        self._partitions: dict[int, Listening] = {}
        self._parcels = Parcels()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Answer what any server can."""
        self._any = await self._connection.subscribe(f"{ANY}.*", partial(self._hear, None), group=GROUP)

    async def follow(self, partitions: Collection[int]) -> None:
        """These are ours, and no others: to be told after each round of ownership."""
        gone = [number for number in self._partitions if number not in partitions]
        await self._connection.unsubscribe(*(self._partitions.pop(number) for number in gone))
        for number in sorted(partitions):
            if number not in self._partitions:
                hear = partial(self._hear, number)
                self._partitions[number] = await self._connection.subscribe(f"{ASK}.{number}", hear)

    async def close(self, grace_s: float = 5.0) -> None:
        """Nothing new; what is in hand gets a while to be answered."""
        await self.follow(())
        if self._any is not None:
            await self._connection.unsubscribe(self._any)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self, partition: int | None, message: Msg) -> None:
        if not message.reply:
            return  # nobody waits for an answer
        try:
            whole = self._parcels.add(message.reply, message.data)
            if whole is not None and len(self._tasks) >= ASKED_MAX:
                raise Unavailable(f"the server has {ASKED_MAX:,} requests in hand")
        except Unavailable as error:
            self._spawn(self._say(message.reply, refusal_of(error)))
            return
        if whole is not None:
            self._spawn(self._answer(message.reply, whole, partition))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reply: str, whole: bytes, partition: int | None) -> None:
        try:
            asked = asked_in(await opened(whole))
            _refuse_strange(asked, partition)
            body = reply_of(await self._asked(asked))
        except NoetlError as error:
            body = refusal_of(error)
        except Exception as error:  # noqa: BLE001  # a border: whoever asked must not wait, and we go on
            context = {"message": "a request over the link fell", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            body = refusal_of(Unavailable(f"the server fell over the request ({type(error).__name__})"))
        await self._say(reply, body)

    async def _say(self, reply: str, body: bytes) -> None:
        try:
            messages = await packed(body, self._connection.message_bytes)
        except Rejected as error:
            messages = [refusal_of(error)]
        with suppress(Unavailable):  # whoever asked asks again
            for message in messages:
                await self._connection.publish(reply, message)

    async def _asked(self, asked: Ask) -> object:
        owner = self._owner
        match asked:
            case Begin(execution_id, frame, worker):
                grant = await owner.begin(execution_id, frame, worker)
                return None if grant is None else grant_sent(grant, await self._digest(execution_id))
            case Reported(execution_id, report, room):
                answer = await owner.report(execution_id, report, room=room)
                return answer_sent(answer, await self._digest(execution_id) if answer.next else "")
            case Beat(worker, holds):
                return await owner.beat(worker, holds)
            case Started(execution_id, digest, start):
                await owner.start(execution_id, digest, start)
                return None
            case Commanded():
                await owner.command(asked.execution_id, command_in(asked))
                return None
            case Iterations(execution_id, run, only):
                return await owner.iterations(execution_id, run, None if only is None else _range(only))
            case TextOf(digest):
                return TextSent(*await self._texts.get(digest))
            case SecretOf():
                return await self._keeper.tell(asked, owner)

    async def _digest(self, execution_id: str) -> str:
        return (await self._owner.load(execution_id)).state.digest


def _range(only: tuple[int, int, int]) -> range:
    wanted = range(*only) if only[2] else range(0)
    if len(wanted) > ITERATIONS_MAX:
        raise Rejected("too-many", f"of a loop {ITERATIONS_MAX:,} results at once can be asked for")
    return wanted


def _refuse_strange(asked: Ask, partition: int | None) -> None:
    """What belongs to an owner goes to the owner, and only there: of two answers one would be wrong."""
    match asked:
        case Iterations() | TextOf():
            fits = partition is None
        case Beat(holds=holds):
            fits = all(partition_of(each[0], PARTITIONS) == partition for each in holds)
        case _:
            fits = partition_of(asked.execution_id, PARTITIONS) == partition
    if not fits:
        raise Rejected("wrong-subject", "the request has come to a server that it is not for")
