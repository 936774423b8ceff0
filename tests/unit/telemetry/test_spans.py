"""The spans of a log are the same for each reader, and contain no data that was sent or received."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.control.sweeper import sweep
from noetl.engine import Event, facts
from noetl.engine.commands import Cancel, Retry
from noetl.telemetry.spans import EVENTS_MAX, SpanData, SpanRef, span_id, trace_id
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.simulator.cluster import SimCluster
from noetl.views.log import events_of
from tests.playbooks import kinds
from tests.simulation.playbooks import TEXTS
from tests.unit.telemetry.runtimes import ID, MeasuredRuntime, run_in, run_whole, spans_of
from tests.unit.tools.calls import server

TWO = """\
workflow:
- {step: start, tool: {name: first, kind: noop, input: {n: 1}}, next: {arcs: [{step: b}]}}
- {step: b, tool: {name: last, kind: noop, input: {n: 2}}}
"""
LOOP = """\
workflow:
- step: start
  loop: {in: "{{ [1, 2, 3] }}", iterator: n}
  tool: {name: one, kind: noop, input: {n: "{{ iter.n }}"}}
"""
BLOCK = """\
workflow:
- {step: start, tool: {name: ask, kind: workbook, block: twice}}
workbook:
  twice: {tool: [{name: a, kind: noop}, {name: b, kind: noop}]}
"""
CHILD = "workflow:\n- {step: start, tool: {name: go, kind: playbook, path: c}}\n"
FAILING = """\
workload: {secret: none}
workflow:
- step: start
  tool:
  - name: ask
    kind: python
    input: {word: "{{ workload.secret }}"}
    code: "def main(word): raise ValueError(word)"
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0}}]}}
"""
WAITING = "workflow:\n- {step: start, tool: {name: rest, kind: wait, input: {signal: never}}}\n"
FETCH = """\
workload: {url: ""}
workflow:
- step: start
  loop: {in: "{{ [0, 1] }}", iterator: n}
  tool:
  - {name: before, kind: noop}
  - name: ask
    kind: http
    method: POST
    url: "{{ workload.url }}/{{ iter.n }}"
    spec: {policy: {rules: [{when: "{{ output.http.status == 503 }}", then: {do: retry, attempts: 2, delay: 0}}]}}
  - {name: own, kind: http, url: "{{ workload.url }}/own", headers: {TraceParent: mine}}
"""


ONCE = """\
workload: {url: ""}
workflow:
- step: start
  tool:
  - {name: before, kind: noop}
  - {name: ask, kind: http, url: "{{ workload.url }}"}
