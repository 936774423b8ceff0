"""Constructs of v2 are moved to where v10 has them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from noetl.playbook.migrate import migrate

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n  - step: start\n"


def migrated(lines: str) -> str:
    text = "".join(f"    {line}\n" if line else "\n" for line in dedent(lines).strip("\n").split("\n"))
    return dedent(migrate(HEAD + text).text.removeprefix(HEAD))


def expected(lines: str) -> str:
    return dedent(lines).strip("\n") + "\n"


def test_when_becomes_an_admission_rule_with_its_comments() -> None:
    assert migrated("""
        # only then
        when: "{{ token.args.x }}"  # why
        tool: { kind: noop }
    """) == expected("""
        # only then
        spec:
          policy:
            admit:
              rules:
                - when: "{{ input.x | default(none) }}"  # why
                  then: { allow: true }
                - else:
                    then: { allow: false }
        input:
          x: "{{ ctx.start_input.x | default(omit()) }}"
        tool: { kind: noop }
    """)


def test_when_joins_the_spec_that_is_there() -> None:
    assert migrated("""
        spec: { timeout: 5 }  # s
        # only then
        when: "{{ true }}"
    """) == expected("""
        spec:  # s
          timeout: 5
          policy:
            # only then
            admit:
              rules:
                - when: "{{ true }}"
                  then: { allow: true }
                - else:
                    then: { allow: false }
    """)


@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
def test_the_mode_moves_to_next(mode: str) -> None:
    assert migrated(f"""
        spec:
          # how
          next_mode: {mode}  # so
        next:
          # first
          - step: end
            when: "{{{{ event.name == 'step.done' }}}}"
    """) == expected(f"""
        next:
          spec:
            # how
            mode: {mode}  # so
          arcs:
            # first
            - step: end
              when: "{{{{ event.name == 'step.done' }}}}"
    """)


def test_a_mode_without_arcs_is_dropped_and_its_comments_stay() -> None:
    assert migrated("""
        spec:
          next_mode: inclusive  # so
        tool: {kind: noop}
    """) == expected("""
        # so
        tool: {kind: noop}
    """)


def test_eval_becomes_rules_and_unmatched_errors_fail_d23() -> None:
    assert migrated("""
        tool:
          - kind: noop
            name: a
            # rules
            eval:  # of a
              - expr: "{{ outcome.error }}"
                do: retry
                attempts: 2
                backoff: fixed
                delay: "{{ vars.d }}"
    """) == expected("""
        tool:
          - kind: noop
            name: a
            # rules
            spec:
              policy:
                on_unmatched: fail
                rules:  # of a
                  - when: "{{ output.error }}"
                    then:
                      do: retry
                      attempts: 2
                      backoff: fixed
                      delay: "{{ step.d }}"
    """)


def test_with_an_else_nothing_is_unmatched_d23() -> None:
    assert migrated("tool: {kind: noop, eval: [{else: {do: fail}}]}") == (
        "tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}\n"
    )


def test_rules_join_the_spec_of_the_task() -> None:
    assert migrated("""
        tool:
          kind: noop
          spec:
            timeout: 5
          eval:
            - else: {do: fail}
          input: {}
    """) == expected("""
        tool:
          kind: noop
          spec:
            timeout: 5
            policy:
              rules:
                - else: {then: {do: fail}}
          input: {}
    """)


def test_an_alias_of_rules_stays_one() -> None:
    assert migrated("""
        tool:
          - a: {kind: noop, eval: &r [{else: {do: fail}}]}
          - b:
              kind: noop
              eval: *r
    """) == expected("""
        tool:
          - {name: a, kind: noop, spec: {policy: {rules: &r [{else: {then: {do: fail}}}]}}}
          - name: b
            kind: noop
            spec:
              policy:
                rules: *r
    """)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("next: b  # to b", "next:  # to b\n  arcs:\n    - step: b\n"),
        ("next: [b, {step: c}]", "next: {arcs: [{step: b}, {step: c}]}\n"),
        ("next:\n- b  # to b\n- step: c", "next:\n  arcs:\n  - step: b  # to b\n  - step: c\n"),
        ("next: {step: b}", "next:\n  arcs:\n    - {step: b}\n"),
        (
            "next:\n  # to b\n  step: b\n  when: true",
            "next:\n  arcs:\n    # to b\n    - step: b\n      when: true\n",
        ),
    ],
)
def test_every_form_of_next_becomes_a_mapping_with_arcs(before: str, after: str) -> None:
    assert migrated(before) == after
