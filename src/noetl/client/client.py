"""HTTP client of a server: its operations and its event streams, for programs and for the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from noetl.api.admin import (
    ApiTokenItem,
    AuditItem,
    AuditPage,
    CredentialItem,
    CredentialList,
    CredentialStored,
    CredentialValue,
    Scope,
    TokenCreated,
    TokenList,
    TokenRequest,
)
from noetl.api.bulk import BulkRequest, BulkResponse
from noetl.api.debugging import breakpoint_requests
from noetl.api.executions import (
    CancelRequest,
    CommandResponse,
    DeleteResponse,
    Dialect,
    EmptyRequest,
    ForkRequest,
    ForkResponse,
    LabelsRequest,
    LabelsResponse,
    RetryRequest,
    SignalRequest,
    StartRequest,
    StartResponse,
    StreamEnd,
    StreamLine,
)
from noetl.api.playbooks import RegisterResponse
from noetl.client.http import RETRY_MAX_S, RETRY_S, HttpTransport, decode
from noetl.client.remote_ports import (
    RemoteCatalog,
    RemoteListing,
    RemoteResults,
    RemoteSaved,
    RemoteStore,
    execution_path,
)
from noetl.clock import Clock
from noetl.engine import Event
from noetl.engine.commands import SetBreakpoint
from noetl.engine.facts import Fact
from noetl.errors import Unavailable
from noetl.output import JSON
from noetl.ports import ApiToken, AuditRecord, RoleGrant, SecretInfo
from noetl.secret import Secret
from noetl.views.documents import ShowDocument
from noetl.views.envelopes import Envelope

WAIT_S: Final = 60.0  # how long one request waits for the end of an execution; then it is repeated
RUN_S: Final = 3_600.0


class Client:
    """Client of one server. Its methods raise NotFound, Rejected, PlaybookError and Unavailable of noetl.errors."""

    def __init__(
        self, url: str | HttpTransport, token: str | Secret | None = None, *, clock: Clock | None = None
    ) -> None:
        """`url`: the address of the server, or an existing transport."""
        self.http = url if isinstance(url, HttpTransport) else HttpTransport(url, token, clock)
        self.url = self.http.url
        self.clock = self.http.clock
        self.store = RemoteStore(self.http)
        self.listing = RemoteListing(self.http)
        self.catalog = RemoteCatalog(self.http)
        self.results = RemoteResults(self.http)
        self.saved = RemoteSaved(self.http)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.http.close()

    # Playbooks

    async def register(self, text: str, *, dialect: Dialect = "canonical", file: str = "playbook") -> RegisterResponse:
        """Register a playbook. `catalog` also lists registered playbooks and returns their texts."""
        return await self.catalog.register(text, dialect=dialect, file=file)

    # Executions

    async def start(
        self,
        path: str | None = None,
        workload: Mapping[str, JSON] | None = None,
        *,
        ctx: Mapping[str, JSON] | None = None,
        labels: Mapping[str, str] | None = None,
        version: int | None = None,
        digest: str | None = None,
        key: str | None = None,
        breakpoints: Sequence[SetBreakpoint] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> StartResponse:
        """Start a registered playbook. When this returns, the log contains the request, exactly once.

        `ctx`: the first values of `ctx`. `secrets`: the values of secret inputs. `digest`: run this text instead
        of the current version of a path.
        `key`: a second start with the same key returns the first execution.
        """
        body = _start_request(path, workload, ctx, version, digest, labels=labels, secrets=secrets)
        return await self._start(replace(body, breakpoints=breakpoint_requests(breakpoints)), key)

    async def start_text(
        self,
        text: str,
        workload: Mapping[str, JSON] | None = None,
        *,
        ctx: Mapping[str, JSON] | None = None,
        labels: Mapping[str, str] | None = None,
        dialect: Dialect = "canonical",
        file: str = "playbook",
        key: str | None = None,
        breakpoints: Sequence[SetBreakpoint] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> StartResponse:
        """Register a text and start it. `file`: the name of the text in the positions of problems.

        Raises PlaybookRefused, or PlaybookError when the text has no path under which to record the request.
        """
        values, first = dict(workload or {}), dict(ctx or {})
        body = StartRequest(
            text=text, dialect=dialect, workload=values, ctx=first, labels=dict(labels or {}),
            secrets=dict(secrets or {}),
            breakpoints=breakpoint_requests(breakpoints),
        )  # fmt: skip
        return await self._start(body, key, file)

    async def _start(self, body: StartRequest, key: str | None, file: str = "playbook") -> StartResponse:
        headers = {"Idempotency-Key": key or self.clock.new_id()}
        response = await self.http.request("POST", "/executions", body=body, headers=headers, retry=True, file=file)
        started = response.read(StartResponse)
        return replace(started, problems=started.problems or ())

    async def run(
        self,
        path: str | None = None,
        workload: Mapping[str, JSON] | None = None,
        *,
        ctx: Mapping[str, JSON] | None = None,
        labels: Mapping[str, str] | None = None,
        version: int | None = None,
        digest: str | None = None,
        key: str | None = None,
        timeout_s: float = RUN_S,
        secrets: Mapping[str, str] | None = None,
    ) -> ShowDocument:
        """Start a playbook and wait for its end, which may be an error.

        Raises Unavailable when it has not ended after `timeout_s`.
        """
        body = _start_request(path, workload, ctx, version, digest, labels=labels, secrets=secrets)
        headers = {"Idempotency-Key": key or self.clock.new_id()}
        until = self.clock.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, min(WAIT_S, until - self.clock.monotonic()))
            response = await self.http.request(
                "POST", "/executions", params={"wait": int(wait_s) or None}, body=body, headers=headers,
                retry=True, wait_s=wait_s,
            )  # fmt: skip
            if response.status == 200:
                return response.read(ShowDocument)
            if self.clock.monotonic() >= until:
                id = response.read(StartResponse).execution_id
                raise Unavailable(f"{id} has not ended within {timeout_s:g} s; it continues to run")

    async def show(self, execution_id: str) -> ShowDocument:
        return await self.http.get(execution_path(execution_id), ShowDocument)

    def stream(self, execution_id: str, after: int = 0) -> EventStream:
        """The events after the fact `after`, as they happen, until the execution ends."""
        return EventStream(self.http, execution_id, after)

    async def delete(self, execution_id: str) -> int:
        """Delete a finished execution and the executions that it called. Returns how many were deleted."""
        response = await self.http.request("DELETE", execution_path(execution_id))
        return response.read(DeleteResponse).deleted

    async def label(self, execution_id: str, change: Mapping[str, str | None]) -> LabelsResponse:
        """Add labels, or remove those with None."""
        body = LabelsRequest(labels=dict(change))
        return (await self.http.request("POST", f"{execution_path(execution_id)}/labels", body=body)).read(
            LabelsResponse
        )

    async def bulk(self, request: BulkRequest) -> BulkResponse:
        """Do one action on many executions. Returns the result for each."""
        return (await self.http.request("POST", "/executions/bulk", body=request)).read(BulkResponse)

    async def cancel(self, execution_id: str, reason: str = "", *, compensate: bool = False) -> CommandResponse:
        return await self._command(execution_id, "cancel", CancelRequest(reason=reason, compensate=compensate))

    async def pause(self, execution_id: str) -> CommandResponse:
        return await self._command(execution_id, "pause", EmptyRequest())

    async def resume(self, execution_id: str) -> CommandResponse:
        return await self._command(execution_id, "resume", EmptyRequest())

    async def retry(
        self, execution_id: str, step: str | None = None, *, iterations: Sequence[int] = (), from_start: bool = False
    ) -> CommandResponse:
        request = RetryRequest(step=step, iterations=[*iterations], from_start=from_start)
        return await self._command(execution_id, "retry", request)

    async def fork(self, execution_id: str, request: ForkRequest, file: str = "playbook") -> ForkResponse:
        """`file`: the name of the text in the positions of problems. Raises PlaybookError."""
        response = await self.http.request("POST", f"{execution_path(execution_id)}/fork", body=request, file=file)
        return response.read(ForkResponse)

    async def signal(
        self, execution_id: str, name: str, data: JSON = None, *, frame: str | None = None
    ) -> CommandResponse:
        return await self._command(execution_id, "signal", SignalRequest(name=name, data=data, frame=frame))

    async def _command(self, execution_id: str, verb: str, body: Struct) -> CommandResponse:
        response = await self.http.request("POST", f"{execution_path(execution_id)}/{verb}", body=body)
        return response.read(CommandResponse)

    # Credentials, tokens, workers

    async def credentials(self) -> list[SecretInfo]:
        """Names and versions of stored secrets, without values."""
        response = await self.http.request("GET", "/credentials")
        return response.read_as(CredentialList, lambda found: list(map(CredentialItem.to_info, found.items)))

    async def set_credential(self, name: str, value: str | Secret) -> int:
        """Store a value. Returns its version."""
        body = CredentialValue(value=value.reveal() if isinstance(value, Secret) else value)
        response = await self.http.request("PUT", f"/credentials/{quote(name, safe='')}", body=body)
        return response.read(CredentialStored).version

    async def remove_credential(self, name: str) -> None:
        await self.http.send("DELETE", f"/credentials/{quote(name, safe='')}")

    async def tokens(self) -> list[ApiToken]:
        response = await self.http.request("GET", "/tokens")
        return response.read_as(TokenList, lambda found: list(map(ApiTokenItem.to_token, found.items)))

    async def add_token(
        self,
        name: str,
        scopes: Collection[str],
        *,
        expires_in_s: float | None = None,
        roles: Sequence[RoleGrant] = (),
    ) -> TokenCreated:
        """Create a token. Its text is not available later."""
        # The server checks scopes and roles, and its message names those that exist.
        wanted = cast("list[Scope]", sorted(scopes))
        body = TokenRequest(name=name, scopes=wanted, roles=tuple(roles), expires_in_s=expires_in_s)
        return (await self.http.request("POST", "/tokens", body=body)).read(TokenCreated)

    async def remove_token(self, id: str) -> None:
        await self.http.send("DELETE", f"/tokens/{quote(id, safe='')}")

    async def audit(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        since: datetime | None = None,
        action: str | None = None,
        who: str | None = None,
    ) -> list[AuditRecord]:
        """A page of the audit trail, the newest first."""
        at = None if since is None else since.isoformat()
        params: dict[str, JSON] = {"limit": limit, "before": before, "since": at, "action": action, "who": who}
        response = await self.http.request("GET", "/audit", params=params)
        return response.read_as(AuditPage, lambda page: list(map(AuditItem.to_record, page.items)))

    async def workers(self) -> dict[str, JSON]:
        """`{workers, pools}`."""
        return await self.http.get("/workers", dict[str, JSON])

    async def whoami(self) -> dict[str, JSON]:
        """`{name, scopes, open}` of the client's token."""
        return await self.http.get("/whoami", dict[str, JSON])


