"""Playbooks in request bodies: a text, or the name of a registered playbook; and start requests."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from litestar import Request
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from msgspec.structs import replace

from noetl.api.analysis import PlaybookReference
from noetl.api.executions import StartRequest
from noetl.api.playbooks import PlaybookTextRequest
from noetl.control.limits import REFUSED
from noetl.control.refusals import Refusal, is_path, path_in, reason_of, without_secrets
from noetl.errors import NotFound, PlaybookError, Problem, Rejected
from noetl.net.notify import split_digest
from noetl.playbook.source import parse
from noetl.ports import PlaybookText, PlaybookVersion
from noetl.server.access import check_digest, check_playbook, check_readable, check_written, outside
from noetl.server.analysis import FILE, AnalysisForm, TextAnalysis, UpgradedText, upgrade_and_check
from noetl.server.analysis_processes import AnalysisProcesses
from noetl.server.auth import Caller
from noetl.server.errors import ApiError, RecordedRefusal
from noetl.server.params import AppContext, clean_text
from noetl.server.services import Services


class ResolvedStart(NamedTuple):
    digest: str
    path: str
    problems: tuple[Problem, ...] = ()  # of a text: warnings and advice


async def authorize(context: AppContext, request: StartRequest, caller: Caller) -> StartRequest:
    """Check the form of a request and the scopes of its caller, before anything is looked up or recorded.

    A caller who may not register playbooks may send a registered text: the request returned then has the
    digest instead of the text. Raises ApiError.
    """
    if sum(each is not None for each in (request.path, request.digest, request.text)) != 1:
        raise ApiError(400, "bad-request", "give exactly one of path, digest and text")
    if request.text is not None and len(request.text.encode()) > PLAYBOOK_BODY_MAX:
        raise ApiError(413, "body-too-large", f"a text has at most {PLAYBOOK_BODY_MAX:,} bytes")
    if caller.roles and (permitted := await _within_limits(context, request, caller)) is not None:
        return permitted
    if request.path is not None or (caller.may("write") and not caller.roles):
        return request
    digest = request.digest if request.text is None else _digest(request.text)
    assert digest is not None
    if request.digest is not None and await _path_of(context.services, digest) is None:
        return request  # the lookup reports that it is unknown
    if await _is_startable(context.services, digest):
        return replace(request, text=None, digest=digest)
    reason = "which is needed to start a text that is not registered, or is archived"
    raise ApiError(403, "low-scope", f'{caller.title} lacks the scope "write", {reason}')


async def _within_limits(context: AppContext, request: StartRequest, caller: Caller) -> StartRequest | None:
    """Check the path of a request against the caller's roles. None: the text must be registered already.

    Raises NotFound for a registered playbook outside of its paths, and ApiError for a text.
    """
    path, digest = await _path_and_digest(context, request)
    if request.text is None:
        if path is None:
            raise NotFound(f'no playbook is registered under "{request.path}"' if request.path else no_text(digest))
        check_readable(caller, path, no_text(digest) if digest else f'no playbook is registered under "{path}"')
        check_playbook(caller, "run", path)
        return request if request.path is not None or caller.may("write", path) else None
    if path is not None and not caller.may("run", path):
        raise outside(caller, f'playbooks under "{path}"')
    return request if path is None or caller.may("write", path) else None


async def _is_startable(services: Services, digest: str) -> bool:
    """Whether the catalog contains the text under a path that is not archived."""
    if (path := await _path_of(services, digest)) is None:
        return False
    try:
        versions = await services.catalog.versions(path)
    except NotFound:  # a playbook that a task has made
        return False
    return any(each.digest == digest and not each.archived for each in versions)


async def resolve(context: AppContext, request: StartRequest, caller: Caller, *, listed: bool = True) -> ResolvedStart:
    """Look the playbook up; a text is registered. Raises NotFound, PlaybookError, or ApiError.

    `listed` False: a text is only kept by its digest, and its triggers do not act.
    """
    services = context.services
    if request.text is None:
        if request.digest is not None:
            found = await services.catalog.get(clean_text(request.digest, "digest"))
        else:
            found = await services.catalog.newest(clean_text(request.path or "", "path"), request.version)
        await check_digest(services, caller, found.digest, found.path)
        return ResolvedStart(found.digest, found.path)
    upgraded = await valid_text(context, PlaybookTextRequest(text=request.text, dialect=request.dialect), caller)
    assert upgraded.checked.playbook is not None, "it has no errors"
    path = upgraded.checked.playbook.path
    is_current = not listed or await _current_digest(services, path) == _digest(upgraded.text)
    digest = await services.playbooks.add(upgraded.text, None, upgraded.checked, listed=listed)
    if listed:
        await services.triggers.declare(digest)
    if not is_current:
        await record_registration(context, caller, path, digest)
    return ResolvedStart(digest, path, upgraded.checked.problems)


async def _current_digest(services: Services, path: str) -> str | None:
    """None: no playbook is registered under the path, or it is archived."""
    try:
        return (await services.catalog.newest(path)).digest
    except NotFound:
        return None


async def record_registration(context: AppContext, caller: Caller, path: str, digest: str) -> PlaybookVersion:
    """In the audit trail. Returns the registered version."""
    version = next(each for each in await context.services.catalog.versions(path) if each.digest == digest)
    await context.audit.record(caller, "register", "register", f"{path}@{version.version}", digest)
    return version


async def resolve_digest(context: AppContext, request: StartRequest, caller: Caller) -> str:
    """The digest alone; nothing is registered."""
    if request.text is None:
        return (await resolve(context, request, caller)).digest
    upgraded = await check_text(context, PlaybookTextRequest(text=request.text, dialect=request.dialect))
    return _digest(upgraded.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@asynccontextmanager
async def refusals_recorded(context: AppContext, request: StartRequest, caller: Caller) -> AsyncIterator[None]:
    """Record a request that cannot run, unless its path is unknown. Raises RecordedRefusal."""
    try:
        yield
    except (NotFound, PlaybookError) as error:
        path, digest = await _path_and_digest(context, request)
        if path is None:
            raise
        workload = request.workload
        if workload and request.text is not None:
            workload = without_secrets(workload, (await context.cpu_pool.run(parse, request.text, FILE)).document)
        refusal = Refusal(path, workload, reason_of(error), digest, caller.name, request.ctx, request.labels)
        execution_id = await context.services.record_refusal(refusal)
        context.audit.collect(caller, "start", "refused", execution_id, path)
        raise RecordedRefusal(error, execution_id) from error


@asynccontextmanager
async def full_recorded(context: AppContext, caller: Caller, execution_id: str, detail: str) -> AsyncIterator[None]:
    """Raises RecordedRefusal when too many executions run already: the log contains the request."""
    try:
        yield
    except Rejected as error:
        if error.code != REFUSED:
            raise
        context.audit.collect(caller, "start", "refused", execution_id, detail)
        raise RecordedRefusal(error, execution_id) from error


async def _path_and_digest(context: AppContext, request: StartRequest) -> tuple[str | None, str]:
    """As far as they are known: None and "" where they are not."""
    if request.text is not None:
        document = (await context.cpu_pool.run(parse, request.text, FILE)).document
        return path_in(document), _digest(request.text)
    if request.digest is not None:
        return await _path_of(context.services, request.digest), request.digest
    return (request.path if request.path and is_path(request.path) else None), ""


async def _path_of(services: Services, digest: str) -> str | None:
    try:
        return (await services.catalog.get(digest)).path
    except NotFound:
        return None


T = TypeVar("T")
PLAYBOOK_BODY_MAX: Final = 1 << 20
TEXT_CHARS_HERE_MAX: Final = 8_192  # of a text that a thread analyses: about 20 ms
_JSON: Final = "application/json"


def _schema(*, with_reference: bool) -> Schema:
    text = Schema(type=OpenAPIType.STRING, description="the playbook, in YAML")
    dialect = Schema(type=OpenAPIType.STRING, enum=["canonical", "auto"], default="canonical")
    properties: dict[str, Any] = {"text": text, "dialect": dialect}
    if with_reference:
        properties |= {
            "path": Schema(type=OpenAPIType.STRING, description="metadata.path of a registered playbook"),
            "version": Schema(type=OpenAPIType.INTEGER, minimum=1),
            "digest": Schema(type=OpenAPIType.STRING),
        }
    return Schema(
        type=OpenAPIType.OBJECT,
        properties=properties,
        required=None if with_reference else ["text"],
        additional_properties=False,
    )


def _body(*, with_reference: bool) -> RequestBody:
    yaml = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))
    json = OpenAPIMediaType(schema=_schema(with_reference=with_reference))
    return RequestBody(content={_JSON: json, "text/yaml": yaml, "application/yaml": yaml}, required=True)


@dataclass
class TextOperation(Operation):
    """A route whose body is a playbook."""

    def __post_init__(self) -> None:
        self.request_body = _body(with_reference=False)


@dataclass
class ReferenceOperation(Operation):
    """A route whose body is a playbook, or refers to one."""

    def __post_init__(self) -> None:
        self.request_body = _body(with_reference=True)


async def read_text(request: Request[Any, Any, Any]) -> PlaybookTextRequest:
    """The text in the body. Raises ApiError."""
    body = await request.body()
    if request.content_type[0] != _JSON:
        return PlaybookTextRequest(text=_decode_yaml(body))
    return _decode_json(body, PlaybookTextRequest)


async def resolve_text(request: Request[Any, Any, Any], services: Services, caller: Caller) -> PlaybookTextRequest:
    """The text in the body, or the one that the body refers to. Raises ApiError, or NotFound."""
    body = await request.body()
    if request.content_type[0] != _JSON:
        return PlaybookTextRequest(text=_decode_yaml(body))
    reference = _decode_json(body, PlaybookReference)
    if sum(each is not None for each in (reference.text, reference.path, reference.digest)) != 1:
        raise ApiError(400, "bad-request", "give exactly one of text, path and digest")
    if reference.text is not None:
        return PlaybookTextRequest(text=reference.text, dialect=reference.dialect)
    if reference.digest is not None:
        return PlaybookTextRequest(text=(await readable_text(services, caller, reference.digest)).text)
    check_playbook(caller, "read", reference.path or "")
    return PlaybookTextRequest(text=await registered_text(services, reference.path or "", reference.version))


async def readable_text(services: Services, caller: Caller, digest: str) -> PlaybookText:
    """A text within the caller's paths. Raises NotFound, with the same words for an unknown one."""
    try:
        found = await services.catalog.get(split_digest(clean_text(digest, "digest"))[0])
    except NotFound as error:
        raise NotFound(no_text(digest)) from error
    check_readable(caller, found.path, no_text(digest))
    return found


