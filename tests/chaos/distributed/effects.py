"""The world that playbooks have their effects on: it counts by idempotency key, and sees when a caller dies.

Every answer has a serial number of its own, so that a result in a log tells which of several calls it is from.
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
    """All of it happens on the loop of the test."""

    def __init__(self) -> None:
        self.url = ""
        self.arrivals: dict[str, list[float]] = {}  # key → when it was asked for
        self.paths: dict[str, dict[str, str]] = {}  # execution → key → path
        self.serials: list[str] = []  # serial → key
        self.interrupted: dict[str, float] = {}  # key → when the one who asked died, and nobody was answered
        self.answered: set[str] = set()  # keys
        self.resumed: list[float] = []  # seconds from there until somebody asked again
        self.at_once: Counter[str] = Counter()  # what is counted together → requests in hand
        self.most_at_once: Counter[str] = Counter()
        self.gates: dict[str, list[asyncio.Event]] = {}  # key → what its first answers wait for, each
        self.is_holding = True
        self.callers: dict[str, int] = {}  # key → the port of whoever asked first

    def key(self, execution_id: str, path: str) -> str:
        """Of what an execution has asked for there; "": it has not."""
        keys = self.paths.get(execution_id, {})
        return next((key for key, each in keys.items() if each == path), "")

    def release(self) -> None:
        """All that waits, and all that comes."""
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
        serial, counted = len(self.serials) - 1, query.get("counted", "")
        self._count(counted, 1)
        try:
            await self._wait(request, key)
        except asyncio.CancelledError:
            if (
                key not in self.answered
            ):  # else it had lost its lease before it died, and another one was here
                self.interrupted[key] = CLOCK.monotonic()
            raise
        finally:
            self._count(counted, -1)
        self.answered.add(key)
        self.interrupted.pop(key, None)
        if "mb" in query:
            return web.Response(text=f"{serial} " + LARGE * int(query["mb"]))
        return web.json_response({"serial": serial, "of": query["of"], "path": request.path})

    def _count(self, counted: str, change: int) -> None:
        self.at_once[counted] += change
        self.most_at_once[counted] = max(self.most_at_once[counted], self.at_once[counted])

    async def _wait(self, request: web.Request, key: str) -> None:
        """`holds`: so many answers of a key wait until they are let go."""
        gates = self.gates.setdefault(key, [])
        if self.is_holding and len(gates) < int(request.query.get("holds", "0")):
            assert request.transport is not None
            self.callers.setdefault(key, request.transport.get_extra_info("peername")[1])
            gates.append(gate := asyncio.Event())
            await gate.wait()
        await CLOCK.sleep(float(request.query.get("ms", "0")) / 1_000)


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
