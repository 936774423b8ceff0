"""A written playbook reads back the same, and strings stay strings."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.output import JSON
from noetl.playbook.reader import read
from noetl.playbook.source import parse, plain
from noetl.playbook.write import document, emit, write
from tests.playbooks import kinds, reading


@pytest.mark.parametrize(
    "value",
    [
        "on",
        "010",
        "1e3",
        "null",
        "~",
        "",
        "<<",
        "- a",
        "a: b",
        "#c",
        "x #c",
        "two\nlines",
        "  lead\nx",
        "tab\t",
        "\u2028",
        "é",
        "!",
        "&",
        "*",
    ],
)
def test_a_string_stays_that_string(value: str) -> None:
    assert plain(parse(emit({"k": [value], value or "x": 1})).document.root) == {
        "k": [value],
        value or "x": 1,
    }


def test_text_that_reads_as_a_number_is_quoted_beside_its_like() -> None:
    assert emit({"00": 1, "11": "010", "12:30": "2nd"}) == '"00": 1\n"11": "010"\n"12:30": 2nd\n'


@pytest.mark.parametrize("value", [None, True, 0, -1, 2**63 - 1, 1.5, 1e300, 5e-324, [], {}, [[], {}]])
def test_a_value_keeps_its_type(value: JSON) -> None:
    found = plain(parse(emit({"k": value})).document.root)
    assert found == {"k": value}
    assert type(found["k"]) is type(value)


def test_the_canonical_document_has_one_form_for_everything() -> None:
    playbook = reading("""\
        workflow:
        - step: start
          tool: {kind: http, url: x}
          next: {spec: {mode: exclusive}, arcs: [{step: end}]}
        """).playbook
    assert playbook is not None
    assert document(playbook)["workflow"] == [
        {
            "step": "start",
            "tool": [{"name": "start_task", "kind": "http", "input": {"url": "x"}}],
            "next": {"arcs": [{"step": "end"}]},
        }
    ]
    assert write(playbook).startswith("apiVersion: noetl.io/v2\nkind: Playbook\n")


def test_a_rule_that_states_its_error_is_written_back_d105() -> None:
    rules = "[{else: {then: {do: fail, message: 'no {{ ctx.a }}', details: {a: '{{ ctx.a }}'}}}}]"
    playbook = reading(
        f"workflow:\n- step: start\n  tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"
    ).playbook
    assert playbook is not None
    again = read(write(playbook), kinds(), "t.yaml")
    assert again.problems == []
    assert again.playbook is not None
    assert document(again.playbook) == document(playbook)
    assert document(playbook)["workflow"][0]["tool"][0]["spec"]["policy"]["rules"] == [
        {"else": {"then": {"do": "fail", "message": "no {{ ctx.a }}", "details": {"a": "{{ ctx.a }}"}}}}
    ]


def test_a_compensation_is_written_with_the_settings_of_its_step_d116() -> None:
    playbook = reading("""\
        workflow:
        - step: start
          spec: {timeout: 5, pool: gpu}
          tool: {kind: http, url: x}
          compensate:
            desc: Gives it back
            tool: {kind: http, url: y, method: DELETE}
            spec: {timeout: 9, policy: {lifecycle: {timeout_s: 60}}}
        """).playbook
    assert playbook is not None
    (step,) = document(playbook)["workflow"]
    assert step["compensate"] == {
        "desc": "Gives it back",
        "spec": {"policy": {"lifecycle": {"timeout_s": 60}}, "timeout": 9, "pool": "gpu"},
        "tool": [{"name": "compensate_task", "kind": "http", "input": {"url": "y", "method": "DELETE"}}],
    }
    again = read(write(playbook), kinds()).playbook
    assert again is not None
    assert document(again) == document(playbook)


def test_triggers_are_written_back_d112() -> None:
    playbook = reading("""\
        keychain: [{name: shop_key, kind: env, variable: SHOP_KEY}]
        triggers:
        - {name: nightly, kind: cron, cron: "0 6 * * 1-5", timezone: Europe/Zurich, jitter_s: 30, workload: {day: 1}}
        - {name: poll, kind: interval, every_s: 60, catchup: none}
        - name: order
          kind: webhook
          path: orders/new
          verify: {hmac: {secret: shop_key, header: X-Sign}}
          key: "{{ request.headers['x-delivery'] }}"
        - {name: ping, kind: webhook, path: ping, verify: {token: shop_key}}
        - {name: events, kind: nats, subject: "shop.>"}
        workflow:
        - step: start
          tool: {kind: noop}
        """).playbook
    assert playbook is not None
    again = read(write(playbook), kinds()).playbook
    assert again is not None
    assert [replace(each, at=()) for each in again.triggers] == [replace(each, at=()) for each in playbook.triggers]
    assert len(again.triggers) == 5
