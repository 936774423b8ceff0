"""The ports that reading commands need, over HTTP: facts come raw, and whoever reads folds them himself.

So there is one interpreter of logs, and it is not the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Final, TypeAlias
from urllib.parse import quote

from noetl.client.answers import (
    BranchSeen,
    Found,
    HeadSeen,
    HeadsPage,
    Last,
    Registered,
    RowsPage,
    TextSeen,
    VersionsPage,
    read,
)
from noetl.client.http import CHUNK_BYTES, Wire, getting
from noetl.engine.state import Status
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.output import JSON
from noetl.ports import ExecutionHead, LogRow, PlaybookText, PlaybookVersion, Snapshot

HEADS_PAGE: Final = 100
ROWS_PAGE: Final = 10_000  # facts
VERSIONS_PAGE: Final = 100
Versions: TypeAlias = list[PlaybookVersion]  # in a class that has a method `list`
QUIET_S: Final = 60.0  # between two chunks of a result


class ServerStore:
    """Of EventStore what reads."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """Empty when there is no such execution."""
        rows: list[LogRow] = []
        try:
            async for page in self.pages(execution_id, after):
                rows += page
                if up_to is not None and rows[-1].first_seq + len(rows[-1].facts) > up_to:
                    break
        except NotFound:
            return []
        return rows

    async def pages(self, execution_id: str, after: int = 0) -> AsyncIterator[list[LogRow]]:
        """The same a page at a time. Raises NotFound."""
        path = f"/executions/{quote(execution_id, safe='')}/log"
        while True:
            answer = await self._wire.ask("GET", path, params={"after": after, "limit": ROWS_PAGE})
            page = read(answer.body, RowsPage, self._wire.url)
            rows = [each.row() for each in page.items]
            if rows:
                last = rows[-1].first_seq + len(rows[-1].facts) - 1
                if last <= after:
                    raise Unavailable(f"{self._wire.url} gives the same facts again")
                yield rows
                after = last
            if page.next is None or not rows:
                return

    async def status(self, execution_id: str) -> Status | None:
        try:
            return (await ServerListing(self._wire).head(execution_id)).status
        except NotFound:
            return None

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """The server keeps its own, and shows them to nobody."""
        del execution_id
        return None


class ServerListing:
    """Keeps the contract of Listing."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def executions(
        self,
        limit: int = 100,
        *,
        before: str | None = None,
        status: Status | None = None,
        open_only: bool = False,
        path: str | None = None,
    ) -> list[ExecutionHead]:
        heads: list[ExecutionHead] = []
        wanted = {"status": status, "open": open_only or None, "path": path}
        while len(heads) < limit:
            params = {**wanted, "before": before, "limit": min(HEADS_PAGE, limit - len(heads))}
            answer = await self._wire.ask("GET", "/executions", params=params)
            page = read(answer.body, HeadsPage, self._wire.url)
            heads += [each.head() for each in page.items]
            if page.next is None or not page.items:
                break
            before = page.items[-1].execution_id
        return heads[:limit]

    async def head(self, execution_id: str) -> ExecutionHead:
        path = f"/executions/{quote(execution_id, safe='')}/head"
        answer = await self._wire.ask("GET", path)
        return read(answer.body, HeadSeen, self._wire.url).head()

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        answer = await self._wire.ask("GET", f"/executions/{quote(execution_id, safe='')}/tree")
        tree = read(answer.body, BranchSeen, self._wire.url)
        return [each.execution.head() for each in tree.children]

    async def find(self, prefix: str) -> list[str]:
        answer = await self._wire.ask("GET", "/executions/find", params={"prefix": prefix})
        return list(read(answer.body, Found, self._wire.url).ids)

    async def last(self) -> str:
        answer = await self._wire.ask("GET", "/executions/last")
        return read(answer.body, Last, self._wire.url).execution_id


class ServerCatalog:
    """Keeps the contract of Catalog, but that a server takes only what can run. Raises PlaybookError."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def register(self, text: str, *, dialect: str = "canonical", file: str = "playbook") -> Registered:
        """The same text is the same version. `file`: how problems call it. Raises PlaybookError."""
        body = {"text": text, "dialect": dialect}
        answer = await self._wire.ask("POST", "/playbooks", body=body, twice=True, file=file)
        return read(answer.body, Registered, self._wire.url)

    async def put(self, text: PlaybookText) -> None:
        await self.register(text.text, file=text.origin or text.path)

    async def get(self, digest: str) -> PlaybookText:
        return await self._text(f"/texts/{quote(digest, safe='')}", {})

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        if (await self.versions(path))[0].archived:
            raise NotFound(f'the playbook "{path}" is archived')
        return await self._text("/playbooks/one", {"path": path, "version": version})

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> Versions:
        found: Versions = []
        while len(found) < limit:
            size = min(VERSIONS_PAGE, limit - len(found))
            params = {"after": after or None, "limit": size, "archived": archived or None}
            page = await self._versions("/playbooks", params)
            found += [each.told() for each in page.items]
            if page.next is None or not page.items:
                break
            after = page.items[-1].path
        return found

    async def versions(self, path: str) -> Versions:
        page = await self._versions("/playbooks/versions", {"path": path})
        return [each.told() for each in page.items]

    async def archive(self, path: str) -> None:
        await self._wire.tell("POST", "/playbooks/archive", params={"path": path})

    async def _text(self, path: str, params: dict[str, JSON]) -> PlaybookText:
        answer = await self._wire.ask("GET", path, params=params)
        seen = read(answer.body, TextSeen, self._wire.url)
        return PlaybookText(seen.digest, seen.path, seen.text)

    async def _versions(self, path: str, params: dict[str, JSON]) -> VersionsPage:
        return read((await self._wire.ask("GET", path, params=params)).body, VersionsPage, self._wire.url)


class ServerResults:
    """Of ResultStore what reads. What comes is checked against the digest that its log names."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return b"".join([chunk async for chunk in self.read(ref)])

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        key = _key(ref)
        execution_id, _, digest = key.rpartition("/")
        path = f"/results/{quote(execution_id, safe='')}/{quote(digest, safe='')}"
        seen = hashlib.sha256()
        async with self._wire.opened(getting(path, None, {}), None, quiet_s=QUIET_S) as response:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                seen.update(chunk)
                yield chunk
        if seen.hexdigest() != digest:
            raise Damaged(f"the result {key} is not what was stored: its digest is another")


def _key(ref: dict[str, JSON]) -> str:
    match ref:
        case {"locator": {"key": str(key)}} if "/" in key:
            return key
    raise Damaged("a Ref names no stored result")
