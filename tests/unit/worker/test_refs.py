"""The data that a Ref refers to: the results of a loop, whole, in pieces or in part, and everything in a store (D30)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest
from msgspec.json import decode, encode

from noetl.adapters.memory import MemoryResults
from noetl.control.deps import ControlSettings
from noetl.engine.facts import StepFailed
from noetl.engine.moves import RunTask
from noetl.engine.stored import mark
from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON, Output
from noetl.slices import turn
from noetl.testing.contracts import error_of
from noetl.testing.contracts.results import all_of
from noetl.testing.memory_runtime import MemoryRuntime
from noetl.tools.resolve import ResolveInput, ResolveTool
from noetl.worker.refs import ExecutionResults, Lineage, Refs
from tests.unit.control.runtimes import memory_runtime, run_in
from tests.unit.control.test_notifications import in_loop
from tests.unit.tools.calls import call

COUNT = 40
LOOP = """
workflow:
- step: start
  loop: {in: "{{ range(40) }}", iterator: i, spec: {mode: parallel, max_in_flight: 7}}
  spec: {policy: {failure: {mode: best_effort}}}
  tool: {kind: noop, input: {n: "{{ iter.i }}"}}
"""


async def filled(called: RunTask) -> Output:
    """Every tenth is too large for the log, the fifth one fails."""
    number = called.input["n"]
    if number == 5:
        return Output(status="error", data=None)
    return Output(data={"n": number, "text": "x" * (70_000 if number % 10 == 0 else 3_000)})


def with_loop(work: Callable[[Refs, dict[str, JSON]], Awaitable[Any]]) -> Any:
    async def main(runtime: MemoryRuntime) -> Any:
        await runtime.start("t", id="e")
        await runtime.end("e")
        ref = {
            "type": "relational",
            "locator": {"execution_id": "e", "run": "start#1"},
            "meta": {"count": COUNT},
        }
        return await work(Refs(runtime.results, runtime.control), ref)

    return run_in(memory_runtime({"t": LOOP}, filled), main)


def numbers(rows: list[Any]) -> list[int | None]:
    return [None if row is None else row["n"] for row in rows]


ALL = [None if number == 5 else number for number in range(COUNT)]


def test_the_results_of_a_loop_come_whole_or_in_pieces() -> None:
    async def work(refs: Refs, ref: dict[str, JSON]) -> None:
        assert numbers(decode(await refs.get(ref))) == ALL
        chunks = [chunk async for chunk in refs.read(ref)]
        assert numbers(decode(b"".join(chunks))) == ALL
        assert len(chunks) == COUNT + 2

    with_loop(work)


@pytest.mark.parametrize(
    ("first", "last"), [(0, 3), (4, 7), (None, 2), (-3, None), (38, 400), (400, 500), (9, 11), (None, None)]
)
def test_a_part_of_them_is_what_python_would_cut_out(first: int | None, last: int | None) -> None:
    async def work(refs: Refs, ref: dict[str, JSON]) -> None:
        assert numbers(await refs.part(ref, first, last) or []) == ALL[first:last]

    with_loop(work)


def test_resolve_takes_a_slice_of_a_loop_without_the_others() -> None:
    async def work(refs: Refs, ref: dict[str, JSON]) -> Output:
        wish = ResolveInput(ref=ref, slice="4:7", columns=["n"])
        part = await ResolveTool().run(ResolveInput(ref=ref, slice="10:12", columns=["n"]), call(results=refs))
        assert part.data == [{"n": 10}, {"n": 11}]
        return await ResolveTool().run(wish, call(results=refs))

    refused = with_loop(work)
    assert refused.error is not None
    assert "row 1 is not a mapping" in refused.error.message  # the one that failed


def test_control_reads_only_what_is_asked_for() -> None:
    async def work(runtime: MemoryRuntime) -> list[Output | None]:
        await runtime.start("t", id="e")
        await runtime.end("e")
        return await runtime.control.iterations("e", "start#1", range(10, 12))

    outputs = run_in(memory_runtime({"t": LOOP}, filled), work)
    assert [output.ref is not None for output in outputs if output is not None] == [True, False]


@pytest.mark.parametrize(
    "ref",
    [
        {"type": "relational", "locator": {}},
        {"type": "relational", "locator": None},
        {"type": "relational", "locator": {"execution_id": "e"}},
        {"type": "relational", "locator": {"store": "sqlite", "key": "e/x"}, "meta": {}},
    ],
)
def test_a_ref_that_names_no_loop_is_not_found(ref: dict[str, JSON]) -> None:
    async def work(refs: Refs, _: dict[str, JSON]) -> None:
        with pytest.raises(NotFound):
            await refs.get(ref)
        with pytest.raises(NotFound):
            await all_of(refs.read(ref))

    with_loop(work)


def test_what_is_no_loop_has_no_parts() -> None:
    async def work(refs: Refs, _: dict[str, JSON]) -> None:
        ref = await refs.put("e", b"[1,2]", "application/json")
        assert await refs.part(ref, 0, 1) is None
        assert await refs.get(ref) == b"[1,2]"

    with_loop(work)


def test_results_of_a_loop_are_compared_with_the_digest_of_their_ref() -> None:
    async def work(refs: Refs, ref: dict[str, JSON]) -> None:
        body = await refs.get(ref)
        good = {**ref, "meta": {"count": COUNT, "bytes": len(body), "sha256": sha256(body).hexdigest()}}
        assert await refs.get(good) == body
        error = await error_of(refs.get({**ref, "meta": {"count": COUNT, "sha256": "0" * 64}}))
        assert isinstance(error, Damaged)

    with_loop(work)


CALLER = """
workload: {given: null, given_ref: null}
workflow:
- step: start
  tool: {kind: playbook, path: child, input: {text: "{{ workload.text }}"}}
