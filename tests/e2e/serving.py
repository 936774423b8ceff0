"""A small HTTP API on loopback for playbooks of whole processes: it answers by rule, and notes who asked what when."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aiohttp import web

ROW = {"id": 0, "odd": False, "text": "many rows of some length are large " * 6}


def rows(many: int) -> dict[str, Any]:
    made = [{**ROW, "id": place, "odd": place % 2 == 1} for place in range(many)]
    return {"rows": made, "total": many, "name": "rows"}


class Api:
    """What it was asked, how much of it at once, and what was stored here. All of it runs on one loop."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []  # "GET /path?query" in the order of their coming
        self.bodies: dict[str, list[Any]] = {}  # by path, what was sent there
        self.headers: dict[str, list[dict[str, str]]] = {}
        self.out = self.most = 0  # of the guests that are held
        self.hundredth = threading.Event()  # so many requests have come
        self.items: Any = None  # what is given under /json
        self.refused = 0  # requests for items that were not answered the first time
        self._turns: Counter[str] = Counter()
        self._full = asyncio.Event()
        self._open = asyncio.Event()

    def count(self, beginning: str) -> int:
        return sum(call.split(" ", 1)[1].startswith(beginning) for call in self.calls)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path_qs}")
        if len(self.calls) >= 100:
            self.hundredth.set()
        self.headers.setdefault(request.path, []).append(dict(request.headers))
        if request.can_read_body:
            self.bodies.setdefault(request.path, []).append(await request.json())
        first, *rest = request.path.strip("/").split("/")
        answer = getattr(self, f"on_{first or 'v1'}", None)
        if answer is None:
            return web.json_response({"message": "nothing here"}, status=404)
        made: web.StreamResponse = await answer(request, rest)
        return made

    def turn(self, key: str) -> int:
        """How often that was asked, this time included."""
        self._turns[key] += 1
        return self._turns[key]

    # Answers

    async def on_status(self, _: web.Request, rest: list[str]) -> web.Response:
        return web.json_response({"code": int(rest[0])}, status=int(rest[0]))

    async def on_flaky(self, request: web.Request, rest: list[str]) -> web.Response:
        """500 for the first so many."""
        turn = self.turn(f"flaky/{rest[0]}")
        return web.json_response({"turn": turn}, status=500 if turn <= int(request.query["fails"]) else 200)

    async def on_pages(self, request: web.Request, rest: list[str]) -> web.Response:
        page, pages = int(request.query["page"]), int(request.query["pages"])
        return web.json_response({"at": f"{'-'.join(rest)}{page}", "more": page < pages})

    async def on_held(self, request: web.Request, rest: list[str]) -> web.Response:
        """Hold each request until the bell has rung often enough, so that other requests have time to arrive."""
        self.out += 1
        self.most = max(self.most, self.out)
        if self.out == int(request.query["of"]):
            self._full.set()
        await self._open.wait()
        self.out -= 1
        return web.json_response({"guest": rest[0]})

    async def on_bell(self, request: web.Request, _: list[str]) -> web.Response:
        await self._full.wait()
        turn = self.turn("bell")
        if turn == int(request.query["rings"]):
            self._open.set()
        return web.json_response({"turn": turn})

    async def on_rows(self, request: web.Request, _: list[str]) -> web.Response:
        """Rows of about this many bytes in all; with `list` in four pages."""
        many = max(4, int(request.query["bytes"]) // (len(json.dumps(ROW)) + 2))
        if "list" in request.query:
            return web.json_response([rows(many // 4)] * 4)
        return web.json_response(rows(many))

    async def on_items(self, request: web.Request, rest: list[str]) -> web.Response:
        """15 pages of 20 rows for each name; one request in ten fails once, by 503 or by 429."""
        page = int(request.query["page"])
        number = int(hashlib.sha256(f"{rest[0]}/{page}".encode()).hexdigest()[:4], 16)
        if number % 10 == 0 and self.turn(f"{rest[0]}/{page}") == 1:
            self.refused += 1
            if number % 20:
                return web.json_response({"message": "busy"}, status=503)
            return web.json_response({"message": "slow down"}, status=429, headers={"Retry-After": "1"})
        first = (page - 1) * 20
        data = [{"id": first + place, "amount": (first + place) / 4} for place in range(20)]
        return web.json_response({"data": data, "paging": {"page": page, "hasMore": page < 15}})

    async def on_json(self, _: web.Request, _rest: list[str]) -> web.Response:
        return web.json_response(self.items)

    async def on_store(self, request: web.Request, _: list[str]) -> web.Response:
        return web.json_response({"stored": len(self.bodies[request.path])}, status=201)

    async def on_endpoints(self, request: web.Request, rest: list[str]) -> web.Response:
        """Pages as in 003 §12: `good` has three, `shaky` answers 503 at first, all others do not exist."""
        page, size = int(request.query["page"]), int(request.query["pageSize"])
        if rest[0] == "shaky" and self.turn("shaky") == 1:
            return web.json_response({}, status=503)
        if rest[0] == "closed":
            return web.json_response({}, status=403)
        if rest[0] not in ("good", "shaky"):
            return web.json_response({"message": "no such endpoint"}, status=404)
        pages = 3 if rest[0] == "good" else 1
        rows = [{"row": (page - 1) * size + place} for place in range(size)]
        return web.json_response({"data": rows, "paging": {"page": page, "hasMore": page < pages}})

    async def on_api(self, request: web.Request, _: list[str]) -> web.Response:
        """Records of patients, as in 004 §4.2: two pages each; the first patient's first call comes too early."""
        page, patient = int(request.query.get("page", "1")), request.query.get("patientId", "p-1")
        if "page" in request.query and patient == "p-1" and self.turn("patients") == 1:
            return web.json_response({}, status=429)
        return web.json_response({"records": [f"{patient}/{page}"], "meta": {"page": page, "totalPages": 2}})

    async def on_v1(self, _: web.Request, rest: list[str]) -> web.Response:
        return web.json_response({"asked": rest})

    # What our own examples ask

    async def on_weather(self, request: web.Request, _: list[str]) -> web.Response:
        return web.json_response({"current": f"sunny in {request.query['city']}"})

    async def on_air(self, request: web.Request, _: list[str]) -> web.Response:
        return web.json_response({"index": 12}, status=200 if request.query["city"] == "lisbon" else 404)

    async def on_flights(self, _: web.Request, rest: list[str]) -> web.Response:
        return web.json_response({"id": rest[0] if rest else "f-1"})

    async def on_hotels(self, _: web.Request, rest: list[str]) -> web.Response:
        return web.json_response({"id": rest[0] if rest else "h-1"})

    async def on_charges(self, request: web.Request, _: list[str]) -> web.Response:
        dear = self.bodies[request.path][-1]["amount"] > 1000
        return web.json_response({}, status=402 if dear else 200)

    async def on_exports(self, request: web.Request, rest: list[str]) -> web.Response:
        """An export named after its month: that of month 13 goes wrong."""
        if not rest:
            return web.json_response({"id": self.bodies[request.path][-1]["month"]}, status=201)
        if rest[-1] == "errors":
            return web.json_response({"reason": "there is no such month"})
        state = "broken" if rest[0].endswith("-13") else "ready"
        return web.json_response({"state": state, "download_url": f"{self.url}/files/{rest[0]}.csv"})

    async def on_files(self, _: web.Request, rest: list[str]) -> web.Response:
        return web.Response(text=f"file,{rest[0]}\n", content_type="text/csv")

    async def on_incidents(self, _request: web.Request, _: list[str]) -> web.Response:
        return web.json_response({}, status=201)

    async def on_cities(self, request: web.Request, rest: list[str]) -> web.Response:
        """Two hotels a city, two pages of three rooms a hotel; Bangkok has none."""
        if rest[-1] == "rooms":
            page = int(request.query["page"])
            return web.json_response({"rooms": [{}] * 3, "page": page, "pages": 2})
        hotels = [] if rest[0] == "bkk" else [{"id": f"{rest[0]}-{place}"} for place in (1, 2)]
        return web.json_response({"hotels": hotels})


A = TypeVar("A", bound=Api)


@contextmanager
def serving() -> Iterator[Api]:
    """An API in a thread of its own, until the test is over."""
    with serving_as(Api) as api:
        yield api


@contextmanager
def serving_as(kind: type[A]) -> Iterator[A]:
    started: list[A] = []
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        api = kind()
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", api.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.append(api)
        ready.set()
        await over.wait()
        await runner.cleanup()

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()  # also after an error: then the waiting thread finds no server
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait()
        yield started[0]
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join()
