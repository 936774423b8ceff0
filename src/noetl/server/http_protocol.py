"""A connection of the HTTP server: httptools parses requests, uvicorn runs the application.

The parser, llhttp, refuses most requests that a proxy may read differently, and that can therefore hide another request
(smuggling). This module refuses the others. It also limits headers, slow clients and the number of connections.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from noetl.server.errors import MEDIA_TYPE, ApiError, problem_details
from noetl.server.services import BODY_S, HEADERS_S

_END: Final = b"\r\n\r\n"  # of headers, and of a chunked body
_REQUEST_LINE: Final = re.compile(rb"(?!CONNECT )[A-Z]+ (?:/[!-~]*|\*) HTTP/1\.[01]\r\n")
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_UPGRADE: Final = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
CONNECTIONS_MAX: Final = 10_000
HEADERS_BYTES_MAX: Final = 16 << 10  # of the request line and all headers
CHUNKED_BYTES_PER_TURN: Final = 8 << 10  # of a body: its chunks may be tiny, and each takes a microsecond


class RefusedRequest(Exception):
    """The parser accepts a request that this server refuses."""


class OpenConnections:
    """The connections of a server. If there are too many, one is closed, first of the address that has the most.

    It is the longest idle one of that address; if none is idle and the address has more than half of all, its newest
    one; otherwise the longest idle one of all, or the new connection.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._of: dict[str, dict[HttpProtocol, None]] = {}  # by address, the oldest first
        self._idle: dict[HttpProtocol, None] = {}  # without a request, the longest first

    def add(self, connection: HttpProtocol) -> None:
        self._of.setdefault(connection.address, {})[connection] = None
        self._count += 1
        if self._count > self._most:
            victim = self._victim(connection)
            self.remove(victim)
            victim.transport.abort()

    def set_idle(self, connection: HttpProtocol, *, idle: bool) -> None:
        if not idle:
            self._idle.pop(connection, None)
        elif connection in self._of.get(connection.address, ()):
            self._idle.setdefault(connection)

    def remove(self, connection: HttpProtocol) -> None:
        own = self._of.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._of[connection.address]
        self._idle.pop(connection, None)

    def _victim(self, new: HttpProtocol) -> HttpProtocol:
        most = max(self._of.values(), key=len)
        if (idle := next((each for each in self._idle if each in most), None)) is not None:
            return idle
        if 2 * len(most) > self._most:
            return next(reversed(most))
        return next(iter(self._idle), new)


