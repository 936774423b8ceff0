"""The client side of the link: requests of workers and servers to the owner of an execution.

A request goes to the subject of the execution's partition, where its owner subscribes, or to a subject that
any server answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

from msgspec import Raw

from noetl.background import BackgroundTasks
from noetl.clock import SystemClock
from noetl.engine.commands import Command, Report, Start
from noetl.errors import Damaged, NoetlError, Unavailable
from noetl.ids import partition_of
from noetl.link.keys import LinkIdentity, SealedCall, is_sealed
from noetl.link.messages import (
    DECODERS,
    PARTITIONS,
    BeatReply,
    BeatRequest,
    BeginRequest,
    GrantMessage,
    HeldFrame,
    IterationsRequest,
    LinesRequest,
    LinkRequest,
    LinkStartRequest,
    ParentRequest,
    PartialBody,
    PlaybookRequest,
    Programs,
    ReportReply,
    ReportRequest,
    ReportResult,
    ReportsRequest,
    WorkRequest,
    decode_grant,
    decode_reply,
    encode_command,
    encode_report,
    encode_reports,
    encode_request,
    in_thread_if_large,
    is_unknown,
    pack,
    unpack,
)
from noetl.output import Output
from noetl.ports import (
    REPLY_TIMEOUT_S,
    CurrentWork,
    Epoch,
    Grant,
    NoResponder,
    PlaybookText,
    PrintedLine,
    ReportAnswer,
    Transport,
)
from noetl.views.pools import ShareWait

T = TypeVar("T")
Hold = tuple[str, str, Epoch]  # execution, frame, epoch

# Plus the number of a partition, where its owner answers; workers of isolated pools add the name of their pool.
OWNER_SUBJECT: Final = "noetl.ask"
ANY_SUBJECT: Final = "noetl.any"  # plus a word: any server answers
BATCH_MAX: Final = 64  # reports in one message
BATCH_BYTES_MAX: Final = 131_072
WORK_TIMEOUT_S: Final = 0.5  # a page shows what the servers answer by then
ALL_WORK_TIMEOUT_S: Final = 2.0  # of all servers together
OWNER_WAIT_S: Final = 10.0  # of a request, until its partition has an owner: servers hand partitions over in less time
OWNER_POLL_S: Final = 0.05  # between the first two attempts to reach an owner; twice as much each time
OWNER_POLL_MAX_S: Final = 1.0
ITERATIONS_TIMEOUT_S: Final = 60.0  # the owner may have to read a whole log for the results of a loop

# The frame whose grant has just arrived: it entitles the worker to the text of its playbook.
_GRANTED: ContextVar[HeldFrame | None] = ContextVar("granted", default=None)


class LinkRequests:
    """Sends requests and decodes replies, including bodies of several messages."""

    def __init__(
        self,
        transport: Transport,
        timeout_s: float = REPLY_TIMEOUT_S,
        identity: LinkIdentity | None = None,
        *,
        owner_wait_s: float = OWNER_WAIT_S,
    ) -> None:
        """`timeout_s`: an owner that has not replied by then counts as gone; there may be a new one.

        `identity`: None if pools are not isolated; then messages are not sealed. `owner_wait_s`: how long requests
        wait for an owner.
        """
        self._transport = transport
        self.identity = identity
        self._timeout_s = timeout_s
        self._owner_wait_s = owner_wait_s
        self._clock = SystemClock()

    async def owner(self, execution_id: str, request: LinkRequest, decode: Callable[[Raw], T]) -> T:
        """Send a request, as soon as the execution has an owner."""
        return await self.wait_for_owner(partition_of(execution_id, PARTITIONS), encode_request(request), decode)

    async def wait_for_owner(self, number: int, request: bytes, decode: Callable[[Raw], T]) -> T:
        """No server has received a request without a responder, so that any request can be sent again."""
        until = self._clock.monotonic() + self._owner_wait_s
        delay_s = OWNER_POLL_S
        while True:
            try:
                return await self._send_to_partition(number, request, decode)
            except NoResponder as error:
                if self._clock.monotonic() + delay_s > until:
                    raise _no_owner(number) from error
            await self._clock.sleep(delay_s)
            delay_s = min(2 * delay_s, OWNER_POLL_MAX_S)

    async def partition(
        self, number: int, request: LinkRequest, decode: Callable[[Raw], T], timeout_s: float | None = None
    ) -> T:
        """Send a request that does not wait for an owner: it would delay those to other partitions."""
        try:
            return await self._send_to_partition(number, encode_request(request), decode, timeout_s)
        except NoResponder as error:
            raise _no_owner(number) from error

    async def _send_to_partition(
        self, number: int, request: bytes, decode: Callable[[Raw], T], timeout_s: float | None = None
    ) -> T:
        subject = f"{OWNER_SUBJECT}.{number}"
        if self.identity is not None:
            subject = self.identity.subject(subject)
        return await self._send(subject, request, decode, self._timeout_s if timeout_s is None else timeout_s)

    async def any(
        self,
        word: str,
        request: IterationsRequest | ParentRequest | PlaybookRequest,
        decode: Callable[[Raw], T],
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> T:
        """Any server answers; for a worker of an isolated pool, the owner of the frame that it holds."""
        try:
            if request.held is not None and self.identity is not None:
                number = partition_of(request.held.execution_id, PARTITIONS)
                subject = self.identity.subject(f"{OWNER_SUBJECT}.{number}")
                return await self._send(subject, encode_request(request), decode, timeout_s)
            return await self._send(f"{ANY_SUBJECT}.{word}", encode_request(request), decode, timeout_s)
        except NoResponder as error:
            raise Unavailable("no server is running at the moment") from error

    async def _send(self, subject: str, request: bytes, decode: Callable[[Raw], T], timeout_s: float) -> T:
        transport = self._transport
        if not transport.payload_limit:
            await transport.open()
        call = None if self.identity is None else SealedCall(self.identity, subject)
        messages = await pack(request, transport.payload_limit, None if call is None else call.seal)
        reply = await transport.request(subject, messages, PartialBody().add, timeout_s=timeout_s)
        if call is None:
            return decode_reply(await unpack(reply), decode)
        if not is_sealed(reply):
            raise await _unsealed(reply)
        return decode_reply(await unpack(await in_thread_if_large(call.open, reply)), decode)

    def held(self) -> HeldFrame | None:
        """The frame of the current task, for servers that check it."""
        identity = self.identity
        frame = identity.held_frame() if identity is not None and identity.pool else None
        return None if frame is None or identity is None else HeldFrame(*frame, identity.worker)


def _no_owner(partition: int) -> Unavailable:
    return Unavailable(f"no server owns partition {partition} at the moment")


async def _unsealed(reply: bytes) -> Unavailable:
    """Anyone may have sent it. The server itself sends plain errors if it cannot open a request."""
    try:
        decode_reply(await unpack(reply), DECODERS.nothing)
    except NoetlError as error:
        return Unavailable(str(error))
    return Unavailable("the reply is not sealed")


class ReportBatches:
    """Sends the reports of one turn of the event loop to the same owner together.

    A lone report is sent at once, so that a chain of steps does not wait for a turn.
    """

    def __init__(self, requests: LinkRequests) -> None:
        self._requests = requests
        self._unanswered: Counter[int] = Counter()  # by partition
        self._waiting: dict[int, list[_WaitingReport]] = {}
        self._single: set[int] = set()  # partitions whose owner was of a release without batches
        self._tasks = BackgroundTasks()

    async def send(self, number: int, request: ReportRequest) -> ReportReply:
        """Raises the error of a single report."""
        self._unanswered[number] += 1
        try:
            if self._unanswered[number] == 1 or number in self._single:
                return await self._requests.wait_for_owner(number, encode_request(request), DECODERS.answer)
            return await self._join(number, request)
        finally:
            self._unanswered[number] -= 1
            if not self._unanswered[number]:
                self._single.discard(number)  # the next owner may know them

    async def _join(self, number: int, request: ReportRequest) -> ReportReply:
        loop = asyncio.get_running_loop()
        report = _WaitingReport(request, encode_report(request), loop.create_future())
        if number not in self._waiting:
            self._waiting[number] = []
            loop.call_soon(self._flush, number)
        self._waiting[number].append(report)
        return await report.reply

    def _flush(self, number: int) -> None:
        batch: list[_WaitingReport] = []
        room = BATCH_BYTES_MAX
        for report in self._waiting.pop(number):
            if batch and (len(batch) == BATCH_MAX or len(report.encoded) > room):
                self._tasks.spawn(self._send(number, batch))
                batch, room = [], BATCH_BYTES_MAX
            batch.append(report)
            room -= len(report.encoded)
        self._tasks.spawn(self._send(number, batch))

    async def _send(self, number: int, batch: list[_WaitingReport]) -> None:
        body = encode_reports([each.encoded for each in batch])
        try:
            results = await self._requests.wait_for_owner(number, body, DECODERS.results)
            if len(results) != len(batch):
                raise Unavailable("the reply does not answer all reports")
        except Unavailable as error:
            if is_unknown(error, ReportsRequest):
                self._single.add(number)
                await asyncio.gather(*(self._send_alone(number, each) for each in batch))
                return
            for each in batch:
                each.fail(Unavailable(str(error)))  # one for each, with its own traceback
        except BaseException as error:
            for each in batch:
                each.fail(error if isinstance(error, NoetlError) else Unavailable("the process is ending"))
            if not isinstance(error, NoetlError):
                raise
        else:
            for each, result in zip(batch, results, strict=True):
                each.finish(result)

    async def _send_alone(self, number: int, report: _WaitingReport) -> None:
        try:
            body = encode_request(report.request)
            report.finish(ReportResult(await self._requests.wait_for_owner(number, body, DECODERS.answer)))
        except NoetlError as error:
            report.fail(error)


class _WaitingReport(NamedTuple):
    request: ReportRequest
    encoded: Raw
    reply: asyncio.Future[ReportReply]

    def finish(self, result: ReportResult) -> None:
        try:
            if not self.reply.done():  # otherwise its caller was cancelled
                self.reply.set_result(result.result())
        except NoetlError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)


class Heartbeats:
    """Sends one request to each server, for the partitions that it named in its last reply.

    Partitions have requests of their own if their server is unknown or of an older release, or if a request for
    several has failed: no server keeps heartbeats from another one.
    """

    def __init__(self, requests: LinkRequests, timeout_s: float) -> None:
        self._requests = requests
        self._timeout_s = timeout_s
        self._servers: dict[int, tuple[int, ...]] = {}  # partition → all partitions of its server

    async def send(self, worker: str, holds: Sequence[Hold]) -> list[tuple[str, str]]:
        """The frames to stop. Raises Unavailable only if no partition answers."""
        groups: dict[tuple[int, ...], dict[int, list[Hold]]] = {}
        for hold in holds:
            number = partition_of(hold[0], PARTITIONS)
            groups.setdefault(self._servers.get(number, (number,)), {}).setdefault(number, []).append(hold)
        return await _all_stops(self._send_group(worker, group) for group in groups.values())

    async def _send_group(self, worker: str, group: dict[int, list[Hold]]) -> list[tuple[str, str]]:
        if len(group) == 1:
            [number] = group
            return await self._send_alone(worker, number, group[number], self._timeout_s)
        # Both attempts together take no longer than one request, so that the next heartbeat is in time.
        timeout_s = self._timeout_s / 2
        try:
            together = [hold for holds in group.values() for hold in holds]
            reply = await self._request(worker, next(iter(group)), together, timeout_s)
        except NoetlError:
            reply = BeatReply([], ())
        rest = group.keys() - set(reply.partitions)
        for number in rest:
            self._servers.pop(number, None)
        if not rest:
            return reply.stops
        stops = _all_stops(self._send_alone(worker, number, group[number], timeout_s) for number in sorted(rest))
        try:
            return reply.stops + await stops
        except NoetlError:
            if len(rest) == len(group):
                raise
            return reply.stops

    async def _send_alone(self, worker: str, number: int, holds: list[Hold], timeout_s: float) -> list[tuple[str, str]]:
        try:
            reply = await self._request(worker, number, holds, timeout_s)
            if number not in reply.partitions:
                raise _no_owner(number)
        except NoetlError:
            self._servers.pop(number, None)
            raise
        return reply.stops

    async def _request(self, worker: str, number: int, holds: list[Hold], timeout_s: float) -> BeatReply:
        request = BeatRequest(worker, tuple(holds), grouped=True)
        reply = await self._requests.partition(number, request, DECODERS.beat, timeout_s)
        if isinstance(reply, BeatReply):
            self._servers.update(dict.fromkeys(reply.partitions, reply.partitions))
            return reply
        self._servers.pop(number, None)  # an older server refuses several partitions
        return BeatReply(reply, (number,))


async def _all_stops(requests: Iterable[Awaitable[list[tuple[str, str]]]]) -> list[tuple[str, str]]:
    """Raises an error only if all requests fail."""
    replies = await asyncio.gather(*requests, return_exceptions=True)
    errors = [each for each in replies if isinstance(each, BaseException)]
    for error in errors:
        if len(errors) == len(replies) or not isinstance(error, NoetlError):
            raise error
    return [each for reply in replies if not isinstance(reply, BaseException) for each in reply]


class LinkClient:
    """A `Link` over a transport. It compiles playbooks by digest instead of receiving compiled programs."""

    def __init__(
        self,
        transport: Transport,
        programs: Programs,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
        identity: LinkIdentity | None = None,
        owner_wait_s: float = OWNER_WAIT_S,
    ) -> None:
        self._requests = LinkRequests(transport, timeout_s, identity, owner_wait_s=owner_wait_s)
        self._reports = ReportBatches(self._requests)
        self._heartbeats = Heartbeats(self._requests, timeout_s)
        self._programs = programs

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        request = BeginRequest(execution_id, frame, worker, holds=True)
        message = await self._requests.owner(execution_id, request, DECODERS.grant)
        return None if message is None else await self._grant(message)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        request = ReportRequest(execution_id, report, room, holds=True)
        reply = await self._reports.send(partition_of(execution_id, PARTITIONS), request)
        grants: list[Grant] = []
        for message in reply.next:
            try:
                grants.append(await self._grant(message))
            except Unavailable:
                break  # the report is committed all the same; the owner grants the frame again
        return ReportAnswer(reply.word, reply.why, tuple(grants))

    async def _grant(self, message: GrantMessage) -> Grant:
        """Raises Unavailable if this worker cannot fetch or run the playbook: another worker may."""
        playbook = f"the playbook {message.digest[:12]}"
        identity = self._requests.identity
        if identity is not None and identity.pool:
            place = message.place.execution_id, message.frame.id, message.epoch
            _GRANTED.set(HeldFrame(*place, identity.worker))
        try:
            return decode_grant(message, await self._programs.by_digest(message.digest))
        except Unavailable:
            raise
        except NoetlError as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise Unavailable(f"{playbook} cannot run here: {reason}") from error
        except KeyError as error:
            advice = "run the same version of noetl everywhere"
            raise Unavailable(f'{playbook} has no "{message.pipeline}": {advice}') from error

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        """One request for each server. Raises Unavailable only if no partition answers."""
        return await self._heartbeats.send(worker, holds)

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        request = LinkStartRequest(execution_id, digest, start)
        await self._requests.owner(execution_id, request, DECODERS.nothing)

    async def command(self, execution_id: str, command: Command) -> None:
        request = encode_command(execution_id, command, self._requests.held())
        await self._requests.owner(execution_id, request, DECODERS.nothing)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        bounds = None if only is None else (only.start, only.stop, only.step)
        request = IterationsRequest(execution_id, run, bounds, self._requests.held())
        return await self._requests.any("iterations", request, DECODERS.outputs, ITERATIONS_TIMEOUT_S)

    async def parent(self, execution_id: str) -> str | None:
        request = ParentRequest(execution_id, self._requests.held())
        return await self._requests.any("parent", request, DECODERS.parent)


class OtherServers:
    """What happens on the other servers of a cluster."""

    def __init__(self, transport: Transport, identity: LinkIdentity | None = None) -> None:
        self._requests = LinkRequests(transport, WORK_TIMEOUT_S, identity)

    async def work(self, own: Collection[int]) -> list[CurrentWork]:
        """One for each server that answers. `own`: our partitions.

        Not complete if a server does not answer, or is of a release that does not know the request.
        """
        remaining = set(range(PARTITIONS)) - set(own)
        found: list[CurrentWork] = []
        complete = True
        try:
            async with asyncio.timeout(ALL_WORK_TIMEOUT_S):
                while remaining:
                    number = remaining.pop()
                    try:
                        reply = await self._requests.partition(number, WorkRequest(number), DECODERS.work)
                    except NoetlError:
                        complete = False
                        continue
                    remaining.difference_update(reply.partitions)
                    found.append(reply.work)
        except TimeoutError:
            complete = False
        return found if complete else [*found, CurrentWork(complete=False)]

    async def share_waits(self, execution_id: str) -> Sequence[ShareWait]:
        """Of an execution of another server. Empty if the server does not answer, or is of an older release."""
        number = partition_of(execution_id, PARTITIONS)
        try:
            reply = await self._requests.partition(number, WorkRequest(number, execution_id), DECODERS.work)
        except NoetlError:
            return ()
        return reply.share_waits


class LinkPlaybooks:
    """The texts of playbooks for workers, which have no catalog: any server sends them."""

    def __init__(self, transport: Transport, identity: LinkIdentity | None = None) -> None:
        self._requests = LinkRequests(transport, identity=identity)

    async def get(self, digest: str) -> PlaybookText:
        """Raises NotFound, Unavailable, or Damaged if the text does not have that digest."""
        reply = await self._requests.any("text", PlaybookRequest(digest, _GRANTED.get()), DECODERS.playbook)
        if sha256(reply.text.encode()).hexdigest() != digest:
            raise Damaged(f"the server sent another text for the playbook {digest[:12]}")
        return PlaybookText(digest, reply.path, reply.text, reply.origin)


class LinkLogs:
    """The `LogSink` of a worker: the owner of the execution stores the lines."""

    def __init__(self, transport: Transport, identity: LinkIdentity | None = None) -> None:
        self._requests = LinkRequests(transport, identity=identity)

    async def append(self, execution_id: str, lines: Sequence[PrintedLine]) -> bool:
        request = LinesRequest(execution_id, tuple(lines))
        return await self._requests.owner(execution_id, request, DECODERS.stored)
