"""Limits that executions share (D113): what is reported, written back and explained."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.playbook.reader import read
from noetl.playbook.write import document, write
from noetl.views.explain import explain
from tests.playbooks import HEAD, kinds


def _text(concurrency: str = "", step: str = "", task: str = "") -> str:
    text = HEAD
    if concurrency:
        text += f"executor: {{spec: {{policy: {{concurrency: {concurrency}}}}}}}\n"
    text += "workload: {account: a}\nworkflow:\n- step: start\n"
    if step:
        text += f"  spec: {{policy: {{limit: {step}}}}}\n"
    policy = f", spec: {{policy: {{{task}}}}}" if task else ""
    return text + f"  tool: {{name: call, kind: noop{policy}}}\n"


SOUND = _text(
    '{key: "{{ workload.account }}", limit: 2, when_full: replace}',
    '{key: "shop {{ workload.account }}", in_flight: 3}',
    "limit: {key: api, rate: {count: 10, per_s: 0.5}, respect_retry_after: true}",
)


def test_limits_are_accepted_and_written_back() -> None:
    checked = check(SOUND, kinds())
    assert [problem for problem in checked.problems if problem.severity != "info"] == []
    playbook = read(SOUND, kinds()).playbook
    assert playbook is not None
    again = read(write(playbook), kinds()).playbook
    assert again is not None
    assert document(again) == document(playbook)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (_text("{limit: 0}"), "bad-value", "at least 1"),
        (_text("{key: a}"), "missing-key", 'concurrency needs "limit"'),
        (_text("{limit: 1, when_full: wait}"), "bad-value", '"queue", "refuse", "replace"'),
        (_text('{key: "{{ input.x }}", limit: 1}'), "not-in-scope", '"input" does not exist in the key'),
        (_text('{key: "{{ keychain.x }}", limit: 1}'), "secret-in-log", "would be written to the log"),
        (_text(step="{in_flight: 1}"), "missing-key", 'limit needs "key"'),
        (_text(step="{key: a}"), "missing-key", 'a limit needs "in_flight" or "rate"'),
        (_text(step="{key: a, in_flight: 0}"), "bad-value", "at least 1"),
        (_text(step="{key: a, in_flight: 1, wait: 3}"), "unknown-key", "wait"),
        (_text(step="{key: a, rate: {count: 1}}"), "missing-key", 'rate needs "per_s"'),
        (_text(step="{key: a, rate: {count: 1, per_s: 0}}"), "bad-value", "at least 0.001"),
        (
            _text(step='{key: "{{ iter.x }}", in_flight: 1}'),
            "not-in-scope",
            '"iter.x": a limit of a step counts its runs',
        ),
        (_text(step='{key: "{{ output.x }}", in_flight: 1}'), "not-in-scope", '"output" does not exist'),
        (_text(task="limit: {key: a}"), "missing-key", 'a limit needs "in_flight" or "rate"'),
        (_text(task='limit: {key: "{{ output.x }}", in_flight: 1}'), "not-in-scope", '"output" does not exist'),
        (_text(task="on_unmatched: fail"), "missing-key", 'a policy needs "rules" or "limit"'),
    ],
)
def test_mistakes_are_reported(text: str, code: str, message: str) -> None:
    found = [(problem.code, problem.message) for problem in check(text, kinds()).problems]
    assert any(each == code and message in words for each, words in found), found


def test_limits_are_explained() -> None:
    program = check(SOUND, kinds()).program
    assert program is not None
    explained = explain(program, kinds())
    assert (
        explained.concurrency
        == "at most 2 executions at once for the key workload.account; a new one cancels the oldest"
    )
    assert explained.steps[0].policy == (
        "at most 3 runs at once for the key shop {{ workload.account }}, across all executions",
    )
    assert explained.steps[0].tasks[0].rules == (
        'at most 10 calls in 0.5 s for the key "api", across all executions; respects Retry-After',
    )
