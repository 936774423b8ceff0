"""Forks keep finished work whose text and input are the same, and repeat the rest (D114)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from noetl.control.forks import ForkPlanner
from noetl.engine.commands import Pause, Resume, Retry, Start
from noetl.engine.facts import ForkOrigin, PermitGranted, StepScheduled, TaskDone
from noetl.engine.moves import RunTask
from noetl.errors import Rejected
from noetl.fork.plan import ForkPlan
from noetl.output import JSON, Output, failed
from noetl.testing import runtime
from noetl.testing.memory_runtime import MemoryRuntime, RunResult

ORDERS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: orders}
workload: {day: 1}
workflow:
  - step: start
    tool: {kind: api, input: {list: "{{ workload.day }}"}}
    set: {ctx.items: "{{ output.data }}"}
    next: {arcs: [{step: fetch}]}
  - step: fetch
    loop: {in: "{{ ctx.items }}", iterator: item, spec: {mode: parallel}}
    tool:
      - {name: page, kind: api, input: {page: "{{ iter.item }}"}}
      - {name: rows, kind: api, input: {rows: "{{ _prev }}"}}
    set: {ctx.rows: "{{ output.data }}"}
    next: {arcs: [{step: store}]}
  - step: store
    tool: {kind: api, input: {store: "{{ ctx.rows }}"}}
"""


class Api:
    """A tool that answers by its input and counts its calls. `down`: inputs that fail."""

    def __init__(self) -> None:
        self.calls: list[JSON] = []
        self.down: list[JSON] = []

    def __call__(self, task: RunTask) -> JSON | Output:
        self.calls.append(task.input)
        if task.input in self.down:
            return failed("api", f"{task.input} is down")
        match task.input:
            case {"list": day}:
                return [day * 10 + each for each in range(3)]
            case {"store": rows}:
                return {"stored": len(rows)}
            case {"size": size}:
                return ["x" * 100] * (size // 100)
        return next(iter(task.input.values()))

    def taken(self) -> list[JSON]:
        calls, self.calls = self.calls, []
        return calls


class Forking(NamedTuple):
    """A runtime with its tool."""

    memory: MemoryRuntime
    api: Api

    async def fork(self, old: str, text: str, **wanted: JSON) -> RunResult:
        id = await self.start_fork(old, text, **wanted)
        await self.memory.end(id)
        state = self.memory.state(id)
        return RunResult(id, state.status, state.end_output and state.end_output.data, state.ctx, state.failure)

    async def asking(self, id: str) -> None:
        """Wait until it waits for the signal."""
        while not (run := self.memory.state(id).runs.get("ask#1")) or not run.frames:
            await self.memory.clock.sleep(1)

    async def start_fork(self, old: str, text: str, workload: dict[str, JSON] | None = None, **wanted: JSON) -> str:
        path = self.memory.programs.add(text)
        id = self.memory.clock.new_id()
        seq = wanted.pop("seq", 0)
        origin = ForkOrigin(execution=old, seq=seq, **wanted)
        await self.memory.link.start(id, path, Start(workload=workload or {}, fork=origin))
        return id

    async def plan(self, old: str, text: str, workload: dict[str, JSON] | None = None, **wanted: JSON) -> ForkPlan:
        path = self.memory.programs.add(text)
        origin = ForkOrigin(execution=old, seq=wanted.pop("seq", 0), **wanted)
        planner = ForkPlanner(self.memory.store, self.memory.programs)
        program = self.memory.programs.programs[path]
        start = Start(workload=workload or {}, fork=origin)
        return (await planner.plan("new", program, start, self.memory.clock.now())).plan


def forking(work: Callable[[Forking], Awaitable[None]], playbooks: dict[str, str] | None = None) -> None:
    async def main() -> None:
        api = Api()
        async with runtime(playbooks or {}, tools={"api": api}) as memory:
            await work(Forking(memory, api))

    asyncio.run(main())


def named(text: str, path: str) -> str:
    """The same playbook under another path: the memory runtime has one text for a path."""
    return text.replace("path: orders}", f"path: {path}}}")


def test_only_the_corrected_step_and_those_behind_it_are_done_again() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"store": [10, 11, 12]}]
        old = await forks.memory.run(ORDERS)
        assert old.status == "error"
        forks.api.taken()
        fixed = named(ORDERS.replace('{store: "{{ ctx.rows }}"}', '{store: "{{ ctx.rows[1:] }}"}'), "fixed")
        plan = await forks.plan(old.id, fixed)
        assert plan.kept == ("start#1", "fetch#1")
        assert [(each.run, each.why) for each in plan.redone] == [("store#1", "its tasks have changed")]
        assert (plan.kept_iterations, plan.kept_calls) == (3, 7)
        new = await forks.fork(old.id, fixed)
        assert (new.status, new.output) == ("ok", {"stored": 2})
        assert forks.api.taken() == [{"store": [11, 12]}]

    forking(work)


