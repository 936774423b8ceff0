"""How requests and answers look on the link: JSON, as in the log, so that every value arrives as it was.

Not msgpack: whole numbers of more than 64 bits are data, too. Unknown fields are passed over; another
version of the link, or a question that is unknown here, is refused in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from noetl.engine.commands import Command, Report, Start
from noetl.engine.moves import FramePlace, Work
from noetl.engine.state import Frame
from noetl.errors import Damaged, NoetlError, NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.net.program import Program
from noetl.output import JSON, Output
from noetl.ports import Epoch, Grant, ReportAnswer

T = TypeVar("T")

VERSION: Final = 1  # another one when a question or an answer comes to mean something else
PARTITIONS: Final = 64
_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


def name_in_subject(execution_id: str) -> str:
    """An id as a part of a subject; what NATS would read as more than a name goes by its digest."""
    return execution_id if _NAME.fullmatch(execution_id) else "x" + sha256(execution_id.encode()).hexdigest()


# What is asked


class Begin(Struct, frozen=True):
    execution_id: str
    frame: str
    worker: str


class Reported(Struct, frozen=True):
    execution_id: str
    report: Report
    room: int = 0


class Beat(Struct, frozen=True):
    worker: str
    holds: tuple[tuple[str, str, Epoch], ...]


class Started(Struct, frozen=True):
    execution_id: str
    digest: str
    start: Start


class Commanded(Struct, frozen=True):
    execution_id: str
    kind: str  # the name of the command
    command: Raw


class Iterations(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    run: str
    only: tuple[int, int, int] | None = None  # first, end, step


class TextOf(Struct, frozen=True):
    digest: str


class SecretOf(Struct, frozen=True):
    """The value of a keychain entry, for a frame that is granted."""

    execution_id: str
    frame: str
    epoch: Epoch
    worker: str
    entry: str
    nonce: bytes  # new each time: the answer is bound to it
    proof: bytes  # that whoever asks has the link key
    fresh: bool = False


class TextSent(Struct, frozen=True):
    digest: str
    path: str
    text: str
    origin: str | None = None


class Sealed(Struct, frozen=True):
    nonce: bytes
    body: bytes


Ask = Begin | Reported | Beat | Started | Commanded | Iterations | TextOf | SecretOf
_ASKS: Final[dict[str, Callable[[Raw], Any]]] = {
    kind.__name__.lower(): msgspec.json.Decoder(kind).decode for kind in get_args(Ask)
}
_COMMANDS: Final[dict[str, Callable[[Raw], Any]]] = {
    kind.__name__: msgspec.json.Decoder(kind).decode for kind in get_args(Command)
}


class _Request(Struct, frozen=True):
    v: int
    ask: str
    body: Raw


class _Error(Struct, frozen=True, omit_defaults=True):
    kind: Literal["not-found", "rejected", "unavailable", "playbook", "damaged"]
    words: str
    code: str = ""  # of what was rejected
    problems: tuple[Problem, ...] = ()


class _Reply(Struct, frozen=True, omit_defaults=True):
    v: int
    body: Raw = Raw(b"null")
    error: _Error | None = None


_encode = msgspec.json.Encoder().encode
_request = msgspec.json.Decoder(_Request).decode
_reply = msgspec.json.Decoder(_Reply).decode


def request_of(ask: Ask) -> bytes:
    return _encode(_Request(VERSION, type(ask).__name__.lower(), Raw(_encode(ask))))


def asked_in(body: bytes) -> Ask:
    """Raises Unavailable for what we do not understand: someone of our version may."""
    try:
        request = _request(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable("the server can not read the request") from error
    if request.v != VERSION or request.ask not in _ASKS:
        words = f'"{request.ask[:40]}" in version {request.v} of the link, and the server speaks {VERSION}'
        raise Unavailable(f"asked for {words}: run the same version of noetl everywhere")
    try:
        asked: Ask = _ASKS[request.ask](request.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f'the server can not read the request "{request.ask}": {error}') from error
    return asked


def commanded(execution_id: str, command: Command) -> Commanded:
    return Commanded(execution_id, type(command).__name__, Raw(_encode(command)))


def command_in(asked: Commanded) -> Command:
    """Raises Unavailable for one that we do not know."""
    if asked.kind not in _COMMANDS:
        raise Unavailable(f'the server knows no command "{asked.kind[:40]}": run the same version everywhere')
    try:
        command: Command = _COMMANDS[asked.kind](asked.command)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f'the server can not read the command "{asked.kind}": {error}') from error
    return command


# What is answered


def reply_of(answer: object) -> bytes:
    return _encode(_Reply(VERSION, Raw(_encode(answer))))


def refusal_of(error: NoetlError) -> bytes:
    return _encode(_Reply(VERSION, error=_told(error)))


def answer_in(body: bytes, decode: Callable[[Raw], T]) -> T:
    """What was answered. Raises what the other side has raised."""
    try:
        reply = _reply(body)
        if reply.v != VERSION:
            words = f"the server speaks version {reply.v} of the link, and we speak {VERSION}"
            raise Unavailable(f"{words}: run the same version of noetl everywhere")
        if reply.error is not None:
            raise _raised(reply.error)
        return decode(reply.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"the answer can not be read: {error}") from error


def _told(error: NoetlError) -> _Error:
    match error:
        case Rejected(code=code):
            return _Error("rejected", str(error).removeprefix(f"{code}: "), code)
        case NotFound():
            return _Error("not-found", str(error))
        case PlaybookError(problems=problems):
            return _Error("playbook", "", problems=problems)
        case Damaged():
            return _Error("damaged", str(error))
        case _:  # Conflict and Fenced are of those who write
            return _Error("unavailable", str(error))


def _raised(error: _Error) -> NoetlError:
    match error.kind:
        case "rejected":
            return Rejected(error.code, error.words)
        case "not-found":
            return NotFound(error.words)
        case "playbook":
            return PlaybookError(error.problems)
        case "damaged":
            return Damaged(error.words)
        case "unavailable":
            return Unavailable(error.words)


# Grants: what is compiled stays at home, and is made again from the digest


class PlaceSent(Struct, frozen=True, omit_defaults=True):
    execution_id: str
    workload: dict[str, JSON] = {}
    input: dict[str, JSON] = {}
    iter: dict[str, JSON] | None = None
    items: dict[str, JSON] | None = None
    opens: dict[str, JSON] | None = None
    closes: dict[str, JSON] | None = None


class GrantSent(Struct, frozen=True):
    digest: str
    pipeline: str
    block: bool
    frame: Frame
    place: PlaceSent
    epoch: Epoch
    lease_s: float
    at: datetime
    lost: int = 0


class AnswerSent(Struct, frozen=True, omit_defaults=True):
    word: Literal["go", "stop"]
    why: str = ""
    next: tuple[GrantSent, ...] = ()


class Programs(Protocol):
    """Compiled playbooks by their digest."""

    async def by_digest(self, digest: str) -> Program: ...


def grant_sent(grant: Grant, digest: str) -> GrantSent:
    (pipeline, frame, place), epoch, lease_s, at, lost = grant
    if frame.block is not None:
        frame = replace(frame, block=None)  # only who decides needs it
    sent = PlaceSent(
        place.execution_id, place.workload, place.input, place.iter, place.items, place.opens, place.closes
    )
    return GrantSent(digest, pipeline.name, pipeline.block, frame, sent, epoch, lease_s, at, lost)


def grant_of(sent: GrantSent, program: Program) -> Grant:
    """Raises KeyError when the playbook has no such pipeline."""
    place = sent.place
    there = FramePlace(
        execution_id=place.execution_id,
        workload=place.workload,
        input=place.input,
        iter=place.iter,
        folder=program.folder,
        items=place.items,
        opens=place.opens,
        closes=place.closes,
        keychain=program.playbook.keychain,
    )
    work = Work(program.pipeline(sent.pipeline, block=sent.block), sent.frame, there)
    return Grant(work, sent.epoch, sent.lease_s, sent.at, sent.lost)


def answer_sent(answer: ReportAnswer, digest: str) -> AnswerSent:
    return AnswerSent(answer.word, answer.why, tuple(grant_sent(each, digest) for each in answer.next))


class Reading(NamedTuple):
    """Decoders, made once."""

    grant: Callable[[Raw], GrantSent | None] = msgspec.json.Decoder(GrantSent | None).decode
    answer: Callable[[Raw], AnswerSent] = msgspec.json.Decoder(AnswerSent).decode
    stops: Callable[[Raw], list[tuple[str, str]]] = msgspec.json.Decoder(list[tuple[str, str]]).decode
    outputs: Callable[[Raw], list[Output | None]] = msgspec.json.Decoder(list[Output | None]).decode
    nothing: Callable[[Raw], None] = msgspec.json.Decoder(None).decode
    text: Callable[[Raw], TextSent] = msgspec.json.Decoder(TextSent).decode
    sealed: Callable[[Raw], Sealed] = msgspec.json.Decoder(Sealed).decode


READING: Final = Reading()


def ranged(only: Iterable[int] | None) -> tuple[int, int, int] | None:
    return (only.start, only.stop, only.step) if isinstance(only, range) else None
