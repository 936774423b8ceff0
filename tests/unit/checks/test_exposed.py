"""Playbooks that are tools for agents."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.playbook.exposed import tool_name
from tests.playbooks import HEAD, kinds

BODY = "workflow: [{step: start, tool: {kind: noop}}]\n"


def codes(metadata: str, body: str = "") -> list[str]:
    return [each.code for each in check(HEAD.replace("path: t", metadata) + body + BODY, kinds()).problems]


def test_a_tool_needs_typed_inputs_and_a_free_name() -> None:
    inputs = "input: {day: {type: date}}\n"
    assert codes("path: shop/orders, expose_as_tool: true", inputs) == []
    assert codes("path: shop/orders, expose_as_tool: true") == ["missing-key"]
    assert codes("path: what/if, expose_as_tool: true", inputs) == ["tool-name"]
    assert codes(f"path: {'a' * 65}, expose_as_tool: true", inputs) == ["tool-name"]
    assert codes("path: run") == codes("path: run, expose_as_tool: false") == []


@pytest.mark.parametrize(("path", "name"), [("shop/orders", "shop_orders"), ("a.b/c d-é", "a_b_c_d-_")])
def test_the_name_of_a_tool(path: str, name: str) -> None:
    assert tool_name(path) == name
