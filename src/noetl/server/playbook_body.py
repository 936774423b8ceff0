"""Playbooks in request bodies: a text as YAML or in JSON, or a reference to a registered one.

Playbooks are checked on a thread, so that a large one does not block other requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from litestar import Request
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType

from noetl.api.analysis import PlaybookReference
from noetl.api.playbooks import PlaybookTextRequest
from noetl.check.checker import Checked, check
from noetl.errors import NotFound, PlaybookError
from noetl.playbook.migrate import Note, migrate
from noetl.server.errors import ApiError
from noetl.server.params import AppContext, clean_text
from noetl.server.services import Services

T = TypeVar("T")
PLAYBOOK_BODY_MAX: Final = 1 << 20
FILE: Final = "playbook"  # the file name in the positions of problems
_JSON: Final = "application/json"


class UpgradedText(NamedTuple):
    """A text in the canonical dialect, with the result of its check."""

    checked: Checked
    text: str
    notes: tuple[Note, ...] = ()  # what the upgrade could not keep


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


async def resolve_text(request: Request[Any, Any, Any], services: Services) -> PlaybookTextRequest:
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
        digest = clean_text(reference.digest, "digest")
        return PlaybookTextRequest(text=(await services.catalog.get(digest)).text)
    return PlaybookTextRequest(text=await registered_text(services, reference.path or "", reference.version))


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
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, "bad-json", f"the body cannot be parsed: {reason}") from error


async def check_text(context: AppContext, text: PlaybookTextRequest) -> UpgradedText:
    """Upgrade and check a text. Raises PlaybookError when it cannot be upgraded."""
    return await context.cpu_pool.run(_check, context.services, text)


def _check(services: Services, request: PlaybookTextRequest) -> UpgradedText:
    if request.dialect == "auto":
        try:
            migrated = migrate(request.text, FILE)
        except RecursionError as error:
            raise PlaybookError(check(request.text, services.kinds, FILE).problems) from error
        if migrated.changed:
            return UpgradedText(check(migrated.text, services.kinds, FILE), migrated.text, migrated.notes)
    return UpgradedText(check(request.text, services.kinds, FILE), request.text)
