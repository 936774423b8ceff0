"""The texts of playbooks in the same file, so that an execution and what it runs are never apart."""

from __future__ import annotations

from typing import Any, Final

import apsw

from noetl.adapters.sqlite.connection import instant, is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.errors import NotFound, Rejected
from noetl.ports import PlaybookText, PlaybookVersion

LISTED_MAX: Final = 1_000

# A text that is known keeps its version and the instant it came; only its place is the newest again.
_PUT: Final = """
INSERT INTO playbooks (digest, path, text, origin, at, place, version)
VALUES (?1, ?2, ?3, ?4, ?5, (SELECT coalesce(max(place), 0) + 1 FROM playbooks),
        (SELECT coalesce(max(version), 0) + 1 FROM playbooks WHERE path = ?2))
ON CONFLICT (digest) DO UPDATE SET origin = coalesce(excluded.origin, origin), place = excluded.place
"""
_TEXT: Final = "SELECT digest, path, text, origin FROM playbooks"
_NEWEST: Final = f"{_TEXT} WHERE path = ? ORDER BY place DESC LIMIT 1"
_NUMBERED: Final = f"{_TEXT} WHERE path = ? AND version = ?"
_GET: Final = f"{_TEXT} WHERE digest = ?"
_OPEN: Final = "DELETE FROM archived WHERE path = ?"
_ARCHIVED: Final = "SELECT 1 FROM archived WHERE path = ?"
_IS_ARCHIVED: Final = "EXISTS (SELECT 1 FROM archived WHERE archived.path = each.path)"
_VERSIONS: Final = f"""
SELECT path, version, digest, at, place = (SELECT max(place) FROM playbooks WHERE path = ?1), {_IS_ARCHIVED}
FROM playbooks AS each WHERE path = ?1 ORDER BY version DESC
"""
# The next path is looked up in the index each time: a page costs the same however many versions there are.
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
    """Keeps the contract of Catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, text: PlaybookText) -> None:
        newest = self._database.fetch(_NEWEST, (text.path,))
        if newest and PlaybookText(*newest[0]) == text and not self._is_archived(text.path):
            return  # run after run of the same file costs no commit
        if not all(is_text(value) for value in text if value is not None):
            raise Rejected("not-text", f"{text.path!a} or its file holds what is no Unicode")
        values = (*text, micros(self._database.clock.now()))

        def write(cursor: apsw.Cursor) -> None:
            cursor.execute(_PUT, values)
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
            raise NotFound(f'"{path}" has no version {version}: see noetl playbooks versions {path}')
        if not found:
            raise NotFound(f'no playbook is registered under "{path}"')
        if self._is_archived(path):
            raise NotFound(f'"{path}" is archived: register it again to run it')
        return PlaybookText(*found[0])

    async def versions(self, path: str) -> list[PlaybookVersion]:
        found = self._database.fetch(_VERSIONS, (path,))
        if not found:
            raise NotFound(f'no playbook is registered under "{path}"')
        return [_version(row) for row in found]

    async def archive(self, path: str) -> None:
        def write(cursor: apsw.Cursor) -> None:
            if not cursor.execute(_NEWEST, (path,)).fetchall():
                raise NotFound(f'no playbook is registered under "{path}"')
            cursor.execute("INSERT INTO archived (path, at) VALUES (?, ?) ON CONFLICT DO NOTHING", (path, at))

        at = micros(self._database.clock.now())
        if not is_text(path):
            raise NotFound(f"no playbook is registered under {path!a}")
        await self._database.writer.write(write)

    async def list(
        self, *, after: str = "", limit: int = 100, archived: bool = False
    ) -> list[PlaybookVersion]:
        values = (after, max(0, min(limit, LISTED_MAX)), archived)
        return [_version(row) for row in self._database.fetch(_LIST, values)]

    def _is_archived(self, path: str) -> bool:
        return bool(self._database.fetch(_ARCHIVED, (path,)))


def _number(version: int) -> int:
    """What SQLite can hold; no text has any of the others either."""
    return version if 0 < version < 1 << 63 else 0


def _version(row: Any) -> PlaybookVersion:
    path, version, digest, at, current, archived = row
    return PlaybookVersion(path, version, digest, instant(at), bool(current), bool(archived))
