"""A mock shop API that fails intermittently: orders of six cities in pages, for examples/report.yaml.

The first request for every fifth page gets a 503, for every seventh a 429 with Retry-After, and for every
eleventh a late response. The faults are deterministic, and each occurs once, so a client that retries gets
every order.

Start it alone with `python examples/shop.py`; the first line that it prints is its address.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGES = {"Basel": 8, "Bern": 9, "Geneva": 7, "Lausanne": 5, "Lugano": 4, "Zurich": 12}
PAGE_SIZE = 50
PRODUCTS = {"bread": 4.5, "cheese": 12.9, "chocolate": 3.2, "coffee": 8.75, "tea": 6.4}
ANSWER_S = 0.1  # the usual response time
SILENT_S = 3.0  # a response time beyond the client's timeout
RETRY_AFTER_S = 1


def orders(city: str, page: int) -> list[dict[str, Any]]:
    """Deterministic; the last page of a city is half full."""
    size = PAGE_SIZE if page < PAGES[city] else PAGE_SIZE // 2
    first = (page - 1) * PAGE_SIZE
    names = list(PRODUCTS)
    found = []
    for number in range(first, first + size):
        product = names[(number * number + len(city)) % len(names)]
        pieces = 1 + (number * 7 + PAGES[city]) % 5
        amount = round(PRODUCTS[product] * pieces, 2)
        found.append({"id": f"{city}-{number}", "product": product, "pieces": pieces, "amount": amount})
    return found


def fault(city: str, page: int) -> str:
    """The fault of the first request for a page: `none`, `busy`, `rate_limit` or `late`."""
    cities = list(PAGES)
    place = sum(PAGES[each] for each in cities[: cities.index(city)]) + page
    for every, name in ((11, "late"), (7, "rate_limit"), (5, "busy")):
        if place % every == 0:
            return name
    return "none"


class Shop(ThreadingHTTPServer):
    """Listens on a free loopback port, and records requested and delivered pages."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.changed = threading.Condition()
        self.requested: set[tuple[str, int]] = set()
        self.given = 0
        self.ending = threading.Event()

    def first_time(self, city: str, page: int) -> bool:
        with self.changed:
            before = (city, page) in self.requested
            self.requested.add((city, page))
            return not before

    def count(self) -> None:
        with self.changed:
            self.given += 1
            self.changed.notify_all()

    def wait_until_given(self, many: int) -> int:
        with self.changed:
            self.changed.wait_for(lambda: self.given >= many, timeout=60)
            return self.given


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests."""

    server: Shop

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/cities":
            self._answer(200, [{"name": city, "pages": pages} for city, pages in PAGES.items()])
        elif address.path == "/given":  # for scripts/report.py: answers when that many pages were delivered
            self._answer(200, {"pages": self.server.wait_until_given(int(query.get("pages", "0")))})
        elif address.path == "/orders" and _is_a_page(query):
            self._give(query["city"], int(query["page"]))
        else:
            self._answer(404, {"message": "there are /cities and /orders?city=Bern&page=1"})

    def _give(self, city: str, page: int) -> None:
        now = fault(city, page) if self.server.first_time(city, page) else "none"
        if now == "busy":
            self._answer(503, {"message": "the shop is busy"})
        elif now == "rate_limit":
            self._answer(429, {"message": "one at a time, please"}, {"Retry-After": str(RETRY_AFTER_S)})
        else:
            self.server.ending.wait(SILENT_S if now == "late" else ANSWER_S)
            self._answer(200, {"city": city, "page": page, "orders": orders(city, page)})
            self.server.count()

    def _answer(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has disconnected

    def log_message(self, format: str, *words: Any) -> None:
        """Logs nothing: the log of the execution has every request."""


def _is_a_page(query: dict[str, str]) -> bool:
    page = query.get("page", "")
    return page.isdecimal() and 1 <= int(page) <= PAGES.get(query.get("city", ""), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="A mock shop API that fails intermittently, for examples/report.yaml.")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free port")
    shop = Shop(parser.parse_args().port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(shop.url, flush=True)
    try:
        shop.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        shop.ending.set()
        shop.server_close()


if __name__ == "__main__":
    main()
