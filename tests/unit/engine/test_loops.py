"""Loops: what an iteration sees, and what a finished loop gives back when it is large."""

from __future__ import annotations

from noetl.engine import facts
from noetl.engine.loops import is_complete
from noetl.engine.state import Loop
from noetl.engine.work import work_of
from noetl.output import Output
from noetl.testing.scenario import Player
from tests.playbooks import kinds

NESTED = """
workload: {cities: [{name: oslo, hotels: [a, b]}]}
workflow:
- step: start
  loop:
  - {in: "{{ workload.cities }}", iterator: city}
  - {in: "{{ iter.city.hotels }}", iterator: hotel, spec: {mode: parallel}}
  tool: {kind: http, url: x}
"""


def test_an_inner_iteration_sees_the_outer_one_as_its_parent_d85() -> None:
    player = Player(NESTED, kinds())
    player.play("start")
    outer = {"index": 0, "city": {"name": "oslo", "hotels": ["a", "b"]}}
    work = work_of(player.program, player.state, "start#1[0]/body#1[1]")
    assert work.place.iter == {"index": 1, "hotel": "b", "parent": outer}


def test_results_that_are_too_large_are_a_ref_into_the_log_d30() -> None:
    player = Player(
        """
        workload: {items: [1, 2]}
        workflow:
        - step: start
          loop: {in: "{{ workload.items }}", iterator: n}
          tool: {kind: http, url: x}
        """,
        kinds(),
    )
    player.play("start")
    player.play(f'report start#1[0] ok "{"x" * 60_000}"')
    player.play(f'report start#1[1] ok "{"x" * 60_000}"')
    [done] = [event.fact for event in player.log if isinstance(event.fact, facts.LoopDone)]
    locator = {"execution_id": "e", "run": "start#1"}
    ref = {"type": "relational", "locator": locator, "meta": {"count": 2}}
    assert done.output == Output(ref=ref, meta={"count": 2, "succeeded": 2, "failed": 0})


def test_a_loop_is_complete_when_nothing_is_out_and_nothing_is_left() -> None:
    assert is_complete(Loop(count=0, width=1, parallel=False))
    assert is_complete(Loop(count=2, width=1, parallel=False, frontier=2))
    assert is_complete(Loop(count=2, width=1, parallel=False, frontier=1, stopped=True))
    assert not is_complete(Loop(count=2, width=1, parallel=False, frontier=1))
    assert not is_complete(Loop(count=2, width=1, parallel=False, frontier=2, flying={1: None}))
    assert not is_complete(Loop(count=2, width=1, parallel=False, frontier=2, again=[(0, 1)]))