def test_kept_calls_name_the_event_they_come_from() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        new = await forks.fork(old.id, ORDERS)
        log = {event.seq: event.fact for event in forks.memory.log(old.id)}
        kept = [event.fact for event in forks.memory.log(new.id) if isinstance(event.fact, TaskDone)]
        assert len(kept) == 8
        for fact in kept:
            source = log[fact.kept]
            assert isinstance(source, TaskDone)
            assert (source.task, source.output) == (fact.task, fact.output)

    forking(work)


def test_a_failed_step_continues_at_the_task_that_failed() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"rows": 11}]
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        forks.api.down = []
        new = await forks.fork(old.id, ORDERS)
        assert new.output == {"stored": 3}
        assert {"rows": 11} in forks.api.calls
        assert {"page": 11} not in forks.api.calls
        assert {"list": 1} not in forks.api.calls

    forking(work)


def test_iterations_are_kept_by_their_items() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        moved = named(
            ORDERS.replace('in: "{{ ctx.items }}"', 'in: "{{ [7] + (ctx.items | reverse | list) }}"'), "moved"
        )
        plan = await forks.plan(old.id, moved)
        assert [each.why for each in plan.redone] == ["1 of 4 iterations are not done", "depends on fetch#1"]
        new = await forks.fork(old.id, moved)
        assert new.output == {"stored": 4}
        assert forks.api.taken() == [{"page": 7}, {"rows": 7}, {"store": [7, 12, 11, 10]}]

    forking(work)


def test_another_workload_repeats_what_reads_it() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        plan = await forks.plan(old.id, ORDERS, {"day": 2})
        assert (plan.redone[0].run, plan.redone[0].why) == ("start#1", "its input has changed: workload.day")
        new = await forks.fork(old.id, ORDERS, workload={"day": 2})
        assert new.output == {"stored": 3}
        assert len(forks.api.taken()) == 8

    forking(work)


def test_the_runs_of_a_named_step_are_repeated_with_all_that_follows() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        new = await forks.fork(old.id, ORDERS, from_step="fetch")
        assert new.status == "ok"
        assert len(forks.api.taken()) == 7
        with pytest.raises(Rejected, match='no step "nowhere"'):
            await forks.plan(old.id, ORDERS, from_step="nowhere")

    forking(work)


def test_with_failed_only_finished_work_is_kept_whatever_has_changed() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"store": [10, 11, 12]}]
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        forks.api.down = []
        other = named(ORDERS.replace("{page:", "{other: 1, page:"), "other")
        new = await forks.fork(old.id, other, failed_only=True)
        assert new.status == "ok"
        assert forks.api.taken() == [{"store": [10, 11, 12]}]

    forking(work)


def test_only_events_up_to_a_named_one_count() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        forks.api.taken()
        fetch = next(
            event.seq for event in forks.memory.log(old.id)
            if isinstance(event.fact, StepScheduled) and event.fact.step == "fetch"
        )  # fmt: skip
        await forks.fork(old.id, ORDERS, seq=fetch)
        assert len(forks.api.taken()) == 7

    forking(work)


