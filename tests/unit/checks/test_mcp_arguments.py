"""The arguments of `mcp` tasks, compared with the saved schema of the tool."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from tests.playbooks import HEAD, kinds

SCHEMA = "{type: object, properties: {query: {type: string}, limit: {type: integer, maximum: 9}}, required: [query], additionalProperties: false}"


def messages(arguments: str, schema: str = SCHEMA, *, nested: bool = False) -> list[str]:
    fields = f"url: https://a.example/mcp, tool: search, arguments: {arguments}, schema: {schema}"
    task = f"{{kind: mcp, input: {{{fields}}}}}" if nested else f"{{kind: mcp, {fields}}}"
    text = HEAD + f"workload: {{n: 1}}\nworkflow:\n- step: start\n  tool: {task}\n"
    return [each.message for each in check(text, kinds()).problems if each.severity == "error"]


@pytest.mark.parametrize("nested", [False, True])
def test_arguments_that_do_not_fit_are_errors(nested: bool) -> None:
    assert messages("{query: a, limit: 3}", nested=nested) == []
    assert messages("{limit: 3}", nested=nested) == ['the tool "search" requires the argument "query"']
    assert messages("{query: a, limit: ten}", nested=nested) == [
        'the argument "limit" of the tool "search" does not fit: expected an integer, got text'
    ]
    assert messages("{query: a, limt: 3}", nested=nested) == ['the tool "search" has no argument "limt"']


def test_values_of_templates_and_unknown_keywords_are_left_to_the_server() -> None:
    assert messages('{query: "{{ workload.n }}", limit: "{{ workload.n }}"}') == []
    assert messages("{a: 1}", "{properties: {a: {type: string, x-special: 1}}}") == []
    assert messages("{a: 1, b: 2}", "{type: object}") == []
    assert messages("{a: 1}", "{type: 7, properties: 8, required: 9}") == []