"""
CHILD = """
workload: {text: ""}
workflow:
- step: start
  tool: {kind: noop, input: {text: "{{ workload.text }}"}, set: {ctx.a_ref: "{{ output.ref }}"}}
"""


def test_an_execution_resolves_its_own_results_and_those_of_executions_that_it_called_d99() -> None:
    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("caller", {"text": "secret of e"}, id="e")
        await runtime.start("child", {"text": "secret of another"}, id="other")
        await runtime.end("e")
        await runtime.end("other")
        called, foreign = (runtime.control.executions[id].state.end_output for id in ("e", "other"))
        assert called is not None
        assert called.ref is not None
        assert foreign is not None
        assert foreign.ref is not None
        assert not called.ref["locator"]["key"].startswith("e/")  # of the child
        own = await runtime.results.put("e", b"1", "application/json")
        lineage = Lineage(runtime.control)

        def results(execution_id: str, workload: dict[str, JSON]) -> ExecutionResults:
            return ExecutionResults(Refs(runtime.results, runtime.control), lineage, execution_id, workload)

        mine = results("e", {})
        assert await mine.get(own) == b"1"
        assert decode(await mine.get(called.ref)) == {"text": "secret of e"}
        assert decode(await all_of(mine.read(called.ref))) == {"text": "secret of e"}
        for ref in (foreign.ref, {"type": "relational", "locator": {"execution_id": "other", "run": "start#1"}}):
            for attempt in (mine.get(ref), all_of(mine.read(ref)), mine.part(ref, 0, 1)):
                error = await error_of(attempt)
                assert isinstance(error, Rejected)
                assert "a result of execution other, which this execution did not start" in str(error)
        assert isinstance(await error_of(mine.get({"type": "blob", "locator": {"key": "nobody/1"}})), Rejected)

        child = called.ref["locator"]["key"].partition("/")[0]
        assert isinstance(await error_of(results(child, {}).get(own)), Rejected)  # a child is given what it may read
        assert await results(child, {"text": {"a_ref": own}}).get(own) == b"1"
        assert isinstance(await error_of(results(child, {"text": own}).get(own)), Rejected)  # data, by its name
        assert await results(child, {"all_ref": [own]}).get(own) == b"1"

    run_in(memory_runtime({"caller": CALLER, "child": CHILD}, echo), work)


async def echo(called: RunTask) -> Output:
    return Output(data={"text": called.input["text"]})


def test_a_loop_over_a_ref_of_another_execution_fails_d99() -> None:
    body = """
workload: {where: null}
workflow:
- step: start
  loop: {in: "{{ workload.where }}", iterator: i}
  tool: {kind: noop}