def test_work_of_retries_is_kept_too() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"rows": 11}, {"store": [10, 11, 12]}]
        old = await forks.memory.run(ORDERS)
        forks.api.down = [{"store": [10, 11, 12]}]
        ended = forks.memory._ended[old.id] = asyncio.Event()
        await forks.memory.command(old.id, Retry())
        await ended.wait()
        assert forks.memory.state(old.id).status == "error"
        forks.api.taken()
        forks.api.down = []
        new = await forks.fork(old.id, ORDERS)
        assert new.output == {"stored": 3}
        assert forks.api.taken() == [{"store": [10, 11, 12]}]

    forking(work)


LARGE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: orders}
workflow:
  - step: start
    tool: {kind: api, input: {size: 200000}}
    set: {ctx.rows: "{{ output.data }}"}
    next: {arcs: [{step: count, when: "{{ ctx.rows | length > 5 }}"}]}
  - step: count
    tool: {kind: api, input: {count: "{{ ctx.rows | length }}"}}
    set: {ctx.count: "{{ output.data }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ ctx.rows }}", iterator: row, spec: {mode: parallel, max_in_flight: 100}}
    tool: {kind: api, input: {row: "{{ iter.row | length }}"}}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: api, input: {last: "{{ ctx.count }}"}}
"""


def test_large_values_and_large_lists_are_kept_by_reference() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"last": 2000}]
        old = await forks.memory.run(LARGE)
        assert old.error is not None
        assert "last" in old.error.message
        forks.api.taken()
        forks.api.down = []
        new = await forks.fork(old.id, LARGE)
        assert new.status == "ok"
        assert forks.api.taken() == [{"last": 2000}]
        changed = named(LARGE.replace('in: "{{ ctx.rows }}"', "in: \"{{ ctx.rows[1:] + ['new'] }}\""), "changed")
        again = await forks.fork(new.id, changed)
        assert again.status == "ok"

    forking(work)


CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: child}
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: api, input: {first: "{{ workload.n }}"}}
    next: {arcs: [{step: second}]}
  - step: second
    tool: {kind: api, input: {second: "{{ workload.n }}"}}
"""
PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: orders}
workflow:
  - step: start
    tool: {kind: playbook, path: child, input: {n: 1}}
    next: {arcs: [{step: next}]}
  - step: next
    tool: {kind: playbook, path: child, input: {n: 2}}
"""


def test_finished_children_are_kept_and_failed_ones_are_forked() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"second": 2}]
        old = await forks.memory.run(PARENT)
        assert old.status == "error"
        forks.api.taken()
        forks.api.down = []
        new = await forks.fork(old.id, PARENT)
        assert new.status == "ok"
        assert forks.api.taken() == [{"second": 2}]

    forking(work, {"child": CHILD})


def test_a_child_whose_playbook_has_changed_is_forked() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(PARENT)
        forks.api.taken()
        forks.memory.programs.add(CHILD.replace("{second:", "{third:").replace("path: child}", "path: child2}"))
        parent = named(PARENT.replace("path: child,", "path: child2,", 1), "other")
        new = await forks.fork(old.id, parent)
        assert new.status == "ok"
        assert forks.api.taken()[:2] == [{"first": 1}, {"third": 1}]

    forking(work, {"child": CHILD})


WAITING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waiting, path: orders}
workflow:
  - step: start
    tool: {kind: api, input: {a: 1}}
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: {kind: wait, input: {signal: approval}}
    set: {ctx.ok: "{{ output.data.ok }}"}
    next: {arcs: [{step: act}]}
  - step: act
    spec: {policy: {lifecycle: {deadline_s: 60}}}
    tool: {kind: api, input: {act: "{{ ctx.ok }}"}}
"""


