"""Loops: what an iteration sees, and what a finished loop gives back when it is large."""

from __future__ import annotations

import hashlib

from noetl.engine import facts
from noetl.engine.loops import is_complete
from noetl.engine.moves import work_of
from noetl.engine.state import LoopState
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
    assert done.output == Output(ref=REF, meta={"count": 2, "succeeded": 2, "failed": 0})


META = {"content_type": "application/json", "count": 2}
REF = {"type": "relational", "locator": {"execution_id": "e", "run": "start#1"}, "meta": META}


def ended(after: str, data: str) -> tuple[facts.LoopDone, facts.NextEvaluated]:
    """A loop over two items that gives back this twice: its end, and what follows of it."""
    player = Player(
        f"""
        workload: {{items: [1, 2]}}
        workflow:
        - step: start
          loop: {{in: "{{{{ workload.items }}}}", iterator: n}}
          tool: {{kind: http, url: x}}
          {after}
        - {{step: b, tool: {{kind: noop}}}}
        """,
        kinds(),
    )
    player.play("start")
    player.play(f'report start#1[0] ok "{data}"')
    player.play(f'report start#1[1] ok "{data}"')
    [done] = [event.fact for event in player.log if isinstance(event.fact, facts.LoopDone)]
    routed = next(event.fact for event in player.log if isinstance(event.fact, facts.NextEvaluated))
    return done, routed


def test_who_reads_the_ref_of_a_loop_has_one_whatever_the_size_d51() -> None:
    known = {"bytes": 9, "sha256": hashlib.sha256(b'["x","x"]').hexdigest()}  # of data that control has
    for data, kept, more in (("x", ["x", "x"], known), ("x" * 60_000, None, {})):
        done, routed = ended('set: {ctx.rows_ref: "{{ output.ref }}"}', data)
        ref = {**REF, "meta": {**META, **more}}
        assert (done.output.ref, done.output.data, routed.set) == (ref, kept, {"ctx.rows_ref": ref})
    assert ended('set: {ctx.n: "{{ output.data | length }}"}', "x")[0].output.ref is None


def test_who_reads_the_data_of_a_loop_that_is_too_large_is_told_and_not_given_null_d30() -> None:
    words = "the results of the loop are too large to be output.data; fold what you need by loop.spec.policy.reduce"
    for after, place in (
        ('set: {ctx.n: "{{ output.data | default([]) | length }}"}', 'ctx.n in set of "start"'),
        ('next: {arcs: [{step: b, when: "{{ output.data }}"}]}', 'when of arc 1 of "start"'),
    ):
        assert ended(after, "x")[1].error is None
        _, routed = ended(after, "x" * 60_000)
        assert routed.error is not None
        assert (routed.error.kind, routed.tokens) == ("payload-too-large", ())
        assert routed.error.message.startswith(f"{place}: ")
        assert words in routed.error.message


def test_a_loop_is_complete_when_nothing_is_out_and_nothing_is_left() -> None:
    assert is_complete(LoopState(count=0, width=1, parallel=False))
    assert is_complete(LoopState(count=2, width=1, parallel=False, frontier=2))
    assert is_complete(LoopState(count=2, width=1, parallel=False, frontier=1, stopped=True))
    assert not is_complete(LoopState(count=2, width=1, parallel=False, frontier=1))
    assert not is_complete(LoopState(count=2, width=1, parallel=False, frontier=2, flying={1: None}))
    assert not is_complete(LoopState(count=2, width=1, parallel=False, frontier=2, again=[(0, 1)]))
