"""Limits and errors that the adapters for SQLite and PostgreSQL share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from noetl.errors import Damaged, NotFound, Rejected
from noetl.ports import PersonWait, PrintedLine, RoleGrant

LISTED_MAX: Final = 1_000
WAITS_LISTED_MAX: Final = 20  # of one execution, in its head; the log has all of them
FOUND_MAX: Final = 20  # ids with the same prefix: enough to show that the prefix is too short


def page_size(limit: int) -> int:
    return max(0, min(limit, LISTED_MAX))


def matches(prefix: str, found: list[str]) -> list[str]:
    """The ids with a prefix. A full id, which is sorted first, matches alone."""
    return found[:1] if found[:1] == [prefix] else found


def no_execution(execution_id: str) -> NotFound:
    return NotFound(f"no execution {execution_id}")


def no_executions() -> NotFound:
    return NotFound("no execution has been started yet")


def no_playbook(path: str) -> NotFound:
    printable = path.encode(errors="backslashreplace").decode()
    return NotFound(f'no playbook is registered under "{printable}"')


def no_version(path: str, version: int | None) -> NotFound:
    return NotFound(f'"{path}" has no version {version}: see noetl playbooks versions {path}')


def archived(path: str) -> NotFound:
    return NotFound(f'"{path}" is archived: register it again to run it')


def no_trigger(path: str, name: str) -> NotFound:
    return NotFound(f"no trigger {path}:{name}: see noetl triggers list")


def hook_taken(hook: str, other: str) -> Rejected:
    method, _, path = hook.partition(" ")
    return Rejected("hook-taken", f"{method} /hooks/{path} belongs to a trigger of {other}: choose another path")


def no_token(id: str) -> NotFound:
    return NotFound(f"no token {id!a}: see noetl token list")


def no_session(id: str) -> NotFound:
    return NotFound(f"no session {id!a}: it may have ended")


def known_token(id: str) -> Rejected:
    return Rejected("known-token", f"a token {id} already exists")


def not_text(name: str) -> Rejected:
    return Rejected("not-text", f"{name!a} is not valid Unicode text")


def encode_roles(roles: Sequence[RoleGrant]) -> str:
    return msgspec.json.encode(roles).decode()


def decode_roles(text: str) -> tuple[RoleGrant, ...]:
    """Raises Damaged: a token without its limits would permit more."""
    try:
        return msgspec.json.decode(text, type=tuple[RoleGrant, ...])
    except msgspec.DecodeError as error:
        raise Damaged(f"the roles of a token cannot be read: {error}") from error


def encode_labels(labels: Mapping[str, str]) -> str | None:
    """None: there are none, as in most heads."""
    return msgspec.json.encode(labels).decode() if labels else None


def decode_labels(text: str | None) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def decode_change(text: str) -> dict[str, str | None]:
    return msgspec.json.decode(text, type=dict[str, str | None])


def encode_waits(waits: Sequence[PersonWait]) -> str | None:
    """None: nothing has to be decided."""
    return msgspec.json.encode(waits[:WAITS_LISTED_MAX]).decode() if waits else None


def decode_waits(text: str | None) -> tuple[PersonWait, ...]:
    return msgspec.json.decode(text, type=tuple[PersonWait, ...]) if text else ()


class SearchPatterns(NamedTuple):
    """The patterns of LIKE for a search, with a backslash as the escape character."""

    part: str  # of a path, an error or a label
    id_start: str
    id_end: str


def search_patterns(text: str) -> SearchPatterns:
    escaped = re.sub(r"([\\%_])", r"\\\1", text)
    return SearchPatterns(f"%{escaped}%", f"{escaped}%", f"%{escaped}")


SAVED_HISTORY_MAX: Final = 100  # entries of each saved value; older ones are deleted


def path_ranges(within: Sequence[str]) -> list[tuple[str, str]]:
    """The first and the last path of each pattern, for comparisons by code point."""
    return [(each[:-1], each[:-1] + "\U0010ffff") if each.endswith("*") else (each, each) for each in within]


PAGE_BYTES: Final = 1 << 20  # of the lines in one answer


def encode_lines(lines: Sequence[PrintedLine]) -> bytes:
    return msgspec.json.encode(lines)


def decode_lines(body: bytes) -> tuple[PrintedLine, ...]:
    """Raises Damaged."""
    try:
        return msgspec.json.decode(body, type=tuple[PrintedLine, ...])
    except msgspec.DecodeError as error:
        raise Damaged(f"printed lines cannot be read: {error}") from error


def limit_note(line: PrintedLine, limit: int) -> bytes:
    """The note in place of the first line that an execution may not store."""
    text = f"the rest is left out: an execution keeps {limit:,} bytes of what its tasks print"
    return encode_lines([msgspec.structs.replace(line, stream="note", text=text)])


def storable(texts: Sequence[str]) -> list[str]:
    """Texts of a request, without the characters that a store refuses: no entry of the audit trail is lost for them."""
    return [text.replace("\0", "\ufffd").encode(errors="replace").decode() for text in texts]