def test_signals_that_were_received_are_kept_and_deadlines_count_from_the_fork() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"act": True}]
        old = await forks.memory.start(WAITING)
        await forks.asking(old)
        await forks.memory.signal(old, "approval", {"ok": True})
        await forks.memory.end(old)
        forks.api.taken()
        forks.api.down = []
        await forks.memory.clock.sleep(3_600)
        new = await forks.fork(old, WAITING)
        assert (new.status, new.ctx) == ("ok", {"ok": True})
        assert forks.api.taken() == [{"act": True}]

    forking(work)


def test_a_paused_execution_is_forked_without_its_end() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.start(WAITING)
        await forks.asking(old)
        await forks.memory.command(old, Pause())
        forks.api.taken()
        new = await forks.start_fork(old, WAITING)
        await forks.asking(new)
        assert forks.api.taken() == []
        await forks.memory.command(old, Resume())

    forking(work)


def test_compensated_work_cannot_be_kept() -> None:
    undone = ORDERS.replace(
        "  - step: store\n", "  - step: store\n    compensate: {tool: {kind: api, input: {undo: 1}}}\n"
    )
    undone = undone.replace(
        "  - step: start\n", "  - step: start\n    compensate: {tool: {kind: api, input: {undo: 2}}}\n"
    )

    async def work(forks: Forking) -> None:
        forks.api.down = [{"store": [10, 11, 12]}]
        old = await forks.memory.run(undone)
        with pytest.raises(Rejected, match="compensated"):
            await forks.plan(old.id, undone)

    forking(work)


LIMITED = ORDERS.replace(
    "  - step: fetch\n",
    "  - step: fetch\n    spec: {policy: {limit: {key: \"{{ workload.day }}\", in_flight: 1}}}\n",
).replace(
    "{name: page, kind: api,",
    "{name: page, kind: api, spec: {policy: {limit: {key: all, in_flight: 1}}},",
)  # fmt: skip


def test_what_is_kept_needs_no_permit_and_the_rest_waits_for_one() -> None:
    async def work(forks: Forking) -> None:
        forks.api.down = [{"rows": 11}]
        old = await forks.memory.run(LIMITED)
        assert old.status == "error"
        forks.api.taken()
        forks.api.down = []
        new = await forks.fork(old.id, LIMITED)
        assert new.output == {"stored": 3}
        assert {"page": 10} not in forks.api.calls
        granted = [event.fact for event in forks.memory.log(new.id) if isinstance(event.fact, PermitGranted)]
        assert granted == [PermitGranted(run="fetch#1")], "it was not finished, so it has waited"

    forking(work)


SAVING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: saving, path: orders}
workflow:
  - step: start
    tool: {kind: api, input: {a: 1}}
    set: {saved.cursor: "{{ output.data }}"}
    next: {arcs: [{step: broken, when: "{{ ctx.missing.x > 1 }}"}]}
  - step: broken
    tool: {kind: api, input: {b: 2}}
