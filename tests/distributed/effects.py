"""An HTTP server for tests with faults: it counts calls, in total and at the same time, and can hold them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from aiohttp import web

from noetl.clock import SystemClock

PATIENCE_S = 180.0
_clock = SystemClock()


class Effects:
    """`/call/NAME` answers at once, and `/gate/GATE/NAME` when the gate is open. Both return the name.

    `?full=7` waits until seven requests have been here at the same time; `?ms=300` waits for 300 ms more.
    `?counted=a` counts the requests of that name at the same time. With `&busy=8&retry_after=5`, the eighth request
    of that name gets status 429 with `Retry-After: 5`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []  # names in the order of the requests; GATE/NAME for gates
        self.keys: Counter[str] = Counter()  # requests by idempotency key
        self.out = self.most = self.answered = 0
        self.at_once: Counter[str] = Counter()  # counted requests in progress, by their name
        self.most_at_once: Counter[str] = Counter()
        self.arrivals: dict[str, list[datetime]] = {}  # of counted requests, by their name
        self._news = threading.Condition()
        self._gates: dict[str, asyncio.Event] = {}
        self._full = asyncio.Event()
        self._loop = asyncio.new_event_loop()

    @property
    def repeated(self) -> dict[str, int]:
        """Calls with more than one request, and their number of requests."""
        return {name: count for name, count in Counter(self.calls).items() if count > 1}

    async def until(self, holds: Callable[[Effects], bool]) -> None:
        """Wait for a condition, which is checked with every request and every answer."""
        assert await asyncio.to_thread(self._wait, lambda: holds(self)), f"{len(self.calls)} calls, {self.out} out"

    def wait(self, holds: Callable[[], bool]) -> None:
        """The same in a test without an event loop."""
        assert self._wait(holds), f"{len(self.calls)} calls, {self.out} out"

    def _wait(self, holds: Callable[[], bool]) -> bool:
        with self._news:
            return self._news.wait_for(holds, PATIENCE_S)

    def open(self, gate: str) -> None:
        """Let all waiting and all later requests of the gate continue."""
        self._loop.call_soon_threadsafe(self._gate(gate).set)

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    async def handle(self, request: web.Request) -> web.Response:
        what, _, name = request.path.strip("/").partition("/")
        number = 0  # of a counted request, from 1
        with self._news:
            self.calls.append(name)
            self.keys[request.headers.get("Idempotency-Key", "")] += 1
            self.out += 1
            self.most = max(self.most, self.out)
            if (counted := request.query.get("counted")) is not None:
                self.at_once[counted] += 1
                self.most_at_once[counted] = max(self.most_at_once[counted], self.at_once[counted])
                self.arrivals.setdefault(counted, []).append(_clock.now())
                number = len(self.arrivals[counted])
            self._news.notify_all()
        try:
            if what == "gate":
                await self._gate(name.partition("/")[0]).wait()
            if (full := int(request.query.get("full", "0"))) > 0:
                if self.out >= full:
                    self._full.set()
                await self._full.wait()
            await _clock.sleep(int(request.query.get("ms", "0")) / 1000)
        finally:
            with self._news:
                self.out -= 1
                self.answered += 1
                if counted is not None:
                    self.at_once[counted] -= 1
                self._news.notify_all()
        if (busy := request.query.get("busy")) is not None and number == int(busy):
            return web.Response(status=429, headers={"Retry-After": request.query["retry_after"]})
        return web.json_response({"name": name})

    async def serve(self, ready: threading.Event, over: asyncio.Event) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await over.wait()
        await runner.cleanup()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop


@contextmanager
def effects() -> Iterator[Effects]:
    """Serve from a thread until the test ends."""
    made, ready, over = Effects(), threading.Event(), asyncio.Event()

    def work() -> None:
        try:
            made.loop.run_until_complete(made.serve(ready, over))
        finally:
            ready.set()
            made.loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait()
        yield made
    finally:
        if not made.loop.is_closed():
            made.loop.call_soon_threadsafe(over.set)
        thread.join()
