"""What a request asks to run: found, or registered. What can not run is refused, and on record (D65)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from noetl.control.refusals import Refusal, is_path, path_in, reason_of
from noetl.errors import NotFound, PlaybookError, Problem
from noetl.output import JSON
from noetl.playbook.source import parse
from noetl.server.auth import Caller
from noetl.server.errors import OnRecord, Refused
from noetl.server.params import VERSION_MAX, RequestContext, clean_text
from noetl.server.playbook_body import FILE, PLAYBOOK_BODY_MAX, TextGiven, checked_text
from noetl.server.services import Services


class StartAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run: the current version of a path, a version of it, a text by its digest, or a text itself."""

    path: str | None = None
    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)] | None = None
    digest: str | None = None
    text: str | None = None  # a new one is registered; that asks for the scope `write` besides `run`
    dialect: Literal["canonical", "auto"] = "canonical"  # of a text; auto: an older one is upgraded first
    workload: dict[str, JSON] = {}


class Meant(NamedTuple):
    """What is to run."""

    digest: str
    problems: tuple[Problem, ...] = ()  # of a text: warnings and advice


async def checked_asked(room: RequestContext, asked: StartAsked, caller: Caller) -> StartAsked:
    """Before anything is checked or put on record. A text that is registered is asked for by its digest
    where the caller may not register one. Raises Refused.
    """
    if sum(each is not None for each in (asked.path, asked.digest, asked.text)) != 1:
        raise Refused(400, "bad-request", "give exactly one of path, digest and text")
    if asked.text is None:
        return asked
    if len(asked.text.encode()) > PLAYBOOK_BODY_MAX:
        raise Refused(413, "body-too-large", f"a text has {PLAYBOOK_BODY_MAX:,} bytes at most")
    if caller.may("write"):
        return asked
    digest = _digest(asked.text)
    if await _may_start(room.desk, digest):
        return replace(asked, text=None, digest=digest)
    words = "which a text asks for that is new or archived: it is registered"
    raise Refused(403, "low-scope", f'the token "{caller.name}" lacks the scope "write", {words}')


async def _may_start(desk: Services, digest: str) -> bool:
    """Whether it stands in the catalog, under a path that is not archived."""
    if (path := await _path_of(desk, digest)) is None:
        return False
    return any(each.digest == digest and not each.archived for each in await desk.catalog.versions(path))


async def look_up(room: RequestContext, asked: StartAsked) -> Meant:
    """Raises NotFound, or PlaybookError."""
    desk = room.desk
    if asked.digest is not None:
        return Meant((await desk.catalog.get(clean_text(asked.digest, "digest"))).digest)
    if asked.text is None:
        return Meant((await desk.catalog.newest(clean_text(asked.path or "", "path"), asked.version)).digest)
    made = await checked_text(room, TextGiven(text=asked.text, dialect=asked.dialect))
    if made.checked.errors or made.checked.playbook is None:
        raise PlaybookError(made.checked.problems)
    return Meant(await desk.playbooks.add(made.text, None, made.checked), made.checked.problems)


async def digest_meant(room: RequestContext, asked: StartAsked) -> str:
    """The same, and nothing is registered."""
    if asked.text is None:
        return (await look_up(room, asked)).digest
    made = await checked_text(room, TextGiven(text=asked.text, dialect=asked.dialect))
    return _digest(made.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@asynccontextmanager
async def refused_on_record(room: RequestContext, asked: StartAsked, caller: Caller) -> AsyncIterator[None]:
    """Raises OnRecord for what can not run, unless nobody can say under which path it would stand."""
    try:
        yield
    except (NotFound, PlaybookError) as error:
        path, digest = await _named(room, asked)
        if path is None:
            raise
        refusal = Refusal(path, asked.workload, reason_of(error), digest, caller.name)
        raise OnRecord(error, await room.desk.refuse(refusal)) from error


async def _named(room: RequestContext, asked: StartAsked) -> tuple[str | None, str]:
    """Path and digest of what was asked for, as far as they are known."""
    if asked.text is not None:
        document = (await room.thinking.do(parse, asked.text, FILE)).document
        return path_in(document), _digest(asked.text)
    if asked.digest is not None:
        return await _path_of(room.desk, asked.digest), asked.digest
    return (asked.path if asked.path and is_path(asked.path) else None), ""


async def _path_of(desk: Services, digest: str) -> str | None:
    try:
        return (await desk.catalog.get(digest)).path
    except NotFound:
        return None
