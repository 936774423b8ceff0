"""Exception → application/problem+json, in one table. Nothing is shown of a bug but that there was one."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from msgspec import UNSET, Struct, UnsetType

from noetl.errors import Conflict, Damaged, Fenced, NotFound, PlaybookError, Rejected, Unavailable
from noetl.views.documents import ProblemDocument, problem_document

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
DETAIL_CHARS_MAX: Final = 2_000
_PATH_CHARS_MAX: Final = 200  # of a path that an error repeats

# What is refused whatever the state is: to ask again later does not help.
_UNFIT: Final = frozenset({
    "bad-expiry", "bad-id", "bad-key", "bad-name", "bad-scope", "bad-setting", "bad-spec",
    "idempotency-mismatch", "not-json", "not-text", "too-long", "too-short", "unknown-step", "unknown-store",
})  # fmt: skip
_TOO_LARGE: Final = frozenset({"too-large", "payload-too-large"})
_CODES: Final[dict[int, str]] = {
    400: "bad-request",
    401: "no-token",
    403: "forbidden",
    404: "no-such-route",
    405: "wrong-method",
    408: "too-slow",
    413: "body-too-large",
    415: "wrong-content-type",
    429: "too-many-requests",
}
_FULL: Final = "storage full"  # how every adapter begins to say it

log = structlog.get_logger(__name__)


class Field(Struct, frozen=True, kw_only=True):
    """A part of a request that is not as it must be."""

    name: str
    message: str
    where: str  # body, query, path, header


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """RFC 9457: what went wrong, for programs (`code`) and for people (`detail`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str  # stable
    problems: tuple[ProblemDocument, ...] | UnsetType = UNSET  # of a playbook
    execution_id: str | UnsetType = UNSET  # under which a request that can not run is on record
    fields: tuple[Field, ...] | UnsetType = UNSET  # of the request


class Refused(Exception):
    """What the door itself refuses, before anyone behind it is asked."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.details = details(status, code, detail)
        self.headers = dict(headers or {})


class OnRecord(Exception):
    """What can not run: why, and the execution under which the request is on record (D65)."""

    def __init__(self, why: NotFound | PlaybookError, execution_id: str) -> None:
        super().__init__(str(why))
        self.why = why
        self.execution_id = execution_id


def details(status: int, code: str, detail: str) -> ProblemDetails:
    return ProblemDetails(
        type=f"urn:noetl:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail[:DETAIL_CHARS_MAX],
        code=code,
    )


def details_of(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    """What is answered to whoever asked, and with which headers."""
    match error:
        case Refused():
            return error.details, error.headers
        case OnRecord(why=why, execution_id=id):
            told, headers = details_of(why)
            headers = {**headers, "Location": f"/executions/{id}"}
            return msgspec.structs.replace(told, execution_id=id), headers
        case PlaybookError(problems=problems):
            shown = tuple(map(problem_document, problems))
            told = details(422, "playbook-problems", f"the playbook can not run: {_first(error)}")
            return msgspec.structs.replace(told, problems=shown), {}
        case NotFound():
            return details(404, "not-found", str(error)), {}
        case Rejected(code=code):
            status = 413 if code in _TOO_LARGE else 422 if code in _UNFIT else 409
            return details(status, code, str(error).removeprefix(f"{code}: ")), {}
        case Unavailable() | Conflict() | Fenced():
            return _away(error)
        case Damaged():
            return details(500, "damaged", str(error)), {}
        case HTTPException():
            return _of_framework(error)
    return _bug(error)


def _bug(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    # Where it was, and not with what: neither the words of a bug nor its values are known to be harmless.
    trace = "".join(traceback.format_tb(error.__traceback__))
    log.error("request.failed", error=type(error).__name__, trace=trace)
    return details(500, "internal", "this is a bug of the server; its log says more"), {}


def _first(error: PlaybookError) -> str:
    return str(error.problems[0]) if error.problems else "nothing of it could be read"


def _away(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    if _FULL in str(error):
        return details(507, "storage-full", str(error)), {}
    return details(503, "unavailable", str(error)), {"Retry-After": str(RETRY_AFTER_S)}


def _of_framework(error: HTTPException) -> tuple[ProblemDetails, dict[str, str]]:
    status = error.status_code
    if status >= 500:
        if "disconnected" in error.detail:  # nobody reads this answer
            return details(400, "bad-request", "the request ended too early"), {}
        return _bug(error)
    code = _CODES.get(status, "bad-request")
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    if isinstance(error, ValidationException):
        fields = tuple(_fields(error.extra))
        words = "; ".join(f"{each.name}: {each.message}" if each.name else each.message for each in fields)
        told = details(status, code, words or "the request is not as it must be")
        return msgspec.structs.replace(told, fields=fields), headers
    if status == 400:
        return details(status, "bad-json", f"the body can not be read: {_line(error.detail)}"), headers
    return details(status, code, _line(error.detail) or HTTPStatus(status).description), headers


def _line(text: str) -> str:
    return " ".join(text.split())


def _fields(extra: Any) -> list[Field]:
    """As the framework tells them; values are not repeated."""
    told = extra if isinstance(extra, list) else []
    return [
        Field(
            name=str(each.get("key", "")),
            message=_line(str(each.get("message", ""))),
            where=str(getattr(each.get("source"), "value", each.get("source") or "body")),
        )
        for each in told
        if isinstance(each, dict)
    ]


def answer(error: Exception) -> Response[ProblemDetails]:
    told, headers = details_of(error)
    return Response(content=told, status_code=told.status, media_type=MEDIA_TYPE, headers=headers)


def handle(request: Request[Any, Any, Any], error: Exception) -> Response[ProblemDetails]:
    """For every exception that comes out of a route, or when there is none."""
    if isinstance(error, NotFoundException | MethodNotAllowedException):
        method, path = str(request.method), str(request.scope["path"])[:_PATH_CHARS_MAX]
        words = f"there is no {method} {path}: /schema/openapi.json lists what there is"
        code = _CODES[error.status_code]
        return answer(Refused(error.status_code, code, words, error.headers))
    return answer(error)
