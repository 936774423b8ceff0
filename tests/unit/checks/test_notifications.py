"""Problems of `notify`."""

from __future__ import annotations

import pytest

from noetl.views.explain import explain, explanation_text
from tests.playbooks import HEAD, checked, kinds, problem_places

WORK = "workflow: [{step: start, tool: {kind: noop}}]\n"
KEYS = "keychain: [{name: hook, kind: stored}]\n"
HTTP = "kind: http, method: POST, url: 'https://a.example'"


def notify(entry: str, before: str = "") -> str:
    """The entry is on line 5, or on the one after `before`."""
    return f"{before}notify:\n- {entry}\n{WORK}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (notify(f"{{on: [faild], tool: {{{HTTP}}}}}"), ("bad-value", "faild")),
        (notify(f"{{on: [], tool: {{{HTTP}}}}}"), ("bad-value", "[]")),
        (notify(f"{{on: failed, tool: {{{HTTP}}}}}"), ("wrong-type", "failed")),
        (notify(f"{{tool: {{{HTTP}}}}}"), ("missing-key", "{tool")),
        (notify("{on: [failed]}"), ("missing-key", "{on")),
        (notify(f"{{on: [failed], to: me, tool: {{{HTTP}}}}}"), ("unknown-key", "to:")),
        (notify("{on: [failed], tool: {kind: http, urll: x, url: y}}"), ("unknown-key", "urll")),
        (notify("{on: [failed], tool: {kind: htp, url: y}}"), ("unknown-kind", "htp")),
        (notify(f"{{on: [late], tool: {{{HTTP}}}}}"), ("missing-key", "late")),
        (notify(f"{{on: [failed], tool: {{{HTTP}}}}}", "executor: {spec: {expected_s: 9}}\n"), ("no-effect", "expected_s")),
        (notify(f"{{on: [failed], tool: {{{HTTP}, auth: hook}}}}"), ("unknown-credential", "hook")),
        (notify(f"{{on: [failed], tool: {{{HTTP}, json: {{a: '{{{{ execution.eror }}}}'}}}}}}"), ("unknown-field", "execution.eror")),
        (notify(f"{{on: [failed], tool: {{{HTTP}, json: {{a: '{{{{ event.status }}}}'}}}}}}"), ("unknown-field", "event.status")),
        (notify(f"{{on: [failed], tool: {{{HTTP}, json: {{a: '{{{{ saved.a }}}}'}}}}}}"), ("not-in-scope", "saved")),
        (notify(f"{{on: [failed], tool: {{{HTTP}, json: {{a: '{{{{ excution.id }}}}'}}}}}}"), ("unknown-name", "excution")),
        (notify(f"{{on: [failed], when: '{{{{ ctx.a }}}}', tool: {{{HTTP}}}}}"), ("not-in-scope", "ctx")),
        (notify(f"{{on: [failed], when: failed, tool: {{{HTTP}}}}}"), ("not-a-guard", "failed")),
        (notify("{on: [failed], tool: {kind: workbook, block: b}}") + "workbook: {b: {tool: {kind: noop}}}\n",
         ("bad-value", "workbook")),
        (notify("{on: [failed], tool: {kind: noop, set: {iter.a: 1}}}"), ("not-in-scope", "iter.a")),
        (WORK.replace("kind: noop", "kind: noop, input: {a: '{{ execution.id }}'}"), ("unknown-name", "execution")),
    ],
)  # fmt: skip
def test_a_notification_that_cannot_work_is_reported(body: str, expected: tuple[str, str]) -> None:
    [(code, line, column)] = problem_places(checked(body).problems)
    assert code == expected[0]
    assert (HEAD + body).splitlines()[line - 1][column - 1 :].startswith(expected[1])


@pytest.mark.parametrize(
    "body",
    [
        notify(f"{{on: [failed, finished, waiting], tool: {{{HTTP}, auth: hook}}}}", KEYS),
        notify(f"{{on: [late], tool: [{{{HTTP}}}, {{kind: noop}}]}}", "executor: {spec: {expected_s: 9}}\n"),
        notify(
            f"{{on: [failed], when: \"{{{{ execution.error.kind == 'http' }}}}\", tool: {{{HTTP}, json: "
            "{a: '{{ execution.output.data.x }}', b: '{{ event.signal }}', c: '{{ workload.n }}'}}}",
            "workload: {n: 1}\n",
        ),
        # A task with the name of a scope of notifications is not one, as in playbooks of 0.1.0.
        "workflow:\n- step: start\n  tool:\n  - {name: execution, kind: noop}\n"
        "  - {kind: noop, input: {a: '{{ execution.data }}'}}\n",
    ],
)  # fmt: skip
def test_a_notification_that_works_is_not_reported(body: str) -> None:
    assert problem_places(checked(body).problems) == []


def test_an_explanation_shows_notifications() -> None:
    found = checked(
        notify("{on: [failed, late], when: '{{ workload.n > 1 }}', tool: {kind: noop}}", "workload: {n: 1}\n")
    )
    assert found.program is not None
    assert explanation_text(explain(found.program, kinds())).endswith(
        "\nNotifications\n○ notify[0]\n├─ on     failed, late; only when {{ workload.n > 1 }}\n"
        "├─ notify_task  noop\n└─ reads  workload.n\n"
    )
