"""The reading ports of a server over HTTP. The log comes as raw facts, and the reader folds them itself.

So there is one interpreter of logs, and it runs in the client, not in the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Final, TypeAlias
from urllib.parse import quote

from noetl.api.executions import (
    Dialect,
    ExecutionIds,
    ExecutionsPage,
    ExecutionSummary,
    ExecutionTree,
    LastExecution,
    LogPage,
    PrintedPage,
)
from noetl.api.playbooks import PlaybookTextRequest, PlaybookTextResponse, PlaybookVersionsPage, RegisterResponse
from noetl.api.saved import SavedList, SavedRequest
from noetl.client.http import CHUNK_BYTES, HttpTransport
from noetl.engine.state import Status
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import (
    ALL_EXECUTIONS,
    ExecutionFilter,
    ExecutionHead,
    LogRow,
    PlaybookText,
    PlaybookVersion,
    PrintedBatch,
    SavedValue,
    Snapshot,
    SnapshotOf,
)

EXECUTIONS_PAGE: Final = 100
LOG_PAGE_FACTS: Final = 10_000
VERSIONS_PAGE: Final = 100
Versions: TypeAlias = list[PlaybookVersion]  # for use in a class that has a method `list`
SILENCE_S: Final = 60.0  # between two chunks of a result


def execution_path(execution_id: str) -> str:
    return f"/executions/{quote(execution_id, safe='')}"


class RemoteStore:
    """The reading half of EventStore."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]:
        """Empty when the execution does not exist."""
        rows: list[LogRow] = []
        try:
            limit = LOG_PAGE_FACTS if up_to is None else min(LOG_PAGE_FACTS, max(1, up_to - after))
            async for page in self.pages(execution_id, after, limit):
                rows += page
                if up_to is not None and rows[-1].first_seq + len(rows[-1].facts) > up_to:
                    break
        except NotFound:
            return []
        return rows

    async def pages(
        self, execution_id: str, after: int = 0, limit: int = LOG_PAGE_FACTS
    ) -> AsyncIterator[list[LogRow]]:
        """The same, one page at a time; `limit`: facts of a page. Raises NotFound."""
        path = f"{execution_path(execution_id)}/log"
        while True:
            params: dict[str, JSON] = {"after": after, "limit": limit}
            response = await self._http.request("GET", path, params=params)
            rows, more = response.read_as(LogPage, _rows)
            if rows:
                last = rows[-1].first_seq + len(rows[-1].facts) - 1
                if last <= after:
                    raise Unavailable(f"{self._http.url} returned the same facts twice")
                yield rows
                after = last
            if not more or not rows:
                return

    async def status(self, execution_id: str) -> Status | None:
        try:
            return (await RemoteListing(self._http).head(execution_id)).status
        except NotFound:
            return None

    async def snapshot(self, execution_id: str, of: SnapshotOf = "state") -> Snapshot | None:
        """None: a server does not give out its snapshots."""
        del execution_id, of
        return None


def _rows(page: LogPage) -> tuple[list[LogRow], bool]:
    return [entry.to_row() for entry in page.items], page.next is not None


class RemoteLogs:
    """The reading half of LogStore."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def read(self, execution_id: str, after: int = 0) -> list[PrintedBatch]:
        path = f"{execution_path(execution_id)}/logs"
        response = await self._http.request("GET", path, params={"after": after})
        page = response.read_as(PrintedPage, lambda page: page)
        return [PrintedBatch(page.last, page.items)] if page.last > after else []


class RemoteListing:
    """Implements ExecutionListing."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def executions(
        self, limit: int = 100, wanted: ExecutionFilter = ALL_EXECUTIONS, *, before: str | None = None
    ) -> list[ExecutionHead]:
        heads: list[ExecutionHead] = []
        filters: dict[str, JSON] = {
            "status": wanted.status,
            "open": wanted.open_only or None,
            "path": wanted.path,
            "path_prefix": wanted.path_prefix,
            "digest": wanted.digest,
            "label": [f"{key}={value}" for key, value in (wanted.labels or {}).items()],
            "since": None if wanted.since is None else wanted.since.isoformat(),
            "until": None if wanted.until is None else wanted.until.isoformat(),
            "roots": wanted.roots or None,
            "waiting": wanted.waiting or None,
            "search": wanted.search,
        }
        while len(heads) < limit:
            params = {**filters, "before": before, "limit": min(EXECUTIONS_PAGE, limit - len(heads))}
            response = await self._http.request("GET", "/executions", params=params)
            found, before = response.read_as(ExecutionsPage, _heads)
            heads += found
            if before is None or not found:
                break
        return heads[:limit]

    async def head(self, execution_id: str) -> ExecutionHead:
        response = await self._http.request("GET", f"{execution_path(execution_id)}/head")
        return response.read_as(ExecutionSummary, ExecutionSummary.to_head)

    async def children(self, execution_id: str) -> list[ExecutionHead]:
        response = await self._http.request("GET", f"{execution_path(execution_id)}/tree")
        return response.read_as(ExecutionTree, lambda tree: [child.execution.to_head() for child in tree.children])

    async def find(self, prefix: str) -> list[str]:
        return list((await self._http.get("/executions/find", ExecutionIds, {"prefix": prefix})).ids)

    async def last(self) -> str:
        return (await self._http.get("/executions/last", LastExecution)).execution_id


