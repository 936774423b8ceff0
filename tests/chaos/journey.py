"""A playbook of twenty steps with everything that a crash may interrupt, and the API that it calls.

The API records its requests by idempotency key, so that tests can count repeated effects.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from noetl.clock import SystemClock
from tests.playbooks import HEAD

IN_FLIGHT = 10
CHAIN = (
    "s1",
    "s2",
    "s3",
    "s4",
    "s5",
    "flaky",
    "large",
    "read",
    "rows",
    "paged",
    "pages",
    "block",
    "child",
    "turns",
)
TAIL = ("s6", "s7", "s8", "s9", "last")
ORDER = (*CHAIN, *TAIL)  # each step begins when the previous one is in the log
TWICE = "/flaky"  # returns an error for the first request of each key: the second one is no repeated effect


def _post(step: str, after: str, *, more: str = "") -> str:
    return f"""\
- step: {step}
  tool:
    kind: http
    method: POST
    url: "{{{{ workload.url }}}}/{step}/0?of={{{{ execution_id }}}}"
{more}  set: {{ctx.{step}: "{{{{ output.data.square }}}}"}}
  next: {{arcs: [{{step: {after}}}]}}
"""


_RETRY = """\
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' }}"
          then: {do: retry, attempts: 5, backoff: fixed, delay: 0.01}
        - else: {then: {do: continue}}
"""

_MIDDLE = f"""\
- step: large
  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/large/0?of={{{{ execution_id }}}}"}}
  set: {{ctx.large_ref: "{{{{ output.ref }}}}"}}
  next: {{arcs: [{{step: read}}]}}
- step: read
  tool: {{kind: resolve, ref: "{{{{ ctx.large_ref }}}}"}}
  set: {{ctx.read: "{{{{ output.data | length }}}}"}}
  next: {{arcs: [{{step: rows}}]}}
- step: rows
  loop: {{in: "{{{{ ctx.large_ref }}}}", iterator: row, spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}, policy: {{reduce: {{ctx.rows: sum}}}}}}}}
  tool: {{kind: noop, input: {{id: "{{{{ iter.row.id }}}}"}}, set: {{ctx.rows: "{{{{ output.data.id }}}}"}}}}
  next: {{arcs: [{{step: paged}}]}}
- step: paged
  loop: {{in: "{{{{ workload.items }}}}", iterator: item, spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}, policy: {{reduce: {{ctx.paged: sum}}}}}}}}
  tool: {{kind: noop, input: {{id: "{{{{ iter.item.id }}}}"}}, set: {{ctx.paged: "{{{{ output.data.id }}}}"}}}}
  next: {{arcs: [{{step: pages}}]}}
- step: pages
  loop: {{in: "{{{{ range(workload.count) }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}, policy: {{reduce: {{ctx.pages: sum}}}}}}}}
  tool:
  - name: fetch
    kind: http
    method: POST
    url: "{{{{ workload.url }}}}/pages/{{{{ iter.n }}}}?of={{{{ execution_id }}}}"
    set: {{ctx.pages: "{{{{ output.data.square }}}}"}}
  - name: confirm
    kind: http
    method: POST
    url: "{{{{ workload.url }}}}/confirm/{{{{ iter.n }}}}?of={{{{ execution_id }}}}"
    spec: {{policy: {{rules: [{{when: "{{{{ iter.n % 10 > 0 }}}}", then: {{do: skip}}}}]}}}}
  next: {{arcs: [{{step: block}}]}}
- step: block
  tool: {{kind: workbook, block: inner, input: {{many: 4}}}}
  set: {{ctx.block: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: child}}]}}
- step: child
  tool: {{kind: playbook, path: child.yaml, input: {{url: "{{{{ workload.url }}}}", of: "{{{{ execution_id }}}}"}}}}
  set: {{ctx.child: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: turns}}]}}
- step: turns
  loop: {{in: "{{{{ range(10) }}}}", iterator: n, spec: {{mode: sequential}}}}
  tool:
    kind: http
    method: POST
    url: "{{{{ workload.url }}}}/turns/{{{{ iter.n }}}}?of={{{{ execution_id }}}}"
    set: {{ctx.turns: "{{{{ (ctx.turns | default('')) ~ iter.n }}}}"}}
  next: {{arcs: [{{step: s6}}]}}
