"""One connection of a process to NATS: it comes back whenever it is lost, and says so to whoever waits.

Requests are answered through one subscription of our own: nats-py ends its waiting by `wait_for`, which on
Python 3.11 may swallow a cancellation. Nothing here shows an address, which may hold a password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple

from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import AuthorizationError, SecureConnRequiredError
from nats.errors import Error as NatsError

from noetl.adapters.nats.credentials import Access
from noetl.clock import Clock, SystemClock
from noetl.errors import Unavailable
from noetl.link.chunking import Parcel

ANSWER_S: Final = 10.0
CONNECT_S: Final = 3
PING_S: Final = 2  # a server that is silent for three of them counts as lost
RECONNECT_S: Final = 0.25
REVIVE_S: Final = 1.0  # between two tries when NATS has shown us the door
FIRST_TRIES: Final = 2  # the first time we give up soon, so that people hear of it
PENDING_BYTES_MAX: Final = 67_108_864  # that the socket has not taken yet
REFUSED: Final = "it refuses the user, the password or the token"

Hear = Callable[[Msg], None]


class NobodyThere(Unavailable):
    """Nobody listens on that subject: there is no use in waiting."""


class Silence(Unavailable):
    """Somebody listens, and no answer came in time."""


class CarefulClient(Client):
    """nats-py's own, but careful: nothing is said to a server without TLS where TLS was asked for."""

    def __init__(self, *, secure: bool) -> None:
        super().__init__()
        self._secure = secure

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._secure and not info.get("tls_required"):
            raise SecureConnRequiredError
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        """Who is refused may find the door shut before he has read why."""
        try:
            await super()._process_connect_init()
        except ConnectionError as error:
            if self._server_info.get("auth_required"):
                raise AuthorizationError from error
            raise

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is not None:
            # Of a try that was refused: it would stay open.
            self._transport.close()  # type: ignore[no-untyped-call]  # nats-py has no types there
        await super()._connect_to_server(s)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Who listens of ours hears it now: nats-py's own queues would wake a task for each message."""
        made = self._subs.get(sid)
        listening = getattr(made._cb, "__self__", None) if made is not None else None
        if not isinstance(listening, Listening):
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        told = await self._process_headers(headers)
        try:
            listening.hear(self._build_message(sid, subject, reply, data, told))
        except Exception as error:  # noqa: BLE001  # a border: a bug of one hearer must not deafen the others
            await self._error_cb(error)


