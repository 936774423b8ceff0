"""Mock services for the examples: `python examples/services.py` starts all of them on this machine.

Each service has its own path, such as http://127.0.0.1:8700/travel, and prints the requests it receives. The
services fail now and then, but deterministically: an example gives the same result every time.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

PORT = 8700


class Request(NamedTuple):
    """A request; `parts` is the path after the name of the service."""

    method: str
    parts: list[str]
    query: dict[str, str]
    headers: dict[str, str]  # names in lower case
    body: Any  # None: no body

    @property
    def line(self) -> str:
        return f"{self.method} /{'/'.join(self.parts)}"


class Answer(NamedTuple):
    status: int
    body: Any  # a string is sent as it is, anything else as JSON


BUSY = Answer(503, {"message": "busy, try again"})
MISSING = Answer(404, {"message": "nothing here"})


class Service:
    """Answers requests, and records them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[Request] = []
        self._turns: Counter[str] = Counter()

    def lines(self, beginning: str = "") -> list[str]:
        """Method and path of the received requests, in order; only those with this prefix."""
        return [each.line for each in self.seen if each.line.startswith(beginning)]

    def first_time(self, key: str) -> bool:
        self._turns[key] += 1
        return self._turns[key] == 1

    def answer(self, request: Request) -> Answer:
        raise NotImplementedError


class Pages(Service):
    """Lists in pages (pagination.yaml). The first request for every third page gets a 503."""

    sizes = {"patients": 250, "visits": 420, "invoices": 130}

    def answer(self, request: Request) -> Answer:
        name = request.parts[-1]
        if name not in self.sizes:
            return MISSING
        page, size = int(request.query["page"]), int(request.query["pageSize"])
        if page % 3 == 0 and self.first_time(f"{name}/{page}"):
            return BUSY
        ids = range((page - 1) * size, min(page * size, self.sizes[name]))
        rows = [{"id": id, "amount": id / 4} for id in ids]
        return Answer(200, {"data": rows, "paging": {"page": page, "hasMore": ids.stop < self.sizes[name]}})