"""

_LAST = "- step: last\n  tool:\n    kind: noop\n    input:\n" + "".join(
    f'      {name}: "{{{{ ctx.{name} }}}}"\n' for name in ORDER if name not in ("large", "last")
)

_BLOCK = """\
workbook:
  inner:
    input: {many: 0}
    loop: {in: "{{ range(input.many) }}", iterator: m, spec: {mode: sequential}}
    tool:
    - {name: call, kind: http, method: POST, url: "{{ workload.url }}/inner/{{ iter.m }}?of={{ execution_id }}"}
    - {name: keep, kind: noop, input: {got: "{{ call.data.square }}"}}
"""

JOURNEY = (
    HEAD
    + 'workload: {url: "", count: 20, items: []}\n'
    + "workflow:\n- {step: start, tool: {kind: noop}, next: {arcs: [{step: s1}]}}\n"
    + "".join(_post(f"s{n}", f"s{n + 1}") for n in range(1, 5))
    + _post("s5", "flaky")
    + _post("flaky", "large", more=_RETRY)
    + _MIDDLE
    + "".join(_post(f"s{n}", f"s{n + 1}") for n in range(6, 9))
    + _post("s9", "last")
    + _LAST
    + _BLOCK
)

CHILD = (
    HEAD.replace("path: t", "path: t/child")
    + 'workload: {url: "", of: ""}\nworkflow:\n'
    + "".join(
        f"""\
- step: {step}
  tool: {{kind: http, method: POST, url: "{{{{ workload.url }}}}/child/{place}?of={{{{ workload.of }}}}"}}
  next: {{arcs: [{{step: {after}}}]}}
"""
        for place, (step, after) in enumerate([("start", "middle"), ("middle", "finish")])
    )
    + '- {step: finish, tool: {kind: noop, input: {child: "of {{ workload.of | length }} characters"}}}\n'
)

ITEMS = [
    {"id": place, "text": "an item, and many items of this size are too large for the log " * 16} for place in range(70)
]
ROWS = [{"id": place, "text": "a row of a result that is too large for the log " * 8} for place in range(200)]
LARGE_PAGE = "a page of text, and one in fifty is as large as this " * 1_400


class Api:
    """The requests that the API received. It runs on one event loop."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: dict[str, list[str]] = {}  # execution → paths, in the order of the requests
        self.keys: dict[str, Counter[str]] = {}  # execution → path and key → number of requests
        self.on_request: Callable[[int], None] | None = None  # called with the number of requests, before the answer
        self.requests = 0
        self._clock = SystemClock()

    async def handle(self, request: web.Request) -> web.Response:
        self.requests += 1
        execution_id, path = request.query["of"], request.path
        self.seen.setdefault(execution_id, []).append(path)
        counts = self.keys.setdefault(execution_id, Counter())
        key = f"{path} {request.headers['Idempotency-Key']}"
        counts[key] += 1
        if self.on_request is not None:
            self.on_request(self.requests)
        name, number = path.strip("/").split("/")
        n = int(number)
        await self._clock.sleep(0.003 + n % 3 / 1_000)
        if path.startswith(TWICE) and counts[key] == 1:
            return web.json_response({"wait": "a little"}, status=503)
        if name == "large":
            return web.json_response(ROWS)
        answer = {"n": n, "square": n * n + len(name)}
        return web.json_response({**answer, "page": LARGE_PAGE} if name == "pages" and n % 50 == 0 else answer)

    def repeated(self) -> int:
        """The number of requests beyond those of a run without a crash."""
        return sum(
            max(0, count - (2 if key.startswith(TWICE) else 1))
            for counts in self.keys.values()
            for key, count in counts.items()
        )


@contextmanager
def serving() -> Iterator[Api]:
    """Serve the API from a thread until the test ends."""
    api = Api()
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        application = web.Application()
        application.router.add_post("/{path:.*}", api.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await over.wait()
        await runner.cleanup()

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait()
        yield api
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join()
