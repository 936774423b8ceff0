"""Connections to NATS servers of authors: one for each credential, opened at first use, with checked addresses.

A connection never reconnects automatically, because the server could then name other addresses; the next call opens a
new one. Errors contain no address, because it may contain a password.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from typing import ClassVar, Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from nats.aio.msg import Msg
from nats.errors import AuthorizationError, SecureConnRequiredError
from nats.errors import Error as NatsError

from noetl.addresses import refusal
from noetl.nats_client import NatsKey, StrictNatsClient
from noetl.output import JSON, Failure, Output
from noetl.secret import Secret
from noetl.tools.errors import TooLarge, ToolError, allow_hint
from noetl.tools.nats.tool import NatsPart

Values: TypeAlias = Mapping[str, Secret]

CONNECTIONS_MAX: Final = 32  # credentials with an open connection
PORT: Final = 4222
PING_S: Final = 20  # a server that misses two pings counts as lost
FLUSH_S: Final = 30
_DENIED: Final = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)


class InvalidNatsCredential(ToolError):
    """The credential cannot be used; the message contains no value of it."""

    kind = "credential"


class NatsFailure(ToolError):
    """NATS or a receiver refused the operation, or could not be reached."""

    kind = "nats"
    code: ClassVar[str] = "unavailable"

    def __init__(self, message: str, code: str | None = None, *, retryable: bool = False) -> None:
        super().__init__(message)
        self._code = code or self.code
        self._retryable = retryable

    def output(self) -> Output:
        failure = Failure(
            kind=self.kind, message=str(self), retryable=self._retryable, details={"code": self._code}
        )  # fmt: skip
        return Output(status="error", error=failure, own=own_part(code=self._code))


class LoginRefused(NatsFailure):
    """NATS does not accept the credential."""

    code = "refused"


class NatsTarget(NamedTuple):
    """The servers and the login that a credential names."""

    servers: tuple[tuple[str, int], ...]
    secure: bool
    user: str | None
    password: str | None
    token: str | None
    key: NatsKey | None = None


def nats_target(values: Values) -> NatsTarget:
    """Parse a credential. Raises InvalidNatsCredential."""
    fields = {name: secret.reveal() for name, secret in values.items()}
    parts = [_split(each.strip()) for each in (fields.get("url") or fields.get("") or "").split(",") if each.strip()]
    if not parts:
        raise InvalidNatsCredential('the credential has no "url"')
    user, password, token = fields.get("user"), fields.get("password"), fields.get("token")
    named = next((each for each in parts if each.username), None)
    if named is not None and user is None and token is None:
        if named.password is None:
            token = unquote(named.username or "")
        else:
            user, password = unquote(named.username or ""), unquote(named.password)
    secure = any(each.scheme == "tls" for each in parts)
    servers = tuple((each.hostname or "", PORT if each.port is None else each.port) for each in parts)
    try:
        key = NatsKey.of(fields.get("creds"), fields.get("nkey"))
    except ValueError as error:
        raise InvalidNatsCredential(str(error)) from None
    return NatsTarget(servers, secure, user, password, token, key)


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        valid = parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidNatsCredential("the url of the credential must be nats://host:port or tls://host:port")
    return parts


class NatsConnections:
    """The connections of one worker to NATS servers of authors."""

    def __init__(self, *, allow_private: bool, allow: Sequence[str]) -> None:
        self._allow_private = allow_private
        self._allow = [ip_network(each) for each in allow]
        self._open: dict[frozenset[tuple[str, Secret]], _Shared] = {}  # the most recently used is last

    @asynccontextmanager
    async def connection(self, values: Values, connect_s: float) -> AsyncIterator[ExternalConnection]:
        """Raises ToolError."""
        key = frozenset(values.items())
        shared = self._open.pop(key, None) or _Shared()
        self._open[key] = shared
        shared.users += 1
        try:
            connection = await shared.open(lambda: self._connect(nats_target(values), connect_s))
            await self._close_idle()
            yield connection
        finally:
            shared.users -= 1

    async def _close_idle(self) -> None:
        idle = [key for key, each in self._open.items() if not each.users]
        for key in idle[: max(0, len(self._open) - CONNECTIONS_MAX)]:
            await self._open.pop(key).close()

    async def _connect(self, target: NatsTarget, connect_s: float) -> ExternalConnection:
        """The first server that accepts the login. Names are resolved each time, because DNS can change."""
        error: NatsFailure | None = None
        for host, port in target.servers:
            try:
                addresses = await self._allowed_addresses(host, port)
            except NatsFailure as failure:
                error = failure
                continue
            for address in addresses:
                connection = ExternalConnection(target)
                try:
                    await connection.open(host, address, port, connect_s)
                except NatsFailure as failure:
                    error = failure
                else:
                    return connection
        raise error or NatsFailure("the credential names no server")

    async def _allowed_addresses(self, host: str, port: int) -> list[str]:
        """Raises NatsFailure if no address of the host is allowed (D88)."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise NatsFailure("the host name of the server cannot be resolved", retryable=True) from None
        reasons = {
            address: refusal(address, allow_private=self._allow_private, allow=self._allow)
            for address in dict.fromkeys(str(each[4][0]) for each in found)
        }
        allowed = [address for address, reason in reasons.items() if reason is None]
        if not allowed:
            reason = next(iter(reasons.values()), "the host has no address")
            message = f"the address of the server is not allowed: {reason}{allow_hint(reason)}"
            raise NatsFailure(message, "denied")
        return allowed

    async def close(self) -> None:
        shared, self._open = self._open, {}
        for each in shared.values():
            await each.close()


