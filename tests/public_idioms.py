"""More idioms of public playbooks: each with parts of the canonical text and the notes that it gives."""

from __future__ import annotations

from textwrap import dedent

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: t/a}\n"


def book(text: str, head: str = HEAD) -> str:
    return head + dedent(text)


SECRETS = {
    "a token of Google": (
        book(
            """\
            keychain: [{name: id, kind: google_id_token, scope: global, target_audience: http://x}]
            workflow:
            - step: start
              tool: {kind: http, url: http://x, headers: {Authorization: "Bearer {{ keychain.id.id_token }}"}}
            """
        ),
        ["name: id, kind: stored}", "keychain.id.id_token"],
        {"keychain-stored"},
    ),
    "client credentials": (
        book(
            """\
            keychain:
            - name: api
              kind: oauth2
              endpoint: https://x/token
              data: {grant_type: client_credentials, client_id: "{{ keychain.a.b }}", client_secret: "{{ keychain.a.c }}"}
            workflow:
            - step: start
              tool: {kind: http, url: http://x, headers: {Authorization: "Bearer {{ keychain.api.access_token }}"}}
            """
        ),
        ["kind: oauth2_client\n", "Bearer {{ keychain.api }}"],
        {"keychain-stored"},
    ),
    "a token of a credential": (
        book(
            """\
            workload: {google: my_google}
            workflow:
            - step: start
              tool:
                kind: http
                url: http://x
                headers:
                  Authorization: "Bearer {{ token(google) }}"
            """
        ),
        ["auth: my_google", "- name: my_google"],
        {"auth-fixed", "keychain-stored"},
    ),
    "a secret that a task reads": (
        book(
            """\
            workflow:
            - step: start
              type: secrets
              provider: google
              project_id: p1
              secret_name: api-key
              next: [{step: send}]
            - step: send
              tool: {kind: http, url: http://x, headers: {X-Key: "{{ start.secret_value }}"}}
            """
        ),
        ["key: projects/p1/secrets/api-key/versions/latest", "name: api_key", "X-Key: \"{{ keychain.api_key }}\""],
        {"keychain-stored", "arc-on-failure"},
    ),
    "a secret of the environment with a label": (
        book("workflow:\n- step: start\n  tool:\n  - fetch: {kind: secrets, provider: env, name: TOKEN}\n"),
        ["variable: TOKEN", "kind: env", "name: fetch"],
        {"keychain-stored"},
    ),
}  # fmt: skip

SQL = {
    "a mapping between dollars": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  INSERT INTO t VALUES ($${{ {"a": {"b": job.uuid}} | tojson }}$$::jsonb)
            """
        ),
        ["execution_id}} }}::jsonb)"],
        set(),
    ),
    "values in the body of DO": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {n: 2}
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  DO $$ BEGIN IF '{{ execution_id }}' = '' OR {{ n | int }} > 1 THEN RAISE EXCEPTION 'x'; END IF; END $$;
            """
        ),
        [
            "SELECT 1 WHERE set_config('noetl.value_1', {{ (execution_id) | string }}, true) IS NULL;",
            "IF current_setting('noetl.value_1') = '' OR current_setting('noetl.value_2')::bigint > 1",
        ],
        {"one-transaction"},
    ),
    "a template in a comment of SQL": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {n: 2}
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  -- only {{ n }} rows
                  SELECT E'{{ n }}';
            """
        ),
        ["-- only workload.n rows\n", "SELECT '{{ workload.n }}'"],
        set(),
    ),
}  # fmt: skip

OUTCOMES = {
    "the result of a step without a tool": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  result:\n    total: '{{ n }}'\n"),
        ["kind: noop", "total: '{{ workload.n }}'"],
        {"step-made"},
    ),
    "a value as the result of a step": (
        book("workload: {n: [1]}\nworkflow:\n- step: start\n  result: '{{ n }}'\n"),
        ["kind: python", "value: '{{ workload.n }}'", 'code: "result = value"'],
        {"step-made"},
    ),
    "data of a last step": (
        book("workflow:\n- step: start\n  type: noop\n  next: [{step: end}]\n- step: end\n  data: {result: done}\n"),
        ["kind: noop", "input: {result: done}"],
        {"step-made", "arc-on-failure"},
    ),
    "the result of a branch": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = 1'}
              case:
              - when: "{{ event.name == 'call.done' }}"
                then:
                - result: {from: response}
                - next: [{step: end}]
            - step: end
            """
        ),
        ["arcs:", "event.name == 'step.done'"],
        set(),
    ),
    "a part as the result of a branch that no step reads": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              case:
              - when: "{{ event.name == 'call.done' }}"
                then: {result: {from: response.data}, next: [{step: end}]}
            - step: end
            """
        ),
        ["arcs:"],
        {"dropped"},
    ),
    "data for the event log": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  type: save\n  storage: event_log\n  data: {m: '{{ n }}'}\n"),
        ["kind: noop", "m: '{{ workload.n }}'"],
        set(),
    ),
    "a save without a tool": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  type: end\n  save: {storage: event_log, data: {m: '{{ n }}'}}\n"),
        ["kind: noop", "m: '{{ workload.n }}'"],
        {"dropped"},
    ),
    "a block that no task calls and that cannot run": (
        book("workbook:\n- name: child\n  tool: {kind: playbook}\nworkflow: [{step: start, tool: {kind: noop}}]\n"),
        ["workflow: [{step: start"],
        {"dropped", "now-waits"},
    ),
    "a default timeout": (
        book("executor: {spec: {policy: {defaults: {timeout_s: 9}}}}\nworkflow: [{step: start, tool: {kind: noop}}]\n"),
        ["defaults: {timeouts: 9}"],
        set(),
    ),
    "the response of a rule": (
        book(
            """\
            workflow:
            - step: start
              tool:
                kind: python
                code: 'result = {"a": 1}'
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: "{{ outcome.response.a }}"}}}}]}}
            """
        ),
        ["output.data.a"],
        set(),
    ),
    "an error that no call of this step has": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool: {kind: noop, input: {a: "{{ error.message if error is defined else n }}"}}
            """
        ),
        ["{{ ctx.error.message if ctx.error is defined else workload.n }}"],
        set(),
    ),
}  # fmt: skip

IDIOMS = SECRETS | SQL | OUTCOMES
