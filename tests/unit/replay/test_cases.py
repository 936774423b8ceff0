"""Tests in YAML: stubs, virtual time, signals, a process that dies, and what a failure says."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from noetl.errors import PlaybookError
from noetl.replay.adapter import Answer, MadeCall
from noetl.replay.stubs import Stub, StubSource
from noetl.testing import run_tests
from tests.unit.replay.suites import failures, results, write_suite

RETRIED = """
- name: a page that fails twice is retried
  workload: {day: 2026-11-16}
  now: 2026-11-16T06:00:00Z
  stubs:
  - {call: fetch.get_page, when: "{{ input.params.page == 2 and call.attempt < 3 }}", fail: {kind: http, status: 503}}
  - {call: fetch.get_page, output: {items: [1, 2], next: "{{ 2 if input.params.page == 1 else none }}"}}
  - {call: store, output: {rows: "{{ ctx.total }}", url: "{{ workload.day }}"}}
  expect:
    status: ok
    route: [start, fetch, store]
    route_contains: [start, store]
    output: {rows: 4}
    output_equals: {rows: 4, url: "2026-11-16"}
    ctx: {total: 4}
    calls: {fetch.get_page: 4, store: 1}
    retries: {fetch.get_page: 2, fetch: 2}
    duration_s: {min: 180, max: 181}