class _Waiting:
    """A request that is out."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.parcel = Parcel()

    def fail(self, error: Unavailable) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # seen: whoever asked may be gone

    def hear(self, message: Msg) -> None:
        if is_nobody(message):
            self.fail(NobodyThere("nobody answers"))
            return
        try:
            whole = self.parcel.add(message.data)
        except Unavailable as error:
            self.fail(error)
            return
        if whole is not None and not self.answer.done():
            self.answer.set_result(whole)


class Said(NamedTuple):
    """A request: one body, in several messages when it is large."""

    subject: str | None  # None: to ourselves
    messages: Sequence[bytes]
    headers: dict[str, str] | None = None


class Listening:
    """A subscription that outlives the connection it was made on."""

    def __init__(self, subject: str, hear: Hear, group: str) -> None:
        self.subject, self.group = subject, group
        self.hear = hear
        self._made: Subscription | None = None

    async def begin(self, client: Client) -> None:
        self._made = await client.subscribe(self.subject, self.group, cb=self._heard)

    async def hush(self, client: Client) -> None:
        """The server sends nothing more; what is on its way is still heard."""
        if self._made is not None:
            await client._send_unsubscribe(self._made._id)

    async def end(self) -> None:
        if self._made is not None:
            await self._made.unsubscribe()

    async def _heard(self, message: Msg) -> None:
        """What a plain client of nats-py would call; ours calls `hear`."""
        self.hear(message)


class Connection:
    """For queue, link, feed and roster together. It belongs to the loop that it was opened on."""

    def __init__(self, access: Access | str, name: str = "noetl", clock: Clock | None = None) -> None:
        self._access = Access(access) if isinstance(access, str) else access
        self._name = name
        self._clock = clock or SystemClock()
        self.losses: list[Callable[[], None]] = []  # told when the connection is lost
        self._opening = asyncio.Lock()
        self._client: Client | None = None
        self._inbox = ""
        self._tokens = count(1)
        self._waiting: dict[str, _Waiting] = {}
        self._listening: dict[Listening, None] = {}
        self._reviving: asyncio.Task[None] | None = None
        self._why: str | None = None  # what NATS said last, as far as it may be told
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def message_bytes(self) -> int:
        """What the server takes at most in one message."""
        return self._client.max_payload if self._client is not None else 0

    async def open(self) -> None:
        """Whoever does not, opens it by using it. Raises Unavailable when nobody is there, or lets us in."""
        async with self._opening:
            if self._client is None and not self._closed:
                client = await self._connect()
                self._inbox = client.new_inbox()
                answers = Listening(f"{self._inbox}.*", self._answered, "")
                with translated():
                    await answers.begin(client)
                self._listening[answers] = None
                self._client = client

    async def close(self) -> None:
        self._closed = True
        if self._reviving is not None:
            self._reviving.cancel()
        if self._client is not None:
            with suppress(NatsError, OSError, TimeoutError):
                await self._client.close()
        self._fail_all("the connection to NATS is closed")

    # What is said

    async def publish(
        self, subject: str, body: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Never waits. What is said while the connection is lost is refused, not kept for later."""
        if self._client is None:
            await self.open()
        client = self._client
        if client is None or not client.is_connected:
            raise Unavailable(self._lost_words())
        if client.pending_data_size > PENDING_BYTES_MAX:
            raise Unavailable("NATS does not take what we say")
        with translated():
            await client.publish(subject, body, reply, headers)

    async def request(self, subject: str, messages: Sequence[bytes], *, timeout_s: float = ANSWER_S) -> bytes:
        """The answer. Raises NobodyThere at once when nobody listens, Unavailable when none comes in time."""
        return (await self.gather([Said(subject, messages)], timeout_s))[0]

    async def settle(self) -> None:
        """What was said before has come to the server, and so have our subscriptions."""
        await self.gather([Said(None, (b"",))])

    async def gather(self, said: Sequence[Said], timeout_s: float = ANSWER_S) -> list[bytes]:
        """All at once, and the answers in the same order: many cost hardly more time than one."""
        if self._client is None:
            await self.open()
        out = {str(next(self._tokens)): (each, _Waiting()) for each in said}
        self._waiting.update((token, waiting) for token, (_, waiting) in out.items())
        try:
            for token, (each, _) in out.items():
                inbox = f"{self._inbox}.{token}"
                for message in each.messages:
                    await self.publish(each.subject or inbox, message, reply=inbox, headers=each.headers)
            async with asyncio.timeout(timeout_s):
                return [await waiting.answer for _, waiting in out.values()]
        except TimeoutError:
            raise Silence(f"no answer within {timeout_s:g} s") from None
        finally:
            for token in out:
                del self._waiting[token]

    # What is heard

    async def subscribe(self, subject: str, hear: Hear, *, group: str = "") -> Listening:
        """`hear` must not wait. Of a group only one hears each message."""
        if self._client is None:
            await self.open()
        assert self._client is not None, "it is closed"
        listening = Listening(subject, hear, group)
        self._listening[listening] = None  # kept also when it fails now: it is made when we are back
        if not self._client.is_closed:
            with translated():
                await listening.begin(self._client)
        return listening

    async def unsubscribe(self, *listenings: Listening) -> None:
        """What is on its way is heard before, so that nobody waits in vain for an answer."""
        for listening in listenings:
            self._listening.pop(listening, None)
        client = self._client
        if client is not None and client.is_connected and listenings:
            with suppress(NatsError, OSError, Unavailable):
                for listening in listenings:
                    await listening.hush(client)
                await self.settle()
        for listening in listenings:
            with suppress(NatsError, OSError):  # it is gone with the connection
                await listening.end()

    async def drop(self, listening: Listening) -> None:
        """At once: what is on its way need not be heard."""
        self._listening.pop(listening, None)
        with suppress(NatsError, OSError):  # it is gone with the connection
            await listening.end()

    async def inbox(self) -> str:
        """A subject that nobody else knows."""
        await self.open()
        return f"{self._inbox}.own.{next(self._tokens)}"

    def _answered(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None:
            waiting.hear(message)

    # Its life

    async def _connect(self) -> Client:
        given = self._access.given()
        client = CarefulClient(secure=given.tls is not None)
        try:
            await client.connect(
                **given.options(),
                name=self._name,
                error_cb=self._erred,
                disconnected_cb=self._lost,
                reconnected_cb=self._back,
                closed_cb=self._shut,
                connect_timeout=CONNECT_S,
                ping_interval=PING_S,
                max_reconnect_attempts=FIRST_TRIES,
                reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]  # it is slept, and not counted
                pending_size=0,  # nothing is kept while the connection is lost, and nobody waits for a flush
            )
        except (NatsError, OSError, TimeoutError) as error:
            words = self._why or type(error).__name__
            raise Unavailable(f"NATS does not answer ({words})") from error
        client.options["max_reconnect_attempts"] = -1
        self._why = None
        return client

    async def _back(self) -> None:
        self._why = None

    async def _erred(self, error: Exception) -> None:
        """It reconnects by itself; whoever asks meanwhile is told. A bug in a hearer of ours is loud."""
        if not isinstance(error, NatsError | OSError | TimeoutError):
            context = {"message": "a hearer of NATS fell", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return
        if "authorization" in str(error).lower():
            self._why = REFUSED
        elif isinstance(error, SecureConnRequiredError):
            self._why = "it offers no TLS, and TLS was asked for"
        elif self._why != REFUSED:  # a door that is shut in our face sounds like a line that breaks
            self._why = type(error).__name__

    async def _lost(self) -> None:
        self._fail_all("the connection to NATS was lost")
        for tell in self.losses:
            tell()

    async def _shut(self) -> None:
        """nats-py gives up for good when the server shows it the door, as after a change of passwords."""
        if not self._closed and self._reviving is None and self._client is not None:
            self._reviving = asyncio.ensure_future(self._revive())

    async def _revive(self) -> None:
        while not self._closed:
            await self._clock.sleep(REVIVE_S)
            with suppress(Unavailable):
                client = await self._connect()
                with translated():
                    for listening in self._listening:
                        await listening.begin(client)
                self._client, self._reviving = client, None
                return

    def _fail_all(self, words: str) -> None:
        for waiting in self._waiting.values():
            waiting.fail(Unavailable(words))

    def _lost_words(self) -> str:
        return (
            f"there is no connection to NATS ({self._why})" if self._why else "there is no connection to NATS"
        )


def is_nobody(message: Msg) -> bool:
    """Is it the server who says that nobody listens?"""
    return not message.data and message.headers is not None and message.headers.get("Status") == "503"


@contextmanager
def translated() -> Iterator[None]:
    """What nats-py says may hold the address with its password: people get its kind only."""
    try:
        yield
    except (NatsError, OSError, TimeoutError) as error:
        raise Unavailable(f"NATS does not answer ({type(error).__name__})") from error
