"""The README of an imported playbook: how to call each block, and what was left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from noetl.escape import shorten
from noetl.importers.openapi.blocks import MAX_PAGES
from noetl.importers.openapi.document import OpenApiDocument, text_of
from noetl.importers.openapi.operations import Operation
from noetl.importers.openapi.pagination import Pagination
from noetl.importers.openapi.schemas import example, words
from noetl.importers.openapi.security import Security

_MARKUP = re.compile(r"([\\*\[\]<>|])")
_EXAMPLE_CHARS = 2_000
_PAGING = {"page": "page number", "offset": "offset", "cursor": "cursor", "link": "link to the next page"}


class ReadmeParts(NamedTuple):
    document: OpenApiDocument
    source: str
    title: str
    name: str
    operations: list[Operation]
    start: Operation
    security: Security
    pages: dict[str, Pagination]
    all_names: dict[str, str]  # operation → the block that reads all its pages


def plain_text(text: str) -> str:
    """Text of the document, without a meaning in Markdown."""
    return _MARKUP.sub(r"\\\1", text)


def readme_text(parts: ReadmeParts) -> str:
    return "\n".join([*_head(parts), *_credentials(parts), *_operations(parts), *_notes(parts)]) + "\n"


def _head(parts: ReadmeParts) -> Iterator[str]:
    yield f"# {plain_text(parts.title)}\n"
    source = plain_text(text_of(parts.source.rpartition("/")[2]))
    yield f"`{parts.name}.yaml` has a block for each operation of {source}. Its step `start` shows one call,"
    yield f"`{parts.start.name}`; change it, or call the blocks from steps of your own:\n"
    yield f"```yaml\ntool:\n  kind: workbook\n  block: {parts.start.name}\n  input: {{}} # see below\n```\n"
    needed = " ".join(f"--set {each.key}=…" for each in parts.start.parameters if each.required)
    yield f"```sh\nnoetl check {parts.name}.yaml\nnoetl run {parts.name}.yaml {needed}".rstrip() + "\n```\n"
    yield "Each block checks its inputs before it sends the request: `check_input` fails with kind `validation`. The"
    yield "output of a block is that of its request: `output.data` is the body of the response. Inputs that are null"
    yield "are not sent.\n"


def _credentials(parts: ReadmeParts) -> Iterator[str]:
    used = parts.security.used
    if used:
        yield "## Credentials\n"
        yield "All entries of the keychain need a value when the playbook starts. Remove those that you do not use.\n"
        yield "| entry | environment | sent as |\n|---|---|---|"
        for each in used:
            how = "`Authorization`" if each.use == "auth" else f"{each.use} {plain_text(each.name)}"
            yield f"| `{each.entry['name']}` | {', '.join(f'`{name}`' for name in each.variables)} | {how} |"
        yield ""


def _operations(parts: ReadmeParts) -> Iterator[str]:
    yield "## Blocks\n"
    for each in parts.operations:
        yield f"### {each.name}\n"
        words_of = f": {plain_text(each.summary)}" if each.summary else ""
        yield f"`{each.where.replace('`', '')}`{words_of}{' (deprecated)' if each.deprecated else ''}\n"
        yield from _inputs(parts, each)
        yield from _output(parts, each)


def _inputs(parts: ReadmeParts, operation: Operation) -> Iterator[str]:
    rows: list[tuple[str, str, str, bool, str]] = [
        (each.key, words(parts.document, each.source, operation.where), each.place, each.required, each.desc)
        for each in operation.parameters
    ]
    body = operation.body
    if body is not None:
        key = "parts" if body.kind == "multipart" else "body"
        rows.append((key, words(parts.document, body.source, operation.where), body.media, body.required, body.desc))
    if rows:
        yield "| input | type | sent in | required | meaning |\n|---|---|---|---|---|"
        for key, kind, place, required, desc in rows:
            cells = (f"`{key}`", plain_text(kind), plain_text(place), "yes" if required else "", plain_text(desc))
            yield f"| {' | '.join(cells)} |"
        yield ""
    if body is not None and body.kind in ("json", "form") and isinstance(body.source, dict):
        sample = json.dumps(example(parts.document, body.source, operation.where), ensure_ascii=False, indent=2)
        if len(sample) <= _EXAMPLE_CHARS and "`" not in sample:
            yield f"A body:\n\n```json\n{sample}\n```\n"


def _output(parts: ReadmeParts, operation: Operation) -> Iterator[str]:
    response = operation.response
    if response is not None:
        kind = words(parts.document, response.source, operation.where) if response.source is not None else "no data"
        desc = f": {plain_text(shorten(response.desc, 200))}" if response.desc else ""
        yield f"Output ({response.status}): {plain_text(kind)}{desc}\n"
    if operation.name in parts.pages:
        paging = parts.pages[operation.name]
        name = parts.all_names[operation.name]
        yield f"`{name}` reads all pages ({_PAGING[paging.kind]}) and returns `{{items, pages}}`. It fails if there are"
        yield f"more than `max_pages`, {MAX_PAGES} by default: for more data, store each page, as in the tutorial.\n"


def _notes(parts: ReadmeParts) -> Iterator[str]:
    yield "## Notes\n"
    if not parts.document.notes:
        yield "Everything in the document is expressed."
    for note in parts.document.notes:
        yield f"- {plain_text(note)}"
