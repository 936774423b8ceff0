"""What routes are given, by type: the desk, whoever asks, parameters with their limits, and error answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from litestar import Request
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter, SkipValidation

from noetl.server.auth import CALLER, SCOPE, Authenticator, Caller
from noetl.server.cpu_pool import CpuPool
from noetl.server.errors import MEDIA_TYPE, ProblemDetails, Refused
from noetl.server.log_readers import Memory, Readers
from noetl.server.result_index import ResultIndex
from noetl.server.services import ServerSettings, Services
from noetl.server.streams import Streams
from noetl.server.subscriptions import Waits
from noetl.server.timeline_cache import Timelines

PAGE: Final = 100
PAGE_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 1_000  # of a path, a name, a prefix
SEQ_MAX: Final = 2**53
VERSION_MAX: Final = 2**31 - 1

READ: Final = {SCOPE: "read"}
RUN: Final = {SCOPE: "run"}
WRITE: Final = {SCOPE: "write"}
ADMIN: Final = {SCOPE: "admin"}


class RequestContext:
    """All that routes share; made once for an application."""

    def __init__(self, desk: Services, settings: ServerSettings) -> None:
        self.desk = desk
        self.settings = settings
        self.keeper = Authenticator(desk.tokens, desk.clock)
        self.memory = Memory(desk.store)
        self.readers = Readers(desk.store)
        self.timelines = Timelines(desk.store)
        self.named = ResultIndex(desk.store)
        self.thinking = CpuPool()
        self.streams = Streams(desk, settings.followers_max)
        self.waits = Waits(desk)

    async def close(self) -> None:
        """Whoever waits or follows is sent away, with a word."""
        self.waits.close()
        await self.streams.close()


DeskGiven: TypeAlias = NamedDependency[SkipValidation[Services]]
RoomGiven: TypeAlias = NamedDependency[SkipValidation[RequestContext]]
CallerGiven: TypeAlias = NamedDependency[SkipValidation[Caller]]

ExecutionId: TypeAlias = Annotated[str, PathParameter(description="the whole id of an execution")]
PlaybookPath: TypeAlias = Annotated[
    str, QueryParameter(name="path", description="metadata.path of a playbook", max_length=TEXT_CHARS_MAX)
]
VersionAsked: TypeAlias = Annotated[
    int | None, QueryParameter(name="version", description="none: the current one", ge=1, le=VERSION_MAX)
]
Limit: TypeAlias = Annotated[int, QueryParameter(name="limit", ge=1, le=PAGE_MAX)]
AfterSeq: TypeAlias = Annotated[
    int, QueryParameter(name="after", description="behind this fact", ge=0, le=SEQ_MAX)
]


async def given_caller(request: Request[Any, Any, Any]) -> Caller:
    caller = request.scope["state"].get(CALLER)
    assert isinstance(caller, Caller), "the guard lets nobody else in"
    return caller


def dependencies(room: RequestContext) -> dict[str, Provide]:
    async def given_room() -> RequestContext:
        return room

    async def given_desk() -> Services:
        return room.desk

    return {
        "room": Provide(given_room, use_cache=True),
        "desk": Provide(given_desk, use_cache=True),
        "caller": Provide(given_caller),
    }


def refusals(*more: int) -> dict[int, ResponseSpec]:
    """The errors that a route may answer with, all of one shape."""
    always = (400, 401, 403, 408, 413, 415, 429, 500, 503, 507)
    return {status: problem(status) for status in sorted({*always, *more})}


def problem(status: int) -> ResponseSpec:
    return ResponseSpec(
        data_container=ProblemDetails,
        generate_examples=False,
        description=_WORDS[status],
        media_type=MEDIA_TYPE,
    )


def clean_text(value: str, name: str) -> str:
    """No store is asked for what no text holds. Raises Refused."""
    if "\0" in value:
        raise Refused(400, "bad-request", f"{name}: it holds a zero character")
    return value


_WORDS: Final = {
    400: "The request is not as it must be",
    401: "No token, or one that is not valid",
    403: "The token lacks the scope; or a page of another site asks",
    404: "There is nothing of that name",
    408: "The body came too slowly",
    409: "It can not be done as things stand",
    413: "The body is too large",
    415: "The body is of another type than expected",
    416: "The range lies outside of the result",
    422: "It can never be done so: the playbook has problems, or a value does not fit",
    429: "Too many requests",
    500: "Stored data is damaged, or the server has a bug",
    503: "Something outside does not answer; try again",
    507: "The disk is full",
}
