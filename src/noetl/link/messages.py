"""The wire format of the link: JSON, as in the log, so that every value arrives unchanged.

msgpack is not an alternative, because integers of more than 64 bits are valid data. Unknown fields are ignored, unknown
requests are refused: a request with a new field that must not be ignored has a new name. Bodies larger than one
message are compressed and split into numbered parts, so the receiver never uses an incomplete body.
"""

from __future__ import annotations

import asyncio
import re
import struct
import zlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from noetl.engine.commands import Cancel, Command, Report, Retry, Start
from noetl.engine.moves import Decision, Delegation, FramePlace, Work
from noetl.engine.state import Frame
from noetl.errors import (
    Damaged,
    InputError,
    InputProblem,
    NoetlError,
    NotFound,
    PlaybookError,
    Problem,
    Rejected,
    Unavailable,
)
from noetl.net.program import Program
from noetl.output import JSON, Output
from noetl.ports import CurrentWork, Epoch, Grant, PrintedLine, ReportAnswer
from noetl.views.pools import ShareWait

T = TypeVar("T")

VERSION: Final = 1  # changes when a request or a reply changes its meaning
PARTITIONS: Final = 64
_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_SAME_VERSION: Final = "run the same version of noetl everywhere"


def name_in_subject(execution_id: str) -> str:
    """An id as one word of a subject. An id with other characters is replaced by its digest."""
    return execution_id if _NAME.fullmatch(execution_id) else "x" + sha256(execution_id.encode()).hexdigest()


# Requests


class HeldFrame(Struct, frozen=True, array_like=True):
    """The frame for which a worker of an isolated pool sends a request: the server checks its grant."""

    execution_id: str
    frame: str
    epoch: Epoch
    worker: str


class BeginRequest(Struct, frozen=True):
    execution_id: str
    frame: str
    worker: str
    holds: bool = False  # here and below: the worker stops at breakpoints, which 0.1.0 does not know


class ReportRequest(Struct, frozen=True):
    execution_id: str
    report: Report
    room: int = 0
    holds: bool = False


class ReportsRequest(Struct, frozen=True):
    """Reports of one worker to the owner of a partition, which answers them together."""

    reports: tuple[ReportRequest, ...]


class BeatRequest(Struct, frozen=True, omit_defaults=True):
    """Holds of one partition or, if `grouped`, of several, of which the server answers for those that it owns.

    A server that does not know `grouped` replies with the frames to stop alone, and refuses several partitions.
    """

    worker: str
    holds: tuple[tuple[str, str, Epoch], ...]
    grouped: bool = False


class LinkStartRequest(Struct, frozen=True):
    execution_id: str
    digest: str
    start: Start


