"""Resolves a start request to a digest. The log records a request that cannot run (D65)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from msgspec.structs import replace

from noetl.api.executions import StartRequest
from noetl.api.playbooks import PlaybookTextRequest
from noetl.control.refusals import Refusal, is_path, path_in, reason_of
from noetl.errors import NotFound, PlaybookError, Problem
from noetl.playbook.source import parse
from noetl.server.auth import Caller
from noetl.server.errors import ApiError, RecordedRefusal
from noetl.server.params import AppContext, clean_text
from noetl.server.playbook_body import FILE, PLAYBOOK_BODY_MAX, check_text
from noetl.server.services import Services


class ResolvedStart(NamedTuple):
    """The playbook of a start request."""

    digest: str
    problems: tuple[Problem, ...] = ()  # of a text: warnings and advice


async def authorize(context: AppContext, request: StartRequest, caller: Caller) -> StartRequest:
    """Check the form of a request and the scopes of its caller, before anything is looked up or recorded.

    A caller who may not register playbooks may send a registered text: the request returned then has the
    digest instead of the text. Raises ApiError.
    """
    if sum(each is not None for each in (request.path, request.digest, request.text)) != 1:
        raise ApiError(400, "bad-request", "give exactly one of path, digest and text")
    if request.text is None:
        return request
    if len(request.text.encode()) > PLAYBOOK_BODY_MAX:
        raise ApiError(413, "body-too-large", f"a text has at most {PLAYBOOK_BODY_MAX:,} bytes")
    if caller.may("write"):
        return request
    digest = _digest(request.text)
    if await _is_startable(context.services, digest):
        return replace(request, text=None, digest=digest)
    reason = "which is needed to start a text that is not registered, or is archived"
    raise ApiError(403, "low-scope", f'the token "{caller.name}" lacks the scope "write", {reason}')


async def _is_startable(services: Services, digest: str) -> bool:
    """Whether the catalog contains the text under a path that is not archived."""
    if (path := await _path_of(services, digest)) is None:
        return False
    return any(each.digest == digest and not each.archived for each in await services.catalog.versions(path))


async def resolve(context: AppContext, request: StartRequest) -> ResolvedStart:
    """Look the playbook up; a text is registered. Raises NotFound, or PlaybookError."""
    services = context.services
    if request.digest is not None:
        return ResolvedStart((await services.catalog.get(clean_text(request.digest, "digest"))).digest)
    if request.text is None:
        path = clean_text(request.path or "", "path")
        return ResolvedStart((await services.catalog.newest(path, request.version)).digest)
    upgraded = await check_text(context, PlaybookTextRequest(text=request.text, dialect=request.dialect))
    if upgraded.checked.errors or upgraded.checked.playbook is None:
        raise PlaybookError(upgraded.checked.problems)
    digest = await services.playbooks.add(upgraded.text, None, upgraded.checked)
    return ResolvedStart(digest, upgraded.checked.problems)


async def resolve_digest(context: AppContext, request: StartRequest) -> str:
    """The digest alone; nothing is registered."""
    if request.text is None:
        return (await resolve(context, request)).digest
    upgraded = await check_text(context, PlaybookTextRequest(text=request.text, dialect=request.dialect))
    return _digest(upgraded.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@asynccontextmanager
async def refusals_recorded(
    context: AppContext, request: StartRequest, caller: Caller
) -> AsyncIterator[None]:
    """Record a request that cannot run, unless its path is unknown. Raises RecordedRefusal."""
    try:
        yield
    except (NotFound, PlaybookError) as error:
        path, digest = await _path_and_digest(context, request)
        if path is None:
            raise
        refusal = Refusal(path, request.workload, reason_of(error), digest, caller.name)
        raise RecordedRefusal(error, await context.services.record_refusal(refusal)) from error


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
