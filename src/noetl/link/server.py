"""The server side of the link: answers requests for the partitions this server owns, after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from noetl.clock import SystemClock
from noetl.engine.breakpoints import may_hold_tasks
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.ids import partition_of
from noetl.link.authorisation import authorise
from noetl.link.client import ANY_SUBJECT, OWNER_SUBJECT
from noetl.link.keys import SERVER, LinkGuard, LinkKeys, OpenedRequest
from noetl.link.messages import (
    PARTITIONS,
    BeatReply,
    BeatRequest,
    BeginRequest,
    CommandRequest,
    CredentialRequest,
    IterationsRequest,
    LinesRequest,
    LinkRequest,
    LinkStartRequest,
    ParentRequest,
    PartialBodies,
    PlaybookReply,
    PlaybookRequest,
    ReportReply,
    ReportRequest,
    ReportResult,
    ReportsRequest,
    WorkReply,
    WorkRequest,
    decode_command,
    decode_request,
    encode_answer,
    encode_error,
    encode_grant,
    encode_reply,
    failed_report,
    in_thread_if_large,
    pack,
    unpack,
)
from noetl.link.secret_channel import Owner, SecretServer
from noetl.ports import CurrentWork, LogSink, Message, PlaybookText, Subscription, Transport
from noetl.views.pools import ShareWait

GROUP: Final = "noetl-servers"  # one of the servers answers each request to any server
RELEASE_S: Final = 3.0  # for the pending requests, when partitions are released; new ones wait for the next owner
PENDING_MAX: Final = 20_000  # requests without a reply; further ones are refused
ITERATIONS_MAX: Final = 1_000_000
REPORTS_MAX: Final = 1_024  # in one request
REFUSALS: Final = frozenset({"not-permitted", "repeated"})  # of requests that no honest process sends


class PlaybookTexts(Protocol):
    """The part of a catalog that workers need."""

    async def get(self, digest: str) -> PlaybookText: ...


class LinkServer:
    """Answers each request in a task of its own, so that a commit delays no other request."""

    def __init__(
        self,
        transport: Transport,
        owner: Owner,
        playbooks: PlaybookTexts,
        secrets: SecretServer,
        guard: LinkGuard | None = None,
        *,
        logs: LogSink | None = None,
        current_work: Callable[[], CurrentWork] = CurrentWork,
        share_waits: Callable[[str], Sequence[ShareWait]] = lambda _id: (),
        owned: Callable[[], Collection[int]] | None = None,
        on_refused: Callable[[str, NoetlError], None] = lambda _pool, _error: None,
    ) -> None:
        """`guard`: None: pools are not isolated. `on_refused`: receives what is refused because of the sender.

        `logs`: None: the lines that tasks print are not kept. `current_work`: of this server. `share_waits`: of one of
        its executions.

        `owned`: the partitions that it owns now; None: those that it follows.
        """
        self._logs = logs
        self._current_work = current_work
        self._share_waits = share_waits
        self._owned = owned
        self._guard = guard or LinkGuard(LinkKeys(), SystemClock())
        self._on_refused = on_refused
        self._transport = transport
        self._owner = owner
        self._playbooks = playbooks
        self._secrets = secrets
        self._any: Subscription | None = None
        self._partitions: dict[int, Sequence[Subscription]] = {}
        self._partial = PartialBodies()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Answer the requests that any server can answer."""
        self._any = await self._transport.subscribe(f"{ANY_SUBJECT}.*", partial(self._receive, None), group=GROUP)

    async def follow(self, partitions: Collection[int]) -> None:
        """Answer for exactly these partitions. Called after each round of ownership."""
        released = [number for number in self._partitions if number not in partitions]
        ended = [each for number in released for each in self._partitions.pop(number)]
        await asyncio.gather(*(each.close() for each in ended))
        for number in sorted(partitions):
            if number not in self._partitions:
                handler = partial(self._receive, number)
                subject = f"{OWNER_SUBJECT}.{number}"
                # The last word of the second one is a pool: only its workers may publish there.
                made = [await self._transport.subscribe(each, handler) for each in (subject, f"{subject}.*")]
                self._partitions[number] = made

    async def release(self, remaining: Collection[int], grace_s: float = RELEASE_S) -> None:
        """Answer for these partitions only, and finish the pending requests within `grace_s`.

        The next owner must not subscribe before: a request that two servers receive could take effect twice.
        """
        await self.follow(remaining)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)

    async def close(self, grace_s: float = 5.0) -> None:
        """Accept no more requests, and finish the pending ones within `grace_s`."""
        if self._any is not None:
            await self._any.close()
        await self.release((), grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _receive(self, partition: int | None, message: Message) -> None:
        if not message.reply:
            return  # the sender does not wait for a reply
        try:
            packed = self._partial.add(f"{message.subject} {message.reply}", message.data)
            if packed is not None and len(self._tasks) >= PENDING_MAX:
                raise Unavailable(f"the server has {PENDING_MAX:,} pending requests")
        except Unavailable as error:
            self._spawn(self._reply(message.reply, encode_error(error)))
            return
        if packed is not None:
            self._spawn(self._answer(message, packed, partition))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message, packed: bytes, partition: int | None) -> None:
        opened: OpenedRequest | None = None
        pool = _pool_in(message.subject, partition)
        try:
            opened = await in_thread_if_large(partial(self._guard.open, subject=message.subject, pool=pool), packed)
            request = decode_request(await unpack(opened.body))
            _check_subject(request, partition)
            await self._check_sender(opened, request)
            body = encode_reply(await self._handle(request, opened))
        except Exception as error:  # noqa: BLE001  # the sender must not wait, and the server must continue
            body = encode_error(self._failure(error, pool, is_open=opened is not None))
        await self._reply(message.reply, body, None if opened is None or opened.cipher is None else opened.seal)

    def _failure(self, error: Exception, pool: str, *, is_open: bool = True) -> NoetlError:
        """What the sender receives. `is_open`: it has the right key."""
        if isinstance(error, NoetlError):
            if not is_open or (isinstance(error, Rejected) and error.code in REFUSALS):
                self._on_refused(pool, error)
            return error
        context = {"message": "a request on the link failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        return Unavailable(f"the request failed on the server ({type(error).__name__})")

    async def _check_sender(self, opened: OpenedRequest, request: LinkRequest) -> None:
        """Reports, heartbeats and reads may be repeated: positions and epochs make them harmless."""
        if isinstance(request, BeginRequest | CommandRequest):
            self._guard.check_first(opened)
        if opened.sender:  # neither a server, nor unknown
            await authorise(opened.sender, request, self._owner)

    async def _reply(self, subject: str, body: bytes, seal: Callable[[bytes], bytes] | None = None) -> None:
        try:
            messages = await pack(body, self._transport.payload_limit, seal)
        except Rejected as error:
            messages = [encode_error(error) if seal is None else seal(encode_error(error))]
        with suppress(Unavailable):  # the sender repeats its request
            for message in messages:
                await self._transport.publish(subject, message)

    async def _handle(self, request: LinkRequest, opened: OpenedRequest) -> object:
        owner = self._owner
        match request:
            case BeginRequest(execution_id, frame, worker):
                if not request.holds and await self._may_hold(execution_id):
                    reason = f"worker {worker} of 0.1.0 does not stop at the breakpoints of {execution_id}"
                    self._on_refused(opened.sender or "", Rejected("old-worker", reason))
                    return None  # the frame is dispatched again when its lease has expired
                grant = await owner.begin(execution_id, frame, worker)
                return None if grant is None else encode_grant(grant, await self._digest(execution_id))
            case ReportRequest():
                return await self._report(request)
            case ReportsRequest(reports):
                return await asyncio.gather(*(self._answer_report(each, opened.sender) for each in reports))
            case BeatRequest(grouped=True):
                return await self._beat(request)
            case BeatRequest(worker, holds):
                return await owner.beat(worker, holds)
            case LinkStartRequest(execution_id, digest, start):
                await owner.start(execution_id, digest, start)
                return None
            case CommandRequest():
                await owner.command(request.execution_id, decode_command(request))
                return None
            case IterationsRequest(execution_id, run, only, _):
                return await owner.iterations(execution_id, run, None if only is None else _range(only))
            case ParentRequest(execution_id, _):
                return await owner.parent(execution_id)
            case PlaybookRequest(digest, _):
                return PlaybookReply(*await self._playbooks.get(digest))
            case CredentialRequest():
                return await self._secrets.answer(request, owner, opened.key)
            case WorkRequest(_, execution_id) if execution_id:
                return WorkReply(CurrentWork(), (), tuple(self._share_waits(execution_id)))
            case WorkRequest():
                return WorkReply(self._current_work(), tuple(sorted(self._partitions)))
            case LinesRequest(execution_id, lines):
                return await self._logs.append(execution_id, lines) if self._logs is not None and lines else False

    async def _beat(self, request: BeatRequest) -> BeatReply:
        """The sender asks others for the partitions that the reply does not name."""
        named = frozenset(self._partitions).intersection(self._partitions if self._owned is None else self._owned())
        holds = [each for each in request.holds if partition_of(each[0], PARTITIONS) in named]
        return BeatReply(await self._owner.beat(request.worker, holds), tuple(sorted(named)))

    async def _may_hold(self, execution_id: str) -> bool:
        try:
            return may_hold_tasks((await self._owner.load(execution_id)).state)
        except NotFound:
            return False

    async def _report(self, request: ReportRequest) -> ReportReply:
        # Workers of 0.1.0 must ask for each frame: its execution may have breakpoints, which they do not know.
        room = request.room if request.holds else 0
        answer = await self._owner.report(request.execution_id, request.report, room=room)
        return encode_answer(answer, await self._digest(request.execution_id) if answer.next else "")

    async def _answer_report(self, request: ReportRequest, sender: str | None) -> ReportResult:
        """One of several reports fails alone."""
        try:
            if sender:
                await authorise(sender, request, self._owner)
            return ReportResult(await self._report(request))
        except Exception as error:  # noqa: BLE001  # as in `_answer`
            return failed_report(self._failure(error, sender or SERVER))

    async def _digest(self, execution_id: str) -> str:
        return (await self._owner.load(execution_id)).state.digest


def _range(only: tuple[int, int, int]) -> range:
    wanted = range(*only) if only[2] else range(0)
    if len(wanted) > ITERATIONS_MAX:
        raise Rejected("too-many", f"a request may ask for {ITERATIONS_MAX:,} iterations of a loop at most")
    return wanted


def _pool_in(subject: str, partition: int | None) -> str:
    """The pool in a subject; SERVER: the subject has none."""
    rest = "" if partition is None else subject.removeprefix(f"{OWNER_SUBJECT}.{partition}")
    return rest[1:] or SERVER


def _check_subject(request: LinkRequest, partition: int | None) -> None:
    """Raises Rejected if the request came to a subject where this server must not answer it.

    Only the owner may answer for an execution: a reply of another server could be wrong.
    """
    match request:
        case IterationsRequest(held=held) | ParentRequest(held=held) | PlaybookRequest(held=held):
            # For a worker of an isolated pool, the owner of the frame that it holds answers.
            fits = partition == (None if held is None else partition_of(held.execution_id, PARTITIONS))
        case ReportsRequest(reports):
            if len(reports) > REPORTS_MAX:
                raise Rejected("too-many", f"a request may have {REPORTS_MAX:,} reports at most")
            fits = all(partition_of(each.execution_id, PARTITIONS) == partition for each in reports)
        case WorkRequest(number):
            fits = number == partition
        case BeatRequest(holds=holds, grouped=True):
            fits = any(partition_of(each[0], PARTITIONS) == partition for each in holds)
        case BeatRequest(holds=holds):
            fits = all(partition_of(each[0], PARTITIONS) == partition for each in holds)
        case _:
            fits = partition_of(request.execution_id, PARTITIONS) == partition
    if not fits:
        raise Rejected("wrong-subject", "the request was sent to a server that it is not for")
