"""An execution right after one of its facts, and its facts as lines."""

from __future__ import annotations

import pytest

from noetl.engine.state import State
from noetl.views.fact_lines import LINE_CHARS_MAX, fact_line
from noetl.views.log import folded
from noetl.views.state_at import ExecutionMoment, Fold, moment
from noetl.views.timeline import Timeline
from tests.unit.views.playing import NAMES, played, scenarios

WRITES = """
workflow:
- step: start
  tool: {kind: http, url: x, set: {ctx.n: "{{ output.data }}", ctx.user.name: "{{ 'ada' }}"}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: http, url: x, set: {ctx.user.name: "{{ 'bob' }}"}}
"""


def moment_of(commands: tuple[str, ...], name: str, have: int | None = None) -> ExecutionMoment:
    """At the last fact of that name."""
    log = played(WRITES, *commands).log
    place = max(event.seq for event in log if event.fact.__struct_config__.tag == name)
    fold = Fold(State(execution_id="e"))
    for event in log[: place - 1]:
        fold.feed(event)
    return moment(fold, log[place - 1], have)


def test_what_a_fact_has_changed_in_ctx_is_told_before_and_after() -> None:
    told = moment_of(("report start#1 ok 7", "report last#1 ok"), "task.done")
    assert [(change.path, change.before, change.after) for change in told.changes] == [("ctx.user.name", "ada", "bob")]
    assert told.ctx == {"n": 7, "user": {"name": "bob"}}
    assert told.ctx_seq == told.fact.seq


def test_ctx_that_the_caller_has_is_not_sent_again() -> None:
    first = moment_of(("report start#1 ok 7",), "task.done")
    assert moment_of(("report start#1 ok 7",), "step.done", have=first.ctx_seq).ctx is None
    assert moment_of(("report start#1 ok 7",), "step.done", have=1).ctx == first.ctx


@pytest.mark.parametrize("name", NAMES)
def test_ctx_is_that_of_the_fold_at_every_fact(name: str) -> None:
    log = scenarios()[name].log
    fold = Fold(State(execution_id="e"))
    for event in log:
        told = moment(fold, event, None)
        assert told.ctx == folded("e", log, up_to=event.seq).ctx
        assert bool(told.changes) <= (told.ctx_seq == event.seq)


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_is_one_line_with_the_step_of_its_run(name: str) -> None:
    timeline = Timeline("e")
    log = scenarios()[name].log
    for event in log:
        timeline.feed(event)
    for event in log:
        told = fact_line(event, timeline.steps_of)
        assert told.seq == event.seq
        assert len(told.words) <= LINE_CHARS_MAX
        if getattr(event.fact, "run", None) or getattr(event.fact, "frame", None):
            assert told.step is not None, told


def test_lines_say_what_happened_in_few_words() -> None:
    player = played(WRITES, "report start#1 error http")
    timeline = Timeline("e")
    for event in player.log:
        timeline.feed(event)
    told = {each.name: each for each in (fact_line(event, timeline.steps_of) for event in player.log)}
    assert told["task.done"].words.startswith("start_task: error, fail: it did not work")
    assert told["task.done"].about == "start#1/1"
    assert told["workflow.started"].words == "→ start"
    assert told["workflow.finished"].words == "error: it did not work"
    assert [each.name for each in told.values() if each.bad] == [
        "task.done",
        "step.failed",
        "workflow.finished",
        "playbook.processed",
    ]
