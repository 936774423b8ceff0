"""The answer of a `respond` task: found in the log, and sent as the response of POST /run/<path>."""

from __future__ import annotations

from typing import Final

import msgspec
from litestar.types import ASGIApp, HTTPResponseStartEvent, Receive, Scope, Send

from noetl.engine.facts import TaskDone
from noetl.output import Output
from noetl.server.routes.results import SANDBOX, StoredResponse, stored_size, stored_type
from noetl.server.services import Services
from noetl.server.subscriptions import send_body

PAGE_FACTS: Final = 1_000  # read at once
KIND: Final = "respond"
_TYPES: Final = {"text": "text/plain; charset=utf-8", "json": "application/json"}


class AnswerFinder:
    """Reads the log of one execution as it grows, until it finds an answer. The first one counts."""

    def __init__(self, services: Services, execution_id: str) -> None:
        self._services = services
        self._id = execution_id
        self._seq = 0
        self._answer: Output | None = None

    async def has_answer(self) -> bool:
        """Read the new facts. True: one of the facts so far is the answer."""
        while self._answer is None:
            rows = await self._services.store.read(self._id, self._seq, self._seq + PAGE_FACTS)
            if not rows:
                return False
            self._seq = rows[-1].first_seq + len(rows[-1].facts) - 1
            outputs = [fact.output for row in rows for fact in row.facts if isinstance(fact, TaskDone)]
            self._answer = next((each for each in outputs if each is not None and _is_answer(each)), None)
        return True

    def response(self, headers: dict[str, str]) -> ASGIApp:
        """The answer. Its own headers replace these."""
        assert self._answer is not None, "has_answer was true"
        part, ref = self._answer.own[KIND], self._answer.ref
        own = {name.lower(): value for name, value in headers.items()} | part["headers"]
        own["content-security-policy"] = SANDBOX.decode()  # a browser runs no script of the answer
        if ref is not None and (part["body"] == "stored" or self._answer.data is None):
            own.setdefault("content-type", stored_type(ref))
            size = stored_size(ref)
            stored = StoredResponse(_start(part["status"], own, size), str(ref["meta"].get("sha256")), range(size))
            return stored.send(self._services.results.read(ref))
        body = b""
        if part["body"] != "none":
            own.setdefault("content-type", _TYPES[part["body"]])
            data = self._answer.data
            body = data.encode() if part["body"] == "text" else msgspec.json.encode(data)
        return _whole(_start(part["status"], own, len(body)), body)


def _is_answer(output: Output) -> bool:
    return output.status == "ok" and KIND in output.own


def _start(status: int, headers: dict[str, str], size: int) -> HTTPResponseStartEvent:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    if status not in (204, 304):  # these have no body and no length
        encoded.append((b"content-length", b"%d" % size))
    return {"type": "http.response.start", "status": status, "headers": encoded}


def _whole(start: HTTPResponseStartEvent, body: bytes) -> ASGIApp:
    async def send_whole(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start)
        await send_body(send, body, more=False)

    return send_whole
