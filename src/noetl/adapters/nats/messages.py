"""Messages for triggers, from NATS: a queue group on a subject, or a durable consumer of a stream.

The connection is that of the server, or one to the address in a credential, which is checked like that of a tool.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import NatsConnection, NatsSettings
from noetl.clock import Clock
from noetl.errors import Rejected, Unavailable
from noetl.output import JSON
from noetl.ports import MessageAnswer, MessageHandler, MessageSelection, NoResponder, ReceivedMessage
from noetl.secret import Secret
from noetl.tool import AddressPolicy
from noetl.views.log import instant

AT_ONCE: Final = 16  # messages of one trigger that are handled at the same time
WAITING_MAX: Final = 4_096  # messages without a stream that wait; more are dropped
BATCH: Final = 64  # messages of one pull
PULL_S: Final = 5.0
HEARTBEAT_S: Final = 2.0
ACK_WAIT_S: Final = 60
UNACKED_MAX: Final = 1_000
DRAIN_S: Final = 10.0  # for messages that have arrived when the receiver ends
_NS: Final = 1_000_000_000
_NO_STREAM: Final = 10059
_ACK: Final = "$JS.ACK."


class _Error(Struct):
    err_code: int = 0
    description: str = ""


class _ConsumerReply(Struct):
    error: _Error | None = None
    config: dict[str, JSON] = {}


_consumer_reply = msgspec.json.Decoder(_ConsumerReply).decode


class NatsMessages:
    """A `MessageSource`."""

    def __init__(self, connection: NatsConnection | None, policy: AddressPolicy, clock: Clock) -> None:
        """`connection`: of the server; None: it has none. `policy`: for the addresses in credentials."""
        self._connection = connection
        self._policy = policy
        self._clock = clock

    async def receive(self, selection: MessageSelection, handle: MessageHandler) -> None:
        async with (
            self._connected(selection.credential) as connection,
            _handling(connection, selection, handle) as inbox,
        ):
            if selection.stream is None:
                await _receive_subject(connection, selection, inbox)
            else:
                await _StreamReceiver(connection, selection, inbox).run()

    async def forget(self, selection: MessageSelection) -> None:
        if selection.stream is not None:
            async with self._connected(selection.credential) as connection:
                await _call(connection, f"CONSUMER.DELETE.{selection.stream}.{selection.group}", {})

    @asynccontextmanager
    async def _connected(self, credential: Mapping[str, Secret] | None) -> AsyncIterator[NatsConnection]:
        if credential is None:
            if self._connection is None:
                message = "this server has no NATS: start it with --nats, or name a keychain entry with `auth`"
                raise Rejected("no-nats", message)
            yield self._connection
            return
        connection = await self._connect(credential)
        try:
            yield connection
        finally:
            await connection.close()

    async def _connect(self, credential: Mapping[str, Secret]) -> NatsConnection:
        """The first server of a credential that accepts the login. Raises Unavailable or Rejected."""
        fields = {name: secret.reveal() for name, secret in credential.items()}
        url = fields.get("url") or fields.get("") or ""
        login = {name: fields.get(name) for name in ("user", "password", "token", "creds", "nkey")}
        options = NatsSettings(url, **login).resolve()
        failure: Unavailable | Rejected | None = None
        for server in options.servers:
            scheme, _, rest = server.partition("://")
            host, _, port = rest.rpartition(":")
            try:
                address = await self._address(host.strip("[]"), int(port))
                login |= {"user": options.user, "password": options.password, "token": options.token}
                settings = NatsSettings(f"{scheme}://{address}:{port}", **login, hostname=host.strip("[]"))
                connection = NatsConnection(settings, "noetl trigger", self._clock, fixed=True)
                await connection.open()
            except (Unavailable, Rejected) as error:
                failure = error
            else:
                return connection
        raise failure or Rejected("bad-credential", "the credential names no server")

    async def _address(self, host: str, port: int) -> str:
        """An address of the host that is allowed (D88). Raises Unavailable or Rejected, without the host."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Unavailable("the host name of the NATS server cannot be resolved") from None
        refused = "the host has no address"
        for address in dict.fromkeys(str(each[4][0]) for each in found):
            reason = self._policy.refusal(address)
            if reason is None:
                return f"[{address}]" if ":" in address else address
            refused = reason
        raise Rejected("denied", f"the address of the NATS server is not allowed: {refused} (see NOETL_ALLOW_NETWORKS)")


