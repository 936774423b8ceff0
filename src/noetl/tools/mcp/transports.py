"""How messages reach an MCP server: over HTTP with checked addresses, or over the pipes of a guarded program.

Both limit what the server sends, so that no server can fill the memory of a worker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from yarl import URL

from noetl.output import Output
from noetl.tools.errors import TooLarge, ToolError
from noetl.tools.http.client import Timeouts, failure_of
from noetl.tools.http.request import HttpRequest
from noetl.tools.payload import memory_of_json
from noetl.tools.process_guard.guard import END_S, ExitStatus, GuardPool, ProcessGuard, ProcessSpec
from noetl.tools.shell.process import CapturedStream, ShellCommand, start_program, with_temp_folder

if TYPE_CHECKING:
    from typing import Self

    from mcp.client._transport import ReadStream, TransportStreams

CHUNK_BYTES: Final = 64 * 1024
MB: Final = 1024 * 1024
COPIES: Final = 4  # of the values of a message that the SDK and the tool have at the same time, measured
VALIDATED_BYTES: Final = 5_000  # of a value that the SDK validates: a wrong one becomes several errors, measured
_ANY_JSON: Final = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta"})  # not validated
ENDING_S: Final = 1.0  # for a program to end when its standard input is closed


class ReceiveLimit:
    """Limits everything that a server sends in one call: its bytes, and the memory that its values would need.

    The SDK makes the values, so both are checked before it gets the data.
    """

    def __init__(self, max_bytes: int, memory_mb: int) -> None:
        self.failure: TooLarge | None = None
        self._left = self._most = max_bytes
        self._memory_mb = memory_mb
        self._memory_left = memory_mb * MB

    def add(self, data: bytes) -> None:
        """Raises TooLarge."""
        self._left -= len(data)
        if self._left < 0:
            self._fail(f"the server sent more than {self._most:,} bytes (limit spec.max_bytes)")
        self._memory_left -= COPIES * memory_of_json(data)
        self._check()

    def check(self, message: SessionMessage) -> None:
        """The parts that the SDK validates. Raises TooLarge."""
        each = message.message
        if isinstance(each, JSONRPCResponse):
            part: object = each.result
        else:
            part = each.error.data if isinstance(each, JSONRPCError) else each.params
        self._memory_left -= VALIDATED_BYTES * _count_values(part, self._memory_left // VALIDATED_BYTES)
        self._check()

    def _check(self) -> None:
        if self._memory_left < 0:
            limit = f"{self._memory_mb:,} MB of memory (limit spec.memory_mb)"
            self._fail(f"the messages of the server need more than {limit}")

    def _fail(self, message: str) -> None:
        self.failure = self.failure or TooLarge(message)
        raise self.failure


def _count_values(part: object, most: int) -> int:
    """The values in a message without those of any JSON; slightly more than `most` if there are more."""
    count, rest = 0, [part]
    while rest and count <= most:
        each = rest.pop()
        if isinstance(each, dict):
            inner = [value for key, value in each.items() if key not in _ANY_JSON]
        elif isinstance(each, list):
            inner = each
        else:
            continue
        count += len(inner)
        if count <= most:
            rest += inner
    return count


class CheckedStreams:
    """The streams of a transport. A message that is too large to be validated ends the connection."""

    def __init__(self, transport: AbstractAsyncContextManager[TransportStreams], received: ReceiveLimit) -> None:
        self._transport = transport
        self._received = received

    async def __aenter__(self) -> TransportStreams:
        read, write = await self._transport.__aenter__()
        return _CheckedMessages(read, self._received), write

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._transport.__aexit__(*error)


class _CheckedMessages:
    def __init__(self, messages: ReadStream[SessionMessage | Exception], received: ReceiveLimit) -> None:
        self._messages = messages
        self._received = received

    @property
    def last_context(self) -> object:
        return getattr(self._messages, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._checked(await self._messages.receive())

    async def __anext__(self) -> SessionMessage | Exception:
        return self._checked(await self._messages.__anext__())

    def _checked(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(message, SessionMessage):
            try:
                self._received.check(message)
            except TooLarge as error:
                raise anyio.ClosedResourceError from error  # for the SDK the connection has ended
        return message

    def __aiter__(self) -> _CheckedMessages:
        return self

    async def aclose(self) -> None:
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._messages.__aexit__(*error)


# HTTP


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of the SDK with aiohttp, which checks each address where the socket is made."""

    def __init__(self, session: aiohttp.ClientSession, timeouts: Timeouts, received: ReceiveLimit) -> None:
        self.failure: Output | None = None  # the first one
        self.status: int | None = None  # of the last response
        self._session = session
        self._timeouts = timeouts
        self._received = received

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        sent = HttpRequest(request.method, URL(str(request.url)), headers, body)
        timeout = aiohttp.ClientTimeout(total=None, connect=self._timeouts.connect, sock_read=self._timeouts.read)
        try:
            response = await self._session.request(
                request.method, sent.url, headers=headers, data=body or None, allow_redirects=False, timeout=timeout
            )
        except (aiohttp.ClientError, OSError) as error:
            self.fail(failure_of(error, sent, self._timeouts))
            raise httpx2.ConnectError("the request could not be sent") from error
        self.status = response.status
        stream = _CountedBody(self, response, sent, self._timeouts, self._received)
        shown = [(name, value) for name, value in response.headers.items() if name.lower() != "content-encoding"]
        return httpx2.Response(response.status, headers=shown, stream=stream)

    def fail(self, failure: Output) -> None:
        self.failure = self.failure or failure


