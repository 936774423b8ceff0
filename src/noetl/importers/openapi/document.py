"""An OpenAPI document: read within limits, with local references resolved and notes about what is left out."""

from __future__ import annotations

from typing import Final

import msgspec

from noetl.errors import NoetlError
from noetl.escape import one_line, shorten
from noetl.output import JSON
from noetl.playbook.source import parse, plain

BYTES_MAX: Final = 32 << 20
VALUES_MAX: Final = 2_000_000
REFS_MAX: Final = 32  # references that follow one another
OPERATIONS_MAX: Final = 2_000
NOTES_MAX: Final = 500
VISITS_MAX: Final = 100_000  # of parts of the document, counted as often as they are used
_NOTE_CHARS: Final = 300


class DocumentError(NoetlError):
    """The document cannot be imported; the message says why, and what to do."""


class OpenApiDocument:
    """The root of a document, and the notes about it."""

    def __init__(self, root: dict[str, JSON]) -> None:
        self.root = root
        self._notes: dict[str, None] = {}
        self._visits = 0

    @property
    def notes(self) -> tuple[str, ...]:
        found = tuple(self._notes)
        more = len(found) - NOTES_MAX
        return (*found[:NOTES_MAX], f"and {more} more notes") if more > 0 else found

    def note(self, where: str, message: str) -> None:
        """Report what the playbook does not express."""
        self._notes[shorten(one_line(f"{where}: {message}"), _NOTE_CHARS)] = None

    def mapping(self, value: JSON, where: str) -> dict[str, JSON]:
        """The mapping, or the one that it refers to; an empty one, with a note, if there is none.

        Raises DocumentError for a document that repeats its parts too often.
        """
        self._visits += 1
        if self._visits > VISITS_MAX:
            raise DocumentError(
                f"more than {VISITS_MAX:,} parts to read: its schemas are nested too widely; use --only"
            )
        for _ in range(REFS_MAX):
            if not isinstance(value, dict):
                self.note(where, "it is not a mapping, and is left out")
                return {}
            target = value.get("$ref")
            if not isinstance(target, str):
                return value
            if not target.startswith("#/"):
                self.note(where, f'the reference "{target}" leads to another document, which is not read')
                return {}
            value = self._target(target)
            if value is None:
                self.note(where, f'the reference "{target}" leads nowhere')
                return {}
        self.note(where, f"more than {REFS_MAX} references follow one another")
        return {}

    def _target(self, pointer: str) -> JSON:
        value: JSON = self.root
        for part in pointer[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and part.isdigit() and len(part) < 9 and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        return value


def read_document(data: bytes, name: str) -> OpenApiDocument:
    """Reads JSON or YAML. Raises DocumentError."""
    if len(data) > BYTES_MAX:
        raise DocumentError(f"{name}: {len(data):,} bytes; the limit is {BYTES_MAX:,}")
    root = _json(data, name) if data.lstrip()[:1] == b"{" else _yaml(data, name)
    if not isinstance(root, dict):
        raise DocumentError(f"{name}: this is not an OpenAPI document: its root is not a mapping")
    version = root.get("openapi")
    if "swagger" in root:
        raise DocumentError(f"{name}: Swagger 2.0 is not supported; convert the document to OpenAPI 3 first")
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
        raise DocumentError(f'{name}: expected "openapi: 3.0.x" or "openapi: 3.1.x" at its root')
    if not isinstance(root.get("paths"), dict) or not root["paths"]:
        raise DocumentError(f'{name}: there are no "paths", so there are no operations')
    return OpenApiDocument(root)


def _json(data: bytes, name: str) -> JSON:
    try:
        root = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DocumentError(f"{name}: this is not valid JSON: {error}") from error
    _large_numbers_to_text(root)
    return root


def _large_numbers_to_text(root: JSON) -> None:
    """As in YAML: a playbook contains no whole number beyond 64 bits. As a bound of an integer it has no effect."""
    open_parts = [root]
    while open_parts:
        part = open_parts.pop()
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in items:
            if type(value) is int and not -(2**63) <= value < 2**63:
                part[key] = str(value)
            elif isinstance(value, dict | list):
                open_parts.append(value)


def _yaml(data: bytes, name: str) -> JSON:
    parsed = parse(data, name, bytes_max=BYTES_MAX, values_max=VALUES_MAX)
    # A number that is too large stays text.
    errors = [each for each in parsed.problems if each.severity == "error" and each.code != "bad-number"]
    if errors:
        first = errors[0]
        raise DocumentError(f"{name}:{first.line}:{first.column}: {first.message}")
    return plain(parsed.document.root)


def text_of(value: JSON) -> str:
    """A text of the document on one line; empty if it is none."""
    return " ".join(one_line(value).split()) if isinstance(value, str) else ""