"""


def by_name(spans: list[SpanData], name: str) -> SpanData:
    (found,) = [span for span in spans if span.name == name]
    return found


def test_an_execution_is_a_trace_with_a_span_for_each_step_and_call() -> None:
    _, log = run_whole(TWO)
    spans = spans_of(ID, log)
    assert [span.name for span in spans] == ["task first", "step start", "task last", "step b", "playbook t"]
    assert {span.context.trace_id for span in spans} == {trace_id(ID)}
    root, step = by_name(spans, "playbook t"), by_name(spans, "step start")
    assert (root.parent, root.context.span_id) == (None, span_id(ID))
    assert step.parent == root.context
    assert by_name(spans, "task first").parent == step.context
    assert [span.status for span in spans] == ["ok"] * 5
    assert len({span.context for span in spans}) == 5


def test_instants_are_those_on_record() -> None:
    _, log = run_whole(TWO)
    spans = spans_of(ID, log)
    done = next(event.fact for event in log if isinstance(event.fact, facts.TaskDone))
    call, root = by_name(spans, "task first"), by_name(spans, "playbook t")
    assert call.begun_at == done.started_at
    assert call.ended_at - call.begun_at == timedelta(milliseconds=done.ms)
    assert (root.begun_at, root.ended_at) == (log[0].at, log[-1].at)


def test_an_iteration_is_a_span_below_its_step() -> None:
    _, log = run_whole(LOOP)
    spans = spans_of(ID, log)
    iterations = [span for span in spans if span.name == "iteration start"]
    step = by_name(spans, "step start")
    assert [span.attributes["noetl.index"] for span in iterations] == [0, 1, 2]
    assert {span.parent for span in iterations} == {step.context}
    assert [span.parent for span in spans if span.name == "task one"] == [span.context for span in iterations]
    assert step.attributes["noetl.loop.count"] == 3
    assert all(span.begun_at <= span.ended_at for span in spans)


def test_a_block_is_below_the_frame_that_called_it() -> None:
    _, log = run_whole(BLOCK)
    spans = spans_of(ID, log)
    called, caller = by_name(spans, "step twice"), by_name(spans, "step start")
    assert called.parent == caller.context
    assert by_name(spans, "task b").parent == called.context
    assert [event.name for event in caller.events] == ["parked", "resumed"]
    parked = by_name(spans, "task ask")
    assert parked.begun_at <= called.begun_at
    assert parked.ended_at >= called.ended_at


def test_a_child_is_a_trace_of_its_own_with_links_both_ways() -> None:
    runtime = MeasuredRuntime(p=CHILD, c=TWO)

    async def work(runtime: MeasuredRuntime) -> tuple[list[Event], str, list[Event]]:
        log = await runtime.whole("p")
        parked = next(event.fact for event in log if isinstance(event.fact, facts.FrameParked))
        assert isinstance(parked.until, facts.ForChild)
        return log, parked.until.execution_id, await runtime.log(parked.until.execution_id)

    log, child_id, child_log = run_in(runtime, work)
    parent, child = spans_of(ID, log), spans_of(child_id, child_log)
    root = by_name(child, "playbook t")
    assert by_name(parent, "task go").links == (root.context,)
    assert root.context == SpanRef(trace_id(child_id), span_id(child_id))
    assert root.links == (by_name(parent, "step start").context,)
    assert root.attributes["noetl.parent"] == ID


def test_errors_set_the_status_and_retries_are_events() -> None:
    _, log = run_whole(FAILING)
    spans = spans_of(ID, log)
    step, root = by_name(spans, "step start"), by_name(spans, "playbook t")
    calls = [span for span in spans if span.name == "task ask"]
    assert [(span.status, span.attributes["noetl.attempt"]) for span in calls] == [
        ("error", 1),
        ("error", 2),
        ("error", 3),
    ]
    assert len({span.context for span in calls}) == 3
    assert [(event.name, event.attributes) for event in step.events] == [
        ("retry", {"task": "ask", "attempt": 1}),
        ("retry", {"task": "ask", "attempt": 2}),
    ]
    assert (step.status, root.status, root.attributes["noetl.status"]) == ("error", "error", "error")
    assert step.attributes["noetl.error.kind"] == calls[0].attributes["noetl.error.kind"]


def test_no_payload_and_no_message_is_in_a_span() -> None:
    canary = "canary-9c1f"
    _, log = run_whole(FAILING, {"secret": canary})
    assert canary in str([event.fact for event in log])
    assert canary not in str(spans_of(ID, log))


def test_a_kind_of_failure_that_is_no_word_is_not_told() -> None:
    _, log = run_whole(FAILING)
    strange = [replace(event, fact=_spoilt(event.fact)) for event in log]
    kinds = {span.attributes.get("noetl.error.kind") for span in spans_of(ID, strange)}
    assert kinds == {"other"}


def _spoilt(fact: facts.Fact) -> facts.Fact:
    made: facts.Fact = decode(encode(fact).replace(b'"kind":"python"', b'"kind":"pass word=1"'), type=facts.Fact)
    return made


def test_what_is_cancelled_ends_with_its_execution() -> None:
    runtime = MeasuredRuntime(p=WAITING)

    async def work(runtime: MeasuredRuntime) -> list[Event]:
        parked = _when(runtime, facts.FrameParked)
        await runtime.start("p")
        await parked
        await runtime.link.command(ID, Cancel())
        await sweep(runtime.control)
        await runtime.end()
        return await runtime.log()

    spans = spans_of(ID, run_in(runtime, work))
    assert [(span.name, span.status) for span in spans] == [("step start", "error"), ("playbook t", "error")]
    assert [event.name for event in by_name(spans, "playbook t").events] == ["cancelled"]
    assert by_name(spans, "playbook t").attributes["noetl.status"] == "cancelled"


def _when(runtime: MeasuredRuntime, kind: type) -> asyncio.Future[None]:
    seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def watch(_live: object, events: list[Event]) -> None:
        if not seen.done() and any(isinstance(event.fact, kind) for event in events):
            seen.set_result(None)

    runtime.watchers.append(watch)
    return seen


def test_a_retried_execution_has_another_span_for_its_second_life() -> None:
    runtime = MeasuredRuntime(p=FAILING)

    async def work(runtime: MeasuredRuntime) -> list[Event]:
        await runtime.whole("p")
        await runtime.link.command(ID, Retry())
        await runtime.end()
        return await runtime.log()

    spans = spans_of(ID, run_in(runtime, work))
    first, second = [span for span in spans if span.name == "playbook t"]
    assert second.parent == first.context
    assert second.attributes["noetl.life"] == 1
    steps = [span for span in spans if span.name == "step start"]
    assert [span.parent for span in steps] == [first.context, second.context]
    assert steps[1].attributes["noetl.retry_of"] == "start#1"
    assert len({span.context for span in spans}) == len(spans)


def test_a_span_has_so_many_events_and_counts_the_rest() -> None:
    at = run_whole(TWO)[1][0].at
    log: list[facts.Fact] = [facts.Requested(path="p", digest="d")]
    log += [facts.Paused(), facts.Resumed()] * EVENTS_MAX
    log.append(facts.Processed(status="ok"))
    (root,) = spans_of(ID, [Event(seq, at, fact) for seq, fact in enumerate(log, 1)])
    assert (len(root.events), root.attributes["noetl.events_dropped"]) == (EVENTS_MAX, EVENTS_MAX)


def test_an_http_request_carries_the_span_of_its_call() -> None:
    heard: list[tuple[str, str]] = []
    keys: list[str] = []
    sent: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        heard.append((request.path, request.headers["traceparent"]))
        keys.append(request.headers.get("idempotency-key", ""))
        sent.extend((str(request.url), str(request.headers), await request.text()))
        refused = request.path == "/1" and heard[-1:] == [each for each in heard if each[0] == "/1"]
        return web.json_response({}, status=503 if refused else 200)

    runtime = MeasuredRuntime(p=FETCH)

    async def work(runtime: MeasuredRuntime) -> list[Event]:
        async with server(handler) as url:
            return await runtime.whole("p", {"url": url})

    log = run_in(runtime, work)
    spans = spans_of(ID, log, runtime.programs["p"])
    asked = [span for span in spans if span.name == "task ask"]
    assert [span.kind for span in asked] == ["client"] * 3
    assert [span.attributes["noetl.attempt"] for span in asked] == [1, 1, 2]
    told = [f"00-{trace_id(ID):032x}-{span.context.span_id:016x}-01" for span in asked]
    assert [len(key) for key in keys] == [64, 0, 64, 64, 0]  # hashes
    assert not [each for each in sent if ID in each or UUID(ID).hex in each], "others must not learn the execution id"
    assert heard == [("/0", told[0]), ("/own", "mine"), ("/1", told[1]), ("/1", told[2]), ("/own", "mine")]


def test_a_request_of_a_retried_execution_carries_the_span_of_its_own_call() -> None:
    """The frame continues where it failed, and what it had done before counts (D69)."""
    heard: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        heard.append(request.headers["traceparent"][36:52])
        return web.json_response({}, status=200 if len(heard) > 1 else 500)

    runtime = MeasuredRuntime(p=ONCE)

    async def work(runtime: MeasuredRuntime) -> list[Event]:
        async with server(handler) as url:
            await runtime.whole("p", {"url": url})
            await runtime.link.command(ID, Retry())
            await runtime.end()
            return await runtime.log()

    spans = spans_of(ID, run_in(runtime, work))
    asked = [span for span in spans if span.name == "task ask"]
    assert [span.status for span in asked] == ["error", "ok"]
    assert heard == [f"{span.context.span_id:016x}" for span in asked]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_goes_wrong_the_spans_of_a_log_are_a_tree(seed: int) -> None:
    cluster = SimCluster(seed, MemoryPrograms(TEXTS, kinds()))
    cluster.run({"e0": ("mix", {})}, commands=seed % 2 == 1)
    for execution_id, rows in cluster.store.memory.rows.items():
        spans = spans_of(execution_id, events_of(rows))
        contexts = [span.context for span in spans]
        assert len(set(contexts)) == len(contexts)
        (root,) = [span for span in spans if span.parent is None]
        assert all(span.parent in contexts for span in spans if span is not root)
        assert all(root.begun_at <= span.begun_at <= span.ended_at for span in spans)


def test_an_id_that_is_no_uuid_has_a_trace_all_the_same() -> None:
    assert trace_id("e1") == trace_id("e1") != trace_id("e2")
    assert 0 < trace_id("e1") < 1 << 128