class _Inbox:
    """The messages that wait for their handler, and the end of the receiver."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Msg] = asyncio.Queue(WAITING_MAX)
        self.dropped = 0  # since the last message that was handled
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # its exception: why

    def put(self, message: Msg) -> None:
        try:
            self.waiting.put_nowait(message)
        except asyncio.QueueFull:
            self.dropped += 1

    def end(self, error: BaseException) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # mark it as retrieved: the receiver may be ending


@asynccontextmanager
async def _handling(
    connection: NatsConnection, selection: MessageSelection, handle: MessageHandler
) -> AsyncIterator[_Inbox]:
    """Hands the messages of an inbox to a few tasks. At the end, they finish those that have arrived."""
    inbox, subject = _Inbox(), selection.subject

    async def work() -> None:
        while True:
            message = await inbox.waiting.get()
            dropped, inbox.dropped = inbox.dropped, 0
            try:
                answer = await handle(_received(message, dropped))
                if selection.stream is not None:
                    await _answer(connection, message, answer)
            finally:
                inbox.waiting.task_done()

    def on_worker_ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            inbox.end(error)  # a bug

    def on_lost() -> None:
        inbox.end(Unavailable("the connection to NATS was lost"))

    def on_denied(denied: str) -> None:
        if subject is not None and denied.lower() == subject.lower():
            inbox.end(Rejected("denied", f'the NATS user may not subscribe to "{subject}"'))

    workers = [asyncio.ensure_future(work()) for _ in range(AT_ONCE)]
    for each in workers:
        each.add_done_callback(on_worker_ended)
    connection.on_lost.append(on_lost)
    connection.on_denied.append(on_denied)
    try:
        yield inbox
    finally:
        connection.on_lost.remove(on_lost)
        connection.on_denied.remove(on_denied)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await inbox.waiting.join()
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        inbox.ended.cancel()


def _received(message: Msg, dropped: int) -> ReceivedMessage:
    found = ReceivedMessage(message.subject, dict(message.headers or {}), message.data, dropped=dropped)
    if not message.reply.startswith(_ACK):
        return found
    stored = message.metadata
    place = (stored.stream, stored.sequence.stream, stored.timestamp, stored.num_delivered)
    return found._replace(stream=place[0], sequence=place[1], stored_at=place[2], deliveries=place[3])


async def _answer(connection: NatsConnection, message: Msg, answer: MessageAnswer) -> None:
    body = {"done": b"+ACK", "never": b"+TERM"}.get(answer.word)
    if body is None:
        body = b'-NAK {"delay": %d}' % int(answer.delay_s * _NS)
    with suppress(Unavailable):  # the stream delivers it again, and its execution is found
        await connection.publish(message.reply, body)


async def _receive_subject(connection: NatsConnection, selection: MessageSelection, inbox: _Inbox) -> None:
    """As one member of the queue group of a subject."""
    assert selection.subject is not None
    subscription = await connection.subscribe(selection.subject, inbox.put, group=selection.group)
    try:
        await inbox.ended
    finally:
        await subscription.close()


class _StreamReceiver:
    """Pulls messages of the group's durable consumer."""

    def __init__(self, connection: NatsConnection, selection: MessageSelection, inbox: _Inbox) -> None:
        self._connection, self._selection, self._inbox = connection, selection, inbox
        self._pull_ended = asyncio.Event()
        self._reply = ""  # the subject of the current pull
        self._room = 0  # messages that it may still deliver
        self._arrived = 0  # messages and heartbeats

    async def run(self) -> None:
        """Raises Unavailable or Rejected."""
        await self._create()
        subject = await self._connection.new_inbox()
        subscription = await self._connection.subscribe(f"{subject}.*", self._receive)
        try:
            number = 0
            while not self._inbox.ended.done():
                number += 1
                await self._pull(f"{subject}.{number}")
                await self._until(self._inbox.waiting.join())
            await self._inbox.ended
        finally:
            await subscription.close()

    async def _pull(self, reply: str) -> None:
        """One request for messages, until all have arrived or it has expired. Raises Unavailable."""
        self._pull_ended.clear()
        self._room, self._reply = BATCH, reply
        times = {"expires": int(PULL_S * _NS), "idle_heartbeat": int(HEARTBEAT_S * _NS)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._selection.stream}.{self._selection.group}"
        await self._connection.publish(subject, msgspec.json.encode({"batch": BATCH, **times}), reply=reply)
        while not self._pull_ended.is_set() and not self._inbox.ended.done():
            arrived = self._arrived
            await self._until(self._pull_ended.wait(), 2 * HEARTBEAT_S)
            if arrived == self._arrived and not self._inbox.ended.done():
                raise Unavailable("NATS does not answer")

    async def _until(self, work: Coroutine[object, object, object], timeout_s: float | None = None) -> None:
        """Wait for it, or for the end of the receiver."""
        task = asyncio.ensure_future(work)
        ends: list[asyncio.Future[Any]] = [task, self._inbox.ended]
        try:
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()

    def _receive(self, message: Msg) -> None:
        self._arrived += 1
        if message.reply.startswith(_ACK):
            self._inbox.put(message)
            self._room -= 1
            if self._room <= 0:
                self._pull_ended.set()
            return
        status = message.headers.get("Status") if message.headers else None
        if status == "408" and message.subject == self._reply:
            self._pull_ended.set()  # it has expired
        elif status not in ("100", "408"):
            self._inbox.end(Unavailable("the consumer of the stream is gone"))  # the next receiver creates it again

    async def _create(self) -> None:
        """A consumer that exists keeps its position, with the subject of the trigger. Raises Unavailable, Rejected."""
        selection = self._selection
        name = f"{selection.stream}.{selection.group}"
        found = await _call(self._connection, f"CONSUMER.INFO.{name}", {})
        if found.error is not None and found.error.err_code == _NO_STREAM:
            raise Rejected("no-stream", f'there is no stream "{selection.stream}" in NATS')
        filtered: dict[str, JSON] = {} if selection.subject is None else {"filter_subject": selection.subject}
        if found.error is None:
            if found.config.get("filter_subject", "") == (selection.subject or ""):
                return
            config = {key: value for key, value in found.config.items() if not key.startswith("filter_subject")}
        else:
            start: dict[str, JSON] = {"deliver_policy": "all"}
            if selection.since is not None:
                start = {"deliver_policy": "by_start_time", "opt_start_time": instant(selection.since)}
            config = {
                "name": selection.group,
                "durable_name": selection.group,
                "ack_policy": "explicit",
                "ack_wait": ACK_WAIT_S * _NS,
                "max_deliver": -1,  # the trigger counts: an outage of ours must not use up the deliveries
                "max_ack_pending": UNACKED_MAX,
                **start,
            }
        body: dict[str, JSON] = {"stream_name": selection.stream, "config": {**config, **filtered}}
        operation = f"CONSUMER.CREATE.{name}" + (f".{selection.subject}" if filtered else "")
        made = await _call(self._connection, operation, body)
        if made.error is not None:
            raise Rejected("no-consumer", f"NATS refuses the consumer of the stream: {made.error.description}")


async def _call(connection: NatsConnection, operation: str, body: dict[str, JSON]) -> _ConsumerReply:
    try:
        reply = await connection.request(f"$JS.API.{operation}", [msgspec.json.encode(body) if body else b""])
        return _consumer_reply(reply)
    except NoResponder as error:
        raise Rejected("no-jetstream", "this NATS has no JetStream, so there are no streams") from error
    except msgspec.DecodeError as error:
        raise Unavailable("NATS gave an unknown answer") from error
