"""Loops whose items do not stand in the log: too many of them, or behind a Ref (D44, D30)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.json import encode

from noetl.control.deps import ControlSettings
from noetl.engine.facts import Fact, ForBlock, FrameParked, LoopDone, LoopStarted, StepFailed
from noetl.engine.moves import RunTask
from noetl.output import JSON, Output, failed
from noetl.testing import runtime
from noetl.testing.memory_runtime import MemoryRuntime
from tests.playbooks import HEAD
from tests.unit.control.runtimes import memory_runtime, run_in

OVER_A_REF = """\
workload: {rows_ref: null}
workflow:
- step: start
  loop: {in: "{{ workload.rows_ref }}", iterator: row, spec: {mode: parallel}}
  tool: {kind: noop, input: {got: "{{ iter.row }}"}}
"""
NESTED = """\
workload: {cities: []}
workflow:
- step: start
  loop:
  - {in: "{{ workload.cities }}", iterator: city}
  - {in: "{{ iter.city.hotels }}", iterator: hotel}
  tool: {kind: noop, input: {at: "{{ iter.parent.city.name }}", hotel: "{{ iter.hotel }}"}}
"""
AGAIN = """\
workflow:
- step: start
  loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, input: {n: "{{ iter.n }}", text: "{{ 'x' | center(400) }}"}}
  set: {ctx.all_ref: "{{ output.ref }}"}
  next: {arcs: [{step: again}]}
- step: again
  loop: {in: "{{ ctx.all_ref }}", iterator: row, spec: {mode: parallel}}
  tool: {kind: noop, input: {n: "{{ iter.row.n }}"}}
"""


def run(body: str, workload: dict[str, JSON], items_bytes: int = 65_536) -> tuple[JSON, list[Fact]]:
    runtime = memory_runtime({"t": body}, settings=ControlSettings(items_bytes=items_bytes))

    async def work(runtime: MemoryRuntime) -> JSON:
        given = dict(workload)
        if isinstance(body_ := given.get("rows_ref"), tuple):
            given["rows_ref"] = await runtime.results.put("e", *body_)
        await runtime.start("t", given, id="e")
        await runtime.end("e")
        output = runtime.control.executions["e"].state.end_output
        return output.data if output else None

    data = run_in(runtime, work)
    return data, [event.fact for event in runtime.events]


@pytest.mark.parametrize(
    ("body", "kind", "items"),
    [
        (b'[1, "b", null]', "application/json", [1, "b", None]),
        (b'{"a": 1}', "application/json", [{"key": "a", "value": 1}]),
        (b'{"id": 1}\n\n{"id": 2}\n', "application/x-ndjson", [{"id": 1}, {"id": 2}]),
        (b"[]", "application/json", []),
        (encode(["x" * 50] * 3_000), "application/json", ["x" * 50] * 3_000),
    ],
)
def test_a_worker_reads_what_lies_behind_a_ref_d44(body: bytes, kind: str, items: list[JSON]) -> None:
    data, told = run(OVER_A_REF, {"rows_ref": (body, kind)})
    (started,) = [fact for fact in told if isinstance(fact, LoopStarted)]
    assert started.count == len(items)
    if len(body) < 65_536:
        assert data == [{"got": item} for item in items]
        assert started.items == items
    else:
        assert started.items is None
        assert started.ref is not None


@pytest.mark.parametrize(
    ("body", "words"), [(b"3", "the data is int, not a list"), (b"[1,", "Input data was truncated")]
)
def test_what_is_no_list_fails_the_loop_and_says_so_d44(body: bytes, words: str) -> None:
    _, told = run(OVER_A_REF, {"rows_ref": (body, "application/json")})
    (failed,) = [fact for fact in told if isinstance(fact, StepFailed)]
    assert (failed.error.kind, words in failed.error.message) == ("loop", True)


def test_a_ref_to_nothing_fails_the_loop() -> None:
    ref = {"type": "blob", "locator": {"key": "e/nothing"}, "meta": {"bytes": 1, "sha256": "x"}}
    _, told = run(OVER_A_REF, {"rows_ref": ref})
    (failed,) = [fact for fact in told if isinstance(fact, StepFailed)]
    assert failed.error.kind == "loop"


def test_an_inner_loop_is_over_an_item_that_control_does_not_have_d45() -> None:
    cities = [{"name": "Rome", "hotels": ["a", "b"]}, {"name": "Bern", "hotels": ["c"]}]
    data, told = run(NESTED, {"cities": cities}, items_bytes=1)
    assert data == [
        [{"at": "Rome", "hotel": "a"}, {"at": "Rome", "hotel": "b"}],
        [{"at": "Bern", "hotel": "c"}],
    ]
    parked = [fact.until for fact in told if isinstance(fact, FrameParked)]
    assert [until.iter for until in parked if isinstance(until, ForBlock)] == [
        {"index": 0, "city": cities[0]},
        {"index": 1, "city": cities[1]},
    ]
    assert run(NESTED, {"cities": cities})[0] == data


def test_the_results_of_a_loop_are_the_items_of_another_d30() -> None:
    data, told = run(AGAIN, {})
    assert data == [{"n": n} for n in range(300)]
    first, second = [fact for fact in told if isinstance(fact, LoopStarted)]
    assert (first.count, second.count) == (300, 300)


def test_set_and_arcs_read_the_results_of_a_large_loop_as_of_a_small_one_d52() -> None:
    body = """\
workload: {width: 4}
workflow:
- step: start
  loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, input: {n: "{{ iter.n }}", text: "{{ 'x' | center(workload.width) }}"}}
  set: {ctx.count: "{{ output.data | length }}", ctx.last: "{{ output.data[-1].n }}"}
  next:
    arcs:
    - {step: more, when: "{{ output.data | map(attribute='n') | sum > 10 }}", set: {ctx.first: "{{ output.data[0].n }}"}}
