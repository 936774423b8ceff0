"""Recognises how an operation returns its items in pages: by number, offset, cursor or link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.importers.openapi.document import OpenApiDocument
from noetl.importers.openapi.operations import ApiParameter, Operation, snake
from noetl.importers.openapi.schemas import type_names
from noetl.output import JSON

PagingKind: TypeAlias = Literal["page", "offset", "cursor", "link"]
Keys: TypeAlias = tuple[str, ...]  # a path in the response

_PAGES: Final = ("page", "page_number", "page_no", "page_index", "p")
_OFFSETS: Final = ("offset", "skip", "start_index")
_CURSORS: Final = (
    "cursor", "page_token", "next_token", "pagination_token", "continuation_token", "next_cursor", "starting_after",
    "page_cursor", "after", "continuation", "marker", "next",
)  # fmt: skip
_NEXT_CURSORS: Final = (
    "next_cursor", "next_page_token", "next_token", "pagination_token", "continuation_token", "cursor", "end_cursor",
    "next_marker", "continuation", "after", "next",
)  # fmt: skip
_MORE: Final = ("has_more", "has_next", "has_next_page", "more")
_LAST_PAGES: Final = ("total_pages", "page_count", "last_page")
_LINKS: Final = ("next", "next_page", "next_url", "next_link", "next_page_url", "odata_next_link")
_ITEMS: Final = ("items", "data", "results", "records", "values", "entries", "content", "value", "list", "rows")
_AROUND: Final = (
    "meta",
    "paging",
    "pagination",
    "page_info",
    "links",
    "response_metadata",
    "_links",
    "page",
    "cursors",
)


class Pagination(NamedTuple):
    kind: PagingKind
    parameter: ApiParameter | None  # that selects the page
    items: Keys  # of the list in the response
    next: Keys = ()  # of the cursor or the link; empty with `link`: the header Link
    more: Keys = ()  # of the boolean that says whether more pages follow
    last: Keys = ()  # of the number of the last page
    first: int = 1


def pagination_of(document: OpenApiDocument, operation: Operation) -> Pagination | None:
    """None if the operation is not recognised as one that returns pages."""
    response = operation.response
    if operation.method != "get" or response is None or not isinstance(response.source, dict):
        return None
    fields = dict(_fields(document, response.source, operation.where))
    items = _items(document, response.source, fields, operation)
    if items is None:
        return None
    query = {snake(each.name, "p"): each for each in operation.parameters if each.place == "query"}
    cursor = next((query[name] for name in _CURSORS if name in query), None)
    after = _found(fields, _NEXT_CURSORS, "string")
    if cursor is not None and after is not None:
        return Pagination("cursor", cursor, items, after, _found(fields, _MORE, "boolean") or ())
    for kind, names in (("page", _PAGES), ("offset", _OFFSETS)):
        parameter = next((query[name] for name in names if name in query and _is_whole(document, query[name])), None)
        if parameter is not None:
            more = _found(fields, _MORE, "boolean") or ()
            last = _found(fields, _LAST_PAGES, "integer") if kind == "page" else None
            paging: PagingKind = "page" if kind == "page" else "offset"
            return Pagination(paging, parameter, items, (), more, last or (), _first(document, parameter, kind))
    link = _found(fields, _LINKS, "string")
    if link is not None:
        return Pagination("link", None, items, link)
    return Pagination("link", None, items) if "link" in response.headers else None


def _is_whole(document: OpenApiDocument, parameter: ApiParameter) -> bool:
    return "integer" in type_names(document.mapping(parameter.source or {}, parameter.name))


def _first(document: OpenApiDocument, parameter: ApiParameter, kind: str) -> int:
    schema = document.mapping(parameter.source or {}, parameter.name)
    for key in ("default", "minimum"):
        if type(schema.get(key)) is int and 0 <= schema[key] <= 1:
            return int(schema[key])
    return 1 if kind == "page" else 0


def _fields(
    document: OpenApiDocument, source: JSON, where: str, levels: int = 2
) -> Iterator[tuple[Keys, dict[str, JSON]]]:
    """The properties of a response, and those of the mappings that usually describe the paging."""
    schema = document.mapping(source, where)
    for part in (schema, *(each for each in schema.get("allOf") or () if isinstance(each, dict))):
        resolved = document.mapping(part, where)
        properties = resolved.get("properties")
        for name, value in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(value, dict):
                continue
            yield (name,), document.mapping(value, where)
            if levels > 1 and (name in _AROUND or snake(name, "p") in _AROUND):
                yield from (((name, *keys), each) for keys, each in _fields(document, value, where, levels - 1))


def _found(fields: dict[Keys, dict[str, JSON]], names: tuple[str, ...], kind: str) -> Keys | None:
    for name in names:
        for keys, schema in fields.items():
            types = type_names(schema)
            if snake(keys[-1], "p") == name and all(map(_is_plain, keys)) and (kind in types or _is_open(schema)):
                return keys
    return None


def _is_open(schema: dict[str, JSON]) -> bool:
    """No type, but a choice of types, as null and a text."""
    return not type_names(schema) and ("anyOf" in schema or "oneOf" in schema)


def _is_plain(key: str) -> bool:
    return key.isascii() and all(char.isalnum() or char in "_-.@$" for char in key)


def _items(
    document: OpenApiDocument, source: JSON, fields: dict[Keys, dict[str, JSON]], operation: Operation
) -> Keys | None:
    if "array" in type_names(document.mapping(source, operation.where)):
        return ()
    lists = [keys for keys, schema in fields.items() if len(keys) == 1 and "array" in type_names(schema)]
    lists = [keys for keys in lists if _is_plain(keys[0])]
    known = [(name,) for name in _ITEMS if (name,) in lists]
    segments = [part for part in operation.path.split("/") if part and "{" not in part]
    own = [keys for keys in lists if segments and snake(keys[0], "p") == snake(segments[-1], "p")]
    return next(iter([*own, *known, *(lists if len(lists) == 1 else ())]), None)