class _Reading(FlowControl):
    """`held`: nothing is read, although the application waits for data."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class _Cycle(RequestResponseCycle):
    """A request and its response."""

    def __init__(self, body_s: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._body_s = body_s

    async def receive(self) -> Any:
        """A body that stops arriving does not occupy the server forever."""
        if not self.more_body or self.message_event.is_set():  # most bodies arrive with their headers
            return await super().receive()
        try:
            async with asyncio.timeout(self._body_s):
                return await super().receive()
        except TimeoutError:
            detail = f"no further part of the body arrived for {self._body_s:g} s"
            raise ApiError(408, "too-slow", detail) from None


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    The parser gets one request at a time, and the next one after the response: a client that does not wait for
    responses occupies no more memory than others.
    """

    headers_s = HEADERS_S
    body_s = BODY_S
    open_connections = OpenConnections(CONNECTIONS_MAX)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=False)
        self.address = ""  # of the client
        self._timer: asyncio.TimerHandle | None = None
        self._unparsed = b""
        self._in_head = True  # the next data belongs to a request line or to headers
        self._is_over = False  # the response is complete, and the rest of the request is of no use
        self._hosts = 0
        self._is_chunked = False
        self._body_left = 0  # bytes of a body with Content-Length
        self._body_end = b""  # of a chunked body: its last bytes so far, which may be the beginning of _END
        self._without_data = 0  # bytes of a body since its last data: sizes and extensions of chunks, trailers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.flow = self._reading = _Reading(transport)
        self.address = self.client[0] if self.client else ""
        self.open_connections.add(self)
        self.open_connections.set_idle(self, idle=True)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.open_connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_over:
            self._unparsed += data
            self._parse()

    def on_response_complete(self) -> None:
        if self._is_chunked and not self._in_head and not self.transport.is_closing():
            self._end()
        super().on_response_complete()
        self._parse()

    def _end(self) -> None:
        """Send nothing more. What the client still sends is dropped: if it were refused, the response could be lost."""
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self._is_over, self._reading.held, self._unparsed = True, False, b""
        self.transport.write_eof()
        self.open_connections.set_idle(self, idle=True)
        self._start_timer()

    def _parse(self) -> None:
        """Parse the data up to the end of one request. The time of an incomplete head is limited."""
        if self._is_over:
            return
        try:
            while self._unparsed and not self.transport.is_closing():
                if self._in_head and self._is_answering():
                    self.flow.pause_reading()
                    break
                if self._in_head and not self._parse_head():
                    break
                self._parse_body()
                if self._unparsed and not self._in_head:
                    self._reading.pause_reading()
                    self._reading.held = True
                    self.loop.call_soon(self._continue)
                    break
        except (httptools.HttpParserError, RefusedRequest) as error:
            self.logger.warning("Invalid HTTP request received: %s", error)
            self._refuse(400, "text/plain; charset=utf-8", b"Invalid HTTP request received.")
        self.open_connections.set_idle(self, idle=not self._is_answering())
        if self._is_answering() or not self._in_head:
            self._stop_timer()
        elif self._timer is None and self._unparsed:
            self._start_timer()

    def _continue(self) -> None:
        self._reading.held = False
        self._parse()
        if len(self.cycle.body) <= HIGH_WATER_LIMIT:
            self.flow.resume_reading()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _parse_head(self) -> bool:
        """False: it is not complete, or too large."""
        data = self._unparsed
        end = data.find(_END) + len(_END)
        is_complete = end >= len(_END)
        if (end if is_complete else len(data)) > HEADERS_BYTES_MAX:
            detail = f"the headers are too large (limit HEADERS_BYTES_MAX: {HEADERS_BYTES_MAX:,} bytes)"
            self._refuse(431, MEDIA_TYPE, msgspec.json.encode(problem_details(431, "headers-too-large", detail)))
            return False
        if not is_complete:
            if _BARE_LF.search(data) or not data[:1].isupper():
                raise RefusedRequest("this is not the beginning of a request")
            return False
        head, self._unparsed = data[:end], data[end:]
        if not _REQUEST_LINE.match(head):
            raise RefusedRequest("the request line is invalid")
        if b"\r\nupgrade:" in head.lower():
            # A server may ignore this header. The parser would ignore the body of the request instead.
            head = _UPGRADE.sub(b"", head)
        self.parser.feed_data(head)
        return True

    def _parse_body(self) -> None:
        """The rest of a body with chunks waits for the next turn of the event loop."""
        most = CHUNKED_BYTES_PER_TURN if self._is_chunked else len(self._unparsed)
        data, start = self._unparsed[:most], 0
        while start < len(data) and not self._in_head:
            end = self._piece_end(data, start)
            self._without_data += end - start
            self.parser.feed_data(memoryview(data)[start:end])
            if self._without_data > HEADERS_BYTES_MAX:
                raise RefusedRequest("the chunks of the body have too many bytes that are not data")
            start = end
        self._unparsed = self._unparsed[start:]

    def _piece_end(self, data: bytes, start: int) -> int:
        """How far to parse, so that no byte of the next request is parsed. It may be less than the whole body."""
        if not self._is_chunked:
            assert self._body_left, "a body has a length, or chunks"
            end = min(len(data), start + self._body_left)
            self._body_left -= end - start
            return end
        before, self._body_end = self._body_end, b""
        overlap = (before + data[start : start + len(_END) - 1]).find(_END)
        if overlap >= 0:
            return start + overlap + len(_END) - len(before)
        found = data.find(_END, start)
        if found >= 0:
            return found + len(_END)
        self._body_end = (before + data[1 - len(_END) :])[1 - len(_END) :]
        return len(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._hosts, self._is_chunked = 0, False
        self._body_left, self._body_end, self._without_data = 0, b"", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: no route reads them
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"host":
            self._hosts += 1
        elif name == b"content-length":
            self._body_left = int(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise RefusedRequest("the only Transfer-Encoding is chunked")
            self._is_chunked = True
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if self._hosts > 1 or (version == "1.1" and not self._hosts):
            raise RefusedRequest("a request has one Host header")
        if self._is_chunked and version == "1.0":
            raise RefusedRequest("a request of HTTP/1.0 has no chunks")
        self._unset_keepalive_if_required()
        self._in_head = False
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("ascii")
        scope = self.scope
        scope["http_version"] = version
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        self.cycle = _Cycle(
            body_s=self.body_s,
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version == "1.1" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._without_data = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        super().on_message_complete()

    def _refuse(self, status: int, media_type: str, body: bytes) -> None:
        """Answer a request that is not parsed further, and end the connection."""
        if self._is_answering():
            is_started = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if is_started:
                self.transport.close()
                return
        head = b"content-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (media_type.encode(), len(body))
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_of(headers_s: float, body_s: float, connections: int) -> type[HttpProtocol]:
    """The protocol class of a server: seconds for all headers and for each part of a body; a number of connections."""
    attributes = {"headers_s": headers_s, "body_s": body_s, "open_connections": OpenConnections(connections)}
    return type("ServerProtocol", (HttpProtocol,), attributes)