"""

    async def work(runtime: MemoryRuntime) -> None:
        foreign = await runtime.results.put("other", b"[1, 2]", "application/json")
        await runtime.start("t", {"where": foreign}, id="e")
        await runtime.end("e")

    runtime = memory_runtime({"t": body}, settings=ControlSettings(items_bytes=65_536))
    run_in(runtime, work)
    (failed,) = [event.fact for event in runtime.events if isinstance(event.fact, StepFailed)]
    assert failed.error.kind == "loop"
    assert "a result of execution other, which this execution did not start" in failed.error.message


class CountedLineage:
    """The part of a link that says who started an execution: all by requests, but for those named "child…"."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def parent(self, execution_id: str) -> str | None:
        self.asked.append(execution_id)
        return "e" if execution_id.startswith("child") else None


class CountedKey(str):
    """A key of a mapping that counts how often the mapping is searched for Refs."""

    __slots__ = ("searches",)

    searches: int

    def endswith(self, *args: Any) -> bool:
        self.searches = getattr(self, "searches", 0) + 1
        return super().endswith(*args)


def blob(owner: str, number: int = 0) -> dict[str, JSON]:
    return {"type": "blob", "locator": {"key": f"{owner}/{number}"}}


def results_of_e(workload: dict[str, JSON], results: MemoryResults | None = None) -> tuple[ExecutionResults, list[str]]:
    """What "e" may read, and the executions whose parents it looks up."""
    link = CountedLineage()
    lineage = Lineage(link)  # type: ignore[arg-type]  # it is all that a lineage uses of a link
    return ExecutionResults(results or MemoryResults(), lineage, "e", workload), link.asked


@pytest.mark.parametrize("name", ["all_ref", "page"])
@in_loop
async def test_a_ref_in_a_stored_value_of_the_workload_is_one_of_the_request_d91_d99(name: str) -> None:
    """A value over 64 KiB is a mark as long as no task of the frame reads it."""
    stored = MemoryResults()
    given = blob("other", 1)
    value = [given] if name == "all_ref" else {"rows": [{"next_ref": given}], "data": blob("other", 2)}
    workload: dict[str, JSON] = {name: mark(await stored.put("caller", encode(value), "application/json"))}
    own, asked = results_of_e(workload, stored)
    await own.check(given)
    await own.check_passed_on({"rows_ref": given, "more": [{"a_ref": blob("child of e")}]})
    for ref in (blob("other", 2), blob("other", 3)):
        assert isinstance(await error_of(own.check(ref)), Rejected)
        assert isinstance(await error_of(own.check_passed_on({"rows_ref": ref})), Rejected)
    assert set(asked) == {"other", "child of e"}


@in_loop
async def test_a_stored_value_that_is_lost_names_no_results() -> None:
    own, _ = results_of_e({"page": mark(blob("caller"))})
    assert isinstance(await error_of(own.check_passed_on({"rows_ref": blob("other")})), NotFound)


@in_loop
async def test_thousands_of_refs_are_checked_at_once_d99() -> None:
    """The workload is searched once, and each other execution is looked up once."""
    rows = CountedKey("rows")
    own, asked = results_of_e({rows: [{"data_ref": blob(f"other {n % 7}", n)} for n in range(4_000)]})
    called = [{"data_ref": blob(f"child {n % 5}", n)} for n in range(4_000)]
    given = [{"data_ref": blob(f"other {n % 7}", n)} for n in range(4_000)]
    await own.check_passed_on({"called": called, "given": given})
    for row in given:
        await own.check(row["data_ref"])
    assert rows.searches == 1
    assert sorted(asked) == [f"child {n}" for n in range(5)]
    error = await error_of(
        own.check_passed_on({"called": called, "rows": [{"a_ref": blob("other 1", n)} for n in range(9)]})
    )
    assert isinstance(error, Rejected)
    assert asked[5:] == ["other 1"]


@in_loop
async def test_other_tasks_continue_while_refs_are_searched() -> None:
    own, _ = results_of_e({})
    search = asyncio.ensure_future(own.check_passed_on({"rows": [{"data_ref": blob("e", n)} for n in range(20_000)]}))
    turns = 0
    while not search.done():
        turns += 1
        await turn()
    await search
    assert turns > 10
