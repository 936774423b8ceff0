"""Rules, guards and values in words."""

from __future__ import annotations

import pytest

from noetl.net import describe
from noetl.output import JSON
from noetl.playbook.model import Guard, Loop, Policy, Rule, Step


def test_the_braces_of_a_sole_expression_are_left_out() -> None:
    assert describe.expression(" {{ a.b\n  == 1 }} ") == "a.b == 1"
    assert describe.expression("{{ a }}/{{ b }}") == "{{ a }}/{{ b }}"


@pytest.mark.parametrize(
    ("guard", "label"),
    [
        ("event.name == 'step.failed'", "failed"),
        ('event.name == "loop.done"', "loop done"),
        ("output.status == 'error' and ctx.n > 1", "error and ctx.n > 1"),
        ("ctx.something_rather_long > 100", "ctx.something_ra…"),
    ],
)
def test_a_label_says_the_usual_questions_by_a_word_and_cuts_the_rest(guard: str, label: str) -> None:
    assert describe.short_guard(guard, 17 if "rather" in guard else 34) == label


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        ("text", '"text"'),
        ("{{ ctx.x }}", "ctx.x"),
        ([], "[]"),
        ([1, "a"], '[1, "a"]'),
        ([{"a": 1}], "1 item"),
        ([{"a": 1}, {"a": 2}], "2 items"),
        ({}, "{}"),
        ({"a": 1, "b": 2}, "{a, b}"),
        ("x" * 100, '"' + "x" * 58 + "…"),
    ],
)
def test_a_value_is_one_short_line(value: JSON, shown: str) -> None:
    assert describe.value(value) == shown


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "null"), (False, "boolean"), (1, "number"), ("", "text"), ([], "list"), ({}, "mapping")],
)
def test_a_type_has_a_name_that_authors_use(value: JSON, name: str) -> None:
    assert describe.type_of(value) == name


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule(when=None, do="continue", at=()), "else continue"),
        (Rule(when=True, do="fail", at=()), "fail always"),
        (Rule(when="{{ a }}", do="jump", to="b", at=()), "jump to b when a"),
        (Rule(when="{{ a }}", do="fail", message="no {{ b }}", at=()), "fail with no {{ b }} when a"),
        (Rule(when=None, do="fail", message="not found", at=()), 'else fail with "not found"'),
        (Rule(when="{{ a }}", do="break", at=()), "break: leave the pipeline when a"),
        (Rule(when="{{ a }}", do="skip", at=()), "skip the task when a"),
        (Rule(when="{{ a }}", do="retry", at=()), "retry (3 calls in all, immediately) when a"),
        (
            Rule(when=None, do="retry", attempts=10, backoff="exponential", delay=2.0, max_delay=60, at=()),
            "else retry (10 calls in all, exponential from 2 s, at most 60 s)",
        ),
        (
            Rule(when=None, do="retry", attempts="{{ n }}", delay="{{ d }}", jitter=0.2, at=()),
            "else retry ((n) calls in all, after (d) s, ±20 %)",
        ),
        (
            Rule(when=None, do="continue", set={"ctx.a": 1, "iter.b": 2}, at=()),
            "else continue; sets ctx.a, iter.b",
        ),
    ],
)
def test_a_rule_says_what_it_does_and_when(rule: Rule, said: str) -> None:
    """D24: attempts count the first call too, so they are called calls in all."""
    assert describe.rule(rule) == said


def test_rules_without_else_say_what_happens_otherwise() -> None:
    """D22, D23."""
    rule = Rule(when="{{ a }}", do="fail", at=())
    skip = Rule(when="{{ a }}", do="skip", at=())
    otherwise = Rule(when=None, do="continue", at=())
    assert [
        describe.unmatched(None),
        describe.unmatched(Policy(rules=(skip,), at=())),
        describe.unmatched(Policy(rules=(rule, otherwise), at=())),
        describe.unmatched(Policy(rules=(rule,), at=())),
        describe.unmatched(Policy(rules=(rule,), on_unmatched="fail", at=())),
    ] == [None, None, None, "otherwise continue, errors too", "otherwise an error fails, ok continues"]


def test_a_token_waits_where_no_guard_lets_it_in() -> None:
    """D35."""
    assert describe.admission((Guard(when="{{ ctx.open }}", allow=True, at=()),)) == [
        "admit when ctx.open",
        "else wait",
    ]
    assert describe.admission((Guard(when="{{ a }}", allow=False, at=()), Guard(when=None, allow=True, at=()))) == [
        "wait when a",
        "else admit",
    ]
    assert describe.admission(()) == []


def test_a_loop_says_over_what_and_how() -> None:
    parallel = Loop(items="{{ workload.xs }}", iterator="x", mode="parallel", at=())
    folded = Loop(
        items=[1, 2],
        iterator="n",
        mode="parallel",
        max_in_flight=3,
        exec="local",
        reduce={"ctx.t": "sum"},
        at=(),
    )
    assert [describe.loop(each) for each in (Loop(items="{{ a }}", iterator="b", at=()), parallel, folded)] == [
        "for each b in a, sequential",
        "for each x in workload.xs, parallel, 10 at a time",
        "for each n in [1, 2], parallel, 3 at a time, local, ctx.t by sum",
    ]


def test_a_policy_says_limits_of_time_and_what_a_failure_means() -> None:
    step = Step(
        name="s",
        at=(),
        policy={
            "lifecycle": {"timeout_s": 600, "deadline_s": 1.5},
            "failure": {"mode": "best_effort", "tolerate": "25%"},
            "limits": {"calls": 7},
        },
    )
    assert describe.policy(step) == [
        "fails with kind timeout 600 s after a worker has begun it",
        "fails with kind timeout 1.5 s after its token was made",
        "best effort: failed iterations do not stop the others; at most 25% may fail",
        "limit calls: 7",
    ]
    assert describe.policy(Step(name="s", at=(), policy={"failure": {"mode": "fail_fast"}})) == [
        "fail fast: the first failed iteration stops the loop"
    ]