def _start_request(
    path: str | None,
    workload: Mapping[str, JSON] | None,
    ctx: Mapping[str, JSON] | None,
    version: int | None,
    digest: str | None,
    *,
    labels: Mapping[str, str] | None,
    secrets: Mapping[str, str] | None,
) -> StartRequest:
    values, first, hidden = dict(workload or {}), dict(ctx or {}), dict(secrets or {})
    return StartRequest(
        path=path, version=version, digest=digest, workload=values, ctx=first, labels=dict(labels or {}),
        secrets=hidden,
    )  # fmt: skip


# Events as they happen, over SSE: each is delivered exactly once, however often the connection is lost


SILENCE_S: Final = 45.0  # a server sends something every 15 s; after this time the connection is dead
GIVE_UP_S: Final = 120.0  # without a message from the server, until iteration fails
EVENT_BYTES_MAX: Final = 64 << 20


Streamed: TypeAlias = Envelope | StreamLine | StreamEnd


class SseMessage(NamedTuple):
    """One message of a stream, as it was sent."""

    event: str
    data: bytes


class EventStream:
    """Iterates over envelopes, lines of tools and, when the execution has ended, one `StreamEnd`."""

    def __init__(self, http: HttpTransport, execution_id: str, after: int = 0) -> None:
        self._http = http
        self._path = f"{execution_path(execution_id)}/stream"
        self._seq = after  # everything up to here was delivered
        self._parts: set[int] = set()  # of the fact after it, those that were delivered
        self._connected = False  # at any time: a wrong address fails at once
        self._received_at = http.clock.monotonic()

    async def __aiter__(self) -> AsyncIterator[Streamed]:
        tries = 0
        while True:
            try:
                async for message in self._messages():
                    tries, self._received_at = 0, self._http.clock.monotonic()
                    for item in self._items(message):
                        yield item
                        if isinstance(item, StreamEnd):
                            return
            except Unavailable as error:
                if not self._connected:
                    raise
                if self._http.clock.monotonic() - self._received_at > GIVE_UP_S:
                    raise Unavailable(f"{error}; gave up after {GIVE_UP_S:g} s") from error
            tries += 1
            # A server that closes every connection at once must not be asked in a tight loop.
            await self._http.clock.sleep(min(RETRY_S * 2 ** min(tries - 1, 8), RETRY_MAX_S))

    def _items(self, message: SseMessage) -> list[Streamed]:
        match message.event:
            case "event":
                envelope = decode(message.data, Envelope, self._http.url)
                return [envelope] if self._is_new(envelope) else []
            case "line":
                return [decode(message.data, StreamLine, self._http.url)]
            case "end":
                return [decode(message.data or b"{}", StreamEnd, self._http.url)]
        return []  # a newer server may send more kinds of messages

    def _is_new(self, envelope: Envelope) -> bool:
        if envelope.seq <= self._seq:
            return False
        if envelope.seq > self._seq + 1:  # the fact before this one is complete
            self._seq, self._parts = envelope.seq - 1, set()
        if envelope.part in self._parts:
            return False
        self._parts.add(envelope.part)
        return True

    async def _messages(self) -> AsyncIterator[SseMessage]:
        """The messages of one connection.

        A fact that was delivered in part is requested again; `_is_new` drops the parts that were delivered.
        """
        headers = {"Accept": "text/event-stream"}
        if self._seq:
            headers["Last-Event-ID"] = str(self._seq)
        params = {"after": self._seq or None}
        async with self._http.open_get(self._path, params, headers, silence_s=SILENCE_S) as response:
            self._connected = True
            async for message in messages(response.content.iter_any()):
                yield message


async def messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseMessage]:
    """Parse SSE. A comment, which is the heartbeat, becomes a message without event and data."""
    rest = b""
    event, data = "", list[bytes]()
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > EVENT_BYTES_MAX:
            raise Unavailable(f"the server sent a message of more than {EVENT_BYTES_MAX >> 20} MiB")
        for line in lines:
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if data or event:
                    yield SseMessage(event or "message", b"\n".join(data))
                event, data = "", []
            elif name == b"event":
                event = value.decode("utf-8", "replace")
            elif name == b"data":
                data.append(value)
            elif name == b"":
                yield SseMessage("", b"")


def fact_of(envelope: Envelope) -> Event | None:
    """The fact of an envelope; None: the envelope is only derived from a fact.

    Raises Unavailable when this version of NoETL does not know the fact.
    """
    if envelope.part:
        return None
    try:
        fact: Fact = msgspec.convert({"fact": envelope.name, **envelope.data}, Fact)
    except msgspec.ValidationError as error:
        message = f"{envelope.event_id} is a fact that this version of noetl does not know"
        raise Unavailable(f"{message}: is the server newer?") from error
    return Event(envelope.seq, datetime.fromisoformat(envelope.timestamp), fact)
