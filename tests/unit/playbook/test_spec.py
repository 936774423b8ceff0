"""Spec layering is a pure function."""

from __future__ import annotations

from noetl.playbook.spec import EffectiveSpec, effective_spec, merge
from tests.playbooks import kinds, reading


def of_start(body: str) -> EffectiveSpec:
    playbook = reading(body).playbook
    assert playbook is not None
    step = playbook.steps[0]
    return effective_spec(playbook, step, step.tasks[0], kinds())


def test_scalars_inner_wins_maps_merge_deep_lists_replace_d60() -> None:
    outer = {"a": 1, "m": {"x": 1, "y": {"p": 1}}, "l": [1, 2]}
    inner = {"a": 2, "m": {"y": {"q": 2}}, "l": [3]}
    assert merge(outer, inner) == {"a": 2, "m": {"x": 1, "y": {"p": 1, "q": 2}}, "l": [3]}
    assert outer == {"a": 1, "m": {"x": 1, "y": {"p": 1}}, "l": [1, 2]}


def test_task_beats_loop_beats_step_beats_executor_beats_kind_d60() -> None:
    found = of_start("""\
        executor: {spec: {timeout: {connect: 1, read: 1, total: 1}, result: {inline_max_bytes: 1}}}
        workflow:
        - step: start
          spec: {timeout: {read: 2, total: 2}}
          loop: {in: [1], iterator: i, spec: {timeout: {total: 3}}}
          tool: {kind: http, url: x, spec: {redirects: 4}}
        """)
    assert found.values == {
        "timeout": {"connect": 1, "read": 2, "total": 3},
        "redirects": 4,
        "verify": True,
        "result": {"inline_max_bytes": 1},
    }
    assert found.origin == {
        "timeout.connect": "executor.spec",
        "timeout.read": "step.spec",
        "timeout.total": "loop.spec",
        "redirects": "task.spec",
        "verify": "kind defaults",
        "result.inline_max_bytes": "executor.spec",
    }


def test_general_settings_override_those_of_the_kind_on_the_same_level_d63() -> None:
    found = of_start("""\
        executor: {spec: {http: {timeout: 9}, shell: {timeout: 99}}}
        workflow:
        - step: start
          spec: {http: {timeout: 5, redirects: 1}, timeout: 6}
          tool: {kind: http, url: x}
        """)
    assert found.values["timeout"] == 6
    assert found.origin["timeout"] == "step.spec"
    assert found.values["redirects"] == 1
    assert found.origin["redirects"] == "step.spec.http"
    assert "shell" not in found.values


def test_executor_policy_feeds_the_layering_d64() -> None:
    found = of_start("""\
        executor: {spec: {policy: {defaults: {timeouts: 7}, limits: {max_payload_bytes: 10}}}}
        workflow:
        - step: start
          tool: {kind: noop}
        """)
    assert found.values == {"timeout": 7, "result": {"inline_max_bytes": 10}}
    assert set(found.origin.values()) == {"executor.spec.policy"}


def test_policy_and_modes_are_not_inherited() -> None:
    found = of_start("""\
        workflow:
        - step: start
          spec: {policy: {lifecycle: {timeout_s: 1}}}
          loop: {in: [1], iterator: i, spec: {mode: parallel, max_in_flight: 2}}
          tool: {kind: noop, spec: {policy: {rules: []}}}
        """)
    assert found.values == {}
