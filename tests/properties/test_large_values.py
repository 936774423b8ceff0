"""A playbook makes the same decisions with small and with large values in every scope (D91).

Random playbooks write, pass on, read and fold lists of rows. They run twice: with rows of a few bytes, and with
rows so large that every list is in the result store. No decision and no output depends on the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.adapters.memory import MemoryStore
from noetl.control.deps import ControlSettings
from noetl.control.live_execution import fold
from noetl.engine import facts
from noetl.engine.state import State
from noetl.errors import Conflict, Fenced, Unavailable
from noetl.output import JSON
from noetl.ports import Append
from noetl.testing.fake_clock import FakeClock
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from tests.unit.control.runtimes import memory_runtime, run_in

ROWS = 4
SWEEPS_MAX = 1_000
FACT_BYTES_MAX = 32_768  # of any fact after the start: no value is in the log

LISTS = st.sampled_from(["ctx.rows", "ctx.a", "ctx.b", "ctx.deep.rows", "input.rows"])
NUMBERS = st.sampled_from(
    ["{0} | length", "{0}[0].id", "{0}[-1].id", "({0} | map(attribute='id') | list)[1]", "{0} | length + ctx.count"]
)
MADE = st.sampled_from(["{0}", "{0}", "{0}[1:]", "{0} + ctx.rows", "{0} | reverse | list"])


@st.composite
def writes(draw: st.DrawFn) -> dict[str, str]:
    """Writes to ctx, as text of templates."""
    made: dict[str, str] = {}
    for target in draw(st.lists(st.sampled_from(["ctx.a", "ctx.b", "ctx.deep.rows"]), max_size=2, unique=True)):
        made[target] = "{{ " + draw(MADE).format(draw(LISTS)) + " }}"
    if draw(st.booleans()):
        made["ctx.count"] = "{{ " + draw(NUMBERS).format(draw(LISTS)) + " }}"
    if draw(st.booleans()):
        made["ctx.deep.count"] = "{{ " + draw(NUMBERS).format(draw(LISTS)) + " }}"
    return made


@st.composite
def step(draw: st.DrawFn, name: str, following: list[str]) -> dict[str, JSON]:
    made: dict[str, JSON] = {
        "step": name,
        "input": {"rows": "{{ " + draw(MADE).format(draw(LISTS.filter(in_ctx))) + " }}"},
    }
    task: dict[str, JSON] = {
        "kind": "noop",
        "input": {"rows": "{{ " + draw(MADE).format(draw(LISTS)) + " }}", "n": "{{ ctx.count }}"},
    }
    match draw(st.sampled_from(["plain", "set", "step", "serial", "parallel", "block"])):
        case "set":
            task["set"] = {"ctx.a": "{{ output.data.rows }}", **draw(writes())}
        case "step":
            task["set"] = {"step.rows": "{{ output.data.rows }}"}
            made["set"] = {"ctx.b": "{{ step.rows }}", "ctx.count": "{{ step.rows | length }}"}
        case "serial":
            made["loop"] = {"in": "{{ " + draw(LISTS) + " }}", "iterator": "row"}
            task["input"] = {"id": "{{ iter.row.id }}", "n": "{{ ctx.count }}"}
            task["set"] = {"iter.rows": "{{ [iter.row] + ctx.rows }}", "ctx.b": "{{ [iter.row] }}"}
            made["tool"] = [
                {"name": "first", **task},
                {"name": "second", "kind": "noop", "input": {"n": "{{ iter.rows | length }}"}},
            ]
        case "parallel":
            reducer = draw(st.sampled_from(["append", "extend", "union", "last", "first"]))
            policy = {"reduce": {"ctx.folded": reducer}}
            made["loop"] = {
                "in": "{{ range(3) | list }}",
                "iterator": "n",
                "spec": {"mode": "parallel", "policy": policy},
            }
            task["input"] = {"n": "{{ iter.n }}"}
            task["set"] = {"ctx.folded": "{{ " + draw(MADE).format(draw(LISTS)) + " }}"}
            made["set"] = {"ctx.count": "{{ ctx.folded | length }}"}
        case "block":
            task = {"kind": "workbook", "block": "middle", "input": {"rows": "{{ " + draw(LISTS) + " }}"}}
            task["set"] = {"ctx.a": "{{ output.data.rows }}"}
    made.setdefault("tool", task)
    if "set" not in made:
        made["set"] = draw(writes())
    if draw(st.booleans()):
        when = "{{ " + draw(NUMBERS).format(draw(LISTS)) + " >= 0 }}"
        made["spec"] = {"policy": {"admit": {"rules": [{"when": when, "then": {"allow": True}}]}}}
    if following:
        when = "{{ " + draw(NUMBERS).format(draw(LISTS)) + f" > {draw(st.integers(0, 4))}" + " }}"
        made["next"] = {"arcs": [{"step": draw(st.sampled_from(following)), "when": when}, {"step": following[0]}]}
    return made


def in_ctx(path: str) -> bool:
    return path.startswith("ctx.")


FIRST: JSON = {
    "step": "start",
    "tool": {
        "kind": "noop",
        "input": {"rows": "{{ workload.rows }}"},
        "set": {
            "ctx.rows": "{{ output.data.rows }}", "ctx.a": "{{ output.data.rows[1:] }}",
            "ctx.deep": {"rows": "{{ output.data.rows }}", "count": 0}, "ctx.count": 0,
        },
    },
    "set": {"ctx.b": "{{ output.data.rows }}"},
    "next": {"arcs": [{"step": "one"}]},
}  # fmt: skip
LAST: JSON = {
    "step": "last",
    "tool": {
        "kind": "noop",
        "input": {
            "count": "{{ ctx.count }}", "deep": "{{ ctx.deep.count }}",
            "ids": ["{{ ctx." + name + " | map(attribute='id') | list }}" for name in ("rows", "a", "b", "deep.rows")],
        },
    },
}  # fmt: skip
BLOCK: JSON = {
    "tool": {"kind": "noop", "input": {"rows": "{{ input.rows[:3] }}", "n": "{{ input.rows | length }}"}},
    "set": {"ctx.b": "{{ output.data.rows }}"},
}


@st.composite
def playbooks(draw: st.DrawFn) -> str:
    names = ["one", "two", "three"]
    steps = [draw(step(name, [*names[place + 1 :], "last"])) for place, name in enumerate(names)]
    document = {"workload": {"rows": []}, "workbook": {"middle": BLOCK}, "workflow": [FIRST, *steps, LAST]}
    return "".join(f"{key}: {msgspec.json.encode(value).decode()}\n" for key, value in document.items())


class Done(NamedTuple):
    status: str
    output: JSON  # of a playbook that succeeded: it contains no row
    failure: str | None
    decisions: list[tuple[Any, ...]]


def done(body: str, row_bytes: int) -> tuple[Done, int]:
    """What an execution decided, and the size of its largest fact."""
    rows = [{"id": index, "pad": "x" * row_bytes} for index in range(ROWS)]
    memory = memory_runtime({"t": body}, settings=ControlSettings(items_bytes=65_536))

    async def work(runtime: MemoryRuntime) -> Done:
        await runtime.start("t", {"rows": rows}, id="e")
        await runtime.end("e")
        state = runtime.control.executions["e"].state
        output = None if state.end_output is None or state.status != "ok" else state.end_output.data
        failure = None if state.failure is None else state.failure.kind
        return Done(state.status, output, failure, decisions(runtime))

    found = run_in(memory, work, slots=1)
    later = [event.fact for event in memory.events if not isinstance(event.fact, facts.Requested | facts.Started)]
    return found, max(len(msgspec.json.encode(fact)) for fact in later)


def names(written: dict[str, JSON]) -> list[str]:
    """The names that are written: a write below a stored value is recorded as a write of that value."""
    return sorted({".".join(target.split(".")[:2]) for target in written})


def decisions(runtime: MemoryRuntime) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    for event in runtime.events:
        match event.fact:
            case facts.TaskDone() as fact:
                made.append((fact.frame, fact.task, fact.directive, fact.rule, fact.status, names(fact.set)))
            case facts.NextEvaluated() as fact:
                made.append((fact.run, fact.asked, [token.step for token in fact.tokens], names(fact.set)))
            case facts.LoopStarted(run=run, count=count):
                made.append((run, count))
            case facts.StepFailed(run=run, error=error):
                made.append((run, error.kind))
            case fact:
                made.append((type(fact).__name__, getattr(fact, "run", None)))
    return made


@settings(max_examples=40, deadline=None)
@given(playbooks(), st.sampled_from([30_000, 100_000, 1_200_000]))
def test_the_size_of_values_changes_no_decision_d91(body: str, row_bytes: int) -> None:
    small, _ = done(body, 1)
    large, largest_fact = done(body, row_bytes)
    assert large == small
    if row_bytes > 65_536:
        assert largest_fact < FACT_BYTES_MAX


class ForgettingStore(MemoryStore):
    """A store that is lost after every commit: control drops the execution, and a sweep loads it from the log."""

    async def append(self, appends: Sequence[Append]) -> list[Conflict | Fenced | None]:
        made = await super().append(appends)
        if None in made:
            raise Unavailable("it is not known whether the commit succeeded")
        return made


def reloaded(body: str, row_bytes: int) -> tuple[str | None, JSON]:
    """The status and the output of an execution that is loaded again after every commit."""
    rows = [{"id": index, "pad": "x" * row_bytes} for index in range(ROWS)]
    clock = FakeClock(auto_advance=True)
    store = ForgettingStore(clock, 1)
    parts = RuntimeParts(store=store)
    memory = memory_runtime({"t": body}, settings=ControlSettings(items_bytes=65_536), clock=clock, parts=parts)

    async def work(runtime: MemoryRuntime) -> tuple[str | None, JSON]:
        with suppress(Unavailable):
            await runtime.start("t", {"rows": rows}, id="e")
        for _ in range(SWEEPS_MAX):
            if (status := await store.status("e")) in ("ok", "error"):
                break
            await runtime.sweep()
            await clock.sleep(1)
        state = State(execution_id="e")
        fold(state, await store.read("e"))
        return status, None if state.end_output is None or status != "ok" else state.end_output.data

    return run_in(memory, work, slots=1)


@settings(max_examples=20, deadline=None)
@given(playbooks())
def test_an_execution_that_is_loaded_after_every_commit_ends_with_the_same_output_d91(body: str) -> None:
    small, _ = done(body, 1)
    assert reloaded(body, 100_000) == (small.status, small.output)
