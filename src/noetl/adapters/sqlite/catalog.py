"""Playbook texts in the SQLite file, so that it contains every playbook that its executions use."""

from __future__ import annotations

from typing import Any, Final

import apsw

from noetl.adapters.sql import archived as archived_error
from noetl.adapters.sql import no_playbook, no_version, not_text, page_size
from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.errors import NotFound
from noetl.ports import PlaybookText, PlaybookVersion

# A known text keeps its version and its time; only its place is the newest again.
_PUT: Final = """
INSERT INTO playbooks (digest, path, text, origin, at, place, version)
VALUES (?1, ?2, ?3, ?4, ?5, (SELECT coalesce(max(place), 0) + 1 FROM playbooks),
        (SELECT coalesce(max(version), 0) + 1 FROM playbooks WHERE path = ?2))
ON CONFLICT (digest) DO UPDATE SET origin = coalesce(excluded.origin, origin), place = excluded.place
"""
_TEXT: Final = "SELECT digest, path, text, origin FROM playbooks"
_NEWEST: Final = f"{_TEXT} WHERE path = ? ORDER BY place DESC LIMIT 1"
_NUMBERED: Final = f"{_TEXT} WHERE path = ? AND version = ?"
_GET: Final = f"{_TEXT} WHERE digest = ?1 UNION ALL SELECT digest, path, text, origin FROM documents WHERE digest = ?1"
_KEEP: Final = "INSERT INTO documents (digest, path, text, origin, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_OPEN: Final = "DELETE FROM archived WHERE path = ?"
_ARCHIVED: Final = "SELECT 1 FROM archived WHERE path = ?"
_IS_ARCHIVED: Final = "EXISTS (SELECT 1 FROM archived WHERE archived.path = each.path)"
_VERSIONS: Final = f"""
SELECT path, version, digest, at, place = (SELECT max(place) FROM playbooks WHERE path = ?1), {_IS_ARCHIVED}
FROM playbooks AS each WHERE path = ?1 ORDER BY version DESC
"""
# The index finds each next path, so that a page costs the same for any number of versions.
_LIST: Final = f"""
WITH RECURSIVE paths (path) AS (
    SELECT min(path) FROM playbooks WHERE path > ?1
    UNION ALL
    SELECT (SELECT min(path) FROM playbooks WHERE playbooks.path > paths.path) FROM paths
    WHERE path IS NOT NULL
), wanted (path) AS (
    SELECT path FROM paths AS each WHERE path IS NOT NULL AND (?3 OR NOT {_IS_ARCHIVED}) LIMIT ?2
)
SELECT path, version, digest, at, TRUE, {_IS_ARCHIVED} FROM wanted CROSS JOIN playbooks AS each USING (path)
WHERE place = (SELECT max(place) FROM playbooks AS other WHERE other.path = wanted.path) ORDER BY path
"""


class SqliteCatalog:
    """A `Catalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, text: PlaybookText, *, listed: bool = True) -> None:
        newest = self._database.fetch(_NEWEST if listed else _GET, (text.path if listed else text.digest,))
        if newest and (not listed or (PlaybookText(*newest[0]) == text and not self._is_archived(text.path))):
            return  # repeated runs of the same file need no commit
        if not all(is_text(value) for value in text if value is not None):
            raise not_text(text.path)
        values = (*text, micros(self._database.clock.now()))

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(_PUT if listed else _KEEP, values)
            if listed:
                cursor.execute(_OPEN, (text.path,))

        await self._database.writer.write(write)

    async def get(self, digest: str) -> PlaybookText:
        found = self._database.fetch(_GET, (digest,))
        if not found:
            raise NotFound(f"no playbook with the digest {digest}")
        return PlaybookText(*found[0])

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        query, values = (_NEWEST, (path,)) if version is None else (_NUMBERED, (path, _number(version)))
        found = self._database.fetch(query, values)
        if not found and version is not None and self._database.fetch(_NEWEST, (path,)):
            raise no_version(path, version)
        if not found:
            raise no_playbook(path)
        if self._is_archived(path):
            raise archived_error(path)
        return PlaybookText(*found[0])

    async def versions(self, path: str) -> list[PlaybookVersion]:
        found = self._database.fetch(_VERSIONS, (path,))
        if not found:
            raise no_playbook(path)
        return [_version(row) for row in found]

    async def archive(self, path: str) -> None:
        def write(cursor: apsw.Cursor) -> None:
            if not cursor.execute(_NEWEST, (path,)).fetchall():
                raise no_playbook(path)
            cursor.execute("INSERT INTO archived (path, at) VALUES (?, ?) ON CONFLICT DO NOTHING", (path, at))

        at = micros(self._database.clock.now())
        if not is_text(path):
            raise no_playbook(path)
        await self._database.writer.write(write)

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> list[PlaybookVersion]:
        values = (after, page_size(limit), archived)
        return [_version(row) for row in self._database.fetch(_LIST, values)]

    def _is_archived(self, path: str) -> bool:
        return bool(self._database.fetch(_ARCHIVED, (path,)))


def _number(version: int) -> int:
    """A number that SQLite can store; no text has another one."""
    return version if 0 < version < 1 << 63 else 0


def _version(row: Any) -> PlaybookVersion:
    path, version, digest, at, current, archived = row
    return PlaybookVersion(path, version, digest, instant(at), bool(current), bool(archived))
