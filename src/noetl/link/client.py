"""The way of workers and servers to the owner of an execution: a request on the subject of its partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Raw

from noetl.adapters.nats.connection import ANSWER_S, Connection, NobodyThere
from noetl.engine.commands import Command, Report, Start
from noetl.errors import NoetlError, Unavailable
from noetl.ids import partition_of
from noetl.link.chunking import opened, packed
from noetl.link.messages import (
    PARTITIONS,
    READING,
    Ask,
    Beat,
    Begin,
    GrantSent,
    Iterations,
    Programs,
    Reported,
    Started,
    answer_in,
    commanded,
    grant_of,
    ranged,
    request_of,
)
from noetl.output import Output
from noetl.ports import Epoch, Grant, ReportAnswer

T = TypeVar("T")

ASK: Final = "noetl.ask"  # and the number of a partition: its owner answers
ANY: Final = "noetl.any"  # and a word: any server answers
LISTS_S: Final = 60.0  # for the results of a loop, which are read from a whole log


class Asking:
    """Requests with their answers, whoever answers."""

    def __init__(self, connection: Connection, answer_s: float = ANSWER_S) -> None:
        """`answer_s`: after so long of silence an owner counts as gone; its successor may be there."""
        self._connection = connection
        self._answer_s = answer_s

    async def owner(self, execution_id: str, ask: Ask, decode: Callable[[Raw], T]) -> T:
        return await self.partition(partition_of(execution_id, PARTITIONS), ask, decode)

    async def partition(self, number: int, ask: Ask, decode: Callable[[Raw], T]) -> T:
        try:
            return await self._asked(f"{ASK}.{number}", ask, decode, self._answer_s)
        except NobodyThere as error:
            raise Unavailable(f"no server has partition {number} at the moment") from error

    async def any(self, word: str, ask: Ask, decode: Callable[[Raw], T], timeout_s: float = ANSWER_S) -> T:
        try:
            return await self._asked(f"{ANY}.{word}", ask, decode, timeout_s)
        except NobodyThere as error:
            raise Unavailable("no server is there at the moment") from error

    async def _asked(self, subject: str, ask: Ask, decode: Callable[[Raw], T], timeout_s: float) -> T:
        if not self._connection.message_bytes:
            await self._connection.open()
        messages = await packed(request_of(ask), self._connection.message_bytes)
        answer = await self._connection.request(subject, messages, timeout_s=timeout_s)
        return answer_in(await opened(answer), decode)


class NatsLink:
    """Keeps the contract of Link. What was compiled is made again here, from the digest of the playbook."""

    def __init__(self, connection: Connection, programs: Programs, *, answer_s: float = ANSWER_S) -> None:
        self._asking = Asking(connection, answer_s)
        self._programs = programs

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        sent = await self._asking.owner(execution_id, Begin(execution_id, frame, worker), READING.grant)
        return None if sent is None else await self._grant(sent)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        ask = Reported(execution_id, report, room)
        answer = await self._asking.owner(execution_id, ask, READING.answer)
        grants: list[Grant] = []
        for sent in answer.next:
            try:
                grants.append(await self._grant(sent))
            except Unavailable:
                break  # the report is on record all the same; the frame is handed out again
        return ReportAnswer(answer.word, answer.why, tuple(grants))

    async def _grant(self, sent: GrantSent) -> Grant:
        """Raises Unavailable when the playbook can not be had, or not run here: another worker may."""
        try:
            return grant_of(sent, await self._programs.by_digest(sent.digest))
        except Unavailable:
            raise
        except NoetlError as error:
            words = next(iter(str(error).splitlines()), type(error).__name__)
            raise Unavailable(f"the playbook {sent.digest[:12]} can not run here: {words}") from error
        except KeyError as error:
            words = "run the same version of noetl everywhere"
            raise Unavailable(f'the playbook {sent.digest[:12]} has no "{sent.pipeline}": {words}') from error

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        """One question for each partition. Raises Unavailable only when nobody answers at all."""
        held: dict[int, list[tuple[str, str, Epoch]]] = {}
        for hold in holds:
            held.setdefault(partition_of(hold[0], PARTITIONS), []).append(hold)
        answers = await asyncio.gather(
            *(
                self._asking.partition(number, Beat(worker, tuple(each)), READING.stops)
                for number, each in held.items()
            ),
            return_exceptions=True,
        )
        stops: list[tuple[str, str]] = []
        errors: list[BaseException] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                errors.append(answer)
            else:
                stops += answer
        for error in errors:
            if len(errors) == len(answers) or not isinstance(error, NoetlError):
                raise error
        return stops

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._asking.owner(execution_id, Started(execution_id, digest, start), READING.nothing)

    async def command(self, execution_id: str, command: Command) -> None:
        await self._asking.owner(execution_id, commanded(execution_id, command), READING.nothing)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        ask = Iterations(execution_id, run, ranged(only))
        return await self._asking.any("iterations", ask, READING.outputs, LISTS_S)
