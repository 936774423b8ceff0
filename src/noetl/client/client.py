"""The verbs of a server, for programs and for the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Final, TypeVar
from urllib.parse import quote

from noetl.client.answers import (
    CredentialSeen,
    CredentialsPage,
    Registered,
    Stored,
    TokenMade,
    TokensPage,
    Told,
    read,
)
from noetl.client.http import Wire
from noetl.client.remote_ports import ServerCatalog, ServerListing, ServerResults, ServerStore
from noetl.client.stream import Stream
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.output import JSON
from noetl.ports import ApiToken
from noetl.secret import Secret
from noetl.views.documents import ShowDocument

T = TypeVar("T")
WAIT_S: Final = 60.0  # that one request waits for the end of an execution; then it is asked again
RUN_S: Final = 3_600.0


class Client:
    """A server. Errors are those of noetl.errors: NotFound, Rejected, PlaybookError, Unavailable."""

    def __init__(self, url: str, token: str | Secret | None = None, *, clock: Clock | None = None) -> None:
        self.wire = Wire(url, token, clock)
        self.url = self.wire.url
        self.clock = self.wire.clock
        self.store = ServerStore(self.wire)
        self.listing = ServerListing(self.wire)
        self.catalog = ServerCatalog(self.wire)
        self.results = ServerResults(self.wire)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.wire.close()

    # Playbooks

    async def register(self, text: str, *, dialect: str = "canonical", file: str = "playbook") -> Registered:
        """The same text is the same version. `file`: how problems call it. Raises PlaybookError.

        `catalog` lists what is registered, and gives texts back.
        """
        return await self.catalog.register(text, dialect=dialect, file=file)

    # Executions

    async def start(
        self,
        path: str | None = None,
        workload: Mapping[str, JSON] | None = None,
        *,
        version: int | None = None,
        digest: str | None = None,
        key: str | None = None,
    ) -> Told:
        """It is on record when this returns, once, however often the request had to be sent.

        `digest`: this text, in place of the current one of a path. `key`: the same key is the same start.
        """
        return await self._start(_request(path, workload, version, digest), key)

    async def start_text(
        self,
        text: str,
        workload: Mapping[str, JSON] | None = None,
        *,
        dialect: str = "canonical",
        file: str = "playbook",
        key: str | None = None,
    ) -> Told:
        """The same for a text, which is registered. `file`: how problems call it.

        Raises PlaybookRefused, or PlaybookError when nobody can say under which path it would be on record.
        """
        body = {"text": text, "dialect": dialect, "workload": dict(workload or {})}
        return await self._start(body, key, file)

    async def _start(self, body: dict[str, JSON], key: str | None, file: str = "playbook") -> Told:
        headers = {"Idempotency-Key": key or self.clock.new_id()}
        answer = await self.wire.ask("POST", "/executions", body=body, headers=headers, twice=True, file=file)
        return read(answer.body, Told, self.url)

    async def run(
        self,
        path: str | None = None,
        workload: Mapping[str, JSON] | None = None,
        *,
        version: int | None = None,
        digest: str | None = None,
        key: str | None = None,
        timeout_s: float = RUN_S,
    ) -> ShowDocument:
        """Start it and wait for its end, which may be an error. Raises Unavailable after `timeout_s`."""
        body = _request(path, workload, version, digest)
        headers = {"Idempotency-Key": key or self.clock.new_id()}
        until = self.clock.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, min(WAIT_S, until - self.clock.monotonic()))
            answer = await self.wire.ask(
                "POST", "/executions", params={"wait": int(wait_s) or None}, body=body, headers=headers,
                twice=True, wait_s=wait_s,
            )  # fmt: skip
            if answer.status == 200:
                return read(answer.body, ShowDocument, self.url)
            if self.clock.monotonic() >= until:
                id = read(answer.body, Told, self.url).execution_id
                raise Unavailable(f"{id} has not ended within {timeout_s:g} s; it goes on")

    async def show(self, execution_id: str) -> ShowDocument:
        return await self._get(_of(execution_id), ShowDocument)

    def stream(self, execution_id: str, after: int = 0) -> Stream:
        """Its events behind `after`, as they come, until it has ended."""
        return Stream(self.wire, execution_id, after)

    async def cancel(self, execution_id: str, reason: str = "") -> Told:
        return await self._command(execution_id, "cancel", {"reason": reason} if reason else {})

    async def pause(self, execution_id: str) -> Told:
        return await self._command(execution_id, "pause", {})

    async def resume(self, execution_id: str) -> Told:
        return await self._command(execution_id, "resume", {})

    async def retry(self, execution_id: str, step: str | None = None, *, from_start: bool = False) -> Told:
        asked = {"step": step} if step is not None else {}
        return await self._command(execution_id, "retry", {**asked, "from_start": from_start})

    async def signal(self, execution_id: str, name: str, data: JSON = None) -> Told:
        return await self._command(execution_id, "signal", {"name": name, "data": data})

    # Credentials, tokens, workers

    async def credentials(self) -> list[CredentialSeen]:
        """Names and versions; never a value."""
        return list((await self._get("/credentials", CredentialsPage)).items)

    async def set_credential(self, name: str, value: str | Secret) -> int:
        """Its version from now on."""
        shown = value.reveal() if isinstance(value, Secret) else value
        answer = await self.wire.ask("PUT", f"/credentials/{quote(name, safe='')}", body={"value": shown})
        return read(answer.body, Stored, self.url).version

    async def remove_credential(self, name: str) -> None:
        await self.wire.tell("DELETE", f"/credentials/{quote(name, safe='')}")

    async def tokens(self) -> list[ApiToken]:
        return [each.told() for each in (await self._get("/tokens", TokensPage)).items]

    async def add_token(
        self, name: str, scopes: Collection[str], *, expires_in_s: float | None = None
    ) -> TokenMade:
        """The only time that it is shown."""
        body: dict[str, JSON] = {"name": name, "scopes": sorted(scopes)}
        if expires_in_s is not None:
            body["expires_in_s"] = expires_in_s
        return read((await self.wire.ask("POST", "/tokens", body=body)).body, TokenMade, self.url)

    async def remove_token(self, id: str) -> None:
        await self.wire.tell("DELETE", f"/tokens/{quote(id, safe='')}")

    async def workers(self) -> dict[str, JSON]:
        """`{workers, pools}`."""
        return await self._get("/workers", dict[str, JSON])

    async def whoami(self) -> dict[str, JSON]:
        """`{name, scopes, open}`: whose token this is, and what it may."""
        return await self._get("/whoami", dict[str, JSON])

    async def _get(self, path: str, kind: type[T], params: Mapping[str, JSON] | None = None) -> T:
        return read((await self.wire.ask("GET", path, params=params)).body, kind, self.url)

    async def _command(self, execution_id: str, verb: str, body: dict[str, JSON]) -> Told:
        answer = await self.wire.ask("POST", f"{_of(execution_id)}/{verb}", body=body)
        return read(answer.body, Told, self.url)


def _of(execution_id: str) -> str:
    return f"/executions/{quote(execution_id, safe='')}"


def _request(
    path: str | None, workload: Mapping[str, JSON] | None, version: int | None, digest: str | None
) -> dict[str, JSON]:
    named = {"path": path, "version": version, "digest": digest}
    said = {key: value for key, value in named.items() if value is not None}
    return {**said, "workload": dict(workload or {})}