class CommandRequest(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    kind: str  # the class name of the command
    command: Raw
    held: HeldFrame | None = None  # here and below, None: the sender is a server, or pools are not isolated


class IterationsRequest(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    run: str
    only: tuple[int, int, int] | None = None  # start, stop, step
    held: HeldFrame | None = None


class ParentRequest(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    held: HeldFrame | None = None


class PlaybookRequest(Struct, frozen=True, omit_defaults=True):
    digest: str
    held: HeldFrame | None = None


class CredentialRequest(Struct, frozen=True):
    """For the value of a keychain entry, on behalf of a granted frame."""

    execution_id: str
    frame: str
    epoch: Epoch
    worker: str
    entry: str
    nonce: bytes  # random; the reply is bound to it
    proof: bytes  # shows that the sender has the link key
    fresh: bool = False


class LinesRequest(Struct, frozen=True):
    """The lines that tasks of one execution have printed."""

    execution_id: str
    lines: tuple[PrintedLine, ...]


class WorkRequest(Struct, frozen=True, omit_defaults=True):
    """For what happens on the server that owns a partition, in all its partitions.

    `execution_id`: only for what this execution waits for; servers of older releases answer as if there was none.
    """

    partition: int
    execution_id: str = ""


LinkRequest = (
    BeginRequest
    | ReportRequest
    | ReportsRequest
    | BeatRequest
    | LinkStartRequest
    | CommandRequest
    | IterationsRequest
    | ParentRequest
    | PlaybookRequest
    | CredentialRequest
    | LinesRequest
    | WorkRequest
)
# These names are on the wire since 0.1.0: they do not follow the names of the classes.
_NAMES: Final[dict[type, str]] = {
    BeginRequest: "begin",
    ReportRequest: "reported",
    ReportsRequest: "reports",
    BeatRequest: "beat",
    LinkStartRequest: "started",
    CommandRequest: "commanded",
    IterationsRequest: "iterations",
    ParentRequest: "parent",
    PlaybookRequest: "textof",
    CredentialRequest: "secretof",
    LinesRequest: "lines",
    WorkRequest: "work",
}
_START_2: Final = "started.2"  # with a field of Start that 0.1.0 ignores
_CANCEL_2: Final = "Cancel.2"  # with compensation, which 0.1.0 ignores
_RETRY_2: Final = "Retry.2"  # of single iterations; 0.1.0 would retry all that failed
_REQUESTS: Final[dict[str, Callable[[Raw], Any]]] = {
    **{name: msgspec.json.Decoder(kind).decode for kind, name in _NAMES.items()},
    _START_2: msgspec.json.Decoder(LinkStartRequest).decode,
}
_COMMANDS: Final[dict[str, Callable[[Raw], Any]]] = {
    **{kind.__name__: msgspec.json.Decoder(kind).decode for kind in get_args(Command)},
    _CANCEL_2: msgspec.json.Decoder(Cancel).decode,
    _RETRY_2: msgspec.json.Decoder(Retry).decode,
}


class _Request(Struct, frozen=True):
    v: int
    ask: str
    body: Raw


class _Error(Struct, frozen=True, omit_defaults=True):
    kind: Literal["not-found", "rejected", "unavailable", "playbook", "damaged"]
    words: str
    code: str = ""  # of Rejected
    problems: tuple[Problem, ...] = ()
    inputs: tuple[InputProblem, ...] = ()  # of InputError


class _Reply(Struct, frozen=True, omit_defaults=True):
    v: int
    body: Raw = Raw(b"null")
    error: _Error | None = None


_encode = msgspec.json.Encoder().encode
_request = msgspec.json.Decoder(_Request).decode
_reply = msgspec.json.Decoder(_Reply).decode


def encode_request(request: LinkRequest) -> bytes:
    name = _NAMES[type(request)]
    if isinstance(request, LinkStartRequest) and _is_new(request.start):
        name = _START_2
    return _encode(_Request(VERSION, name, Raw(_encode(request))))


def _is_new(start: Start) -> bool:
    """Would 0.1.0 start another execution instead of the requested one? The owner itself sets the other fields."""
    return bool(start.ctx or start.labels or start.fork is not None or start.breakpoints)


def decode_request(body: bytes) -> LinkRequest:
    """Raises Unavailable for an unknown request: a server of the sender's version may know it."""
    try:
        request = _request(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable("the server cannot read the request") from error
    if request.v != VERSION or request.ask not in _REQUESTS:
        message = f'request "{request.ask[:40]}" of link version {request.v}, server has version {VERSION}'
        raise Unavailable(f"{message}: {_SAME_VERSION}")
    try:
        decoded: LinkRequest = _REQUESTS[request.ask](request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f'the server cannot read the request "{request.ask}": {error}') from error
    return decoded


class _Reports(Struct, frozen=True):
    reports: list[Raw]


def encode_report(request: ReportRequest) -> Raw:
    return Raw(_encode(request))


def encode_reports(reports: list[Raw]) -> bytes:
    """A `ReportsRequest` from encoded reports: their sizes decide how many go into a message."""
    return _encode(_Request(VERSION, _NAMES[ReportsRequest], Raw(_encode(_Reports(reports)))))


def is_unknown(error: Unavailable, kind: type[ReportsRequest]) -> bool:
    """Whether the server is of a release that does not know this kind of request. All of them answer so."""
    return f'"{_NAMES[kind]}"' in str(error) and _SAME_VERSION in str(error)


def encode_command(execution_id: str, command: Command, held: HeldFrame | None = None) -> CommandRequest:
    kind = type(command).__name__
    if isinstance(command, Cancel) and command.compensate:
        kind = _CANCEL_2
    elif isinstance(command, Retry) and command.iterations:
        kind = _RETRY_2
    return CommandRequest(execution_id, kind, Raw(_encode(command)), held)


def decode_command(request: CommandRequest) -> Command:
    """Raises Unavailable for an unknown command."""
    if request.kind not in _COMMANDS:
        raise Unavailable(f'the server does not know the command "{request.kind[:40]}": {_SAME_VERSION}')
    try:
        command: Command = _COMMANDS[request.kind](request.command)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f'the server cannot read the command "{request.kind}": {error}') from error
    return command


# Replies


def encode_reply(value: object) -> bytes:
    return _encode(_Reply(VERSION, Raw(_encode(value))))


def encode_error(error: NoetlError) -> bytes:
    return _encode(_Reply(VERSION, error=_error_of(error)))


def decode_reply(body: bytes, decode: Callable[[Raw], T]) -> T:
    """The value of a reply. Raises the error that the other side raised."""
    try:
        reply = _reply(body)
        if reply.v != VERSION:
            message = f"the server has link version {reply.v}, this process has version {VERSION}"
            raise Unavailable(f"{message}: {_SAME_VERSION}")
        if reply.error is not None:
            raise _raised(reply.error)
        return decode(reply.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"the reply cannot be read: {error}") from error


def _error_of(error: NoetlError) -> _Error:
    match error:
        case InputError(code=code, problems=problems):
            return _Error("rejected", str(error).removeprefix(f"{code}: "), code, inputs=problems)
        case Rejected(code=code):
            return _Error("rejected", str(error).removeprefix(f"{code}: "), code)
        case PlaybookError(problems=problems):
            return _Error("playbook", "", problems=problems)
        case NotFound():
            return _Error("not-found", str(error))
        case Damaged():
            return _Error("damaged", str(error))
    return _Error("unavailable", str(error))  # Conflict and Fenced concern the writer of the log alone


def _raised(error: _Error) -> NoetlError:
    if error.inputs:
        return InputError(error.inputs)
    if error.kind == "rejected":
        return Rejected(error.code, error.words)
    if error.kind == "playbook":
        return PlaybookError(error.problems)
    return {"not-found": NotFound, "damaged": Damaged, "unavailable": Unavailable}[error.kind](error.words)


class PlaybookReply(Struct, frozen=True):
    digest: str
    path: str
    text: str
    origin: str | None = None


class EncryptedReply(Struct, frozen=True):
    nonce: bytes
    body: bytes


# Grants: compiled programs are not sent; the worker compiles them from the digest of the playbook


class PlaceMessage(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    workload: dict[str, JSON] = {}
    input: dict[str, JSON] = {}
    iter: dict[str, JSON] | None = None
    items: dict[str, JSON] | None = None
    opens: dict[str, JSON] | None = None
    closes: dict[str, JSON] | None = None
    stored: bool = False
    decides: Delegation | None = None
    saved: dict[str, JSON] = {}
    origins: tuple[str, ...] = ()
    breaks: dict[str, str | None] | None = None


class GrantMessage(Struct, frozen=True):
    digest: str
    pipeline: str
    block: bool
    frame: Frame
    place: PlaceMessage
    epoch: Epoch
    lease_s: float
    at: datetime
    lost: int = 0


class ReportReply(Struct, frozen=True, omit_defaults=True):
    word: Literal["go", "stop"]
    why: str = ""
    next: tuple[GrantMessage, ...] = ()


class ReportResult(Struct, frozen=True, omit_defaults=True):
    """The answer to one of several reports, or the error that a single one would have as its reply."""

    answer: ReportReply | None = None
    error: _Error | None = None

    def result(self) -> ReportReply:
        if self.answer is None:
            raise Unavailable("the reply has no answer") if self.error is None else _raised(self.error)
        return self.answer


def failed_report(error: NoetlError) -> ReportResult:
    return ReportResult(error=_error_of(error))


class BeatReply(Struct, frozen=True):
    """The reply to a grouped request."""

    stops: list[tuple[str, str]]
    partitions: tuple[int, ...]  # of this server: it has not looked at the holds of others


class WorkReply(Struct, frozen=True, omit_defaults=True):
    work: CurrentWork
    partitions: tuple[int, ...]  # of this server: the sender need not ask for them
    share_waits: tuple[ShareWait, ...] = ()  # of the execution in the request


class Programs(Protocol):
    """Compiled playbooks by digest."""

    async def by_digest(self, digest: str) -> Program: ...


def encode_grant(grant: Grant, digest: str) -> GrantMessage:
    pipeline, frame, place = grant.work.pipeline, grant.work.frame, grant.work.place
    if frame.block is not None:
        frame = replace(frame, block=None)  # only the owner needs it
    message = PlaceMessage(
        place.execution_id, place.workload, place.input, place.iter, place.items, place.opens, place.closes,
        place.stored, place.decides and place.decides.delegation, place.saved,
        place.origins, place.breaks,
    )  # fmt: skip
    return GrantMessage(
        digest, pipeline.name, pipeline.block, frame, message, grant.epoch, grant.lease_s, grant.at, grant.lost
    )


def decode_grant(message: GrantMessage, program: Program) -> Grant:
    """Raises KeyError if the playbook has no such pipeline."""
    place = message.place
    frame_place = FramePlace(
        execution_id=place.execution_id,
        workload=place.workload,
        input=place.input,
        iter=place.iter,
        folder=program.folder,
        items=place.items,
        opens=place.opens,
        closes=place.closes,
        keychain=program.keychain_of(place.execution_id),
        stored=place.stored,
        saved=place.saved,
        decides=None if place.decides is None else Decision(place.decides, program),
        origins=place.origins,
        breaks=place.breaks,
    )
    work = Work(program.pipeline(message.pipeline, block=message.block), message.frame, frame_place)
    return Grant(work, message.epoch, message.lease_s, message.at, message.lost)


def encode_answer(answer: ReportAnswer, digest: str) -> ReportReply:
    return ReportReply(answer.word, answer.why, tuple(encode_grant(each, digest) for each in answer.next))


class ReplyDecoders(NamedTuple):
    """One decoder for each kind of reply, built once."""

    grant: Callable[[Raw], GrantMessage | None] = msgspec.json.Decoder(GrantMessage | None).decode
    answer: Callable[[Raw], ReportReply] = msgspec.json.Decoder(ReportReply).decode
    results: Callable[[Raw], list[ReportResult]] = msgspec.json.Decoder(list[ReportResult]).decode
    beat: Callable[[Raw], BeatReply | list[tuple[str, str]]] = msgspec.json.Decoder(
        BeatReply | list[tuple[str, str]]
    ).decode
    outputs: Callable[[Raw], list[Output | None]] = msgspec.json.Decoder(list[Output | None]).decode
    parent: Callable[[Raw], str | None] = msgspec.json.Decoder(str | None).decode
    nothing: Callable[[Raw], None] = msgspec.json.Decoder(None).decode
    playbook: Callable[[Raw], PlaybookReply] = msgspec.json.Decoder(PlaybookReply).decode
    secret: Callable[[Raw], EncryptedReply] = msgspec.json.Decoder(EncryptedReply).decode
    stored: Callable[[Raw], bool] = msgspec.json.Decoder(bool).decode
    work: Callable[[Raw], WorkReply] = msgspec.json.Decoder(WorkReply).decode


DECODERS: Final = ReplyDecoders()


BODY_BYTES_MAX: Final = 67_108_864  # of one body before compression
PARTIAL_BYTES_MAX: Final = 2 * BODY_BYTES_MAX  # of all incomplete bodies together
PARTIAL_BODIES_MAX: Final = 256  # incomplete bodies
MARGIN_BYTES: Final = 4_096  # of a message, reserved for what the transport adds
LARGE_BYTES: Final = 262_144  # bodies of this size are compressed in a thread, so that the loop stays free

_COMPRESSED: Final = b"z"  # an unchanged body is JSON and begins with a brace
_PART: Final = b"p"
_HEAD: Final = struct.Struct(">cHH")  # the mark, the number of the part, the number of parts


async def pack(body: bytes, payload_limit: int, seal: Callable[[bytes], bytes] | None = None) -> list[bytes]:
    """The messages that carry a body, nearly always one. Raises Rejected if the body is too large.

    `seal`: encrypts the body, after it was compressed and before it is split.
    """
    limit = max(payload_limit - MARGIN_BYTES, MARGIN_BYTES)
    if len(body) <= limit:
        return [body if seal is None else await in_thread_if_large(seal, body)]
    if len(body) > BODY_BYTES_MAX:
        message = f"a message of {len(body):,} bytes exceeds the limit of {BODY_BYTES_MAX:,}"
        raise Rejected("payload-too-large", f"{message}: keep large data in a result store")
    compressed = _COMPRESSED + await in_thread_if_large(partial(zlib.compress, level=1), body)
    if seal is not None:
        compressed = await in_thread_if_large(seal, compressed)
    if len(compressed) <= limit:
        return [compressed]
    size = limit - _HEAD.size
    count = -(-len(compressed) // size)
    return [
        _HEAD.pack(_PART, number, count) + compressed[number * size : (number + 1) * size] for number in range(count)
    ]


async def unpack(packed: bytes) -> bytes:
    """The original body. Raises Unavailable if `pack` has not made this."""
    if packed[:1] != _COMPRESSED:
        return packed
    return await in_thread_if_large(_decompress, packed)


async def in_thread_if_large(work: Callable[[bytes], T], body: bytes) -> T:
    """Work on a large body in a thread, so that the event loop stays free."""
    return work(body) if len(body) < LARGE_BYTES else await asyncio.to_thread(work, body)


def _decompress(packed: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        body = decompressor.decompress(packed[1:], BODY_BYTES_MAX)
    except zlib.error as error:
        raise Unavailable("a message on the link cannot be decompressed") from error
    if not decompressor.eof:
        raise Unavailable(f"a message on the link is incomplete, or larger than {BODY_BYTES_MAX:,} bytes")
    return body


class PartialBody:
    """The parts of one body that have arrived so far."""

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, bytes] = {}

    def add(self, message: bytes) -> bytes | None:
        """The packed body if this message completes it. Raises Unavailable if the parts do not match."""
        if message[:1] != _PART:
            return message
        if len(message) <= _HEAD.size:
            raise Unavailable("an empty part arrived on the link")
        _, number, count = _HEAD.unpack_from(message)
        before = self._parts.get(number, b"")
        self._parts[number] = part = message[_HEAD.size :]
        self.bytes += len(part) - len(before)
        if number >= count or self.bytes > BODY_BYTES_MAX:
            raise Unavailable("parts that arrived on the link do not match")
        if len(self._parts) < count:
            return None
        return b"".join(self._parts[each] for each in sorted(self._parts))


class PartialBodies:
    """Incomplete bodies of many senders. Above the limits the oldest is discarded."""

    def __init__(self) -> None:
        self._pending: dict[str, PartialBody] = {}
        self._bytes = 0

    def add(self, sender: str, message: bytes) -> bytes | None:
        """As `PartialBody.add`, for the body of this sender."""
        if message[:1] != _PART:
            return message
        body = self._pending.setdefault(sender, PartialBody())
        before = body.bytes
        try:
            packed = body.add(message)
        except Unavailable:
            self._bytes -= before
            del self._pending[sender]
            raise
        self._bytes += body.bytes - before
        if packed is not None:
            self._drop(sender)
        while len(self._pending) > PARTIAL_BODIES_MAX or self._bytes > PARTIAL_BYTES_MAX:
            self._drop(next(iter(self._pending)))
        return packed

    def _drop(self, sender: str) -> None:
        self._bytes -= self._pending.pop(sender).bytes