class _CountedBody(httpx2.AsyncByteStream):
    def __init__(
        self,
        transport: CheckedTransport,
        response: aiohttp.ClientResponse,
        request: HttpRequest,
        timeouts: Timeouts,
        received: ReceiveLimit,
    ) -> None:
        self._transport = transport
        self._response = response
        self._request = request
        self._timeouts = timeouts
        self._received = received

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                self._received.add(chunk)
                yield chunk
        except TooLarge as error:
            self._transport.fail(error.output())
            raise httpx2.ReadError("the response is too large") from error
        except (aiohttp.ClientError, OSError) as error:
            self._transport.fail(failure_of(error, self._request, self._timeouts))
            raise httpx2.ReadError("the response could not be read") from error

    async def aclose(self) -> None:
        self._response.close()


# A program


class ServerProcess:
    """A program that speaks over its pipes, in a guard that kills it with everything that it has started."""

    def __init__(self, guard: ProcessGuard, stderr: CapturedStream, received: ReceiveLimit) -> None:
        self.failure: ToolError | None = None
        self.status: ExitStatus | None = None  # None: it has not ended by itself
        self._guard = guard
        self._stderr = stderr
        self._received = received

    @property
    def over_limit(self) -> bool:
        """It was killed because it had too many processes."""
        return self._guard.over_limit

    async def read_messages(
        self, reader: asyncio.StreamReader, messages: anyio.abc.ObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Until the program closes its output, or sends too much."""
        async with messages:
            try:
                while line := await reader.readline():
                    self._received.add(line)
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await messages.send(_message(line))
            except ValueError:  # a line that is longer than the limit of the reader
                self.failure = TooLarge("the server sent a message that is too large (limit spec.max_bytes)")
            except TooLarge as error:
                self.failure = error
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ENDING_S):
                        self.status = await self._guard.wait()

    async def read_errors(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            self._stderr.add(chunk)


def _message(line: bytes) -> SessionMessage | Exception:
    """Parse a message. Data that is not a message of the protocol becomes an error for the SDK."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


@asynccontextmanager
async def running(
    command: ShellCommand, guards: GuardPool, stderr: CapturedStream, received: ReceiveLimit, most: int
) -> AsyncIterator[tuple[ServerProcess, TransportStreams]]:
    """A program, and the streams of the SDK. Raises OSError, InvalidInput, SandboxFailed."""
    guard = await guards.take()
    try:
        process = ServerProcess(guard, stderr, received)
        async with (
            with_temp_folder(command, guards) as prepared,
            _pipes(guard, prepared, most) as (writer, output, errors),
        ):
            incoming, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            to_server, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
            async with anyio.create_task_group() as tasks, from_server, to_server:
                tasks.start_soon(process.read_messages, output, incoming)
                tasks.start_soon(process.read_errors, errors)
                tasks.start_soon(_write_messages, outgoing, writer)
                try:
                    yield process, (from_server, to_server)
                finally:
                    tasks.cancel_scope.cancel()
    finally:
        guard.end()
        with anyio.CancelScope(shield=True), suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await guard.wait()
        guards.give(guard)


async def _write_messages(
    messages: anyio.abc.ObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter
) -> None:
    async with messages:
        with suppress(ConnectionError):  # the program has ended; its output ends, too
            async for each in messages:
                writer.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()


def _same(protocol: asyncio.StreamReaderProtocol) -> asyncio.StreamReaderProtocol:
    return protocol


@asynccontextmanager
async def _pipes(
    guard: ProcessGuard, command: ShellCommand, most: int
) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamReader]]:
    """Start the program with three pipes: our ends for its input, its output and its errors."""
    loop = asyncio.get_running_loop()
    (stdin, ours), (output, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
    transports: list[asyncio.BaseTransport] = []
    try:
        try:
            readers: list[asyncio.StreamReader] = []
            for number, limit in ((output, most), (errors, CHUNK_BYTES)):
                readers.append(asyncio.StreamReader(limit=limit))
                reading = asyncio.StreamReaderProtocol(readers[-1])
                made, _ = await loop.connect_read_pipe(partial(_same, reading), os.fdopen(number, "rb", 0))
                transports.append(made)
            writing = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await loop.connect_write_pipe(lambda: writing, os.fdopen(ours, "wb", 0))
            transports.append(transport)
            spec = ProcessSpec(
                command.argv, command.env, command.cwd or os.getcwd(), (stdin, stdout, stderr), command.restrictions
            )
            await start_program(guard, spec)
        finally:
            for each in (stdin, stdout, stderr):
                os.close(each)
        guard.watch()
        yield asyncio.StreamWriter(transport, writing, None, loop), readers[0], readers[1]
    finally:
        guard.unwatch()
        for each_transport in transports:
            if isinstance(each_transport, asyncio.WriteTransport) and not each_transport.is_closing():
                each_transport.abort()  # without waiting until the program reads what is left
            else:
                each_transport.close()
