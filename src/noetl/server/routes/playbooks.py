"""The catalog: playbooks are registered, listed, read, compared, and archived when nothing should start."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Final

from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter
from msgspec import UNSET, Struct, UnsetType

from noetl.errors import NotFound, PlaybookError
from noetl.ports import PlaybookVersion
from noetl.server.errors import Refused
from noetl.server.params import (
    PAGE,
    READ,
    TEXT_CHARS_MAX,
    VERSION_MAX,
    WRITE,
    DeskGiven,
    Limit,
    PlaybookPath,
    RoomGiven,
    VersionAsked,
    clean_text,
    refusals,
)
from noetl.server.playbook_body import PLAYBOOK_BODY_MAX, TextOperation, checked_text, given_text, registered
from noetl.views.documents import ProblemDocument, problem_document
from noetl.views.log import instant

DIFF_LINES_MAX: Final = 20_000  # of each of the two
TAGS: Final = ["playbooks"]


class NoteShown(Struct, frozen=True, kw_only=True):
    """What the upgrade of an older dialect could not keep."""

    code: str
    message: str
    line: int
    column: int


class Registered(Struct, frozen=True, kw_only=True):
    path: str
    version: int
    digest: str
    created: bool  # False: it was known
    problems: tuple[ProblemDocument, ...]  # warnings and advice
    notes: tuple[NoteShown, ...] | UnsetType = UNSET  # of an upgrade


class VersionShown(Struct, frozen=True, kw_only=True):
    """One text of a path."""

    path: str
    version: int
    digest: str
    at: str
    current: bool
    archived: bool


class VersionsPage(Struct, frozen=True, kw_only=True):
    items: tuple[VersionShown, ...]
    next: str | None = None  # `after` of the next page; None: there is none


class PlaybookShown(Struct, frozen=True, kw_only=True):
    """A version with its text."""

    path: str
    version: int
    digest: str
    at: str
    current: bool
    archived: bool
    text: str


class Difference(Struct, frozen=True, kw_only=True):
    diff: str  # unified


class TextShown(Struct, frozen=True, kw_only=True):
    digest: str
    path: str
    text: str


def _shown(version: PlaybookVersion) -> VersionShown:
    return VersionShown(
        path=version.path,
        version=version.version,
        digest=version.digest,
        at=instant(version.at),
        current=version.current,
        archived=version.archived,
    )


@post(
    "/playbooks",
    opt=WRITE,
    tags=TAGS,
    summary="Register a playbook",
    operation_class=TextOperation,
    request_max_body_size=PLAYBOOK_BODY_MAX,
    responses={
        200: ResponseSpec(Registered, generate_examples=False, description="It was known"),
        201: ResponseSpec(Registered, generate_examples=False, description="It is a new version"),
        **refusals(422),
    },
)
async def register(request: Request[Any, Any, Any], room: RoomGiven) -> Response[Registered]:
    """The same text is the same version. What has errors is refused, with all of its problems."""
    desk = room.desk
    made = await checked_text(room, await given_text(request))
    playbook = made.checked.playbook
    if made.checked.errors or playbook is None:
        raise PlaybookError(made.checked.problems)
    known = {each.digest for each in await _versions(desk, playbook.path)}
    digest = await desk.playbooks.add(made.text, None, made.checked)
    version = next(each for each in await desk.catalog.versions(playbook.path) if each.digest == digest)
    notes = tuple(
        NoteShown(code=note.code, message=note.message, line=note.at.line, column=note.at.column)
        for note in made.notes
    )
    told = Registered(
        path=version.path,
        version=version.version,
        digest=digest,
        created=digest not in known,
        problems=tuple(map(problem_document, made.checked.problems)),
        notes=notes or UNSET,
    )
    return Response(told, status_code=201 if told.created else 200)


async def _versions(desk: DeskGiven, path: str) -> list[PlaybookVersion]:
    try:
        return await desk.catalog.versions(path)
    except NotFound:
        return []


@get("/playbooks", opt=READ, tags=TAGS, summary="List playbooks, by path", responses=refusals())
async def playbooks(
    desk: DeskGiven,
    after: Annotated[str, QueryParameter(description="behind this path", max_length=TEXT_CHARS_MAX)] = "",
    limit: Limit = PAGE,
    archived: Annotated[bool, QueryParameter(description="those too that are archived")] = False,
) -> VersionsPage:
    found = await desk.catalog.list(after=clean_text(after, "after"), limit=limit, archived=archived)
    more = found[-1].path if len(found) == limit else None
    return VersionsPage(items=tuple(map(_shown, found)), next=more)


@get("/playbooks/one", opt=READ, tags=TAGS, summary="One version with its text", responses=refusals(404))
async def playbook(desk: DeskGiven, path: PlaybookPath, version: VersionAsked = None) -> PlaybookShown:
    for each in await desk.catalog.versions(clean_text(path, "path")):
        if each.current if version is None else each.version == version:
            text = (await desk.catalog.get(each.digest)).text
            return PlaybookShown(
                path=each.path,
                version=each.version,
                digest=each.digest,
                at=instant(each.at),
                current=each.current,
                archived=each.archived,
                text=text,
            )
    raise NotFound(f'"{path}" has no version {version}')


@get(
    "/playbooks/versions", opt=READ, tags=TAGS, summary="All versions, newest first", responses=refusals(404)
)
async def versions(desk: DeskGiven, path: PlaybookPath) -> VersionsPage:
    return VersionsPage(items=tuple(map(_shown, await desk.catalog.versions(clean_text(path, "path")))))


@get("/playbooks/diff", opt=READ, tags=TAGS, summary="What changed between two", responses=refusals(404, 422))
async def diff(
    room: RoomGiven,
    path: PlaybookPath,
    first: Annotated[int, QueryParameter(name="from", ge=1, le=VERSION_MAX)],
    second: Annotated[int, QueryParameter(name="to", ge=1, le=VERSION_MAX)],
) -> Difference:
    before, after = await registered(room.desk, path, first), await registered(room.desk, path, second)
    one, other = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if max(len(one), len(other)) > DIFF_LINES_MAX:
        raise Refused(422, "too-large", f"more than {DIFF_LINES_MAX:,} lines are not compared")
    names = f"{path}@{first}", f"{path}@{second}"
    return Difference(diff=await room.thinking.do(_compared, one, other, *names))


def _compared(one: list[str], other: list[str], name: str, name_of_other: str) -> str:
    lines = difflib.unified_diff(one, other, name, name_of_other)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ no line break at the end\n" for line in lines
    )


@post(
    "/playbooks/archive",
    opt=WRITE,
    tags=TAGS,
    summary="Let nothing new start from a path",
    status_code=204,
    responses=refusals(404),
)
async def archive(desk: DeskGiven, path: PlaybookPath) -> None:
    """What runs goes on; to register a text opens the path again."""
    await desk.catalog.archive(clean_text(path, "path"))


@get("/texts/{digest:str}", opt=READ, tags=TAGS, summary="A text by its digest", responses=refusals(404))
async def text(
    desk: DeskGiven, digest: Annotated[str, PathParameter(description="sha256 of the text, in hex")]
) -> TextShown:
    found = await desk.catalog.get(clean_text(digest, "digest"))
    return TextShown(digest=found.digest, path=found.path, text=found.text)


ROUTES = [register, playbooks, playbook, versions, diff, archive, text]
