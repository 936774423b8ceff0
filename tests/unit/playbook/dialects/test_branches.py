"""Old keys and names inside `choose`, `while` and `until` are migrated like those of other tasks (003 §14)."""

from __future__ import annotations

from noetl.checks.checker import check
from noetl.playbook.migrate import migrate
from tests.playbooks import kinds

OLD = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: t, path: t}
workload: {n: 3}
workflow:
- step: start
  tool:
  - first: {kind: noop, args: {x: "{{ n }}"}}
  - choose:
    - when: "{{ outcome.result.x > 2 }}"
      then:
      - big:
          kind: python
          args: {y: "{{ first.result.x }}"}
          code: |
            def main(y):
                return "{{ outcome }}"
      - kind: noop
    - else:
        then: {name: small, kind: noop, auth: token, args: {y: 1}}
  - pages:
      while:
        when: "{{ iter.q | default(0) < 3 }}"
        tool:
        - name: more
          kind: noop
          spec: {policy: {rules: [{else: {do: continue, set_ctx: {q: "{{ outcome.result }}"}}}]}}
        - until:
            when: "{{ ctx.q }}"
            tool: {name: deep, kind: noop, args: {z: "{{ n }}"}}
"""
EVAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: t}
workflow:
- step: start
  tool:
  - until:
      when: "{{ vars.done }}"
      tool:
      - name: ask
        kind: noop
        eval:
        - expr: "{{ outcome.status == 'success' }}"
          do: continue
          set_vars: {done: true}
"""


def test_tasks_inside_are_migrated_like_others() -> None:
    migration = migrate(OLD)
    text = migration.text
    for line in (
        'input: {x: "{{ workload.n }}"}',
        'when: "{{ output.data.x > 2 }}"',
        "name: big",
        'input: {y: "{{ first.data.x }}"}',
        'return "{{ outcome }}"',  # code is not a template
        "then: {name: small, kind: noop, auth: token, input: {y: 1}}",
        "name: pages",
        'set: {ctx.q: "{{ output.data }}"}',
        'tool: {name: deep, kind: noop, input: {z: "{{ workload.n }}"}}',
        "name: token",  # the credential is declared
    ):
        assert line in text, f"{line}\n{text}"
    assert [note.code for note in migration.notes if note.code == "template-in-code"] == ["template-in-code"]
    checked = check(text, kinds(), "t.yaml")
    assert [each for each in checked.problems if each.severity == "error" and each.code != "endless-jump"] == []


def test_rules_of_v2_inside_are_moved() -> None:
    text = migrate(EVAL).text
    for line in ('when: "{{ step.done }}"', "policy:", "rules:", "set: {step.done: true}"):
        assert line in text, text
    assert "eval" not in text
    assert "expr" not in text