"""


def test_a_kept_step_saves_what_the_old_execution_has_not_saved() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(SAVING)
        assert old.status == "error"
        saved = forks.memory.store.saved
        assert await saved.current("orders") == []
        fixed = SAVING.replace(', when: "{{ ctx.missing.x > 1 }}"', "")
        new = await forks.fork(old.id, fixed)
        assert new.status == "ok"
        assert [(each.key, each.value) for each in await saved.current("orders")] == [("cursor", 1)]
        again = await forks.fork(new.id, fixed)
        await forks.fork(again.id, fixed)
        assert len(await saved.history("orders", "cursor")) == 1, "it is not written a second time"

    forking(work)


def test_values_that_only_the_message_of_an_error_reads_count_as_input() -> None:
    refused = ORDERS.replace(
        '{name: page, kind: api, input: {page: "{{ iter.item }}"}}',
        '{name: page, kind: api, input: {page: "{{ iter.item }}"}, spec: {policy: {rules: '
        '[{else: {then: {do: fail, message: "day {{ workload.day }}"}}}]}}}',
    ).replace(
        "next: {arcs: [{step: store}]}", "next: {arcs: [{step: end, when: \"{{ event.name == 'step.failed' }}\"}]}"
    )
    refused = refused.replace('{list: "{{ workload.day }}"}', "{list: 1}")

    async def work(forks: Forking) -> None:
        old = await forks.memory.run(refused)
        plan = await forks.plan(old.id, refused, {"day": 2})
        assert [each.run for each in plan.redone] == ["fetch#1"]

    forking(work)


def test_iterations_behind_a_tolerated_failure_are_kept() -> None:
    text = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: orders}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: item, spec: {mode: sequential}}
    tool:
      - {name: page, kind: api, input: {page: "{{ iter.item }}"}}
      - {name: more, kind: api, input: {rows: "{{ iter.item }}"}}
    spec: {policy: {failure: {mode: best_effort}}}
"""

    async def work(forks: Forking) -> None:
        forks.api.down = [{"page": 1}]
        old = await forks.memory.run(text)
        assert old.status == "ok"
        events = forks.memory.log(old.id)
        cut = next(each.seq for each in events if isinstance(each.fact, TaskDone) and each.fact.frame == "start#1[1]")
        forks.api.taken()
        new = await forks.fork(old.id, named(text, "new"), seq=cut)
        assert (new.status, forks.api.taken()) == ("ok", [{"rows": 2}, {"page": 3}, {"rows": 3}])

    forking(work)


def test_a_changed_set_costs_nothing_unless_its_data_is_large() -> None:
    text = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: orders}
workload: {size: 100}
workflow:
  - step: start
    tool: {kind: api, input: {size: "{{ workload.size }}"}}
    set: {ctx.first: "{{ output.data[0] }}"}
"""

    async def work(forks: Forking) -> None:
        edited = named(text, "new").replace("output.data[0]", "output.data | length")
        added = named(text, "added").replace('set: {ctx.first: "{{ output.data[0] }}"}', "desc: nothing")
        small = await forks.memory.run(text)
        large = await forks.memory.run(text.replace("100}", "1000000}"))
        unread = await forks.memory.run(added.replace("100}", "1000000}"))
        forks.api.taken()
        new = await forks.fork(small.id, edited)
        assert (new.ctx, forks.api.taken()) == ({"first": 1}, [])
        plan = await forks.plan(large.id, edited, {"size": 1_000_000})
        assert [each.why for each in plan.redone] == ["the templates that read its large result have changed"]
        for old in (large, unread):
            new = await forks.fork(old.id, edited, workload={"size": 1_000_000})
            assert (new.ctx, forks.api.taken()) == ({"first": 10_000}, [{"size": 1_000_000}])

    forking(work)


def test_marking_a_task_as_safe_changes_nothing_for_a_fork() -> None:
    async def work(forks: Forking) -> None:
        old = await forks.memory.run(ORDERS)
        plan = await forks.plan(
            old.id, named(ORDERS, "new").replace('{{ _prev }}"}', '{{ _prev }}"}, spec: {safe: true}')
        )
        assert plan.redone == ()

    forking(work)


def test_a_failed_block_whose_caller_went_on_is_kept() -> None:
    """The step of the caller has not ended: whether it fails in the end is not known."""
    text = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: orders}
workbook:
  page:
    tool:
      - {name: get, kind: api, input: {page: 1}}
      - {name: put, kind: api, input: {put: 1}}
workflow:
  - step: start
    tool:
      - name: page
        kind: workbook
        block: page
        spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: continue}}]}}
      - {name: note, kind: api, input: {note: 1}}
      - {name: last, kind: api, input: {last: 1}}
"""

    async def work(forks: Forking) -> None:
        forks.api.down = [{"put": 1}]
        old = await forks.memory.run(text)
        assert old.status == "ok"
        events = forks.memory.log(old.id)
        cut = next(each.seq for each in events if isinstance(each.fact, TaskDone) and each.fact.task == "note")
        forks.api.taken()
        new = await forks.fork(old.id, named(text, "new"), seq=cut)
        assert (new.status, forks.api.taken()) == ("ok", [{"last": 1}])

    forking(work)
