"""Who holds a join: steps as bits, computed from what there is, not from what there was."""

from __future__ import annotations

from noetl.engine.admission import over_limit, reach
from noetl.engine.facts import Finished
from noetl.output import Failure
from noetl.testing.scenario import Player
from tests.playbooks import kinds

BODY = """
workflow:
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- step: a
  tool: {kind: http, url: x}
  next: {arcs: [{step: done}]}
- step: b
  next: {arcs: [{step: a, when: "{{ ctx.again is defined }}"}]}
- step: done
  spec: {policy: {admit: {join: all}}}
"""


def test_a_step_reaches_what_its_arcs_lead_to_and_not_itself() -> None:
    program = Player(BODY, kinds()).program
    bits = program.bits
    assert reach(program, []) == 0
    assert reach(program, ["a"]) == bits["done"]
    assert reach(program, ["b"]) == bits["a"] | bits["done"]
    assert reach(program, ["done", "a"]) == bits["done"]


def test_many_tokens_come_to_a_join_and_are_spent_at_once_d36() -> None:
    arcs = ", ".join(["{step: done}"] * 300)
    body = f"""
    workflow:
    - step: start
      next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}
    - step: done
      spec: {{policy: {{admit: {{join: all}}}}}}
    """
    player = Player(body, kinds())
    player.play("start")
    assert (player.state.status, player.state.firings) == ("ok", {"start": 1, "done": 1})
    assert player.state.joins == {}


def test_a_limit_says_its_name_d70() -> None:
    program = Player(BODY, kinds()).program
    message = "10,001 tokens; the limit is limits.tokens (10,000)"
    error = Failure(kind="limit", message=message, details={"limit": "tokens"})
    assert over_limit(program, "tokens", 10_001) == Finished(status="error", error=error)