def _heads(page: ExecutionsPage) -> tuple[list[ExecutionHead], str | None]:
    return [summary.to_head() for summary in page.items], page.next


class RemoteCatalog:
    """Implements Catalog, but a server accepts only playbooks without errors (PlaybookError)."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def register(self, text: str, *, dialect: Dialect = "canonical", file: str = "playbook") -> RegisterResponse:
        """Register a text; the same text is the same version.

        `file`: the name of the text in the positions of problems. Raises PlaybookError.
        """
        body = PlaybookTextRequest(text=text, dialect=dialect)
        response = await self._http.request("POST", "/playbooks", body=body, retry=True, file=file)
        return response.read(RegisterResponse)

    async def put(self, text: PlaybookText, *, listed: bool = True) -> None:
        if not listed:
            raise Rejected("unsupported", "a server itself keeps the playbooks that tasks have made")
        await self.register(text.text, file=text.origin or text.path)

    async def get(self, digest: str) -> PlaybookText:
        return await self._text(f"/texts/{quote(digest, safe='')}", {})

    async def newest(self, path: str, version: int | None = None) -> PlaybookText:
        if (await self.versions(path))[0].archived:
            raise NotFound(f'the playbook "{path}" is archived')
        return await self._text("/playbooks/one", {"path": path, "version": version})

    async def list(self, *, after: str = "", limit: int = 100, archived: bool = False) -> Versions:
        versions: Versions = []
        while len(versions) < limit:
            size = min(VERSIONS_PAGE, limit - len(versions))
            params: dict[str, JSON] = {"after": after or None, "limit": size, "archived": archived or None}
            found, more = await self._versions("/playbooks", params)
            versions += found
            if more is None or not found:
                break
            after = more
        return versions

    async def versions(self, path: str) -> Versions:
        return (await self._versions("/playbooks/versions", {"path": path}))[0]

    async def archive(self, path: str) -> None:
        await self._http.send("POST", "/playbooks/archive", params={"path": path})

    async def _text(self, path: str, params: dict[str, JSON]) -> PlaybookText:
        return (await self._http.get(path, PlaybookTextResponse, params)).to_text()

    async def _versions(self, path: str, params: dict[str, JSON]) -> tuple[Versions, str | None]:
        response = await self._http.request("GET", path, params=params)
        return response.read_as(
            PlaybookVersionsPage, lambda page: ([item.to_version() for item in page.items], page.next)
        )


class RemoteSaved:
    """Implements SavedStore. The server records who sets a value, and when."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def current(self, path: str) -> list[SavedValue]:
        return await self._values("/saved", {"path": path})

    async def history(self, path: str, key: str) -> list[SavedValue]:
        return await self._values("/saved/history", {"path": path, "key": key})

    async def put(self, path: str, value: SavedValue) -> None:
        params: dict[str, JSON] = {"path": path, "key": value.key}
        if value.removed:
            await self._http.send("DELETE", "/saved", params=params)
        else:
            await self._http.request("PUT", "/saved", params=params, body=SavedRequest(value=value.value))

    async def _values(self, path: str, params: dict[str, JSON]) -> list[SavedValue]:
        response = await self._http.request("GET", path, params=params)
        return response.read_as(SavedList, lambda found: [each.to_value() for each in found.items])


class RemoteResults:
    """The reading half of ResultStore. The content is checked against the digest that the log contains."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def get(self, ref: dict[str, JSON]) -> bytes:
        return b"".join([chunk async for chunk in self.read(ref)])

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        key = _key(ref)
        execution_id, _, digest = key.rpartition("/")
        path = f"/results/{quote(execution_id, safe='')}/{quote(digest, safe='')}"
        received = hashlib.sha256()
        async with self._http.open_get(path, silence_s=SILENCE_S) as response:
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                received.update(chunk)
                yield chunk
        if received.hexdigest() != digest:
            raise Damaged(f"the result {key} differs from the stored one: its digest does not match")


def _key(ref: dict[str, JSON]) -> str:
    match ref:
        case {"locator": {"key": str(key)}} if "/" in key:
            return key
    raise Damaged("a Ref does not name a stored result")
