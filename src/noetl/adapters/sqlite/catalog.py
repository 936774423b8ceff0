"""The texts of playbooks in the same file, so that an execution and what it runs are never apart."""

from __future__ import annotations

from typing import Final

from noetl.adapters.sqlite.connection import is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.errors import NotFound, Rejected
from noetl.ports import Text

_PUT: Final = """
INSERT INTO playbooks (digest, path, text, origin, place, at)
VALUES (?, ?, ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM playbooks), ?)
ON CONFLICT (digest) DO UPDATE SET origin = coalesce(excluded.origin, origin), place = excluded.place
"""
_NEWEST: Final = "SELECT digest, path, text, origin FROM playbooks WHERE path = ? ORDER BY place DESC LIMIT 1"
_GET: Final = "SELECT digest, path, text, origin FROM playbooks WHERE digest = ?"


class SqliteCatalog:
    """Keeps the contract of Catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, text: Text) -> None:
        newest = self._database.fetch(_NEWEST, (text.path,))
        if newest and Text(*newest[0]) == text:
            return  # run after run of the same file costs no commit
        if not all(is_text(value) for value in text if value is not None):
            raise Rejected("not-text", f"{text.path!a} or its file holds what is no Unicode")
        values = (*text, micros(self._database.clock.now()))
        await self._database.writer.write(lambda cursor: cursor.execute(_PUT, values))

    async def get(self, digest: str) -> Text:
        found = self._database.fetch(_GET, (digest,))
        if not found:
            raise NotFound(f"no playbook with the digest {digest}")
        return Text(*found[0])

    async def newest(self, path: str) -> Text:
        found = self._database.fetch(_NEWEST, (path,))
        if not found:
            raise NotFound(f'no playbook is registered under "{path}"')
        return Text(*found[0])
