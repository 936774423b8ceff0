"""Playbook texts in PostgreSQL, by digest and by path."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from noetl.adapters.postgres.database import BatchedReads, PostgresDatabase, is_text
from noetl.adapters.sql import archived as archived_error
from noetl.adapters.sql import no_playbook, no_version, not_text, page_size
from noetl.errors import NotFound, Rejected
from noetl.ports import PlaybookText, PlaybookVersion

PATH_BYTES_MAX: Final = 2_000  # the limit of an index entry
PATHS_MAX: Final = 4  # concurrent queries, so that connections are left for others

_TEXT: Final = "SELECT each.digest, each.path, each.text, each.origin FROM noetl.playbooks AS each"
_GET: Final = f"""
{_TEXT} WHERE digest = $1 UNION ALL SELECT digest, path, text, origin FROM noetl.documents WHERE digest = $1
"""
_KEEP: Final = """
INSERT INTO noetl.documents (digest, path, text, origin, at) VALUES ($1, $2, $3, $4, clock_timestamp())
ON CONFLICT DO NOTHING
"""
_OF_PATH: Final = f"""
SELECT found.*, paths.archived_at IS NOT NULL AS archived FROM noetl.paths LEFT JOIN LATERAL (
    {_TEXT} WHERE each.path = paths.path
    AND CASE WHEN $2::integer IS NULL THEN each.digest = paths.current ELSE each.version = $2 END
) AS found ON true
WHERE paths.path = $1
"""
_VERSION: Final = """
SELECT each.path, each.version, each.digest, each.at, each.digest = paths.current AS current,
       paths.archived_at IS NOT NULL AS archived
FROM noetl.paths JOIN noetl.playbooks AS each
"""
_VERSIONS: Final = f"{_VERSION} ON each.path = paths.path WHERE paths.path = $1 ORDER BY each.version DESC"
_LIST: Final = f"""
{_VERSION} ON each.digest = paths.current
WHERE paths.path > $1 AND ($3 OR paths.archived_at IS NULL) ORDER BY paths.path LIMIT $2
"""
# The row of the path is a lock: writers of one path run one after the other.
_BEGIN: Final = "INSERT INTO noetl.paths (path) VALUES ($1) ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT FROM noetl.paths WHERE path = $1 FOR UPDATE"
# A known text keeps its version and its time.
_PUT: Final = """
INSERT INTO noetl.playbooks AS each (digest, path, text, origin, version, at)
VALUES ($1, $2, $3, $4, (SELECT coalesce(max(version), 0) + 1 FROM noetl.playbooks WHERE path = $2),
        clock_timestamp())
ON CONFLICT (digest) DO UPDATE SET origin = coalesce(excluded.origin, each.origin)
"""
_CURRENT: Final = "UPDATE noetl.paths SET current = $2, archived_at = NULL WHERE path = $1"
_ARCHIVE: Final = """
UPDATE noetl.paths SET archived_at = coalesce(archived_at, now()) WHERE path = $1 RETURNING path
"""
_INTEGER_MAX: Final = (1 << 31) - 1


class PostgresCatalog:
    """A `Catalog`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        # Many concurrent starts need the same text, which is then read once.
        self._newest: BatchedReads[tuple[str, int | None], list[Any]] = BatchedReads(self._of_paths, PATHS_MAX)

    async def put(self, text: PlaybookText, *, listed: bool = True) -> None:
        if not all(is_text(value) for value in text if value is not None):
            raise not_text(text.path)
        if len(text.path.encode()) > PATH_BYTES_MAX:
            raise Rejected("path-too-long", f"a path has at most {PATH_BYTES_MAX:,} bytes: {text.path[:80]!a}…")
        if not listed:
            if not await self._database.fetch(_GET, text.digest):
                await self._database.fetch(_KEEP, *text)
            return
        newest = await self._database.fetch(_OF_PATH, text.path, None)
        if newest and tuple(newest[0]) == (*text, False):
            return  # repeated runs of the same file need no commit
        async with self._database.transaction() as connection:
            await connection.execute(_BEGIN, text.path)
            await connection.execute(_LOCK, text.path)
            await connection.execute(_PUT, *text)
            await connection.execute(_CURRENT, text.path, text.digest)

    async def get(self, digest: str) -> PlaybookText:
        found = await self._database.fetch(_GET, digest)
        if not found:
            raise NotFound(f"no playbook with the digest {digest!a}")
        return PlaybookText(*found[0])

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        number = version if version is None or 0 < version <= _INTEGER_MAX else 0
        found = await self._newest.read((path, number))
        if not found:
            raise no_playbook(path)
        *text, is_archived = found[0]
        if text[0] is None:
            raise no_version(path, version)
        if is_archived:
            raise archived_error(path)
        return PlaybookText(*text)

    async def _of_paths(self, paths: list[tuple[str, int | None]]) -> list[list[Any]]:
        return await asyncio.gather(*(self._database.fetch(_OF_PATH, *each) for each in paths))

    async def versions(self, path: str) -> list[PlaybookVersion]:
        found = await self._database.fetch(_VERSIONS, path)
        if not found:
            raise no_playbook(path)
        return [PlaybookVersion(**row) for row in found]

    async def archive(self, path: str) -> None:
        if not await self._database.fetch(_ARCHIVE, path):
            raise no_playbook(path)

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> list[PlaybookVersion]:
        values = (after, page_size(limit), archived)
        return [PlaybookVersion(**row) for row in await self._database.fetch(_LIST, *values)]
