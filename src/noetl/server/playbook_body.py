"""Playbooks as requests bring them: a text as YAML or in JSON, or the name of one that is registered.

They are checked on a thread, so that a large one keeps nobody else waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec
from litestar import Request
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from msgspec import Struct

from noetl.check.checker import Checked, check
from noetl.errors import NotFound, PlaybookError
from noetl.playbook.migrate import Note, migrate
from noetl.server.errors import Refused
from noetl.server.params import RequestContext, clean_text
from noetl.server.services import Services

PLAYBOOK_BODY_MAX: Final = 1 << 20
FILE: Final = "playbook"  # how problems call a text that came without a file
_JSON: Final = "application/json"


class TextGiven(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a playbook."""

    text: str
    dialect: Literal["canonical", "auto"] = "canonical"  # auto: an older dialect is upgraded first


class PlaybookMeant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text; or what is registered under a path, or known by its digest. One of the three."""

    text: str | None = None
    dialect: Literal["canonical", "auto"] = "canonical"
    path: str | None = None
    version: int | None = None  # None: the current one
    digest: str | None = None


class Upgraded(NamedTuple):
    """A text in canonical form, checked."""

    checked: Checked
    text: str
    notes: tuple[Note, ...] = ()  # what the upgrade could not keep


def _schema(named: bool) -> Schema:
    text = Schema(type=OpenAPIType.STRING, description="the playbook, in YAML")
    dialect = Schema(type=OpenAPIType.STRING, enum=["canonical", "auto"], default="canonical")
    properties: dict[str, Any] = {"text": text, "dialect": dialect}
    if named:
        properties |= {
            "path": Schema(type=OpenAPIType.STRING, description="metadata.path of one that is registered"),
            "version": Schema(type=OpenAPIType.INTEGER, minimum=1),
            "digest": Schema(type=OpenAPIType.STRING),
        }
    return Schema(
        type=OpenAPIType.OBJECT,
        properties=properties,
        required=None if named else ["text"],
        additional_properties=False,
    )


def _body(named: bool) -> RequestBody:
    yaml = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))
    content = {_JSON: OpenAPIMediaType(schema=_schema(named)), "text/yaml": yaml, "application/yaml": yaml}
    return RequestBody(content=content, required=True)


@dataclass
class TextOperation(Operation):
    """A route whose body is a playbook."""

    def __post_init__(self) -> None:
        self.request_body = _body(named=False)


@dataclass
class MeantOperation(Operation):
    """A route whose body is a playbook, or names one."""

    def __post_init__(self) -> None:
        self.request_body = _body(named=True)


async def given_text(request: Request[Any, Any, Any]) -> TextGiven:
    """Raises Refused."""
    body = await request.body()
    if request.content_type[0] != _JSON:
        return TextGiven(text=_decoded(body))
    try:
        return msgspec.json.decode(body, type=TextGiven)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from error


async def meant(request: Request[Any, Any, Any], desk: Services) -> TextGiven:
    """The text that is meant. Raises Refused, or NotFound."""
    body = await request.body()
    if request.content_type[0] != _JSON:
        return TextGiven(text=_decoded(body))
    try:
        asked = msgspec.json.decode(body, type=PlaybookMeant)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from error
    if sum(each is not None for each in (asked.text, asked.path, asked.digest)) != 1:
        raise Refused(400, "bad-request", "give exactly one of text, path and digest")
    if asked.text is not None:
        return TextGiven(text=asked.text, dialect=asked.dialect)
    if asked.digest is not None:
        return TextGiven(text=(await desk.catalog.get(clean_text(asked.digest, "digest"))).text)
    return TextGiven(text=await registered(desk, asked.path or "", asked.version))


async def registered(desk: Services, path: str, version: int | None) -> str:
    """The text of a version, also of a path that is archived. Raises NotFound."""
    for each in await desk.catalog.versions(clean_text(path, "path")):
        if each.current if version is None else each.version == version:
            return (await desk.catalog.get(each.digest)).text
    raise NotFound(f'"{path}" has no version {version}')


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            400, "bad-text", f"the playbook is no UTF-8: {error.reason} at {error.start}"
        ) from error


def _unreadable(error: Exception) -> Refused:
    if isinstance(error, msgspec.ValidationError):
        return Refused(400, "bad-request", str(error))
    words = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
    return Refused(400, "bad-json", f"the body can not be read: {words}")


async def checked_text(room: RequestContext, given: TextGiven) -> Upgraded:
    """Raises PlaybookError when it can not be upgraded."""
    return await room.thinking.do(_checked, room.desk, given)


def _checked(desk: Services, given: TextGiven) -> Upgraded:
    if given.dialect == "auto":
        try:
            made = migrate(given.text, FILE)
        except RecursionError as error:
            raise PlaybookError(check(given.text, desk.kinds, FILE).problems) from error
        if made.changed:
            return Upgraded(check(made.text, desk.kinds, FILE), made.text, made.notes)
    return Upgraded(check(given.text, desk.kinds, FILE), given.text)
