"""D75, D89: what is shown of a log. Every fact has its envelope, and what follows from it shares its seq."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import msgspec
from msgspec.structs import replace

from noetl.engine import Event
from noetl.engine.facts import Fact, Requested, TaskDone
from noetl.engine.state import State
from noetl.ids import trace_id
from noetl.testing.scenario import START, Player
from noetl.views.envelopes import Entity, Envelope, Envelopes, EnvelopeStatus, alias
from noetl.views.log import folded
from tests.playbooks import kinds
from tests.unit.views.playing import played, scenarios

CHAIN = """
workflow:
- step: start
  tool: {name: one, kind: http, url: x, set: {ctx.n: "{{ output.data }}"}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop}
"""
LOOP = """
workload: {items: [1, 2, 3]}
workflow:
- step: start
  loop: {in: "{{ workload.items }}", iterator: n, spec: {mode: parallel, max_in_flight: 2, policy: {reduce: {ctx.all: append}}}}
  tool: {kind: http, url: x, set: {ctx.all: "{{ iter.n }}"}}
"""


def envelopes(log: list[Event]) -> list[Envelope]:
    return list(Envelopes(State(execution_id="e")).of(log))


def brief(player: Player) -> list[tuple[str, str, str, str]]:
    return [(each.event_id, each.name, each.entity_id, each.status) for each in envelopes(player.log)]


def test_a_chain_is_told_event_by_event() -> None:
    assert brief(played(CHAIN, "report start#1 ok 7")) == [
        ("e/1", "playbook.execution.requested", "scenario", "in_progress"),
        ("e/2", "playbook.request.evaluated", "scenario", "success"),
        ("e/3", "workflow.started", "e", "in_progress"),
        ("e/3.1", "token.enqueued", ">0", "in_progress"),
        ("e/4", "step.scheduled", "start#1", "in_progress"),
        ("e/5", "step.started", "start#1", "in_progress"),
        ("e/6", "task.done", "start#1/1", "success"),
        ("e/6.1", "ctx.patched", "e", "success"),
        ("e/7", "step.done", "start#1", "success"),
        ("e/8", "next.evaluated", "start#1", "success"),
        ("e/8.1", "token.enqueued", "start#1>0", "in_progress"),
        ("e/9", "step.scheduled", "last#1", "in_progress"),
        ("e/10", "step.started", "last#1", "in_progress"),
        ("e/11", "task.done", "last#1/1", "success"),
        ("e/12", "step.done", "last#1", "success"),
        ("e/13", "next.evaluated", "last#1", "success"),
        ("e/14", "workflow.finished", "e", "success"),
        ("e/15", "playbook.processed", "scenario", "success"),
    ]


def test_an_envelope_has_all_its_fields_and_none_that_do_not_apply() -> None:
    player = played(CHAIN, "report start#1 ok 7")
    told = [msgspec.json.decode(msgspec.json.encode(each)) for each in envelopes(player.log)]
    assert told[6] == {
        "event_id": "e/6",
        "execution_id": "e",
        "trace_id": "3f79bb7b435b05321651daefd374cdc6",
        "seq": 6,
        "timestamp": "2026-01-01T00:00:00Z",
        "source": "worker",
        "name": "task.done",
        "alias": "TaskProcessed",
        "entity": "task",
        "entity_id": "start#1/1",
        "status": "success",
        "data": {
            "frame": "start#1",
            "call": 1,
            "task": "one",
            "directive": "continue",
            "next": -1,
            "output": {"status": "ok", "data": 7},
            "set": {"ctx.n": 7},
            "input_hash": "e06808dd66927e8c",
            "epoch": [1, 1],
            "ms": 0.0,
        },
        "step_run_id": "start#1",
        "task_run_id": "start#1/1",
        "task_label": "one",
        "attempt": 1,
    }
    assert told[7] == {
        "event_id": "e/6.1",
        "execution_id": "e",
        "trace_id": "3f79bb7b435b05321651daefd374cdc6",
        "seq": 6,
        "part": 1,
        "timestamp": "2026-01-01T00:00:00Z",
        "source": "server",
        "name": "ctx.patched",
        "alias": "CtxPatched",
        "entity": "execution",
        "entity_id": "e",
        "status": "success",
        "data": {"set": {"ctx.n": 7}},
        "step_run_id": "start#1",
    }


def test_a_task_that_says_when_it_began_has_started_before_it_was_done() -> None:
    began = START + timedelta(seconds=3)
    log = [
        replace(event, fact=replace(event.fact, started_at=began)) if isinstance(event.fact, TaskDone) else event
        for event in played(CHAIN, "after 5", "report start#1 ok 7").log
    ]
    told = [
        (each.event_id, each.name, each.timestamp, each.status, each.task_run_id)
        for each in envelopes(log)
        if each.seq == 6
    ]
    assert told == [
        ("e/6.1", "task.started", "2026-01-01T00:00:03Z", "in_progress", "start#1/1"),
        ("e/6", "task.done", "2026-01-01T00:00:05Z", "success", "start#1/1"),
        ("e/6.2", "ctx.patched", "2026-01-01T00:00:05Z", "success", None),
    ]


def test_an_iteration_starts_when_there_is_room_for_it_and_its_writes_are_seen_when_the_loop_is_done() -> None:
    player = played(LOOP, "report start#1[1] ok", "report start#1[0] ok", "report start#1[2] ok")
    told = [(id, name, entity) for id, name, entity, _ in brief(player) if int(id[2:].partition(".")[0]) > 4]
    assert told[:-3] == [
        ("e/5", "loop.started", "start#1"),
        ("e/5.1", "loop.iteration.started", "start#1[0]"),
        ("e/5.2", "loop.iteration.started", "start#1[1]"),
        ("e/6", "step.started", "start#1"),
        ("e/7", "task.done", "start#1[1]/1"),
        ("e/8", "loop.iteration.done", "start#1[1]"),
        ("e/8.1", "loop.iteration.started", "start#1[2]"),
        ("e/9", "task.done", "start#1[0]/1"),
        ("e/10", "loop.iteration.done", "start#1[0]"),
        ("e/11", "task.done", "start#1[2]/1"),
        ("e/12", "loop.iteration.done", "start#1[2]"),
        ("e/13", "loop.done", "start#1"),
        ("e/13.1", "ctx.patched", "e"),
    ]


def test_in_a_pause_no_iteration_starts_and_its_end_hands_them_out() -> None:
    player = played(LOOP, "pause", "report start#1[0] ok", "resume")
    told = [(id, name, entity) for id, name, entity, _ in brief(player) if int(id[2:].partition(".")[0]) > 5]
    assert told == [
        ("e/6", "execution.paused", "e"),
        ("e/7", "step.started", "start#1"),
        ("e/8", "task.done", "start#1[0]/1"),
        ("e/9", "loop.iteration.done", "start#1[0]"),
        ("e/10", "execution.resumed", "e"),
        ("e/10.1", "loop.iteration.started", "start#1[2]"),
    ]


def test_what_can_not_be_admitted_is_an_error_of_the_step() -> None:
    told = envelopes(scenarios()["join_admission_fails"].log)
    failed = [
        (each.entity, each.entity_id, each.status, each.step_run_id) for each in told if each.name == "step.failed"
    ]
    assert failed == [("step", "done", "error", None)]


def test_a_request_that_can_not_run_is_shown_and_never_started() -> None:
    """D65."""
    player = Player(CHAIN, kinds())
    player.play("refuse keychain no entry")
    assert brief(player) == [
        ("e/1", "playbook.execution.requested", "scenario", "in_progress"),
        ("e/2", "playbook.request.evaluated", "scenario", "error"),
        ("e/3", "playbook.processed", "scenario", "error"),
    ]


def test_a_log_can_be_followed_from_any_place() -> None:
    """Every iteration that starts has not started before, and what is shown does not depend on where one begins."""
    for player in scenarios().values():
        whole = envelopes(player.log)
        for cut in range(0, len(player.log), 7):
            later = Envelopes(folded("e", player.log, up_to=cut)).of(player.log[cut:])
            assert list(later) == [each for each in whole if each.seq > cut]
        started = [each.entity_id for each in whole if each.name == "loop.iteration.started"]
        assert len(started) == len(set(started))


def test_every_name_of_the_language_is_shown_and_ids_are_unique() -> None:
    names: set[str] = set()
    for player in scenarios().values():
        told = envelopes(player.log)
        assert len({each.event_id for each in told}) == len(told)
        assert [each.seq for each in told if not each.part] == list(range(1, len(player.log) + 1))
        names |= {each.name for each in told}
        assert {each.entity for each in told} <= set(get_args(Entity))
        assert {each.status for each in told} <= set(get_args(EnvelopeStatus))
    facts = {str(each.__struct_config__.tag) for each in get_args(Fact)}
    assert names == facts | {"token.enqueued", "ctx.patched", "loop.iteration.started"}


def test_the_alias_is_the_name_that_the_spec_gives() -> None:
    names = [
        "step.done",
        "playbook.execution.requested",
        "task.done",
        "loop.iteration.done",
        "token.enqueued",
    ]
    assert [alias(name) for name in names] == [
        "StepDone",
        "PlaybookExecutionRequested",
        "TaskProcessed",
        "LoopIterationCompleted",
        "TokenEnqueued",
    ]


def test_a_token_names_its_playbook_its_parent_and_the_event_that_made_it_d66() -> None:
    player = played(CHAIN, "report start#1 ok 7")
    requested = player.log[0]
    assert isinstance(requested.fact, Requested)
    log = [replace(requested, fact=replace(requested.fact, parent="p/call#1", digest="abc")), *player.log[1:]]
    first, second = [each.data for each in envelopes(log) if each.name == "token.enqueued"]
    assert first == {"id": ">0", "step": "start", "playbook": "abc", "parent": "p/call#1"}
    assert (second["playbook"], second["parent"], second["event"]["run"]) == ("abc", "p/call#1", "start#1")


def test_events_have_the_trace_of_their_execution_d66() -> None:
    made = trace_id("0199b3c2-0004-7000-8000-00000000000a")
    assert made == trace_id("0199b3c2-0004-7000-8000-00000000000a") != "0199b3c200047000800000000000000a"
    assert len(made) == len(trace_id("no-uuid")) == 32
    assert trace_id("a") != trace_id("b")


def test_the_start_of_a_call_is_told_once_also_when_the_log_has_it_d94() -> None:
    player = played(CHAIN, "running start#1 1", "report start#1 ok 7")
    log = [
        replace(event, fact=replace(event.fact, started_at=START)) if isinstance(event.fact, TaskDone) else event
        for event in player.log
    ]
    starts = [each for each in envelopes(log) if each.name == "task.started"]
    assert [(each.event_id, each.task_run_id, each.status, each.source) for each in starts] == [
        ("e/6", "start#1/1", "in_progress", "worker"),
        ("e/12.1", "last#1/1", "in_progress", "worker"),
    ]
    assert starts[0].data["worker"] == "w"


def test_a_lost_worker_is_told_with_its_call_d94() -> None:
    [lost] = [each for each in envelopes(played(CHAIN, "begin start#1", "lose start#1 one").log) if "lost" in each.name]
    assert (lost.name, lost.alias, lost.entity, lost.entity_id, lost.task_run_id, lost.task_label, lost.status) == (
        "frame.lost", "FrameLost", "frame", "start#1", "start#1/1", "one", "error",
    )  # fmt: skip


def test_a_token_that_waits_names_its_step() -> None:
    waiting = [
        (each.entity_id, each.data.get("step"))
        for player in scenarios().values()
        for each in envelopes(player.log)
        if each.name == "step.waiting"
    ]
    assert ("start#1>0", "gate") in waiting
