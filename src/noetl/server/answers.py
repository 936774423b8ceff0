"""The answer of `respond` tasks: found in the log, and sent as the response of POST /run/<path>."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from litestar.types import ASGIApp, HTTPResponseStartEvent, Receive, Scope, Send

from noetl.engine.facts import TaskDone
from noetl.errors import Damaged, NotFound, Unavailable
from noetl.output import JSON, Output
from noetl.server.errors import ApiError
from noetl.server.params import AppContext
from noetl.server.routes.results import SANDBOX, StoredResponse, stored_size, stored_type
from noetl.server.services import Services
from noetl.server.subscriptions import SEND_S, CompletionWaiter, close_source, disconnected, send_body
from noetl.telemetry.logs import get_logger

log = get_logger("api")
PAGE_FACTS: Final = 100  # read at once; each may have 64 KiB
IDLE_S: Final = 300.0  # between two parts of a streamed answer
KIND: Final = "respond"
_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/json"}
_LINES: Final = "application/x-ndjson"
_MESSAGES: Final = "text/event-stream"


class AnswerReader:
    """Reads the outputs of `respond` tasks from the log of one execution as it grows. The first one is the answer."""

    def __init__(self, services: Services, execution_id: str) -> None:
        self._services = services
        self._seq = 0
        self._parts: deque[Output] = deque()
        self.id = execution_id

    async def has_part(self) -> bool:
        """Read the new facts. True: `part` returns an output."""
        while not self._parts:
            rows = await self._services.store.read(self.id, self._seq, self._seq + PAGE_FACTS)
            if not rows:
                return False
            self._seq = rows[-1].first_seq + len(rows[-1].facts) - 1
            outputs = [fact.output for row in rows for fact in row.facts if isinstance(fact, TaskDone)]
            self._parts.extend(each for each in outputs if each is not None and _is_answer(each))
        return True

    def part(self) -> Output:
        return self._parts.popleft()


def response_of(context: AppContext, reader: AnswerReader, headers: dict[str, str]) -> ASGIApp:
    """The response of the answer that the reader has found. The headers of the answer replace these."""
    answer = reader.part()
    part, ref = answer.own[KIND], _stored(answer)
    own = {name.lower(): value for name, value in headers.items()} | part["headers"]
    own["content-security-policy"] = SANDBOX.decode()  # a browser runs no script of the answer
    if part.get("more"):
        return StreamedAnswer(context, reader, answer, own)
    if ref is not None:
        own.setdefault("content-type", stored_type(ref))
        size = stored_size(ref)
        stored = StoredResponse(_start(part["status"], own, size), str(ref["meta"].get("sha256")), range(size))
        return stored.send(context.services.results.read(ref))
    body = _encoded(answer)
    if part["body"] != "none":
        own.setdefault("content-type", _TYPES[part["body"]])
    return _whole(_start(part["status"], own, len(body)), body)


class _Incomplete(Exception):
    """The rest of a streamed answer will not come."""


class StreamedAnswer:
    """Sends the parts of an answer when the log contains them.

    If a part is missing, the response ends without its last chunk, so that the client notices. A client that
    disconnects has no effect on the execution.
    """

    def __init__(self, context: AppContext, reader: AnswerReader, first: Output, headers: dict[str, str]) -> None:
        self._context = context
        self._reader = reader
        self._first = first
        part, ref = first.own[KIND], _stored(first)
        if part["body"] == "json":
            headers.setdefault("content-type", _LINES)
        elif part["body"] != "none":
            headers.setdefault("content-type", _TYPES["text"] if ref is None else stored_type(ref))
        headers.setdefault("x-accel-buffering", "no")  # a proxy passes each part on at once
        is_messages = headers.get("content-type", "").lower().startswith(_MESSAGES)
        self._frame = (b"data: ", b"\n\n") if is_messages else (b"", b"\n")  # around a JSON value
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["http_version"] == "1.0":
            detail = "a streamed answer needs HTTP/1.1: with 1.0 a client cannot see whether it is complete"
            kept = {name: self._headers[name] for name in ("noetl-execution-id", "location")}
            raise ApiError(505, "old-http-version", detail, kept)
        await send(_start(self._first.own[KIND]["status"], self._headers, None))
        sending = asyncio.ensure_future(self._send(send))
        disconnect = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait((sending, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except (_Incomplete, Damaged, NotFound, Unavailable, TimeoutError) as error:
            log.warning("answer.broken", execution_id=self._reader.id, error=str(error) or type(error).__name__)
        finally:
            for each in (sending, disconnect):
                each.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        """Raises _Incomplete, Damaged, NotFound, Unavailable, TimeoutError."""
        part: Output | None = self._first
        async with self._context.waiters.waiter(self._reader.id, IDLE_S) as waiter:
            while part is not None:
                async with aclosing(self._chunks(part)) as chunks:
                    async for chunk in chunks:
                        async with asyncio.timeout(SEND_S):
                            await send_body(send, chunk, more=True)
                part = await self._following(waiter) if part.own[KIND].get("more") else None
        await send_body(send, b"", more=False)

    async def _chunks(self, part: Output) -> AsyncGenerator[bytes, None]:
        before, after = self._frame if part.own[KIND]["body"] == "json" else (b"", b"")
        ref = _stored(part)
        if ref is None:
            yield before + _encoded(part) + after
            return
        stored = self._context.services.results.read(ref)
        try:
            yield before
            async for chunk in stored:
                yield chunk
            yield after
        finally:
            await close_source(stored)

    async def _following(self, waiter: CompletionWaiter) -> Output | None:
        """The next part; None: the answer is complete. Raises _Incomplete."""
        if not await self._reader.has_part():
            waiter.restart(IDLE_S)
            has_ended = await waiter.has_ended(is_new=False, found=self._reader.has_part)
            if not await self._reader.has_part():  # the end may have come with a part
                status = await waiter.status()
                if has_ended and status == "ok":
                    return None
                raise _Incomplete(f"the execution is {status}" if has_ended else "no further part came in time")
        return self._reader.part()


def _is_answer(output: Output) -> bool:
    return output.status == "ok" and KIND in output.own


def _stored(answer: Output) -> dict[str, JSON] | None:
    """The Ref of the body, if it is in the result store."""
    return answer.ref if answer.own[KIND]["body"] == "stored" or answer.data is None else None


def _encoded(answer: Output) -> bytes:
    match answer.own[KIND]["body"]:
        case "none":
            return b""
        case "text":
            return str(answer.data).encode()
        case _:
            return msgspec.json.encode(answer.data)


def _start(status: int, headers: dict[str, str], size: int | None) -> HTTPResponseStartEvent:
    """`size` None: the length is not known."""
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    if size is not None and status not in (204, 304):  # these have no body and no length
        encoded.append((b"content-length", b"%d" % size))
    return {"type": "http.response.start", "status": status, "headers": encoded}


def _whole(start: HTTPResponseStartEvent, body: bytes) -> ASGIApp:
    async def send_whole(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start)
        await send_body(send, body, more=False)

    return send_whole