class _Shared:
    """The connection of one credential, and the number of calls that use it."""

    def __init__(self) -> None:
        self.users = 0
        self._connection: ExternalConnection | None = None
        self._opening = asyncio.Lock()

    async def open(self, connect: Callable[[], Awaitable[ExternalConnection]]) -> ExternalConnection:
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                await self.close()
                self._connection = await connect()
            return self._connection

    async def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


class ExternalConnection:
    """One connection. Its own waiting functions are not used: they may swallow a cancellation on Python 3.11."""

    def __init__(self, target: NatsTarget) -> None:
        self._target = target
        self._client = StrictNatsClient(secure=target.secure, key=target.key)
        self._reason: Exception | None = None
        self._pending: set[Replies] = set()
        self._denied: dict[str, int] = {}  # how often NATS did not permit a subject, in lower case

    @property
    def is_open(self) -> bool:
        return self._client.is_connected

    @property
    def payload_limit(self) -> int:
        return self._client.max_payload

    async def open(self, host: str, address: str, port: int, connect_s: float) -> None:
        """Connect to the checked address; a certificate must be for the name. Raises NatsFailure."""
        target = self._target
        try:
            async with asyncio.timeout(connect_s):
                await self._client.connect(
                    f"nats://{f'[{address}]' if ':' in address else address}:{port}",
                    user=target.user,
                    password=target.password,
                    token=target.token,
                    tls=ssl.create_default_context() if target.secure else None,
                    tls_hostname=host,
                    name="noetl",
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    connect_timeout=max(1, int(connect_s)),
                    ping_interval=PING_S,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                )
        except (NatsError, OSError, TimeoutError) as error:
            reason = self._reason or error  # closing may report further errors
            await self.close()
            raise _connect_failure(reason, connect_s) from None
        except BaseException:
            await self.close()
            raise

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None) -> None:
        """Returns when the server has taken the message. Raises ToolError."""
        denied = self._denied.get(subject.lower(), 0)
        await self._send(subject, data, "", headers)
        try:
            await self._client.flush(FLUSH_S)
        except (NatsError, OSError, TimeoutError):
            raise _lost() from None
        if self._denied.get(subject.lower(), 0) > denied:
            raise _not_permitted(subject)

    async def request(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> Msg:
        """The first reply. The caller limits the time. Raises ToolError."""
        async with self.listen(subject) as (inbox, replies):
            await self._send(subject, data, inbox, headers)
            return await replies.next()

    @asynccontextmanager
    async def listen(self, subject: str = "") -> AsyncIterator[tuple[str, Replies]]:
        """A subject that only this call knows, and the messages that arrive there. `subject`: of the request."""
        replies = Replies(subject)
        inbox = self._client.new_inbox()

        async def receive(message: Msg) -> None:
            replies.put(message)

        self._pending.add(replies)
        try:
            subscription = await self._client.subscribe(inbox, cb=receive)
            try:
                yield inbox, replies
            finally:
                with suppress(NatsError, OSError):  # the connection is lost, and the subscription with it
                    await subscription.unsubscribe()
        except (NatsError, OSError):
            raise _lost() from None
        finally:
            self._pending.discard(replies)

    async def _send(self, subject: str, data: bytes, reply: str, headers: dict[str, str] | None) -> None:
        if len(data) > self.payload_limit:
            limit = f"the server accepts {self.payload_limit:,}"
            raise TooLarge(f"the message has {len(data):,} bytes, and {limit}: send a Ref, or store it in an object")
        try:
            await self._client.publish(subject, data, reply, headers)
        except (NatsError, OSError):
            raise _lost() from None

    async def _on_error(self, error: Exception) -> None:
        self._reason = error
        found = _DENIED.search(str(error))
        if found is None:
            return
        subject = found[2].lower()
        if found[1].lower() == "subscription":
            self._fail(NatsFailure("the NATS user may not receive replies (subscribe to _INBOX.>)", "denied"))
            return
        self._denied[subject] = self._denied.get(subject, 0) + 1
        for each in self._pending:
            if each.subject.lower() == subject:
                each.put(_not_permitted(each.subject))

    async def _on_closed(self) -> None:
        self._fail(_lost())

    def _fail(self, failure: NatsFailure) -> None:
        for each in self._pending:
            each.put(failure)

    async def close(self) -> None:
        with suppress(NatsError, OSError, TimeoutError):
            await self._client.close()


class Replies:
    """The messages that a call waits for."""

    def __init__(self, subject: str) -> None:
        self.subject = subject  # of the request
        self._queue: asyncio.Queue[Msg | NatsFailure] = asyncio.Queue()

    def put(self, found: Msg | NatsFailure) -> None:
        self._queue.put_nowait(found)

    async def next(self) -> Msg:
        """Raises NatsFailure."""
        found = await self._queue.get()
        if isinstance(found, NatsFailure):
            raise found
        return found


def _lost() -> NatsFailure:
    return NatsFailure("the connection to NATS was lost", retryable=True)


def _not_permitted(subject: str) -> NatsFailure:
    return NatsFailure(f'the NATS user may not publish to "{subject}"', "denied")


def _connect_failure(error: Exception, connect_s: float) -> NatsFailure:
    """The text of an error may contain an address, so only its type is used."""
    match error:
        case AuthorizationError():
            return LoginRefused("NATS refuses the login of the credential")
        case SecureConnRequiredError():
            return NatsFailure("the credential requires TLS (tls://), which the server does not offer", "refused")
        case ssl.SSLCertVerificationError():
            return NatsFailure(f"the certificate of the server is not valid: {error.verify_message}", "refused")
        case TimeoutError():
            return NatsFailure(f"no connection to NATS within {connect_s:g} s", retryable=True)
        case NatsError() if "authorization" in str(error).lower():
            return LoginRefused("NATS refuses the login of the credential")
    return NatsFailure("no server of the credential answers", retryable=True)


def own_part(**fields: JSON) -> dict[str, JSON]:
    return {"nats": msgspec.to_builtins(NatsPart(**fields))}
