"""Responses that are made more often than others."""

from __future__ import annotations

import msgspec
from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

_encode = msgspec.json.Encoder().encode


class JsonResponse:
    """A document with its headers. A response of the framework takes longer than the encoding of a small document."""

    def __init__(self, status: int, document: msgspec.Struct, location: str) -> None:
        """`location`: of the object that the document describes."""
        self.status = status
        self._body = _encode(document)
        self._location = location

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [
            (b"location", self._location.encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self._body)),
        ]
        start: HTTPResponseStartEvent = {"type": "http.response.start", "status": self.status, "headers": headers}
        body: HTTPResponseBodyEvent = {"type": "http.response.body", "body": self._body, "more_body": False}
        await send(start)
        await send(body)
