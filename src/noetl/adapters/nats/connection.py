"""The connection of a process to NATS: it implements `Transport`, and it reconnects automatically.

Replies arrive through one subscription of our own, because nats-py waits with `wait_for`, which may swallow a
cancellation on Python 3.11. No error and no `repr` contains an address, because it may contain a password.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as ClientSubscription
from nats.errors import Error as NatsError
from nats.errors import SecureConnRequiredError

from noetl.adapters.nats import subjects
from noetl.adapters.nats.client import DirectClient, Handler
from noetl.clock import Clock, SystemClock
from noetl.errors import Rejected, Unavailable
from noetl.nats_client import NatsKey
from noetl.ports import REPLY_TIMEOUT_S, Collect, NoResponder, ReplyTimeout, first_reply

NATS_PORT: Final = 4222


class ConnectOptions(NamedTuple):
    """The settings as nats-py expects them."""

    servers: list[str]  # without credentials
    user: str | None
    password: str | None
    token: str | None
    user_key: NatsKey | None
    tls: ssl.SSLContext | None  # None: the settings do not ask for TLS
    hostname: str | None = None  # that the server certificate must name; None: the host of the address

    def as_kwargs(self) -> dict[str, Any]:
        return {
            "servers": self.servers,
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "tls": self.tls,
            "tls_hostname": self.hostname,
        }

    def __repr__(self) -> str:
        return "ConnectOptions(***)"


class NatsSettings(NamedTuple):
    """Where NATS is and how to log in. A field takes precedence over the same information in the address."""

    url: str  # nats://host:port or tls://host:port, several with commas
    user: str | None = None
    password: str | None = None
    token: str | None = None
    creds: str | None = None  # text of a .creds file
    nkey: str | None = None  # seed of a user
    ca: str | None = None  # path of the trusted certificates; None: those of the system
    certificate: str | None = None  # path of the client certificate
    key: str | None = None  # path of its private key
    hostname: str | None = None  # that the server certificate must name; None: the host of the address

    def __repr__(self) -> str:
        return "NatsSettings(***)"

    def resolve(self) -> ConnectOptions:
        """Raises Rejected, without the address in its text."""
        parts = [_split(each) for each in self.url.split(",") if each.strip()]
        if not parts:
            raise Rejected("bad-setting", "the address of NATS is empty: write nats://host:port")
        named = next((each for each in parts if each.username), None)
        user, password, token = self.user, self.password, self.token
        if named is not None and user is None and token is None:
            login = unquote(named.username or "")
            if named.password is None:
                token = login
            else:
                user, password = login, unquote(named.password)
        secure = any(each.scheme == "tls" for each in parts) or self.ca or self.certificate
        servers = [f"{each.scheme}://{_host(each)}:{_port(each)}" for each in parts]
        tls = self._tls() if secure else None
        try:
            user_key = NatsKey.of(self.creds, self.nkey)
        except ValueError as error:
            raise Rejected("bad-credential", str(error)) from None
        return ConnectOptions(servers, user, password, token, user_key, tls, self.hostname)

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = "the TLS files for NATS cannot be read"
            raise Rejected("bad-setting", f"{message} ({type(error).__name__})") from error
        return context


def _split(address: str) -> SplitResult:
    address = address.strip()
    try:
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        _port(parts)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise Rejected("bad-setting", "not an address of NATS: write nats://host:port or tls://host:port")
    return parts


def _port(parts: SplitResult) -> int:
    return NATS_PORT if parts.port is None else parts.port


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


CONNECT_S: Final = 3
PING_S: Final = 2  # a server that misses three pings counts as lost
RECONNECT_S: Final = 0.25
REVIVE_S: Final = 1.0  # between two attempts after NATS has refused the connection
FIRST_TRIES: Final = 2  # the first connection gives up soon, so that people see the error
PENDING_BYTES_MAX: Final = 67_108_864  # sent by us and not yet accepted by the socket
REFUSED: Final = "it refuses the login"
_DENIED: Final = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)
_DENIED_RECEIVER: Final = re.compile(r'permissions violation for subscription to "([^"]*)"', re.IGNORECASE)


class _PendingReply:
    """The answer that a request waits for."""

    def __init__(self, subject: str | None, collect: Collect) -> None:
        self.subject = subject
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._collect = collect

    def fail(self, error: Unavailable) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # mark it as retrieved: the sender may have been cancelled

    def receive(self, message: Msg) -> None:
        if _is_no_responder(message):
            self.fail(NoResponder("no process answers on this subject"))
            return
        try:
            whole = self._collect(message.data)
        except Unavailable as error:
            self.fail(error)
            return
        if whole is not None and not self.answer.done():
            self.answer.set_result(whole)


class NatsRequest(NamedTuple):
    """One request, which may consist of several messages."""

    subject: str | None  # None: to this connection itself
    messages: Sequence[bytes]
    headers: dict[str, str] | None = None
    collect: Collect = first_reply


class NatsSubscription:
    """A subscription that is renewed after a reconnect."""

    def __init__(self, connection: NatsConnection, subject: str, handler: Handler, group: str) -> None:
        self._connection = connection
        self.subject, self.group = subject, group
        self.handler = handler
        self._client_subscription: ClientSubscription | None = None

    async def begin(self, client: DirectClient) -> None:
        self._client_subscription = await client.subscribe(self.subject, self.group, cb=self._receive)

    async def stop(self, client: DirectClient) -> None:
        """Ask the server to send nothing more. Messages in flight still arrive."""
        if self._client_subscription is not None:
            await client._send_unsubscribe(self._client_subscription._id)

    async def end(self) -> None:
        if self._client_subscription is not None:
            with suppress(NatsError, OSError):  # the connection is lost, and the subscription with it
                await self._client_subscription.unsubscribe()

    async def close(self) -> None:
        await self._connection.unsubscribe(self)

    async def drop(self) -> None:
        self._connection.forget(self)
        await self.end()

    async def _receive(self, message: Msg) -> None:
        """The callback for nats-py. `DirectClient` calls `handler` instead."""
        self.handler(message)


class NatsConnection:
    """Shared by queue, link, feed and worker registry. It belongs to the loop that opened it."""

    def __init__(
        self,
        settings: NatsSettings | str,
        name: str = "noetl",
        clock: Clock | None = None,
        *,
        inbox: str = "",
        fixed: bool = False,
    ) -> None:
        """`inbox`: the prefix of the subjects for replies; "": the default of NATS.

        `fixed`: only the given addresses are used, because others have not been checked.
        """
        self._fixed = fixed
        self._inbox_prefix = inbox or subjects.INBOX
        self._settings = NatsSettings(settings) if isinstance(settings, str) else settings
        self._name = name
        self._clock = clock or SystemClock()
        self.on_lost: list[Callable[[], None]] = []  # called when the connection is lost
        self.on_denied: list[Callable[[str], None]] = []  # called with a subject that the user may not receive
        self._opening = asyncio.Lock()
        self._client: DirectClient | None = None
        self._inbox = ""
        self._tokens = count(1)
        self._pending: dict[str, _PendingReply] = {}
        self._subscriptions: dict[NatsSubscription, None] = {}
        self._reviving: asyncio.Task[None] | None = None
        self._reason: str | None = None  # the last error of NATS, without addresses
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def payload_limit(self) -> int:
        return self._client.max_payload if self._client is not None else 0

    async def open(self) -> None:
        """Connect. Raises Unavailable if no server answers or the login is refused."""
        async with self._opening:
            if self._client is None and not self._closed:
                client = await self._connect()
                self._inbox = client.new_inbox()
                replies = NatsSubscription(self, f"{self._inbox}.*", self._receive_reply, "")
                with translated():
                    await replies.begin(client)
                self._subscriptions[replies] = None
                self._client = client

    async def close(self) -> None:
        self._closed = True
        if self._reviving is not None:
            self._reviving.cancel()
        if self._client is not None:
            with suppress(NatsError, OSError, TimeoutError):
                await self._client.close()
        self._fail_pending("the connection to NATS is closed")

    # Sending

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if self._client is None:
            await self.open()
        client = self._client
        if client is None or not client.is_connected:
            reason = f" ({self._reason})" if self._reason else ""
            raise Unavailable(f"there is no connection to NATS{reason}")
        if client.pending_data_size > PENDING_BYTES_MAX:
            raise Unavailable("NATS does not accept data fast enough")
        try:
            client.send(subject, data, reply, headers)
        except (NatsError, OSError) as error:
            raise unavailable(error) from error

    async def request(
        self,
        subject: str,
        messages: Sequence[bytes],
        collect: Collect = first_reply,
        *,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bytes:
        return (await self.request_all([NatsRequest(subject, messages, None, collect)], timeout_s))[0]

    async def flush(self) -> None:
        await self.request_all([NatsRequest(None, (b"",))])

    async def request_all(self, requests: Sequence[NatsRequest], timeout_s: float = REPLY_TIMEOUT_S) -> list[bytes]:
        """Send all requests together and return the answers in the same order, after one round trip."""
        if self._client is None:
            await self.open()
        sent = {str(next(self._tokens)): _PendingReply(each.subject, each.collect) for each in requests}
        self._pending.update(sent)
        # One timer: `asyncio.timeout` around each of many requests would be a noticeable part of their cost.
        timer = asyncio.get_running_loop().call_later(timeout_s, _time_out, sent.values(), timeout_s)
        try:
            for each, token in zip(requests, sent, strict=True):
                inbox = f"{self._inbox}.{token}"
                for message in each.messages:
                    await self.publish(each.subject or inbox, message, reply=inbox, headers=each.headers)
            return [await pending.answer for pending in sent.values()]
        finally:
            timer.cancel()
            for token in sent:
                del self._pending[token]

    # Receiving

    async def subscribe(self, subject: str, handler: Handler, *, group: str = "") -> NatsSubscription:
        if self._client is None:
            await self.open()
        if self._client is None or self._closed:
            raise Unavailable("the connection to NATS is closed")
        subscription = NatsSubscription(self, subject, handler, group)
        self._subscriptions[subscription] = None  # also if it fails now: it is made after the reconnect
        if not self._client.is_closed:
            with translated():
                await subscription.begin(self._client)
        return subscription

    async def unsubscribe(self, subscription: NatsSubscription) -> None:
        """Wait until messages in flight are handled, so that no sender waits in vain for an answer."""
        self.forget(subscription)
        client = self._client
        if client is not None and client.is_connected:
            with suppress(NatsError, OSError, Unavailable):
                await subscription.stop(client)
                await self.flush()
        await subscription.end()

    def forget(self, subscription: NatsSubscription) -> None:
        """Do not renew it after a reconnect."""
        self._subscriptions.pop(subscription, None)

    async def new_inbox(self) -> str:
        """A subject that no other process knows."""
        await self.open()
        return f"{self._inbox}.own.{next(self._tokens)}"

    def _receive_reply(self, message: Msg) -> None:
        pending = self._pending.get(message.subject.rpartition(".")[2])
        if pending is not None:
            pending.receive(message)

    # Connecting and reconnecting

    async def _connect(self) -> DirectClient:
        options = self._settings.resolve()
        client = DirectClient(secure=options.tls is not None, fixed=self._fixed, key=options.user_key)
        try:
            await client.connect(
                **options.as_kwargs(),
                name=self._name,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                closed_cb=self._on_closed,
                connect_timeout=CONNECT_S,
                ping_interval=PING_S,
                max_reconnect_attempts=FIRST_TRIES,
                reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # it is only passed to sleep
                inbox_prefix=self._inbox_prefix,
                pending_size=0,  # buffer nothing while disconnected, and flush at once
            )
        except (NatsError, OSError, TimeoutError) as error:
            raise Unavailable(f"NATS does not answer ({self._reason or type(error).__name__})") from error
        client.options["max_reconnect_attempts"] = -1
        self._reason = None
        return client

    async def _on_reconnected(self) -> None:
        self._reason = None

    async def _on_error(self, error: Exception) -> None:
        """Remember why NATS is unreachable. A bug in a handler goes to the loop's exception handler."""
        if not isinstance(error, NatsError | OSError | TimeoutError):
            context = {"message": "a handler of NATS messages failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return
        if (denied := _DENIED.search(str(error))) is not None:
            self._fail_denied(denied[1])
        elif (denied := _DENIED_RECEIVER.search(str(error))) is not None:
            for notify in self.on_denied:
                notify(denied[1])
        elif "authorization" in str(error).lower():
            self._reason = REFUSED
        elif isinstance(error, SecureConnRequiredError):
            self._reason = "it offers no TLS, but the settings require TLS"
        elif self._reason != REFUSED:  # a refused login is often followed by a connection error
            self._reason = type(error).__name__

    def _fail_denied(self, subject: str) -> None:
        """NATS does not answer a request that the user may not send. The client writes the subject in lower case."""
        for pending in self._pending.values():
            if pending.subject is not None and pending.subject.lower() == subject.lower():
                pending.fail(Unavailable(f"the NATS user may not publish to {pending.subject}"))

    async def _on_disconnected(self) -> None:
        self._fail_pending("the connection to NATS was lost")
        for notify in self.on_lost:
            notify()

    async def _on_closed(self) -> None:
        """nats-py gives up for good if the server refuses the login, for example after a password change."""
        if not self._closed and self._reviving is None and self._client is not None:
            self._reviving = asyncio.ensure_future(self._revive())

    async def _revive(self) -> None:
        while not self._closed:
            await self._clock.sleep(REVIVE_S)
            with suppress(Unavailable):
                client = await self._connect()
                with translated():
                    for subscription in self._subscriptions:
                        await subscription.begin(client)
                self._client, self._reviving = client, None
                return

    def _fail_pending(self, message: str) -> None:
        for pending in self._pending.values():
            pending.fail(Unavailable(message))


def _time_out(requests: Iterable[_PendingReply], timeout_s: float) -> None:
    for each in requests:
        each.fail(ReplyTimeout(f"no answer within {timeout_s:g} s"))


def _is_no_responder(message: Msg) -> bool:
    """Whether the NATS server itself replies that no process subscribes to the subject."""
    return not message.data and message.headers is not None and message.headers.get("Status") == "503"


@contextmanager
def translated() -> Iterator[None]:
    """Raise Unavailable for the errors of nats-py."""
    try:
        yield
    except (NatsError, OSError, TimeoutError) as error:
        raise unavailable(error) from error


def unavailable(error: Exception) -> Unavailable:
    """With the type of the error only: its text may contain an address with a password."""
    return Unavailable(f"NATS does not answer ({type(error).__name__})")
