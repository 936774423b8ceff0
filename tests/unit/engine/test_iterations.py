"""The results of a loop, read from the log: small ones, stored ones, blocks, failures and retries (D30, D69)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noetl.engine.facts import Fact, TaskDone
from noetl.engine.loops import Iterations, iteration_outputs, lineage
from noetl.output import JSON, Output
from noetl.testing.scenario import played
from tests.playbooks import kinds

REF: dict[str, JSON] = {"type": "blob", "locator": {"key": "e/1"}}


def log_of(scenario: str) -> list[Fact]:
    return [event.fact for event in played(scenario, kinds()).log]


def data_of(log: list[Fact], run: str) -> list[JSON]:
    return [None if output is None else output.data for _, output in iteration_outputs(log, run)]


FAILING = """\
playbook
  workflow:
  - step: start
    loop: {in: [a, b, c], iterator: item, spec: {mode: parallel}}
    tool:
    - {name: one, kind: http, url: x}
    - {name: two, kind: http, url: y}

start

report start#1[0] ok "one of 0"

report start#1[0] ok "two of 0"

report start#1[1] ok "one of 1"

report start#1[2] error down

report start#1[1] error down
"""
RETRIED = (
    FAILING
    + """
retry

report start#2[1] ok "two of 1"

report start#2[2] error down

retry

report start#3[2] ok "one of 2"

report start#3[2] ok "two of 2"
"""
)


def test_failed_iterations_have_none_d30() -> None:
    assert data_of(log_of(FAILING), "start#1") == ["two of 0", None, None]


def test_a_retry_has_what_it_inherits_and_what_it_did_itself_d69() -> None:
    log = log_of(RETRIED)
    assert data_of(log, "start#3") == ["two of 0", "two of 1", "two of 2"]
    assert data_of(log, "start#2") == ["two of 0", "two of 1", None]
    assert data_of(log, "start#1") == ["two of 0", None, None]


def test_a_run_knows_whom_it_takes_up_d69() -> None:
    assert lineage(log_of(RETRIED), "start#3") == {"start#1", "start#2", "start#3"}


def test_some_may_be_asked_for() -> None:
    found = iteration_outputs(log_of(RETRIED), "start#3", range(1, 2))
    assert list(found) == [(1, Output(data="two of 1"))]


def test_an_iteration_whose_output_is_stored_gives_its_ref_d30() -> None:
    def stored(log: list[Fact]) -> Iterator[Fact]:
        for fact in log:
            by_ref = isinstance(fact, TaskDone) and fact.output == Output(data="two of 1")
            yield replace(fact, output=Output(ref=REF)) if by_ref else fact

    assert dict(iteration_outputs(list(stored(log_of(RETRIED))), "start#3"))[1] == Output(ref=REF)


def test_an_iteration_that_takes_up_and_skips_the_rest_has_what_it_had_before_d69() -> None:
    log = log_of("""\
playbook
  workload: {}
  workflow:
  - step: start
    loop: {in: [a], iterator: item}
    tool:
    - {name: one, kind: http, url: x, set: {iter.seen: true}}
    - name: two
      kind: http
      url: y
      set: {ctx.n: 1}
      spec: {policy: {rules: [{when: "{{ ctx.tried | default(false) }}", then: {do: skip}},
        {when: "{{ output.status == 'error' }}", then: {do: fail, set: {ctx.tried: true}}},
        {else: {then: {do: continue}}}]}}

start

report start#1[0] ok "one"

report start#1[0] error down

retry
""")
    assert data_of(log, "start#2") == ["one"]


def test_iterations_that_end_with_a_block_have_what_the_block_gave_d30() -> None:
    log = log_of("""\
playbook
  workflow:
  - step: start
    loop:
    - {in: [1, 2], iterator: a, spec: {mode: parallel}}
    - {in: [3, 4], iterator: b, spec: {mode: parallel}}
    tool: {kind: noop, input: {n: "{{ iter.parent.a * iter.b }}"}}

start
""")
    assert data_of(log, "start#1") == [[{"n": 3}, {"n": 4}], [{"n": 6}, {"n": 8}]]
    assert data_of(log, "start#1[1]/body#1") == [{"n": 6}, {"n": 8}]


def test_all_skipped_is_null_and_an_error_that_was_continued_keeps_its_data_d30() -> None:
    log = log_of("""\
playbook
  workflow:
  - step: start
    loop: {in: [0, 1], iterator: n}
    tool:
      kind: http
      url: x
      spec: {policy: {rules: [{when: "{{ iter.n == 0 }}", then: {do: skip}}, {else: {then: {do: continue}}}]}}

start

report start#1[1] error down
""")
    [(_, first), (_, second)] = iteration_outputs(log, "start#1")
    assert first == Output()
    assert second is not None
    assert (second.status, second.error and second.error.kind) == ("ok", "down")


def test_a_loop_that_starts_again_after_a_conflict_inherits_nothing_d47() -> None:
    log = log_of("""\
playbook
  workflow:
  - step: start
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: http, url: x, set: {ctx.n: "{{ output.data }}"}}

start

report start#1[0] ok 1

report start#1[1] ok 2

retry

report start#2[1] ok 3
""")
    assert data_of(log, "start#1") == [1, 2]
    assert data_of(log, "start#2") == [None, 3]


def test_a_run_that_is_no_loop_has_no_iterations() -> None:
    assert list(Iterations("start#9", frozenset({"start#9"})).outputs()) == []