def no_text(digest: str) -> str:
    return f"no playbook with the digest {digest!a:.80}"


async def registered_text(services: Services, path: str, version: int | None) -> str:
    """The text of a version, even when the path is archived. Raises NotFound."""
    for each in await services.catalog.versions(clean_text(path, "path")):
        if each.current if version is None else each.version == version:
            return (await services.catalog.get(each.digest)).text
    raise NotFound(f'"{path}" has no version {version}')


def _decode_yaml(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"the playbook is not valid UTF-8: {error.reason} at {error.start}"
        raise ApiError(400, "bad-text", detail) from error


def _decode_json(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ApiError(400, "bad-request", str(error)) from error
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, "bad-json", f"the body cannot be parsed: {reason}") from error


async def analysed(context: AppContext, text: PlaybookTextRequest, form: AnalysisForm) -> bytes:
    """The body of a response about a text. Raises PlaybookError, TooLargeToDraw, or ApiError."""
    analysis = TextAnalysis(text=text, form=form)
    if (processes := _processes(context, text)) is not None:
        async with context.cpu_pool.turn():
            return await processes.body(analysis)
    return await context.cpu_pool.run(analysis.body, context.services.kinds)


def _processes(context: AppContext, text: PlaybookTextRequest) -> AnalysisProcesses | None:
    """None: a thread analyses the text."""
    return context.settings.analyses if len(text.text) > TEXT_CHARS_HERE_MAX else None


async def check_text(context: AppContext, text: PlaybookTextRequest) -> UpgradedText:
    """Upgrade and check a text. Raises PlaybookError when it cannot be upgraded."""
    return await context.cpu_pool.run(upgrade_and_check, context.services.kinds, text)


async def valid_text(context: AppContext, text: PlaybookTextRequest, caller: Caller) -> UpgradedText:
    """The same for a text that the caller wants to register. Raises PlaybookError, ApiError, or NotFound."""
    if _processes(context, text) is not None:
        await analysed(context, text, "errors")  # only a text without errors is compiled in this process
    upgraded = await check_text(context, text)
    if upgraded.checked.errors or upgraded.checked.playbook is None:
        raise PlaybookError(upgraded.checked.problems)
    if caller.roles:
        assert upgraded.checked.program is not None, "a playbook without errors is compiled"
        await check_written(context.services, caller, upgraded.checked.program)
    return upgraded