class Hotels(Service):
    """Cities, hotels, pages of rooms (nested_loops.yaml). A first request for page 2 gets a 503."""

    hotels = {
        "lis": {"alfama": 5, "baixa": 12},
        "ber": {"mitte": 7, "kreuzberg": 3, "wedding": 10},
        "bkk": {},
    }

    def answer(self, request: Request) -> Answer:
        match request.parts:
            case ["cities", city, "hotels"] if city in self.hotels:
                return Answer(200, {"hotels": [{"id": hotel} for hotel in self.hotels[city]]})
            case ["cities", city, "hotels", hotel, "rooms"] if hotel in self.hotels.get(city, {}):
                page, size = int(request.query["page"]), int(request.query["pageSize"])
                if page == 2 and self.first_time(hotel):
                    return BUSY
                rooms = self.hotels[city][hotel]
                beds = [{"room": 100 + place, "beds": 1 + place % 3} for place in range(rooms)]
                pages = -(-rooms // size)
                return Answer(200, {"rooms": beds[(page - 1) * size : page * size], "page": page, "pages": pages})
        return MISSING


class City(Service):
    """The weather of a city, and its air quality where it is measured (fan_out_join.yaml)."""

    weather = {"lisbon": "sunny", "oslo": "snow"}
    air = {"lisbon": 12}

    def answer(self, request: Request) -> Answer:
        city = request.query.get("city", "")
        match request.parts:
            case ["weather"] if city in self.weather:
                return Answer(200, {"current": self.weather[city]})
            case ["air"] if city in self.air:
                return BUSY if self.first_time(city) else Answer(200, {"index": self.air[city]})
        return MISSING


class Travel(Service):
    """Bookings and card payments (saga.yaml, compensation.yaml).

    Payments above 1000 fail; cancelling a hotel fails at first.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.booked: dict[str, str] = {}  # current bookings, by id
        self._by_key: dict[str, str] = {}  # idempotency key → booking

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ["charges"]:
                dear = request.body["amount"] > 1000
                return Answer(402, {"message": "card refused"}) if dear else Answer(201, {"charged": True})
            case "POST", ["flights" | "hotels" as what]:
                return Answer(201, {"id": self._book(what, request)})
            case "DELETE", ["flights" | "hotels" as what, id] if id in self.booked:
                if what == "hotels" and self.first_time(id):
                    return BUSY
                del self.booked[id]
                return Answer(200, {"id": id})
        return MISSING

    def _book(self, what: str, request: Request) -> str:
        key = request.headers["idempotency-key"]
        if key not in self._by_key:
            self._by_key[key] = f"{what[0]}-{len(self._by_key) + 1}"
            self.booked[self._by_key[key]] = what
        return self._by_key[key]


class Purchases(Service):
    """A board for purchase requests, and a supplier (approval.yaml)."""

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ["board"]:
                return Answer(201, {"pinned": True})
            case "POST", ["orders"]:
                return Answer(201, {"order": f"po-{request.headers['idempotency-key'][-4:]}"})
        return MISSING


class Reports(Service):
    """Exports: queued, then running, then ready (polling.yaml). An export of month 13 fails."""

    states = ("queued", "running", "ready")

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ["exports"]:
                return Answer(201, {"id": request.body["month"]})
            case "GET", ["exports", id]:
                self._turns[id] += 1
                state = self.states[min(self._turns[id], len(self.states)) - 1]
                if state == "ready" and id.endswith("-13"):
                    state = "broken"
                return Answer(200, {"state": state, "download_url": f"{self.url}/files/{id}.csv"})
            case "GET", ["exports", id, "errors"]:
                return Answer(200, {"reason": f"{id} is no month"})
            case "GET", ["files", name]:
                return Answer(200, f"shop,sales\n{name.removesuffix('.csv')},1200\n")
            case "POST", ["incidents"]:
                return Answer(201, {"noted": True})
        return MISSING


class Orders(Service):
    """Lists changes since a cursor (incremental_sync.yaml). Two changes concern the same order."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.changes = [{"id": 1 + place % 11, "status": "new", "amount": 10 * place} for place in range(12)]
        self.closed_from: int | None = None  # a cursor: requests beyond it get a 403

    def answer(self, request: Request) -> Answer:
        if request.parts != ["changes"]:
            return MISSING
        since, limit = int(request.query["since"]), int(request.query["limit"])
        if self.closed_from is not None and since >= self.closed_from:
            return Answer(403, {"message": "the contract has run out"})
        if since and self.first_time(str(since)):
            return BUSY
        until = min(since + limit, len(self.changes))
        found = self.changes[since:until]
        return Answer(200, {"orders": found, "cursor": until, "more": until < len(self.changes)})


class Model(Service):
    """A stub of a language model, and the tools that it may call (agent_loop.yaml).

    It looks up an order, requests a refund if the order is late, and answers. If the order does not exist, it
    makes no progress and calls tools that do not exist, as some models do.
    """

    late = {"1007": 40}

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ["v1", "chat", "completions"]:
                busy = len(request.body["messages"]) == 2 and self.first_time("model")
                return Answer(429, {"error": "too many requests"}) if busy else self._complete(request.body)
            case "GET", ["orders", id]:
                return Answer(200, {"id": id, "late": True, "paid": self.late[id]}) if id in self.late else MISSING
            case "POST", ["refunds"]:
                return Answer(201, {"refunded": request.body["amount"]})
        return MISSING

    def _complete(self, body: dict[str, Any]) -> Answer:
        question = next(each["content"] for each in body["messages"] if each["role"] == "user")
        order = "".join(letter for letter in question if letter.isdigit())
        found = [json.loads(each["content"]) for each in body["messages"] if each["role"] == "tool"]
        refunds = [each["refunded"] for each in found if "refunded" in each]
        if refunds:
            words = f"Order {order} is late, we are sorry. You get {refunds[0]} euros back."
            return self._said({"role": "assistant", "content": words}, "stop")
        late = [each for each in found if each.get("late")]
        if late:
            return self._calls("refund", {"order": order, "amount": late[0]["paid"]}, len(found))
        return self._calls("search" if len(found) % 2 else "look_up_order", {"order": order}, len(found))

    def _calls(self, name: str, arguments: dict[str, Any], number: int) -> Answer:
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call-{number + 1}", "type": "function", "function": function}
        return self._said({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")

    def _said(self, message: dict[str, Any], reason: str) -> Answer:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return Answer(200, {"choices": [choice], "usage": {"total_tokens": 120}})


class Planner(Service):
    """A stub of a language model that answers with a playbook (agent_plan.yaml).

    Its first plan leads to a step that does not exist. It corrects that when it receives the problems. For an
    unknown order it repeats its first plan.
    """

    orders = {"1007": 40}
    plan = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: plan, path: plans/order }}
keychain:
  - {{ name: model_api, kind: bearer, token: {{ env: MODEL_API_KEY }} }}
workload: {{ api_url: "" }}
workflow:
  - step: start
    tool: {{ kind: http, auth: model_api, url: "{{{{ workload.api_url }}}}/orders/{order}" }}
    set: {{ ctx.order: "{{{{ output.data }}}}" }}
    next: {{ arcs: [{{ step: {next} }}] }}
  - step: say
    tool: {{ kind: noop, input: {{ paid: "{{{{ ctx.order.paid }}}}", late: "{{{{ ctx.order.late }}}}" }} }}
"""

    def answer(self, request: Request) -> Answer:
        match request.method, request.parts:
            case "POST", ["v1", "chat", "completions"]:
                return self._complete([each["content"] for each in request.body["messages"]])
            case "GET", ["orders", id] if id in self.orders:
                return Answer(200, {"id": id, "late": True, "paid": self.orders[id]})
        return MISSING

    def _complete(self, said: list[str]) -> Answer:
        order = "".join(letter for letter in said[1] if letter.isdigit())
        corrected = "unknown-step" in said[-1] and order in self.orders
        plan = self.plan.format(order=order, next="say" if corrected else "tell")
        message = {"role": "assistant", "content": plan}
        return Answer(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


class Branches(Service):
    """The receipts of each branch of a shop, too large for an event (child_playbooks.yaml)."""

    receipts = {"bern": 1200, "uster": 800, "zug": 1500}

    def answer(self, request: Request) -> Answer:
        branch = request.parts[0]
        if branch not in self.receipts:
            return MISSING
        many = range(self.receipts[branch])
        text = "coffee beans, one pound, roasted"
        rows = [{"receipt": n, "day": 1 + n % 30, "amount": n % 7, "text": text} for n in many]
        return Answer(200, rows)


SERVICES: dict[str, Callable[[str], Service]] = {
    "pages": Pages,
    "hotels": Hotels,
    "city": City,
    "travel": Travel,
    "purchases": Purchases,
    "reports": Reports,
    "orders": Orders,
    "model": Model,
    "planner": Planner,
    "branches": Branches,
}


class Handler(BaseHTTPRequestHandler):
    """Passes a request to the service that its path names, and sends the answer as JSON."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()  # services handle one request at a time

    def __init__(self, services: dict[str, Service], quiet: bool, *connection: Any) -> None:
        self.services, self.quiet = services, quiet
        super().__init__(*connection)

    def answer(self) -> None:
        address = urlsplit(self.path)
        name, *parts = address.path.strip("/").split("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(
            method=self.command,
            parts=parts,
            query=dict(parse_qsl(address.query)),
            headers={key.lower(): value for key, value in self.headers.items()},
            body=json.loads(body) if body else None,
        )
        with self.lock:
            service = self.services.get(name)
            if service is not None:
                service.seen.append(request)
            try:
                answered = MISSING if service is None else service.answer(request)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                answered = Answer(400, {"message": f"not understood: {error!r}"})
        plain = isinstance(answered.body, str)
        content = (answered.body if plain else json.dumps(answered.body)).encode()
        self.send_response(answered.status)
        self.send_header("Content-Type", "text/csv" if plain else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002
        if not self.quiet:
            print(f"services: {self.command} {self.path} {int(code)}", flush=True)


@contextmanager
def serving(*names: str, port: int = 0, quiet: bool = True) -> Iterator[dict[str, Service]]:
    """Serve the named services (default: all) in a thread until the block ends; port 0 is any free port."""
    services: dict[str, Service] = {}
    with ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, services, quiet)) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        services |= {name: SERVICES[name](f"{address}/{name}") for name in names or SERVICES}
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))  # poll interval of shutdown()
        thread.start()
        try:
            yield services
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="Mock services for the examples.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(SERVICES)}")
    parser.add_argument("--port", type=int, default=PORT, help=f"port on 127.0.0.1; default: {PORT}")
    given = parser.parse_args()
    for name in given.names:
        if name not in SERVICES:
            parser.error(f"there is no service {name!r}; there are {', '.join(SERVICES)}")
    try:
        with serving(*given.names, port=given.port, quiet=False) as services:
            for service in services.values():
                print(f"{service.url:32}  {(service.__doc__ or '').splitlines()[0]}", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        print()
    except OSError as error:
        parser.error(f"cannot listen on port {given.port} ({error.strerror}); use --port to choose another")


if __name__ == "__main__":
    main()
