"""Settling: what is looked at, and how it continues when a commit is full."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from noetl.engine import FACTS_PER_COMMIT_MAX, Agenda, Event, agenda_of, apply, facts, handle
from noetl.engine.commands import Command, Start
from noetl.engine.settle import TOKENS, put_on
from noetl.engine.state import State
from noetl.net.program import Program
from noetl.testing.scenario import START, Player
from tests.playbooks import kinds

LOOPS = """
workload: {items: [1, 2, 3, 4, 5]}
workflow:
- step: start
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel}}
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, set: {ctx.go: true}}]}
- step: a
  spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}]}}}
  loop: {in: "{{ workload.items }}", iterator: n}
  next: {arcs: [{step: done}]}
- step: b
  set: {ctx.n: 1}
  next: {arcs: [{step: done}]}
- step: done
  spec: {policy: {admit: {join: all}}}
"""
GATES = """
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}, {step: work}]}
- step: a
  spec: {policy: {admit: {rules: [{when: "{{ (ctx.x.y | default(0)) > 1 }}", then: {allow: true}}]}}}
- step: b
  spec: {policy: {admit: {rules: [{when: "{{ (ctx.z | default(0)) > 1 }}", then: {allow: true}}]}}}
- step: c
  spec: {policy: {admit: {rules: [{when: "{{ ctx | length > 9 }}", then: {allow: true}}]}}}
- step: work
  tool: {kind: http, url: x}
"""


def program(body: str) -> Program:
    return Player(body, kinds()).program


def played(body: str, limit: int, *, crash: bool) -> list[Event]:
    """To the end, so many facts a commit; `crash`: nothing but the log is left after each."""
    made = program(body)
    state, agenda = State(execution_id="e"), Agenda()
    log: list[Event] = []
    command: Command | None = Start()
    while state.live:
        events = handle(made, state, command, START, None if crash else agenda, at_most=limit)
        assert 0 < len(events) <= limit + 3
        log += events
        command = None
        if crash:
            state = State(execution_id="e")
            for event in log:
                apply(state, event.fact, event.at)
    return log


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("crash", [False, True])
def test_a_commit_that_is_full_is_followed_by_another_d70(limit: int, crash: bool) -> None:
    whole = played(LOOPS, FACTS_PER_COMMIT_MAX, crash=False)
    assert played(LOOPS, limit, crash=crash) == whole
    assert whole[-1].fact == facts.Processed(status="ok")


@pytest.mark.parametrize(
    ("target", "stirred"),
    [
        ("ctx.x.y", ["start#1>0", "start#1>2"]),
        ("ctx.x", ["start#1>0", "start#1>2"]),
        ("ctx.x.y.deeper", ["start#1>0", "start#1>2"]),
        ("ctx.x.other", ["start#1>2"]),
        ("ctx.z", ["start#1>1", "start#1>2"]),
        ("ctx.unseen", ["start#1>2"]),
        ("step.x", []),
    ],
)
def test_only_tokens_that_wait_for_what_changed_are_looked_at_d35(target: str, stirred: list[str]) -> None:
    player = Player(GATES, kinds())
    player.play("start")
    agenda: Agenda = {}
    put_on(agenda, player.state, facts.NextEvaluated(run="work#1", set={target: 1}))
    assert list(agenda.get(TOKENS) or ()) == stirred


def test_a_fold_of_the_log_knows_everything_that_may_need_a_decision() -> None:
    player = Player(GATES, kinds())
    player.play("start")
    waiting = {f"start#1>{arc}": None for arc in range(3)}
    assert agenda_of(player.state) == {("run", "work#1", None): None, TOKENS: waiting}


def test_tokens_that_are_stirred_by_several_writes_are_tried_oldest_first() -> None:
    player = Player(GATES, kinds())
    player.play("start")
    agenda: Agenda = {}
    put_on(agenda, player.state, facts.NextEvaluated(run="work#1", set={"ctx.z": 1}))
    put_on(agenda, player.state, facts.NextEvaluated(run="work#1", set={"ctx.x": 1}))
    assert list(agenda[TOKENS] or ()) == ["start#1>0", "start#1>1", "start#1>2"]


def test_time_per_fact_does_not_depend_on_what_is_behind_it() -> None:
    """The state of a cycle after many firings is as large as after few."""
    body = """
    workflow:
    - step: start
      set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
      next: {arcs: [{step: start, when: "{{ ctx.n < LIMIT }}"}]}
    """
    sizes = []
    for limit in (200, 2_000):
        state = State(execution_id="e")
        handle(program(body.replace("LIMIT", str(limit))), state, Start(), START + timedelta(seconds=1))
        sizes.append(len(msgspec.msgpack.encode(state)))
    assert sizes[1] - sizes[0] < 20
