"""The HTTP service that playbooks call: it counts effects by idempotency key, and notices when a caller dies.

Every answer has a serial number, so that a result in a log identifies the call that it is from.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.chaos.distributed.cluster import CLOCK

LARGE = "0123456789abcdef" * 65_536  # a megabyte


class Effects:
    """The requests so far. The service runs on the event loop of the test."""

    def __init__(self) -> None:
        self.url = ""
        self.arrivals: dict[str, list[float]] = {}  # key → instants of its requests
        self.paths: dict[str, dict[str, str]] = {}  # execution → key → path
        self.serials: list[str] = []  # serial → key
        self.interrupted: dict[str, float] = {}  # key → when its caller died before the answer
        self.answered: set[str] = set()  # keys
        self.resumed: list[float] = []  # seconds from the death of a caller until the next request of its key
        self.at_once: Counter[str] = Counter()  # counter name → requests in progress
        self.most_at_once: Counter[str] = Counter()
        self._full: dict[str, asyncio.Event] = {}  # counter name → set when as many requests as `full` were in progress
        self.gates: dict[str, list[asyncio.Event]] = {}  # key → events that its first answers wait for
        self.is_holding = True
        self.callers: dict[str, int] = {}  # key → the port of its first caller
        self.ports: Counter[int] = Counter()  # port of a caller → its requests in progress
        self.unanswered: set[int] = set()  # ports of callers that get no answer, because they are about to die

    def key(self, execution_id: str, path: str) -> str:
        """The key of the request of an execution for a path; "": there was none."""
        keys = self.paths.get(execution_id, {})
        return next((key for key, each in keys.items() if each == path), "")

    def release(self) -> None:
        """Let all held answers continue, and hold no more."""
        self.is_holding = False
        for gates in self.gates.values():
            for gate in gates:
                gate.set()

    @property
    def requests(self) -> int:
        return len(self.serials)

    @property
    def repeats(self) -> int:
        return sum(len(each) - 1 for each in self.arrivals.values())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        now, query = CLOCK.monotonic(), request.query
        key = request.headers["Idempotency-Key"]
        self.arrivals.setdefault(key, []).append(now)
        self.paths.setdefault(query["of"], {})[key] = request.path
        if (since := self.interrupted.pop(key, None)) is not None:
            self.resumed.append(now - since)
        self.serials.append(key)
        serial, counted, port = len(self.serials) - 1, query.get("counted", ""), port_of(request)
        self._count(counted, 1)
        self.ports[port] += 1
        try:
            await self._wait(request, key)
            if port in self.unanswered:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if key not in self.answered:  # otherwise it lost its lease before it died, and another worker made the call
                self.interrupted[key] = CLOCK.monotonic()
            raise
        finally:
            self._count(counted, -1)
            self.ports[port] -= 1
            self.unanswered.discard(port)
        self.answered.add(key)
        self.interrupted.pop(key, None)
        if "mb" in query:
            return web.Response(text=f"{serial} " + LARGE * int(query["mb"]))
        return web.json_response({"serial": serial, "of": query["of"], "path": request.path})

    def _count(self, counted: str, change: int) -> None:
        self.at_once[counted] += change
        self.most_at_once[counted] = max(self.most_at_once[counted], self.at_once[counted])

    async def _wait(self, request: web.Request, key: str) -> None:
        """`holds`: the number of answers of a key that wait for `release`; `full`: of requests to wait for, once."""
        gates = self.gates.setdefault(key, [])
        if self.is_holding and len(gates) < int(request.query.get("holds", "0")):
            self.callers.setdefault(key, port_of(request))
            gates.append(gate := asyncio.Event())
            await gate.wait()
        if full := int(request.query.get("full", "0")):
            counted = request.query["counted"]
            reached = self._full.setdefault(counted, asyncio.Event())
            if self.at_once[counted] >= full:
                reached.set()
            await reached.wait()
        await CLOCK.sleep(float(request.query.get("ms", "0")) / 1_000)


def port_of(request: web.Request) -> int:
    """The port of the caller."""
    assert request.transport is not None
    port: int = request.transport.get_extra_info("peername")[1]
    return port


@asynccontextmanager
async def serving() -> AsyncIterator[Effects]:
    effects = Effects()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", effects.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    effects.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield effects
    finally:
        await runner.cleanup()
