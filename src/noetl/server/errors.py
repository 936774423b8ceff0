"""Exceptions as application/problem+json, in one table. An unexpected exception reveals no details."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from noetl.api.playbooks import FieldError, ProblemDetails
from noetl.errors import Conflict, Damaged, Fenced, InputError, NotFound, PlaybookError, Rejected, Unavailable
from noetl.net.inputs import SECRETS_PREFIX
from noetl.server.analysis import PROBLEMS_MAX
from noetl.telemetry.logs import get_logger
from noetl.views.documents import problem_document

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
DETAIL_CHARS_MAX: Final = 2_000
_PATH_CHARS_MAX: Final = 200  # of a path that an error message repeats

# Codes of requests that are invalid in any state: a later retry does not help.
_INVALID: Final = frozenset({
    "bad-change", "bad-condition", "bad-ctx", "bad-expiry", "bad-id", "bad-key", "bad-name", "bad-role", "bad-scope",
    "bad-setting", "bad-spec", "idempotency-mismatch", "not-json", "not-text", "too-long", "too-short",
    "unknown-place", "unknown-step", "unknown-store",
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
# The folders of the server are not for callers: a path in quotes, and one without. An address is neither.
_QUOTED_PATH: Final = re.compile(r'"/(?:[^"]*/)?([^"/]+)/?"')
_PATH: Final = re.compile(r"(?<![\w:/.])/(?:[^\s\"/:]+/)+([^\s\"/:,;)]+)")
_FULL: Final = "storage full"  # the messages of all adapters begin with this

log = get_logger("api")


class ApiError(Exception):
    """An error response that the HTTP layer itself decides on."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.details = problem_details(status, code, detail)
        self.headers = dict(headers or {})


class RecordedRefusal(Exception):
    """A start request that cannot run: the cause, and the execution that records the request (D65)."""

    def __init__(self, cause: NotFound | PlaybookError | Rejected, execution_id: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.execution_id = execution_id


def problem_details(status: int, code: str, detail: str) -> ProblemDetails:
    return ProblemDetails(
        type=f"urn:noetl:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail[:DETAIL_CHARS_MAX],
        code=code,
    )


def details_of(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    """The body and the headers of the response to an exception."""
    match error:
        case ApiError():
            return error.details, error.headers
        case RecordedRefusal(cause=cause, execution_id=id):
            details, headers = details_of(cause)
            headers = {**headers, "Location": f"/executions/{id}"}
            return msgspec.structs.replace(details, execution_id=id), headers
        case PlaybookError(problems=problems, count=count):
            first = str(problems[0]) if problems else "it cannot be parsed at all"
            more = f" (the first {PROBLEMS_MAX:,} of {count:,} are listed)" if count > PROBLEMS_MAX else ""
            details = problem_details(422, "playbook-problems", f"the playbook cannot run: {first}{more}")
            documents = tuple(map(problem_document, problems[:PROBLEMS_MAX]))
            return msgspec.structs.replace(details, problems=documents), {}
        case NotFound():
            return problem_details(404, "not-found", str(error)), {}
        case InputError(code=code, problems=inputs):
            fields = tuple(
                FieldError(name=_field_name(each.name), message=each.message, where="body") for each in inputs
            )
            detail = f"the inputs do not fit the playbook: {'; '.join(map(str, inputs))}"
            return msgspec.structs.replace(problem_details(422, code, detail), fields=fields), {}
        case Rejected(code=code):
            status = 413 if code in _TOO_LARGE else 422 if code in _INVALID else 409
            return problem_details(status, code, str(error).removeprefix(f"{code}: ")), {}
        case Unavailable() | Conflict() | Fenced():
            return _unavailable(error)
        case Damaged():
            return problem_details(500, "damaged", _without_folders(str(error))), {}
        case HTTPException():
            return _of_framework(error)
    return _internal_error(error)


def _field_name(input: str) -> str:
    return input if input.startswith(SECRETS_PREFIX) else f"workload.{input}"


def _internal_error(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    # The log gets the stack without the message and values, because those may contain secrets.
    trace = "".join(traceback.format_tb(error.__traceback__))
    log.error("request.failed", error=type(error).__name__, trace=trace)
    return problem_details(500, "internal", "the server has a bug; its log contains the details"), {}


def _unavailable(error: Exception) -> tuple[ProblemDetails, dict[str, str]]:
    detail = _without_folders(str(error))
    if _FULL in detail:
        return problem_details(507, "storage-full", detail), {}
    return problem_details(503, "unavailable", detail), {"Retry-After": str(RETRY_AFTER_S)}


def _without_folders(text: str) -> str:
    return _PATH.sub(r"\1", _QUOTED_PATH.sub(r'"\1"', text))


def _of_framework(error: HTTPException) -> tuple[ProblemDetails, dict[str, str]]:
    status = error.status_code
    if status >= 500:
        if "disconnected" in error.detail:  # the caller is gone and reads no response
            return problem_details(400, "bad-request", "the request ended too early"), {}
        return _internal_error(error)
    code = _CODES.get(status, "bad-request")
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    if isinstance(error, ValidationException):
        fields = tuple(_field_errors(error.extra))
        detail = "; ".join(f"{each.name}: {each.message}" if each.name else each.message for each in fields)
        details = problem_details(status, code, detail or "the request is invalid")
        return msgspec.structs.replace(details, fields=fields), headers
    if status == 400:
        detail = f"the body cannot be parsed: {_one_line(error.detail)}"
        return problem_details(status, "bad-json", detail), headers
    return problem_details(status, code, _one_line(error.detail) or HTTPStatus(status).description), headers


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _field_errors(extra: Any) -> list[FieldError]:
    """The validation errors of the framework, without the invalid values."""
    found = extra if isinstance(extra, list) else []
    return [
        FieldError(
            name=str(each.get("key", "")),
            message=_one_line(str(each.get("message", ""))),
            where=str(getattr(each.get("source"), "value", each.get("source") or "body")),
        )
        for each in found
        if isinstance(each, dict)
    ]


def error_response(error: Exception) -> Response[ProblemDetails]:
    details, headers = details_of(error)
    return Response(content=details, status_code=details.status, media_type=MEDIA_TYPE, headers=headers)


def handle_exception(request: Request[Any, Any, Any], error: Exception) -> Response[ProblemDetails]:
    """The response to an exception of a route, or to a request that matches no route."""
    if isinstance(error, NotFoundException | MethodNotAllowedException):
        method, path = str(request.method), str(request.scope["path"])[:_PATH_CHARS_MAX]
        detail = f"there is no route {method} {path}: /schema/openapi.json lists all routes"
        code = _CODES[error.status_code]
        return error_response(ApiError(error.status_code, code, detail, error.headers))
    if isinstance(error, RequestEntityTooLarge):
        limit = request.route_handler.resolve_request_max_body_size()
        return error_response(ApiError(413, "body-too-large", f"the body of this request has at most {limit:,} bytes"))
    return error_response(error)
