"""An OpenAPI document → a playbook and a README."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple
from urllib.parse import urljoin

from noetl.checks.checker import Checked, check
from noetl.editor.formatting import format_checked
from noetl.importers.openapi.blocks import block_text, desc_of, pages_text
from noetl.importers.openapi.document import DocumentError, OpenApiDocument, read_document, text_of
from noetl.importers.openapi.operations import ApiParameter, Operation, operations_of, server_url, snake, unique
from noetl.importers.openapi.pagination import Pagination, pagination_of
from noetl.importers.openapi.readme import ReadmeParts, readme_text
from noetl.importers.openapi.schemas import type_names
from noetl.importers.openapi.security import Security
from noetl.importers.readable import readable
from noetl.net.output_schema import FORMATS
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.source import TEXT_BYTES_MAX
from noetl.template.values import contains_template

_MARK: Final = re.compile(r"^(?:# |<!-- )noetl import: sha256 ([0-9a-f]{64})(?: -->)?\n", re.MULTILINE)
_TYPES: Final = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "array": "list"}
_FORMATS: Final = frozenset({"email", "ipv4", "time", "uri", "uuid"})


class ImportOptions(NamedTuple):
    name: str | None = None  # of the playbook; by default from the title
    path: str | None = None  # in the catalog; by default the name
    start: str | None = None  # the block that the step `start` calls
    only: tuple[str, ...] = ()  # operation ids, tags or beginnings of paths
    address: str | None = None  # where the document comes from, if that is a URL


class ImportedPlaybook(NamedTuple):
    name: str
    playbook: str
    readme: str
    blocks: int
    operations: int
    notes: tuple[str, ...]
    checked: Checked


def import_openapi(data: bytes, source: str, kinds: Kinds, options: ImportOptions) -> ImportedPlaybook:
    """Raises DocumentError."""
    document = read_document(data, source)
    info = document.mapping(document.root.get("info") or {}, "info")
    title = text_of(info.get("title")) or "API"
    name = options.name or snake(title, "api")
    operations = operations_of(document, options.only)
    security = Security(document, operations, name)
    pages = {each.name: paging for each in operations if (paging := pagination_of(document, each)) is not None}
    start = _start(operations, pages, options.start)
    taken = {each.name for each in operations}
    blocks: list[str] = []
    all_names: dict[str, str] = {}
    for each in operations:
        blocks.append(block_text(document, each, security.of(each)))
        if each.name in pages:
            all_names[each.name] = unique(f"{each.name}_all", taken)
            taken.add(all_names[each.name])
            blocks.append(pages_text(document, each, security.of(each), pages[each.name], all_names[each.name]))
    metadata: dict[str, JSON] = {"name": name, "path": options.path or name, "description": f"Calls of {title}"}
    if contains_template(metadata):
        metadata["description"] = "Calls of an API"
    head: dict[str, JSON] = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": metadata,
        **({"keychain": [each.entry for each in security.used]} if security.used else {}),
        "input": {"base_url": _base_url(document, options.address), **_inputs(start)},
        "workflow": [_first_step(start)],
    }
    text = f"{readable(head)}workbook:\n{''.join(blocks)}"
    text, checked = _checked(text, kinds, source)
    parts = ReadmeParts(document, source, title, name, operations, start, security, pages, all_names)
    readme = readme_text(parts)
    return ImportedPlaybook(
        name, f"{_comments(source)}{text}", readme, len(blocks), len(operations), document.notes, checked
    )


def _checked(text: str, kinds: Kinds, source: str) -> tuple[str, Checked]:
    size = len(text.encode())
    if size > TEXT_BYTES_MAX:
        raise DocumentError(
            f"{source}: the playbook would have {size:,} bytes, and a playbook has at most {TEXT_BYTES_MAX:,};"
            " choose operations with --only"
        )
    text = format_checked(text, check(text, kinds)).text
    return text, check(text, kinds)


def _comments(source: str) -> str:
    shown = text_of(source.rpartition("/")[2])
    return f"# Written by `noetl import openapi` from {shown}. README.md describes the blocks and what was left out.\n"


def _base_url(document: OpenApiDocument, address: str | None) -> dict[str, JSON]:
    made: dict[str, JSON] = {"type": "string", "desc": "address of the API"}
    url = server_url(document, document.root.get("servers"), "servers") or ("/" if address else None)
    if url is not None and not url.startswith(("http://", "https://")):
        url = urljoin(address, url).rstrip("/") if address else None
    if url is None:
        document.note("servers", "the document names no complete address: give `base_url` when you run the playbook")
    return made if url is None else {**made, "default": url}


def _start(operations: list[Operation], pages: dict[str, Pagination], wanted: str | None) -> Operation:
    if wanted is not None:
        for each in operations:
            if wanted == each.name or wanted == each.where:
                return each
        raise DocumentError(f'there is no operation "{wanted}" for --start; the README of an import lists the names')
    return min(operations, key=lambda each: (each.method != "get", _needed(each), each.name not in pages))


def _needed(operation: Operation) -> int:
    body = operation.body is not None and operation.body.required
    return sum(each.required for each in operation.parameters) + body


def _first_step(start: Operation) -> JSON:
    names = list(_inputs(start))
    call: dict[str, JSON] = {"kind": "workbook", "block": start.name}
    if names:
        call["input"] = {name: "{{ workload." + name + " }}" for name in names}
    return {"step": "start", "desc": f"Shows one call: {desc_of(start)}"[:200], "tool": call}


def _inputs(operation: Operation) -> dict[str, JSON]:
    """The inputs of an operation as inputs of the playbook; the block checks them again, more strictly."""
    made: dict[str, JSON] = {each.key: _declared(each.schema, each.required, each) for each in operation.parameters}
    body = operation.body
    if body is not None:
        key = "parts" if body.kind == "multipart" else "body"
        made[key] = _declared(body.schema, body.required, None)
    return made


def _declared(schema: dict[str, JSON], required: bool, parameter: ApiParameter | None) -> dict[str, JSON]:
    types = [each for each in type_names(schema) if each != "null"]
    kind = _TYPES.get(types[0], "map") if types else "string" if parameter is not None else "map"
    made: dict[str, JSON] = {"type": kind}
    if kind == "string" and schema.get("format") in FORMATS:
        format = str(schema["format"])
        made = {"type": "datetime" if format == "date-time" else format} if format.startswith("date") else made
        made |= {"format": format} if format in _FORMATS else {}
    if parameter is not None and parameter.desc and not contains_template(parameter.desc):
        made["desc"] = parameter.desc[:200]
    choices = [each for each in schema.get("enum") or () if each is not None]
    if choices and kind in ("string", "integer") and all(type(each) is _PYTHON[kind] for each in choices):
        made["enum"] = choices
    if not required:
        made["required"] = False
    elif parameter is not None and "enum" not in made and made["type"] == kind in _PYTHON and "format" not in made:
        sample = parameter.example
        if type(sample) is _PYTHON[kind] and not contains_template(sample) and sample != "":
            made["default"] = sample
    return made


_PYTHON: Final[dict[str, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}


def marked(text: str, comment: str) -> str:
    """The text with a line that has its digest, so that a later import sees whether somebody has edited it."""
    return f"{comment.format(f'noetl import: sha256 {hashlib.sha256(text.encode()).hexdigest()}')}\n{text}"


def is_untouched(text: str) -> bool:
    """Is this a text from `marked` without a change since?"""
    found = _MARK.match(text)
    return found is not None and hashlib.sha256(text[found.end() :].encode()).hexdigest() == found[1]
