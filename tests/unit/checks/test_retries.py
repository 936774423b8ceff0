"""Problems of `spec.retry` (D92)."""

from __future__ import annotations

import pytest

from noetl.tool import Tools
from tests.playbooks import checked, problem_places, task

CODES = ("no-effect", "retry-without-attempts", "retry-without-delay")
HTTP = task("kind: http\nurl: x")
NOOP = task("kind: noop")


def http(retry: str, kind: str = "http") -> str:
    return task(f"kind: {kind}\nurl: x\nspec: {{retry: {retry}}}")


def problems(body: str) -> list[tuple[str, int, int]]:
    return problem_places([each for each in checked(body).problems if each.code in CODES])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (http("{delay: 1}"), ("retry-without-attempts", 9, 14)),
        (http("{attempts: 3}"), ("retry-without-delay", 9, 14)),
        (http("{attempts: 3, backoff: linear}"), ("no-effect", 9, 35)),
        (http("{attempts: 3, max_delay: 5}"), ("no-effect", 9, 35)),
        (http("{attempts: 3, delay: 1, on: []}"), ("no-effect", 9, 45)),
        (http("{attempts: 3, delay: 1, on: [timeout, htp]}"), ("no-effect", 9, 59)),
        (http("{attempts: 3, delay: 1, on: [postgres]}"), ("no-effect", 9, 50)),
        ("executor: {spec: {retry: {attempts: 2, delay: 1}}}\n" + NOOP, ("no-effect", 4, 19)),
        ("executor: {spec: {retry: {attempts: 2, delay: 1, on: [postgres]}}}\n" + HTTP, ("no-effect", 4, 55)),
        ("executor: {spec: {retry: {delay: 1}}}\n" + HTTP, ("retry-without-attempts", 4, 19)),
        ("executor: {spec: {retry: {delay: 1}}}\n" + http("{max_delay: 2}"), ("retry-without-attempts", 10, 14)),
        ("workflow:\n- {step: start, spec: {retry: {attempts: 2, delay: 1}}, next: {arcs: [{step: end}]}}\n",
         ("no-effect", 5, 24)),
    ],
)  # fmt: skip
def test_a_retry_that_does_not_do_what_it_says_is_reported(body: str, expected: tuple[str, int, int]) -> None:
    assert problems(body) == [expected]


@pytest.mark.parametrize(
    "body",
    [
        http("{attempts: 3, delay: 1, backoff: exponential, max_delay: 9, on: [http, timeout, validation]}"),
        http("{attempts: 1}"),
        "executor: {spec: {retry: {attempts: 2, delay: 1}}}\n" + HTTP,
        "executor: {spec: {retry: {delay: 1}}}\n" + http("{attempts: 3}"),
        "executor: {spec: {http: {retry: {attempts: 2, delay: 1}}}}\n" + HTTP,
        "executor: {spec: {retry: {attempts: 2, delay: 1, on: [shell]}}}\nworkflow:\n- step: start\n"
        "  tool: [{kind: http, url: x}, {kind: shell, argv: [ls]}]\n",
        "workflow:\n- {step: start, spec: {retry: {attempts: 2, delay: 1}}, tool: {kind: secrets, name: k}}\n"
        "keychain: [{name: k, kind: env}]\n",
    ],
)
def test_a_good_retry_is_not_reported(body: str) -> None:
    assert problems(body) == []


@pytest.mark.parametrize(
    ("retry", "code"),
    [
        ("{attempts: 0}", "bad-value"),
        ("{attempts: 1.5}", "wrong-type"),
        ("{attempts: 3, delay: -1}", "bad-value"),
        ("{attempts: 3, on: http}", "wrong-type"),
        ("{attempts: 3, backoff: slow}", "bad-value"),
        ("{attempts: 3, jitter: 1}", "unknown-key"),
        ('{attempts: "{{ 3 }}"}', "wrong-type"),
    ],
)
def test_a_wrong_value_is_an_error(retry: str, code: str) -> None:
    found = [each for each in checked(http(retry)).problems if each.severity == "error"]
    assert [(each.code, each.at.line) for each in found] == [(code, 9)]


def test_an_unknown_kind_of_failure_has_a_fix() -> None:
    [found] = checked(http("{attempts: 3, delay: 1, on: [timeot]}")).problems
    assert found.fix == "timeout"
    assert found.message.startswith('no task here fails with kind "timeot"; the kinds are http, ')


def test_tools_without_effects_of_their_own_are_not_repeated() -> None:
    kinds = Tools.installed().kinds()
    for name in ("noop", "playbook", "resolve", "wait", "workbook"):
        assert not kinds[name].repeats, name
    for name in ("duckdb", "http", "object", "postgres", "python", "quantum", "secrets", "shell", "sqlite"):
        assert kinds[name].repeats, name
        assert kinds[name].failures is not None, name
