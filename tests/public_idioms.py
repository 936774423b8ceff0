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
        ["execution_id}} | tojson }}::jsonb)"],
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
    "a column for the number of an execution": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  CREATE TABLE t (execution_id BIGINT NOT NULL);
                  INSERT INTO t VALUES ('{{ job.uuid }}'::bigint);
            """
        ),
        ["execution_id TEXT NOT NULL", "VALUES ('{{ execution_id }}'::text)"],
        {"execution-id", "one-transaction"},
    ),
    "a template in an SQL comment": (
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
    "the result of a task in the arcs of its step": (
        book(
            """\
            workflow:
            - step: start
              tool:
              - {name: look, kind: python, code: 'result = {"more": False}'}
              - {name: last, kind: noop}
              next:
                arcs:
                - {step: start, when: "{{ start.results.look.more == true }}"}
                - {step: end, when: "{{ start.results.look.more != true }}"}
            - step: end
              tool: {kind: noop}
            """
        ),
        ['ctx.start_look: "{{ output.data }}"', "{{ ctx.start_look.more == true }}", "{{ ctx.start_look.more != true }}"],
        {"step-result"},
    ),
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
    "a result beside a tool": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"n": 1}'}
              result: {total: "{{ result.n }}"}
              next: [{step: end}]
            - step: end
              tool: {kind: noop, args: {t: "{{ start.total }}"}}
            """
        ),
        ["name: result\n", "total: \"{{ main.data.n }}\"", "{{ ctx.start.total }}"],
        {"step-made", "step-result", "arc-on-failure"},
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
    "the whole result before a task": (
        book(
            """\
            workload: {u: http://x}
            workflow:
            - step: start
              tool:
              - name: fetch
                kind: http
                url: "{{ u }}"
              - name: use
                kind: noop
                args: {r: "{{ _prev }}"}
            """
        ),
        ["{'status_code': fetch.http.status, 'headers': fetch.http.headers, "],
        set(),
    ),
    "a key of the author named ok": (
        book(
            """\
            workflow:
            - step: start
              type: python
              code: 'result = {"ok": False}'
              case: [{when: "{{ event.name == 'call.done' and response.ok }}", then: {next: [{step: end}]}}]
            - step: end
            """
        ),
        ["event.name == 'step.done' and output.data.ok"],
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

SERVICES = {
    "credentials of duckdb": (
        book(
            """\
            workload: {bucket: b1}
            workflow:
            - step: start
              tool:
                kind: duckdb
                auth:
                  pg: {type: postgres, key: pg_local}
                  store: {type: hmac, key: hmac_keys, scope: 'gs://{{ workload.bucket }}'}
                commands: |
                  ATTACH '' AS pg (TYPE postgres, SECRET pg);
                  COPY (SELECT * FROM pg.public.t) TO 'gs://{{ bucket }}/t.csv';
            """
        ),
        [
            "INSTALL postgres; LOAD postgres;\n",
            "CREATE OR REPLACE SECRET store (TYPE gcs, KEY_ID {{ keychain.hmac_keys.access_key_id }}, ",
            "SCOPE {{ 'gs://' ~ (workload.bucket) }});",
            "ATTACH {{ keychain.pg_local }} AS pg (TYPE postgres);",
            "TO {{ 'gs://' ~ (workload.bucket) ~ '/t.csv' }};",
            "external_access: true",
        ],
        {"duckdb-credential", "keychain-stored"},
    ),
    "a catalog of DuckLake": (
        book(
            """\
            workload: {lake: lake_pg}
            workflow:
            - step: start
              tool:
                kind: ducklake
                auth: "{{ workload.lake }}"
                catalog_name: c1
                data_path: /data
                command: |
                  SELECT 1;
            """
        ),
        ["ATTACH {{ 'ducklake:postgres:' ~ keychain.lake_pg }} AS c1 (DATA_PATH '/data'); USE c1;", "kind: duckdb"],
        {"duckdb-credential", "keychain-stored"},
    ),
    "keys of NATS": (
        book("workflow:\n- step: start\n  tool: {kind: nats, auth: bus, operation: kv_put, bucket: b, key: k, value: {a: 1}}\n"),
        ["kv: put", "json: {a: 1}", "kind: nats_credential"],
        {"keychain-stored"},
    ),
    "a message for a stream": (
        book(
            """\
            workload: {m: hi}
            workflow:
            - step: start
              tool: {kind: nats, auth: bus, operation: js_publish, stream: s, subject: a.b, payload: "{{ m }}"}
            """
        ),
        ["publish: a.b", "ack: true", "(workload.m) if (workload.m) is string else (workload.m) | tojson"],
        {"keychain-stored", "dropped"},
    ),
    "the artifact of a step": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = [1]'}
              next: [{step: fetch}]
            - step: fetch
              tool: {kind: artifact, action: get, result_ref: "{{ start._ref }}"}
            """
        ),
        ["kind: resolve", 'ref: "{{ ctx.start_ref }}"', 'ctx.start_ref: "{{ output.ref }}"'],
        {"step-result", "arc-on-failure"},
    ),
    "an SQL file": (
        book(
            """\
            workload: {pg: pg_local}
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: "{{ workload.pg }}"
                script: {uri: ./a b.sql, source: {type: file}}
            """
        ),
        ["kind: shell", "-f {{ './a b.sql' }}", 'DATABASE_URL: "{{ keychain.pg_local }}"'],
        {"sql-file", "keychain-stored"},
    ),
    "code in a file that the workload names": (
        book("workload: {f: lib/a.py}\nworkflow:\n- step: start\n  tool: {kind: python, script: {uri: '{{ f }}', source: {type: file}}}\n"),
        ['script: "lib/a.py"'],
        set(),
    ),
    "code of a server": (
        book("workflow:\n- step: start\n  tool: {kind: python, script: {uri: https://x/y/z.py, source: {type: http}}}\n"),
        ['script: "z.py"'],
        {"script-beside"},
    ),
    "credentials of code": (
        book(
            """\
            workload: {account: sa1}
            workflow:
            - step: start
              tool:
                kind: python
                auth: {gcs: {service: gcs, key: "{{ account }}"}}
                code: |
                  result = 1
            """
        ),
        ['GOOGLE_SERVICE_ACCOUNT: "{{ keychain.sa1 }}"', "GOOGLE_APPLICATION_CREDENTIALS", "kind: gcp_credential"],
        {"python-credential", "keychain-stored"},
    ),
    "a secret whose path a caller sends": (
        book(
            """\
            keychain: [{name: t, kind: secrets, provider: gcp, map: {key: "{{ path }}"}}, {name: p, credential: c}]
            workflow: [{step: start, tool: {kind: noop}}]
            """
        ),
        ["name: t_key", "key: c"],
        {"keychain-stored"},
    ),
}  # fmt: skip

NAMES = {
    "a name of the workload that is written later": (
        book(
            """\
            workload: {page: 1}
            workflow:
            - step: start
              tool: {kind: noop, args: {a: "{{ ctx.page }}", b: "{{ workload.page }}", c: "{{ page | default(2) }}"}}
              vars: {page: "{{ workload.page + 1 }}"}
            """
        ),
        [
            "a: \"{{ (ctx.page | default(workload.page)) }}\"",
            "b: \"{{ (ctx.page | default(workload.page)) }}\"",
            "c: \"{{ ctx.page | default(2) }}\"",
            "ctx.page: \"{{ (ctx.page | default(workload.page)) + 1 }}\"",
        ],
        {"shadowed-workload"},
    ),
    "branches of a local playbook": (
        book(
            """\
            executor: {profile: local}
            workload: {action: x}
            workflow:
            - step: start
              tool: {kind: noop}
              next:
              - when: "{{ workload.action }} == build"
                then: [{step: build}]
              - when: "{{ workload.action }} == test"
                then: [{step: test}]
              - step: help
            - {step: build, tool: {kind: noop}}
            - {step: test, tool: {kind: noop}}
            - {step: help, tool: {kind: noop}}
            """
        ),
        ["next:\n    arcs:\n    - step: build\n", "    - step: help\n"],
        {"guard-text", "arc-on-failure"},
    ),
    "the status of a child in the words of its author": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: playbook, path: t/b, return_step: end}
              next:
              - {step: good, when: "{{ start.status == 'granted' }}"}
              - {step: bad, when: "{{ start.status == 'FAILED' }}"}
            - {step: good, tool: {kind: noop}}
            - {step: bad, tool: {kind: noop}}
            """
        ),
        ["{{ output.data.status == 'granted' }}", "('COMPLETED' if output.status == 'ok' else 'FAILED') == 'FAILED'"],
        {"child-result", "arc-on-failure"},
    ),
    "a secret that a block reads": (
        book(
            """\
            workbook:
            - {name: key, type: secrets, provider: env, secret_name: API_KEY}
            workflow:
            - step: start
              type: workbook
              task: key
              next: [{step: send}]
            - step: send
              tool: {kind: http, url: http://x, headers: {X: "{{ start.secret_value }}"}}
            """
        ),
        ["X: \"{{ keychain.api_key }}\""],
        {"keychain-stored", "arc-on-failure"},
    ),
    "the body of a response as result": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              vars: {body: "{{ start.result }}"}
            """
        ),
        ["ctx.body: \"{{ output.data | default(none) }}\""],
        {"lenient"},
    ),
    "rows in two envelopes": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, query: SELECT 1 AS a}
              next: [{step: end}]
            - step: end
              tool: {kind: noop, args: {a: "{{ start.data.result.command_0.rows }}"}}
            """
        ),
        ["{{ ctx.start.command_0.rows }}"],
        {"step-result", "arc-on-failure"},
    ),
    "a result in an envelope": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"status": "success", "data": {"n": 1}}'}
              next: [{step: end}]
            - step: end
              tool: {kind: noop, args: {n: "{{ start.n }}", s: "{{ start.status }}"}}
            """
        ),
        ["n: \"{{ ctx.start.data.n }}\"", "s: \"{{ ctx.start.status }}\""],
        {"step-result", "arc-on-failure"},
    ),
    "the whole output of a task": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool:
              - {name: a, kind: python, input: {n: "{{ n }}"}, code: 'result = {"n": n}', set: {kept: "{{ output }}"}}
              - {name: b, kind: noop, input: {n: "{{ kept.n }}"}}
            """
        ),
        ["ctx.kept: \"{{ output.data }}\"", "n: \"{{ ctx.kept.n }}\""],
        {"scope-chosen"},
    ),
    "the response in a tool of a branch": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"n": 1}'}
              case:
              - when: "{{ event.name == 'call.done' }}"
                then:
                - keep: {tool: {kind: noop, input: {n: "{{ response.n }}"}}}
                - next: [{step: end}]
            - step: end
            """
        ),
        ["- step: start_keep", "n: \"{{ ctx.start.n }}\""],
        {"step-made", "step-result"},
    ),
}  # fmt: skip

LOOPS = {
    "a tool in a branch of a loop": (
        book(
            """\
            workload: {items: [1]}
            workflow:
            - step: start
              loop: {in: "{{ workload.items }}", iterator: item}
              tool: {kind: python, args: {n: "{{ item }}"}, code: 'result = {"n": n}'}
              case:
              - when: "{{ event.name == 'call.done' and response is defined and response.n > 1 }}"
                then:
                - save: {tool: {kind: noop, args: {n: "{{ response.n }}"}}}
              - when: "{{ event.name == 'loop.done' }}"
                then: [{next: [{step: end}]}]
            - step: end
              tool: {kind: noop, args: {all: "{{ start }}"}}
            """
        ),
        [
            "name: save",
            "n: \"{{ main.data.n }}\"",
            "when: \"{{ not (main.data.n > 1) }}\"",
            "do: skip",
            "value: \"{{ main.data }}\"",
            "event.name == 'loop.done'",
        ],
        {"step-made", "step-result"},
    ),
    "the save of an iterator": (
        book(
            """\
            workload: {items: [1]}
            workflow:
            - step: start
              type: iterator
              collection: "{{ items }}"
              element: n
              task: {type: python, code: 'result = n', args: {n: "{{ n }}"}}
              save: {storage: postgres, auth: pg, table: t, data: {all: "{{ results | tojson }}", n: "{{ count }}"}}
              next: [{step: end}]
            - step: end
            """
        ),
        [
            "- step: start_save",
            "INSERT INTO t (all, n)",
            "{{ ctx.start.results | tojson }}, {{ (ctx.start.results | length) }}",
        ],
        {"step-made", "step-result", "keychain-stored", "arc-on-failure"},
    ),
    "a saved result that another step reads": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"a": 1}'}
              save: {storage: postgres, auth: pg, table: t, data: {a: "{{ result.a }}"}}
              next: [{step: end}]
            - step: end
              tool: {kind: noop, args: {a: "{{ start.a }}"}}
            """
        ),
        ["VALUES ({{ main.data.a }})", "value: \"{{ main.data }}\"", "a: \"{{ ctx.start.a }}\""],
        {"save-task", "step-result", "keychain-stored", "arc-on-failure"},
    ),
}  # fmt: skip

IDIOMS = SECRETS | SQL | OUTCOMES | SERVICES | NAMES | LOOPS
