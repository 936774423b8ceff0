"""The client of a NATS connection: messages are parsed and handled where they arrive, and written once a turn.

nats-py wakes a task for every read and for every write. A step of a chain is four messages, so that is a
noticeable part of its cost. Login, reconnecting and pings are those of nats-py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from urllib.parse import ParseResult

from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport
from nats.errors import BadSubjectError, ConnectionClosedError, MaxPayloadError, ProtocolError
from nats.protocol.parser import Parser

from noetl.background import BackgroundTasks
from noetl.nats_client import NatsKey, StrictNatsClient

Handler: TypeAlias = Callable[[Msg], None]

LINE_MAX: Final = 65_536  # bytes of a control line; INFO names all servers of a cluster
BUFFERED_MAX: Final = 1 << 20  # bytes in the buffer of the socket; then messages wait here
_END: Final = b"\r\n"
_NEWLINES: Final = str.maketrans("\r\n", "  ")  # a header is one line


class NatsClient(StrictNatsClient):
    """`fixed`: it connects only to the given addresses, and not to others that the server names."""

    def __init__(self, *, secure: bool, fixed: bool = False, key: NatsKey | None = None) -> None:
        super().__init__(secure=secure, key=key)
        self._fixed = fixed

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._fixed:
            info = {key: value for key, value in info.items() if key != "connect_urls"}
        await super()._process_info(info, initial_connection)


class _Reader(asyncio.StreamReader):
    """Passes on what arrives instead of waking the task that reads, as soon as the client has logged in."""

    receive: Callable[[bytes], None] | None = None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # the type of asyncio is wider
        if self.receive is None:
            super().feed_data(data)
            return
        try:
            self.receive(data)
        except ProtocolError as error:
            self.set_exception(error)  # the task that reads gets it, and connects again


class _Transport(TcpTransport):
    """A TCP connection with a `_Reader`."""

    reader: _Reader | None = None

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        loop = asyncio.get_running_loop()
        protocol = self._protocol(buffer_size)
        async with asyncio.timeout(connect_timeout):
            transport, _ = await loop.create_connection(lambda: protocol, uri.hostname or "", uri.port or 0)
        self._bare_io_writer = self._use(transport, protocol)  # TLS closes the connection if this is collected

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: Any, buffer_size: int, connect_timeout: int
    ) -> None:
        assert self._io_writer is not None, "TLS needs a connection"
        host = uri if isinstance(uri, str) else uri.hostname
        protocol = self._protocol(buffer_size)
        start = asyncio.get_running_loop().start_tls
        async with asyncio.timeout(connect_timeout):
            transport = await start(self._io_writer.transport, protocol, ssl_context, server_hostname=host)
        assert transport is not None
        self._use(transport, protocol)

    def _protocol(self, buffer_size: int) -> asyncio.StreamReaderProtocol:
        self.reader = _Reader(limit=buffer_size)
        return asyncio.StreamReaderProtocol(self.reader)

    def _use(self, transport: Any, protocol: asyncio.StreamReaderProtocol) -> asyncio.StreamWriter:
        assert self.reader is not None
        loop = asyncio.get_running_loop()
        self._io_reader, self._io_writer = self.reader, asyncio.StreamWriter(transport, protocol, self.reader, loop)
        return self._io_writer

    def __bool__(self) -> bool:
        return True  # nats-py would replace it by a transport of its own


class _Parser(Parser):
    """Splits the stream into messages and control lines."""

    def __init__(self, client: DirectClient) -> None:
        self._client = client
        super().__init__(client)

    def reset(self) -> None:
        super().reset()
        self._chunks: list[bytes] = []  # the beginning of something
        self._size, self._needed = 0, 0  # bytes of the chunks, and of all of it if that is known

    async def parse(self, data: bytes = b"") -> None:
        """Called by nats-py with what arrived during the login."""
        self.feed(data)

    def feed(self, data: bytes) -> None:
        """Raises ProtocolError."""
        if self._chunks:
            self._chunks.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return
            data = b"".join(self._chunks)
            self._chunks = []
        at = self._parse(data)
        if at < len(data):
            rest = data[at:] if at else data
            self._chunks, self._size = [rest], len(rest)

    def _parse(self, data: bytes) -> int:
        """The end of the last whole message."""
        at, client, self._needed = 0, self._client, 0
        while (end := data.find(_END, at)) >= 0:
            after = end + 2
            if data.startswith((b"MSG ", b"HMSG "), at):
                words = data[at:end].split()
                try:
                    size = int(words[-1])
                    sid = int(words[2])
                    head = int(words[-2]) if words[0] == b"HMSG" else 0
                except (ValueError, IndexError):
                    raise ProtocolError("a NATS protocol line cannot be read") from None
                after += size + 2
                if after > len(data):
                    self._needed = after - at
                    return at
                reply = words[3] if len(words) == (6 if head else 5) else b""
                body = end + 2
                client.deliver(sid, words[1], reply, data[body + head : body + size], data[body : body + head])
            else:
                client.control(data[at:end])
            at = after
        if len(data) - at > LINE_MAX:
            raise ProtocolError("a NATS protocol line is too long")
        return at


class DirectClient(NatsClient):
    """Its subscriptions have callbacks that are bound to an object with a `handler`, which is called directly."""

    def __init__(self, *, secure: bool, fixed: bool = False, key: NatsKey | None = None) -> None:
        super().__init__(secure=secure, fixed=fixed, key=key)
        self._ps = self._parser = _Parser(self)
        self._tasks = BackgroundTasks()
        self._is_writing = False  # the pending messages are written in the next turn

    # Receiving

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None:
            self._transport = _Transport()  # type: ignore[no-untyped-call]  # nats-py has no types there
        await super()._connect_to_server(s)

    async def _read_loop(self) -> None:
        """From now on only the end of the connection wakes this task, or what has arrived before."""
        if isinstance(self._transport, _Transport) and self._transport.reader is not None:
            self._transport.reader.receive = self._parser.feed
        await super()._read_loop()

    def deliver(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        subscription = self._subs.get(sid)
        if subscription is None:
            return
        message = Msg(self, subject.decode(), reply.decode(), data, _headers(headers) if headers else None)
        try:
            subscription._cb.__self__.handler(message)  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001  # a bug in one handler must not block other subscribers
            self._tasks.spawn(self._report(error))

    def control(self, line: bytes) -> None:
        """Everything that is not a message. Raises ProtocolError."""
        word, _, rest = line.partition(b" ")
        match word.upper():
            case b"PING":
                self._write(b"PONG\r\n")
            case b"PONG":
                self._tasks.spawn(self._process_pong())
            case b"-ERR":
                self._tasks.spawn(self._process_err(rest.decode(errors="replace").strip().lower()))
            case b"INFO":
                try:
                    info = json.loads(rest)
                except ValueError:
                    raise ProtocolError("the NATS INFO message cannot be read") from None
                self._tasks.spawn(self._process_info(info))
            case b"+OK":
                pass
            case _:
                raise ProtocolError("an unknown NATS protocol line")

    async def _report(self, error: Exception) -> None:
        await self._error_cb(error)

    # Sending

    def send(self, subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Raises an error of nats-py. Messages of one turn of the event loop are written together."""
        if self._status != Client.CONNECTED:
            raise ConnectionClosedError
        if len(data) > self._max_payload:
            raise MaxPayloadError
        if f"{subject} {reply}".split() != ([subject, reply] if reply else [subject]):  # it would be another command
            raise BadSubjectError
        if headers is None:
            self._write(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data))
            return
        lines = "".join(f"{key}: {value.translate(_NEWLINES)}\r\n" for key, value in headers.items())
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        sizes = len(head), len(head) + len(data)
        self._write(b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply.encode(), *sizes, head, data))

    def _write(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._is_writing = False
        writer = self._transport._io_writer if isinstance(self._transport, _Transport) else None
        if not self._pending or writer is None or self._status != Client.CONNECTED:
            return  # the rest is written, or dropped, when it is connected again
        if writer.transport.get_write_buffer_size() > BUFFERED_MAX or writer.transport.is_closing():
            if self._flush_queue is not None and self._flush_queue.empty():
                self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())  # this one waits for it
            return
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_data_size = [], 0
        writer.write(data)


def _headers(block: bytes) -> dict[str, str]:
    """Also the status of a message of the server itself, as `Status`."""
    first, *lines = block.split(_END)
    found: dict[str, str] = {}
    if status := first[8:].strip():  # after "NATS/1.0"
        found["Status"] = status[:3].decode(errors="replace")
    for line in lines:
        key, colon, value = line.partition(b":")
        if colon:
            found[key.strip().decode(errors="replace")] = value.strip().decode(errors="replace")
    return found
