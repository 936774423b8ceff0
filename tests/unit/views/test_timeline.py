"""A log in the size of a screen: it agrees with the fold at every fact of every scenario."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from noetl.engine.facts import StepWaiting
from noetl.engine.state import State
from noetl.output import JSON
from noetl.testing.scenario import Player
from noetl.views.fact_lines import fact_line
from noetl.views.timeline import RUNS_SHOWN_MAX, Timeline
from tests.unit.views.playing import NAMES, played, scenarios

FORK = """
workflow:
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, when: "{{ workload.n is defined }}"}, {step: c}]}
- step: a
  tool:
    name: t
    kind: http
    url: x
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 2}}]}}
- step: b
  tool: {kind: noop}
- step: c
  tool: {kind: wait, signal: go}
"""
LOOP = """
workflow:
- step: start
  loop: {in: "{{ [1, 2, 3] }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: http, url: x}
"""
ROUND = """
workflow:
- step: start
  tool: {kind: noop}
  set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
  next: {arcs: [{step: start, when: "{{ ctx.n < 400 }}"}]}
"""


def timeline_of(player: Player, up_to: int | None = None) -> JSON:
    timeline = Timeline("e")
    for event in player.log[:up_to]:
        timeline.feed(event)
    return msgspec.json.decode(msgspec.json.encode(timeline.document()))


def counted(document: JSON, step: str) -> dict[str, int]:
    """The last counts of a step, those that are not 0."""
    (line,) = (each for each in document["steps"] if each["step"] == step)
    values = line["changes"][-1][1:]
    return {name: value for name, value in zip(document["counts"], values, strict=True) if value}


def expected(state: State) -> dict[str, Counter[str]]:
    """The counts of each step, computed independently."""
    found: dict[str, Counter[str]] = {}

    def add(step: str, name: str) -> None:
        found.setdefault(step, Counter())[name] += 1

    joined = {id for tokens in state.joins.values() for id in tokens}
    for token in state.tokens.values():
        add(token.step, "tokens")
        if token.id in state.waiting or token.id in joined:
            add(token.step, "waiting")
    for run in state.runs.values():
        if (not run.block or run.compensates) and run.output is None and state.live:
            add(run.step, "out")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_counts_agree_with_the_state_after_every_fact(name: str) -> None:
    timeline = Timeline("e")
    for event in scenarios()[name].log:
        timeline.feed(event)
        wanted = expected(timeline.state)
        for step, track in timeline.counts.tracks.items():
            counts = dict(zip(timeline.counts.NAMES, track.samples()[-1][1:], strict=True))
            told = {
                "tokens": counts["tokens"],
                "waiting": counts["waiting"],
                "out": counts["scheduled"] + counts["running"],
            }
            assert all(value >= 0 for value in counts.values()), (event.seq, step, counts)
            assert Counter(told) == wanted.get(step, Counter()), (event.seq, step)
            assert counts["parked"] <= counts["running"] + counts["scheduled"], (event.seq, step)
            assert counts["handled"] <= counts["failed"], (event.seq, step)
    assert sum(timeline.document().kinds.values()) == timeline.state.seq


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_has_ended_says_with_which_fact(name: str) -> None:
    player = scenarios()[name]
    for line in timeline_of(player)["steps"]:
        for run in line["runs"]:
            assert run["scheduled_seq"] >= 1
            assert (run.get("ended_at") is None) == (run.get("ended_seq") is None), run
            if run.get("ended_seq") is not None:
                assert run["ended_seq"] > run["scheduled_seq"]


def test_attempts_waits_and_arcs_are_told() -> None:
    player = played(FORK, "after 2", "report a#1 error http", "after 1", "report a#1 ok")
    document = timeline_of(player)
    (bar,) = (run for line in document["steps"] if line["step"] == "a" for run in line["runs"])
    assert [(call["attempt"], call["status"], call["directive"]) for call in bar["calls"]] == [
        (1, "error", "retry"),
        (2, "ok", "continue"),
    ]
    assert counted(document, "a") == {"ok": 1, "retries": 1}
    assert [(arc["place"], arc["to"], arc["changes"][-1][1:]) for arc in document["arcs"][:3]] == [
        (0, "a", [1, 0]),
        (1, None, [0, 1]),
        (2, "c", [1, 0]),
    ]


def test_time_stands_still_within_a_commit() -> None:
    player = played(FORK, "after 2", "report a#1 error http", "after 1", "report a#1 ok")
    times = dict(timeline_of(player)["clock"])
    assert all(times[event.seq] in (0, 2000, 3000) for event in player.log if event.seq in times)
    first = min(event.seq for event in player.log if (event.at - player.log[0].at).seconds == 2)
    assert (times[first - 1], times[first]) == (0, 2000)


def test_a_loop_shows_how_far_it_was_and_keeps_no_call_that_just_went_on() -> None:
    player = played(LOOP, "report start#1[0] ok", "report start#1[1] error http")
    document = timeline_of(player)
    assert counted(document, "start") == {"running": 1, "total": 3, "done": 1, "lost": 1}
    (bar,) = document["steps"][0]["runs"]
    assert [call["id"] for call in bar["calls"]] == ["start#1[1]/1"]
    assert [mark["name"] for mark in document["marks"]] == ["loop.iteration.failed"]


def test_of_many_runs_the_first_and_the_newest_are_shown_and_the_others_counted() -> None:
    document = timeline_of(played(ROUND, *(f"report start#{n} ok" for n in range(1, 401))))
    (line,) = document["steps"]
    assert len(line["runs"]) == RUNS_SHOWN_MAX
    assert line["runs_left_out"] == 400 - RUNS_SHOWN_MAX
    assert (line["runs"][0]["id"], line["runs"][-1]["id"]) == ("start#1", "start#400")
    assert counted(document, "start") == {"ok": 400}
    assert len(document["writes"]) <= 600


def test_a_timeline_of_a_part_of_a_log_tells_nothing_of_the_rest() -> None:
    player = played(FORK)
    document = timeline_of(player, 4)
    assert document["seq"] == 4
    assert [line["step"] for line in document["steps"]] == ["start"]
    assert document["status"] == "running"


def test_the_timeline_has_the_running_calls_and_the_lost_workers_d94() -> None:
    player = played(FORK, "running a#1 2")
    timeline = read(player)
    [a] = [run for line in timeline.document().steps for run in line.runs if run.id == "a#1"]
    assert [(call.id, call.task, call.worker) for call in a.running] == [("a#1/1", "t", "w")]
    player.play("lose a#1 w")
    timeline = read(player)
    [a] = [run for line in timeline.document().steps for run in line.runs if run.id == "a#1"]
    assert (a.running, a.lost, a.why) == ((), 1, 'waits for another worker: w was lost in task "t"')
    assert [mark.words for mark in timeline.document().marks if mark.name == "frame.lost"] == ['w was lost in task "t"']
    lines = {event.seq: fact_line(event, timeline.steps_of) for event in player.log}
    assert [(each.name, each.about, each.words) for each in lines.values() if each.step == "a"][2:] == [
        ("task.started", "a#1/1", "t: running on w"),
        ("frame.lost", "a#1", 'w was lost in task "t"'),
    ]


def test_the_line_of_a_waiting_token_names_its_step() -> None:
    player = scenarios()["admission_waits_until_ctx_changes"]
    timeline = read(player)
    waiting = [fact_line(event, timeline.steps_of) for event in player.log if isinstance(event.fact, StepWaiting)]
    assert [(each.about, each.step) for each in waiting] == [("start#1>0", "gate")]


def read(player: Player) -> Timeline:
    timeline = Timeline("e")
    for event in player.log:
        timeline.feed(event)
    return timeline
