"""A shop with branches in six cities that tells its orders in pages, and has moods: for examples/report.yaml.

Every fifth page is refused at first (503), every seventh asks for patience (429), every eleventh says nothing
for a while. Which page has which mood is fixed, and each comes once; so whoever asks again gets every order.

Run it by itself with `python examples/shop.py`; its address is the first line that it prints.
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
ANSWER_S = 0.1  # how long an answer takes
SILENT_S = 3.0  # how long one takes that nobody waits for
PATIENCE_S = 1


def orders(city: str, page: int) -> list[dict[str, Any]]:
    """The same each time; the last page of a city is half full."""
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


def mood(city: str, page: int) -> str:
    """How the first request for a page goes: `ok`, `busy`, `patience` or `silent`."""
    cities = list(PAGES)
    place = sum(PAGES[each] for each in cities[: cities.index(city)]) + page
    for every, name in ((11, "silent"), (7, "patience"), (5, "busy")):
        if place % every == 0:
            return name
    return "ok"


class Shop(ThreadingHTTPServer):
    """On a free port of this machine; it notes which pages it was asked for and which it gave."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Counter)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.changed = threading.Condition()
        self.asked: set[tuple[str, int]] = set()
        self.given = 0
        self.ending = threading.Event()

    def first_time(self, city: str, page: int) -> bool:
        with self.changed:
            before = (city, page) in self.asked
            self.asked.add((city, page))
            return not before

    def count(self) -> None:
        with self.changed:
            self.given += 1
            self.changed.notify_all()

    def wait_until_given(self, many: int) -> int:
        with self.changed:
            self.changed.wait_for(lambda: self.given >= many, timeout=60)
            return self.given


class _Counter(BaseHTTPRequestHandler):
    """Who stands behind the counter and answers."""

    server: Shop

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/cities":
            self._answer(200, [{"name": city, "pages": pages} for city, pages in PAGES.items()])
        elif address.path == "/given":  # the shop's own: answers when it has given so many pages
            self._answer(200, {"pages": self.server.wait_until_given(int(asked.get("pages", "0")))})
        elif address.path == "/orders" and _is_a_page(asked):
            self._give(asked["city"], int(asked["page"]))
        else:
            self._answer(404, {"message": "there are /cities and /orders?city=Bern&page=1"})

    def _give(self, city: str, page: int) -> None:
        today = mood(city, page) if self.server.first_time(city, page) else "ok"
        if today == "busy":
            self._answer(503, {"message": "the shop is busy"})
        elif today == "patience":
            self._answer(429, {"message": "one at a time, please"}, {"Retry-After": str(PATIENCE_S)})
        else:
            self.server.ending.wait(SILENT_S if today == "silent" else ANSWER_S)
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
            self.close_connection = True  # whoever asked has gone

    def log_message(self, format: str, *words: Any) -> None:
        """Says nothing: the log of the execution tells it all."""


def _is_a_page(asked: dict[str, str]) -> bool:
    page = asked.get("page", "")
    return page.isdecimal() and 1 <= int(page) <= PAGES.get(asked.get("city", ""), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="A shop with moods, for examples/report.yaml.")
    parser.add_argument("--port", type=int, default=0, help="0, the default, is any that is free")
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