- step: more
  tool: {kind: noop, input: {ctx: "{{ ctx }}"}}
"""
    small, _ = run(body, {})
    large, told = run(body, {"width": 400})
    assert small == large == {"ctx": {"count": 300, "last": 299, "first": 0}}
    (done,) = [fact for fact in told if isinstance(fact, LoopDone)]
    assert done.output.data is None
    assert done.picked is not None


def test_a_loop_that_failed_with_large_results_is_routed_by_them_d52() -> None:
    body = """\
workflow:
- step: start
  loop: {in: "{{ range(300) }}", iterator: n, spec: {mode: parallel}}
  spec: {policy: {failure: {mode: best_effort, tolerate: 0}}}
  tool:
  - {name: keep, kind: noop, input: {n: "{{ iter.n }}", text: "{{ 'x' | center(400) }}"}}
  - {name: odd, kind: noop, input: {n: "{{ 1 // (299 - iter.n) }}", text: "{{ keep.data.text }}"}}
  next: {arcs: [{step: saved, when: "{{ event.status == 'error' and output.data | length == 300 }}"}]}
- step: saved
  tool: {kind: noop, input: {saved: true}}
"""
    data, _ = run(body, {})
    assert data == {"saved": True}


def test_output_failed_has_the_items_of_a_loop_whose_items_are_stored() -> None:
    """The same list with small items, which are in the log, and with large ones, which are in the result store."""
    text = HEAD + (
        "workload: {items: []}\nworkflow:\n- step: start\n"
        "  spec: {policy: {failure: {mode: best_effort}}}\n"
        "  loop: {in: '{{ workload.items }}', iterator: each, spec: {mode: parallel}}\n"
        "  tool: {kind: check, input: {n: '{{ iter.each.n }}'}}\n"
        "  set: {ctx.failed: '{{ output.failed }}'}\n"
    )

    def check(called: RunTask) -> Output:
        return failed("check", "odd") if called.input["n"] % 2 else Output(data=1)

    async def work(size: int) -> JSON:
        async with runtime({"t": text}, tools={"check": check}) as memory:
            items = [{"n": n, "text": "x" * size} for n in range(6)]
            return (await memory.run("t", {"items": items})).ctx["failed"]

    for size in (1, 12_000):
        found = asyncio.run(work(size))
        assert [(each["index"], each["item"]["n"], each["error"]["message"]) for each in found] == [
            (1, 1, "odd"), (3, 3, "odd"), (5, 5, "odd"),
        ]  # fmt: skip
        assert found[0]["item"]["text"] == "x" * size
    assert asyncio.run(work(70_000)) == [{"index": n, "error": found[0]["error"]} for n in (1, 3, 5)]


def test_output_failed_has_items_that_are_null_and_items_of_broken_templates() -> None:
    for size in (1, 70_000):
        items = [{"text": "x" * size}, None, "", 7]
        text = HEAD + (
            "workload: {items: []}\nworkflow:\n- step: start\n"
            "  spec: {policy: {failure: {mode: best_effort}}}\n"
            "  loop: {in: '{{ workload.items }}', iterator: each}\n"
            "  tool: {kind: noop, input: {n: '{{ iter.each.text | length }}'}}\n"
            "  set: {ctx.failed: '{{ output.failed }}'}\n"
        )

        async def work(text: str = text, items: list[JSON] = items) -> JSON:
            async with runtime({"t": text}, tools={}) as memory:
                return (await memory.run("t", {"items": items})).ctx["failed"]

        assert [(each["index"], each["item"]) for each in asyncio.run(work())] == [(1, None), (2, ""), (3, 7)]


def test_output_failed_has_items_that_no_template_of_the_pipeline_reads() -> None:
    """Also where the frame was parked in between, and where the call is one of a block."""
    text = HEAD + (
        "workload: {items: []}\nworkflow:\n- step: start\n"
        "  spec: {policy: {failure: {mode: best_effort}}}\n"
        "  loop: {in: '{{ workload.items }}', iterator: each}\n"
        "  tool: [{kind: workbook, block: b}, {kind: check}]\n"
        "  set: {ctx.failed: '{{ output.failed }}'}\n"
        "workbook:\n  b: {tool: {kind: noop}}\n"
    )

    async def work() -> JSON:
        async with runtime({"t": text}, tools={"check": lambda _: failed("check", "no")}) as memory:
            items = [{"n": n, "text": "x" * 20_000} for n in range(4)]
            return (await memory.run("t", {"items": items})).ctx["failed"]

    assert [each["item"]["n"] for each in asyncio.run(work())] == [0, 1, 2]


def test_output_failed_has_the_lowest_iterations_that_fit_into_the_log() -> None:
    text = HEAD + (
        "workflow:\n- step: start\n"
        "  spec: {policy: {failure: {mode: best_effort}}}\n"
        "  loop: {in: '{{ range(3000) }}', iterator: n, spec: {mode: parallel, max_in_flight: 100}}\n"
        "  tool: {kind: check}\n"
        "  set: {ctx.failed: '{{ output.failed }}', ctx.all: '{{ output.meta.failed }}'}\n"
    )

    async def work() -> tuple[JSON, JSON]:
        async with runtime({"t": text}, tools={"check": lambda _: failed("check", "no")}) as memory:
            ctx = (await memory.run("t", {})).ctx
            return ctx["failed"], ctx["all"]

    found, count = asyncio.run(work())
    assert count == 3_000
    assert 500 < len(found) < 1_000
    assert [each["index"] for each in found] == list(range(len(found)))
    assert len(encode(found)) <= 65_536 < len(encode([*found, found[-1]])) + 10
