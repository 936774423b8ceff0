"""Routes and their typed parameters: the shared context, the services, the caller, query parameters with limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from litestar import Request, get
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter, SkipValidation

from noetl.api.executions import VERSION_MAX
from noetl.api.playbooks import ProblemDetails
from noetl.paging import PageReader
from noetl.server.access import BY_EXECUTION, BY_NAME, BY_PLAYBOOK, EVERYWHERE, FILTERED, LIMIT, UNLIMITED
from noetl.server.audit import AuditTrail
from noetl.server.auth import CALLER, SCOPE, Authenticator, Caller
from noetl.server.decision_lists import DecisionLists
from noetl.server.errors import MEDIA_TYPE, ApiError
from noetl.server.log_readers import EnvelopeReaderCache, ResultIndex, RunsCache, TimelineCache
from noetl.server.oidc import OidcProvider
from noetl.server.playbook_history import PlaybookHistories
from noetl.server.playbook_overviews import PlaybookOverviews
from noetl.server.row_reader import ResultRowReader
from noetl.server.run_schemas import RunSchemas
from noetl.server.services import AgentEndpoint, CpuPool, ServerSettings, Services
from noetl.server.sessions import CookieJar, Sessions
from noetl.server.streams import StreamHub
from noetl.server.subscriptions import CompletionWaiters
from noetl.server.timeline_documents import TimelineDocuments

PAGE: Final = 100
PAGE_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 1_000  # of a path, a name, a prefix
SEQ_MAX: Final = 2**53

EXECUTION: Final = "/executions/{execution_id:str}"

# How paths and pools limit a route: see `noetl.server.access`
OF_EXECUTION: Final = {LIMIT: BY_EXECUTION}
OF_NAME: Final = {LIMIT: BY_NAME}
OF_PLAYBOOK: Final = {LIMIT: BY_PLAYBOOK}
OF_LIST: Final = {LIMIT: FILTERED}
OF_NOTHING: Final = {LIMIT: UNLIMITED}
OF_ALL: Final = {LIMIT: EVERYWHERE}

READ: Final = {SCOPE: "read"}
RUN: Final = {SCOPE: "run"}
WRITE: Final = {SCOPE: "write"}
ADMIN: Final = {SCOPE: "admin"}


class AppContext:
    """What all routes of an application share: services, caches and open streams."""

    def __init__(self, services: Services, settings: ServerSettings) -> None:
        self.services = services
        self.settings = settings
        self.authenticator = Authenticator(services.tokens, services.clock)
        self.sessions = Sessions(services.sessions, self.authenticator, services.clock, settings.sessions)
        self.cookies = CookieJar(settings.public_url)
        self.oidc = None if settings.oidc is None else OidcProvider(settings.oidc, services.clock)
        self.readers = EnvelopeReaderCache(services.store)
        self.timelines = TimelineCache(services.store, services.clock)
        self.runs = RunsCache(services.store, services.committed, self.timelines)
        self.timeline_documents = TimelineDocuments(services, self.timelines)
        self.decisions = DecisionLists(services.store)
        self.result_index = ResultIndex(services.store)
        self.cpu_pool = CpuPool()
        self.rows = ResultRowReader(services, self.timelines, self.result_index, self.cpu_pool)
        self.loop_items = PageReader(services.results)
        self.histories = PlaybookHistories(services)
        self.overviews = PlaybookOverviews(services, self.cpu_pool)
        self.run_schemas = RunSchemas(services, self.cpu_pool)
        self.streams = StreamHub(services, settings.subscribers_max, self.timelines.spent_s)
        self.waiters = CompletionWaiters(services)
        self.audit = AuditTrail(services.audit, services.clock)
        self.agents: AgentEndpoint | None = None  # made with the application

    async def close(self) -> None:
        """End all waiting requests and all streams; their clients are asked to reconnect."""
        if self.agents is not None:
            await self.agents.close()
        self.waiters.close()
        await self.streams.close()
        await self.audit.close()
        if self.oidc is not None:
            await self.oidc.close()
        if self.settings.analyses is not None:
            await self.settings.analyses.close()


ServicesParam: TypeAlias = NamedDependency[SkipValidation[Services]]
ContextParam: TypeAlias = NamedDependency[SkipValidation[AppContext]]
CallerParam: TypeAlias = NamedDependency[SkipValidation[Caller]]

ExecutionId: TypeAlias = Annotated[str, PathParameter(description="the full id of an execution")]
PlaybookPath: TypeAlias = Annotated[
    str, QueryParameter(name="path", description="metadata.path of a playbook", max_length=TEXT_CHARS_MAX)
]
VersionParam: TypeAlias = Annotated[
    int | None, QueryParameter(name="version", description="default: the current one", ge=1, le=VERSION_MAX)
]
Limit: TypeAlias = Annotated[int, QueryParameter(name="limit", ge=1, le=PAGE_MAX)]
AfterSeq: TypeAlias = Annotated[
    int, QueryParameter(name="after", description="only after the fact with this seq", ge=0, le=SEQ_MAX)
]


def caller_of(request: Request[Any, Any, Any]) -> Caller:
    caller = request.scope["state"].get(CALLER)
    assert isinstance(caller, Caller), "the guard rejects requests without a caller"
    return caller


def dependencies(context: AppContext) -> dict[str, Provide]:
    """Each needs the one before: Litestar makes a task group for those that do not depend on each other."""
    application = context

    async def provide_context() -> AppContext:
        return application

    async def provide_services(context: ContextParam) -> Services:
        return context.services

    async def provide_caller(request: Request[Any, Any, Any], services: ServicesParam) -> Caller:
        del services
        return caller_of(request)

    return {
        "context": Provide(provide_context, use_cache=True),
        "services": Provide(provide_services, use_cache=True),
        "caller": Provide(provide_caller),
    }


def route(
    method: Callable[..., HTTPRouteHandler],
    scope: dict[str, str],
    tag: str,
    path: str,
    summary: str,
    *errors: int,
    success: Mapping[int, ResponseSpec] | None = None,
    **options: Any,
) -> HTTPRouteHandler:
    """A decorator such as `get`, with a scope and the errors that the route may send beside those of every route."""
    always = (400, 401, 403, 408, 413, 415, 429, 500, 503, 507)
    failures = {status: _error_response(status) for status in sorted({*always, *errors})}
    responses = {**(success or {}), **failures}
    return method(path, opt=scope, tags=[tag], summary=summary, responses=responses, **options)


def read_execution(name: str, summary: str, *errors: int, **options: Any) -> HTTPRouteHandler:
    """A route below one execution."""
    return route(get, READ | OF_EXECUTION, "executions", f"{EXECUTION}{name}", summary, 404, *errors, **options)


def response(data: Any, description: str, media_type: str = "application/json") -> ResponseSpec:
    return ResponseSpec(data, generate_examples=False, description=description, media_type=media_type)


def _error_response(status: int) -> ResponseSpec:
    return response(ProblemDetails, _DESCRIPTIONS[status], MEDIA_TYPE)


def clean_text(value: str, name: str) -> str:
    """Reject characters that a store cannot hold. Raises ApiError."""
    if "\0" in value:
        raise ApiError(400, "bad-request", f"{name}: it contains a NUL character")
    return value


_DESCRIPTIONS: Final = {
    400: "The request is invalid",
    401: "The token is missing or invalid",
    403: "The token lacks the scope, its role excludes this path or pool, or a page of another site sent the request",
    404: "There is no such object, or it is outside of the paths of the token",
    405: "The playbook does not run with this method",
    408: "The body arrived too slowly",
    409: "The current state does not allow this",
    413: "The body is too large",
    415: "The body has the wrong content type",
    416: "The range is outside of the result",
    422: "The request can never succeed: the playbook has problems, or a value is invalid",
    429: "Too many requests",
    500: "Stored data is damaged, or the server has a bug",
    503: "A service that the server needs is unavailable; try again",
    507: "The disk is full",
}