"""


def test_the_test_of_the_contract_passes(tmp_path: Path) -> None:
    assert failures(tmp_path, RETRIED) == []


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("status: error", "status: expected error, got ok"),
        ("route: [start, store]", "route: expected start → store, got start → fetch → store"),
        ("route_contains: [store, fetch]", "route_contains: expected store → fetch, got start → fetch → store"),
        ("output: {rows: 5}", "output.rows: expected 5, got 1"),
        ("output: {row: 1}", "output.row: expected 1, got no such key; the keys are rows, list"),
        ("output: {rows: true}", "output.rows: expected true, got 1"),
        ("output: {list: [1]}", "output.list: expected 1 items: [1], got 2 items: [1,2]"),
        ("output: {list: [1, 3]}", "output.list[1]: expected 3, got 2"),
        ("output_equals: {rows: 1}", "output.list: expected no such key, got [1,2]"),
        ("ctx: {total: 2}", "ctx.total: expected 2, got 1"),
        ("calls: {fetch.get_page: 2}", "calls of fetch.get_page: expected 2, got 1"),
        ("retries: {fetch: 1}", "retries of fetch: expected 1, got 0"),
        ("duration_s: {min: 1}", "duration_s: expected at least 1, got 0"),
        ("error: {kind: http}", 'error: expected {"kind":"http"}, got null'),
    ],
)
def test_a_failure_says_what_was_expected_and_what_happened(tmp_path: Path, expect: str, said: str) -> None:
    tests = f"""
    - name: one page
      stubs:
      - {{call: fetch, output: {{items: [7], next: null}}}}
      - {{call: store, output: {{rows: 1, list: [1, 2]}}}}
      expect: {{{expect}}}
    """
    assert failures(tmp_path, tests) == [said]


def test_a_call_without_an_answer_fails_the_test_even_if_the_playbook_handles_it(tmp_path: Path) -> None:
    tests = """
    - name: no stub
      workload: {day: monday}
      expect: {status: ok, route: [start, fetch, alarm]}
    """
    [said] = failures(tmp_path, tests)
    assert said.startswith("fetch.get_page: expected a stub or a recorded call, got call 1 in fetch#1 has none")
    assert "https://shop.invalid/monday" in said


def test_misses_may_be_null_or_live(tmp_path: Path) -> None:
    tests = """
    - name: "null"
      on_miss: "null"
      stubs: [{call: fetch, output: {items: []}}]
      expect: {calls: {store: 1}, output_equals: null}
    - name: also null
      on_miss: null
      stubs: [{call: fetch, output: {items: []}}]
      expect: {output_equals: null}
    - name: live
      on_miss: live
      stubs: [{call: fetch, output: {items: []}}]
      expect: {status: ok, output: "0"}
    - name: one call is live
      stubs: [{call: fetch, output: {items: [1]}}, {call: store, live: true}]
      expect: {output: "1"}
    """
    found = results(tmp_path, tests)
    assert [str(each) for result in found for each in result.mismatches] == []
    assert [result.calls[-1].answer for result in found] == ["missing", "missing", "live", "live"]


def test_a_failure_has_the_fields_that_rules_read(tmp_path: Path) -> None:
    playbook = """
    workflow:
    - step: start
      tool:
        kind: http
        url: https://shop.invalid
        spec:
          policy:
            rules:
            - when: "{{ output.http.status == 409 and output.error.details.code == 7 and not output.error.retryable }}"
              then: {do: fail, message: "conflict {{ output.data.id }}"}
            - else: {then: {do: continue}}
    """
    tests = """
    - name: a conflict
      stubs: [{call: start, fail: {status: 409, details: {code: 7}}, output: {id: 5}}]
      expect: {status: error, error: {kind: rule, message: conflict 5}}
    - name: a success has a status
      stubs: [{call: start, own: {http: {headers: {etag: x}}}, output: {}}]
      expect: {status: ok}
    """
    assert failures(tmp_path, tests, playbook) == []


def test_tries_of_spec_retry_are_attempts(tmp_path: Path) -> None:
    playbook = """
    workflow:
    - step: start
      tool: {kind: http, url: https://shop.invalid, spec: {retry: {attempts: 3, delay: 30}}}
    """
    tests = """
    - name: the third try succeeds
      stubs:
      - {call: start, when: "{{ call.attempt < 3 }}", fail: {kind: timeout}}
      - {call: start, output: 1}
      expect: {status: ok, calls: {start: 3}, retries: {start: 2}, duration_s: {min: 60}}
    """
    assert failures(tmp_path, tests, playbook) == []


WAITS = """
workflow:
- step: start
  tool: {kind: wait, seconds: 259200}
  next: {arcs: [{step: approve}]}
- step: approve
  tool: {kind: wait, signal: approval}
"""


def test_waits_take_no_time_and_signals_arrive(tmp_path: Path) -> None:
    tests = """
    - name: three days
      signals: {approval: {ok: true}}
      expect: {status: ok, output: {ok: true}, duration_s: {min: 259200, max: 259200}}
    - name: it waits for a signal
      expect: {status: waiting}
    - name: a missing signal is named
    """
    assert failures(tmp_path, tests, WAITS) == [
        'status: expected ok, got waiting: no signal "approval" is given under `signals`'
    ]


def test_a_process_dies_and_another_one_continues(tmp_path: Path) -> None:
    tests = """
    - name: the second page is fetched again, the first is not
      stubs:
      - {call: fetch, output: {items: [1], next: "{{ input.params.page + 1 if input.params.page < 3 else none }}"}}
      - {call: store, output: {}}
      kill_after: {call: fetch.get_page, number: 2}
      expect: {ctx: {total: 3}, calls: {fetch.get_page: 4}}
    - name: too few calls
      stubs: [{call: fetch, output: {items: []}}, {call: store, output: {}}]
      kill_after: {call: fetch, number: 7}
    """
    assert failures(tmp_path, tests) == ["kill_after: expected call 7 of fetch, got there are fewer than 7 calls of it"]


def test_a_child_runs_from_the_file_beside_its_parent(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: c, path: shop/child}\nworkload: {n: 0}\n"
        "workflow:\n- step: start\n  tool: {kind: http, url: 'https://shop.invalid/{{ workload.n }}'}\n"
    )
    playbook = """
    workflow:
    - step: begin
      tool: {kind: playbook, path: %s, input: {n: 3}}
    executor: {spec: {entry_step: begin}}
    """
    tests = """
    - name: its call is stubbed by its own step
      stubs: [{call: start, output: "{{ input.url }}"}]
      expect: {output: "https://shop.invalid/3"}
    """
    for path in ("child.yaml", "shop/child"):
        assert failures(tmp_path, tests, playbook % path) == []


def test_keychain_entries_have_placeholders(tmp_path: Path) -> None:
    playbook = """
    keychain:
    - {name: shop, kind: bearer, token: {env: NO_SUCH_VARIABLE_HERE}}
    workflow:
    - step: start
      tool: {kind: http, url: "https://shop.invalid", headers: {X-Key: "{{ keychain.shop }}"}, auth: shop}
    """
    tests = """
    - name: no secret is needed
      stubs: [{call: start, output: "{{ input.headers['X-Key'] }}"}]
      expect: {status: ok, output: "***"}
    """
    assert failures(tmp_path, tests, playbook) == []


def test_now_is_the_time_of_the_test(tmp_path: Path) -> None:
    playbook = """
    workflow:
    - step: start
      tool: {kind: noop, input: {day: "{{ today() }}", at: "{{ now() }}"}}
    """
    tests = """
    - name: a leap day
      now: 2028-02-29T23:59:58+01:00
      expect: {output: {day: "2028-02-29"}}
    """
    assert failures(tmp_path, tests, playbook) == []


ITERATIONS = """
workflow:
- step: start
  loop: {in: "{{ range(12) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}
  tool: {name: get, kind: http, url: "https://shop.invalid/{{ iter.n }}"}
  set: {ctx.items: "{{ output.data }}"}
"""
BY_ITERATION = """
- name: each iteration has its own answer
  stubs:
  - {call: start.get, when: "{{ iter.n % 5 == 2 }}", output: "page {{ iter.n }}"}
  - {call: start.get, when: "{{ iter.index == 11 }}", output: last}
  - {call: start.get, output: "{{ iter.n * 10 }}"}
  expect: {ctx: {items: [0, 10, page 2, 30, 40, 50, 60, page 7, 80, 90, 100, last]}}
"""


class WrongIteration(StubSource):
    """A planted bug: iterations that are called later get the answer of one that was called before."""

    def __init__(self, stubs: Sequence[Stub]) -> None:
        super().__init__(stubs)
        self._known: dict[str, Answer | None] = {}

    async def answer(self, call: MadeCall) -> Answer | None:
        if call.number % 4 or call.name not in self._known:
            self._known[call.name] = await super().answer(call)
        return self._known[call.name]


def test_a_stub_that_answers_for_the_wrong_iteration_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(tmp_path, BY_ITERATION, ITERATIONS) == []
    monkeypatch.setattr("noetl.replay.cases.StubSource", WrongIteration)
    said = failures(tmp_path, BY_ITERATION, ITERATIONS)
    assert said
    assert all(each.startswith("ctx.items") for each in said)


def test_nothing_connects_to_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("a test has used the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert failures(tmp_path, RETRIED) == []


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("- {name: a, stubz: []}", '3:15: unknown-key: test has no key "stubz"; did you mean "stubs"?'),
        ("- {workload: {}}", '3:5: missing-key: test needs "name": what the test shows'),
        ("- {name: a}\n- {name: a}", '4:12: bad-value: two tests have the name "a"'),
        ("- {name: a, now: noon}", '3:20: bad-value: "noon" is not a time: write 2026-11-16T06:00:00Z'),
        ("- {name: a, on_miss: stop}", '3:24: bad-value: "stop" is not one of "fail", "null", "live"'),
        (
            "- {name: a, stubs: [{call: fetch}]}",
            "3:23: missing-key: a stub needs an answer: `output`, `fail` or `live: true`",
        ),
        (
            "- {name: a, stubs: [{call: fetch, live: true, output: 1}]}",
            "3:43: bad-value: a call that is made has its own output: remove the other",
        ),
        (
            "- {name: a, stubs: [{call: fetch.getpage, output: 1}]}",
            '3:30: unknown-task: the playbook has no call "fetch.getpage"; did you mean "fetch.get_page"?',
        ),
        (
            "- {name: a, expect: {route: [start, fetsh]}}",
            '3:39: unknown-step: the playbook has no step "fetsh"; did you mean "fetch"?',
        ),
        (
            "- {name: a, expect: {calls: {stor: 1}}}",
            '3:32: unknown-task: the playbook has no call "stor"; did you mean "store"?',
        ),
        (
            "- {name: a, stubs: [{call: fetch, when: 'a {{ 1 }}', output: 1}]}",
            "3:43: not-a-guard: `when` is one template: text around it would always be true",
        ),
        ("- {name: a, cassette: x.yaml}", '3:25: bad-value: there is no file "'),
    ],
)
def test_problems_of_a_test_file_have_their_place(tmp_path: Path, tests: str, problem: str) -> None:
    file = write_suite(tmp_path, tests)
    with pytest.raises(PlaybookError) as raised:
        run_tests(file)
    [found] = raised.value.problems
    assert f"{found.line}:{found.column}: {found.code}: {found.message}".startswith(problem)


def test_a_playbook_with_errors_is_reported_with_its_own_file(tmp_path: Path) -> None:
    file = write_suite(tmp_path, "- {name: a}", "workflow: [{step: start, tool: {kind: noo}}]")
    with pytest.raises(PlaybookError) as raised:
        run_tests(file)
    assert raised.value.problems[0].at.file == str(tmp_path / "orders.yaml")


def test_one_test_is_run_by_its_name(tmp_path: Path) -> None:
    file = write_suite(
        tmp_path, "- {name: a, stubs: [{call: fetch, output: {items: []}}], on_miss: 'null'}\n- {name: b}"
    )
    [result] = run_tests(file, "a")
    assert (result.name, result.passed, result.route) == ("a", True, ("start", "fetch", "store"))
    with pytest.raises(LookupError, match='no test "c": its tests are a, b'):
        run_tests(file, "c")
