"""Idioms of public playbooks about values: templates in `workload`, results of several statements, guards, timeouts."""

from __future__ import annotations

from tests.public_idioms import HEAD, book

SQL_TYPES = """\
keychain: [{name: pg, kind: stored}]
workload: {n: 3, name: x, day: '2024-01-31'}
workflow:
- step: start
  tool:
    kind: postgres
    auth: pg
    command: |
      SELECT '{{ n }} hours AS {{ n | int }} AS x' AS kept, {{ n | int }} AS total, {{ n | int }} * {{ n | int }} AS square;
      SELECT now() - INTERVAL '{{ n }} hours', interval '{{ n }}' DAY, DATE '{{ day }}', timestamp with time zone '{{ day }}';
      SELECT jsonb_build_object('n', {{ n }}, 'name', '{{ name }}', 'in', concat('a {{ n }}', {{ n }}, upper('{{ name }}')));
      SELECT format('%s, {{ name }}', (SELECT {{ n }}), '{{ name }}'::text), jsonb_build_array('x', 'it''s');
"""

VALUES = {
    "values of SQL that need a type": (
        book(SQL_TYPES),
        [
            "{{ (workload.n) ~ ' hours AS ' ~ (workload.n | int) ~ ' AS x' }} AS kept",
            "{{ workload.n | int }}::bigint AS total, {{ workload.n | int }}::bigint * {{ workload.n | int }}::bigint AS square",
            "now() - CAST({{ (workload.n) ~ ' hours' }} AS INTERVAL), CAST({{ (workload.n) ~ ' DAY' }} AS interval)",
            "CAST('{{ workload.day }}' AS DATE), CAST('{{ workload.day }}' AS timestamp with time zone)",
            "jsonb_build_object('n', {{ workload.n }}::jsonb, 'name', '{{ workload.name }}'::text, 'in', concat(",
            "concat({{ 'a ' ~ (workload.n) }}::text, {{ workload.n }}::text, upper('{{ workload.name }}')))",
            "format({{ '%s, ' ~ (workload.name) }}::text, (SELECT {{ workload.n }}), '{{ workload.name }}'::text)",
            "jsonb_build_array('x', 'it''s')",
        ],
        {"one-transaction"},
    ),
    "values that read another one of the same vars": (
        book(
            """\
            workload: {project: p}
            workflow:
            - step: start
              desc: sets {{ vars.count }}
              tool: {kind: python, code: result = 1}
              vars:
                count: "{{ result }}"
                bucket: "{{ workload.project if workload.project else 'x' }}-b"
                path: "gs://{{ vars.bucket }}/{{ vars.count }}"
                old: "{{ vars.more }}"
                more: 1
              next: [{step: last}]
            - step: last
              tool: {kind: python, args: {path: "{{ vars.path }}", old: "{{ vars.old }}"}, code: result = path}
            """
        ),
        [
            "desc: sets {{ vars.count }}\n",
            "ctx.bucket: \"{{ workload.project if workload.project else 'x' }}-b\"",
            "{{ ((workload.project if workload.project else 'x') ~ '-b') }}/{{ (output.data) }}",
            'ctx.old: "{{ ctx.more | default(none) }}"',
        ],
        {"arc-on-failure", "lenient", "vars-order"},
    ),
    "a result of SQL that is asked whether it is there": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                query: SELECT 1 AS n
                spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
              next:
                spec: {mode: exclusive}
                arcs:
                - {step: good, when: "{{ result.command_0 is defined and result.command_0.rows | length > 0 }}"}
                - {step: bad, when: "{{ start.rows is not defined }}"}
            - step: good
              tool: {kind: noop}
            - step: bad
              tool: {kind: noop}
            """
        ),
        [
            "{{ (output.status == 'ok') and (output.data | default([], true)) | length > 0 }}",
            "{{ (output.status != 'ok') }}",
        ],
        set(),
    ),
    "the fields of a connection": (
        book(
            """\
            workload: {host: db}
            workbook:
            - name: store
              type: postgres
              command: DELETE FROM t WHERE n = {{ n }}
            workflow:
            - step: start
              type: postgres
              with: {db_host: "{{ host }}", db_port: 5432, db_user: u, db_password: secret, db_name: d}
              command: SELECT 1
              next: [{step: last}]
            - step: last
              type: workbook
              name: store
              with: {db_host: other, db_user: u, db_password: secret, db_name: d, n: 1}
            """
        ),
        [
            "- name: postgres_connection\n  kind: stored",
            "- name: postgres_connection_2\n  kind: stored",
            "kind: postgres\n    auth: postgres_connection\n",
            "kind: postgres\n      auth: postgres_connection_2\n",
            "input: {n: 1}",
        ],
        {"arc-on-failure", "auth-fixed", "keychain-stored"},
    ),
    "a case of shell commands with two targets": (
        book(
            """\
            workload: {deploy: "true"}
            workflow:
            - step: start
              tool: {kind: shell, cmds: [date]}
              case:
              - when: "{{ workload.deploy }} == true"
                then: [{step: apply}, {step: verify}]
            - step: apply
              tool: {kind: shell, cmds: [date]}
            - step: verify
              tool: {kind: shell, cmds: [date]}
            """
        ),
        ["next:\n    arcs:\n    - step: apply\n      when: \"{{ (workload.deploy | string | lower) == 'true' }}\"\n"],
        {"guard-text", "read-as"},
    ),
    "arcs that read events of the public engine": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, input: {n: 1}, code: result = n}
              next:
                spec: {mode: exclusive}
                arcs:
                - {step: each, when: "{{ event.name == 'call.done' and output.data > 0 }}"}
                - {step: late, when: "{{ event.name == 'call.error' }}"}
            - step: each
              loop: {in: [1], iterator: x}
              tool: {kind: noop}
              next: {arcs: [{step: late, when: "{{ event.name == 'call.done' }}"}]}
            - step: late
              tool: {kind: noop}
              next: {arcs: [{step: end, when: "{{ event.name == 'step.exit' }}"}]}
            """
        ),
        [
            "event.name == 'step.done' and output.data > 0",
            "event.name == 'step.failed'",
            "arcs: [{step: late, when: \"{{ event.name == 'loop.done' }}\"}]",
            "arcs: [{step: end, when: \"{{ event.name == 'step.done' }}\"}]",
        ],
        {"arc-on-failure", "per-iteration"},
    ),
    "a task that writes after an error, too": (
        book(
            """\
            workflow:
            - step: start
              tool:
              - name: parse
                kind: python
                code: 'result = {"x": 1 / 0}'
                set: {made: "{{ output }}", x: "{{ output.data.x }}", ctx.kept: 1}
                spec:
                  policy:
                    rules:
                    - {when: "{{ output.status == 'error' }}", then: {do: continue}}
                    - {else: {then: {do: continue}}}
              - name: last
                kind: noop
                input: {made: "{{ made }}", x: "{{ x }}"}
            """
        ),
        [
            '{do: continue, set: {ctx.made: "{{ output.data }}", ctx.x: "{{ output.data.x | default(none) }}"}}',
            'set: {ctx.made: "{{ output.data }}", ctx.x: "{{ output.data.x }}", ctx.kept: 1}',
            "- {else: {then: {do: continue}}}",
        ],
        {"scope-chosen", "set-after-error"},
    ),
    "a default that a template computes": (
        book(
            """\
            workload:
              id: "{{ job.uuid }}"  # of the job
              base: http://x
              full: "{{ workload.base }}/y"
              all: "{{ full }}/z"
            workflow:
            - step: start
              tool: {kind: python, args: {a: "{{ id }}", b: "{{ workload.all }}"}, code: result = a}
            """
        ),
        [
            "id: null  # of the job",
            "base: http://x",
            'a: "{{ (workload.id | default(execution_id, true)) }}"',
            "(workload.all | default(((workload.full | default((workload.base) ~ '/y', true))) ~ '/z', true))",
        ],
        {"workload-template"},
    ),
    "a default that nothing reads": (
        book("workload: {id: '{{ job.uuid }}', n: 1}\nworkflow: [{step: start, tool: {kind: noop, input: {a: '{{ n }}'}}}]\n"),
        ["id: '{{ job.uuid }}'", "{{ workload.n }}"],
        set(),
    ),
    "defaults of a caller and of the environment": (
        book(
            """\
            workload: {user: "{{ user }}", role: "{{ payload.role | default('reader') }}", port: "{{ env.PORT | default(5432) }}"}
            workflow:
            - step: start
              tool: {kind: python, args: {a: "{{ user }}:{{ role }}:{{ port }}"}, code: result = a}
            """
        ),
        ['user: null, role: "reader", port: 5432', "{{ workload.user }}:{{ workload.role }}:{{ workload.port }}"],
        {"workload-template"},
    ),
    "a file whose name is computed": (
        book(
            """\
            workload: {file: "a_{{ execution_id }}.parquet"}
            workflow:
            - step: start
              tool: {kind: duckdb, commands: "SELECT * FROM '/tmp/{{ file }}'"}
            """
        ),
        ["FROM read_parquet({{ '/tmp/' ~ ((workload.file | default('a_' ~ (execution_id) ~ '.parquet', true))) }})"],
        {"workload-template"},
    ),
    "results of several statements": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  SELECT 1 AS a;
                  CREATE TABLE t (x text);  -- 'x; '
                  SELECT 2 AS b;
              next: [{step: use, when: "{{ start.command_0.rows | length > 0 }}"}]
            - step: use
              tool: {kind: noop, input: {a: "{{ start.data.result.command_0.rows }}", b: "{{ start.command_2.row_count }}"}}
            """
        ),
        [
            "- name: cmd_0\n    kind: postgres\n    auth: pg\n    command: \"SELECT 1 AS a\"",
            "command_0:\n        status: success\n        rows: \"{{ (cmd_0.data | default([], true)) }}\"",
            "{{ output.data.command_0.rows | length > 0 }}",
            'a: "{{ ctx.start.command_0.rows }}"',
            'b: "{{ ctx.start.command_2.row_count }}"',
        ],
        {"statements-split", "step-result", "arc-on-failure"},
    ),
    "the number of the statement with rows": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, command: "CREATE TABLE t (x text); SELECT 1 AS a;"}
              next: [{step: use}]
            - step: use
              tool: {kind: python, args: {v: "{{ start }}"}, code: "result = v['command_1']['rows']"}
            """
        ),
        ["'command_1': {'status': 'success', 'rows': (output.data | default([], true))"],
        {"one-transaction", "step-result", "arc-on-failure"},
    ),
    "what a noop returns": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: noop, args: {n: 1}}
              next: [{step: use}]
            - step: use
              tool: {kind: noop, input: {a: "{{ start.data.n }}", b: "{{ start.result.n }}"}}
            """
        ),
        ['a: "{{ ctx.start.n }}", b: "{{ ctx.start.n }}"'],
        {"step-result", "arc-on-failure"},
    ),
    "a condition without braces": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: shell, cmds: [exit 3]}
              next: {arcs: [{step: a, cond: exit_code == 3}, {step: b, condition: "{{ start.exit_code == 0 }}"}]}
            - {step: a, tool: {kind: noop}}
            - {step: b, tool: {kind: noop}}
            """
        ),
        ['step: a, when: "{{ output.shell.exit_code == 3 }}"', 'step: b, when: "{{ output.shell.exit_code == 0 }}"'],
        {"condition-read"},
    ),
    "a guard that compares with true": (
        book(
            """\
            executor: {profile: local}
            workload: {deploy: true, n: 3}
            workflow:
            - step: start
              tool: {kind: shell, cmds: [echo hi]}
              next:
              - {step: a, when: "{{ workload.deploy }} == true and {{ n }} > 2"}
              - {step: a, when: "'{{ deploy }}' != 'True'"}
            - {step: a, tool: {kind: noop}}
            """
        ),
        [
            "{{ (workload.deploy | string | lower) == 'true' and (workload.n | float) > 2 }}",
            "{{ (workload.deploy | string | lower) != 'true' }}",
        ],
        {"guard-text", "arc-on-failure"},
    ),
    "items that are selected, then limited": (
        book(
            """\
            workload: {l: [{n: a}]}
            workflow:
            - step: start
              type: iterator
              collection: "{{ l }}"
              element: x
              limit: 5
              where: "{{ x.n == 'a' }}"
              task: {type: python, with: {c: "{{ x }}"}, code: "def main(c): return c"}
            """
        ),
        ["{{ ((workload.l) | selectattr('n', '==', 'a'))[:5] }}"],
        {"condition-read"},
    ),
    "the results of a loop at its target": (
        book(
            """\
            workload: {l: [1]}
            workflow:
            - step: start
              loop: {in: "{{ l }}", iterator: x}
              tool: {kind: python, args: {v: "{{ x }}"}, code: result = v}
              next: {arcs: [{step: use, when: "{{ event.name == 'loop.done' }}"}]}
            - step: use
              tool: {kind: python, args: {r: "{{ loop_results[0].q }}"}, code: result = r}
            """
        ),
        ["ctx.start: \"{{ {'results': output.data} }}\"", "{{ ctx.start.results[0].q }}"],
        {"step-result"},
    ),
    "a retry after failures that pass": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x, retry: {max_attempts: 2, backoff: 3, retry_on: [timeout, connection_error]}}
              next: [{step: child}]
            - step: child
              tool: {kind: playbook, path: t/b, return_step: end, retry: {max_attempts: 2, retry_on: [timeout]}}
            """
        ),
        ["spec: {retry: {attempts: 2, delay: 3}}", "spec: {retry: {attempts: 2}}"],
        {"child-result", "arc-on-failure"},
    ),
    "a table in a schema": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {s: app, t: users}
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, query: "SELECT * FROM {{ s }}.{{ t }}"}
            """
        ),
        ["FROM {{ (workload.s ~ '.' ~ workload.t) | sql_ident }}"],
        {"sql-name"},
    ),
    "statements that need a transaction of their own": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, commands: [CREATE TABLE t (a text), VACUUM t]}
            """
        ),
        ['name: cmd_0\n    kind: postgres\n    auth: pg\n    command: "CREATE TABLE t (a text)"', 'command: "VACUUM t"'],
        {"statements-split"},
    ),
    "steps that code reads of its context": (
        book(
            """\
            workload: {url: u}
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'a': 1}"}
              next: [{step: use}]
            - step: use
              tool: {kind: python, code: "result = [context['start']['a'], context.get('url')]"}
              next: [{step: old}]
            - step: old
              tool: {kind: python, code: "def main(context, results): return results['start']['a']"}
            """
        ),
        [
            "'execution_id': execution_id, 'start': (ctx.start | default(none)), 'url': workload.url} }}",
            "results: \"{{ {'start': (ctx.start | default(none))} }}\"",
        ],
        {"code-input", "step-result", "arc-on-failure"},
    ),
    "the result of a block by its own name": (
        book(
            """\
            workbook:
            - {name: greet, tool: {kind: python, code: "def main(city): return {'text': city}"}}
            workflow:
            - step: start
              tool: {kind: workbook, name: greet, args: {city: x}}
              next: [{step: use, when: "{{ greet.text == 'x' }}"}]
            - step: use
              tool: {kind: noop, input: {t: "{{ greet.text }}"}}
            """
        ),
        ["{{ output.data.text == 'x' }}", "{{ ctx.start.text }}"],
        {"step-result", "arc-on-failure"},
    ),
    "the status of a step": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              next: [{step: use, when: "{{ start.status == 'ok' }}"}]
            - step: use
              tool: {kind: noop, input: {ok: "{{ start.status in ['ok', 'success'] }}"}}
            """
        ),
        ["{{ ('success' if output.status == 'ok' else 'error') == 'success' }}", "{{ ctx.start.status in ['success', 'success'] }}"],
        {"step-result", "success-left"},
    ),
    "branches that meet": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool: {kind: noop, input: {n: "{{ n }}"}}
              next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
            - {step: a, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
            - {step: b, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
            - step: meet
              tool: {kind: noop}
              next: {arcs: [{step: last}]}
            - step: last
              tool: {kind: noop}
            """
        ),
        ["- step: meet\n  tool: {kind: noop}\n  next: {arcs: [{step: last}]}\n  spec:\n    policy:\n      admit:\n        join: all\n- step: last"],
        {"join-made", "arc-on-failure"},
    ),
    "a template of Go in backticks": (
        book("workflow:\n- step: start\n  tool: {kind: shell, cmds: [\"if [[ 1 ]]; then docker ps --format '{{`{{json .}}`}}'; fi\"]}\n"),
        ["{{ '{{`{{json .}}`}}' }}"],
        {"pasted"},
    ),
    "a timeout from the workload": (
        book("workload: {t: 1500}\nworkflow:\n- step: start\n  tool: {kind: http, url: http://x, timeout_ms: '{{ t }}'}\n"),
        ["spec: {timeout: 1.5}"],
        {"timeout-fixed"},
    ),
    "a mark of a task that writes": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: python, sink: true, args: {n: '{{ n }}'}, code: result = n}\n"),
        ["tool: {kind: python, input: {n:"],
        {"dropped"},
    ),
    "names of credentials at the root": (
        book(
            """\
            credentials: [{name: pg_main}]
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'m': 1}"}
              sink: {tool: postgres, credentialRef: pg_main, table: t, data: {m: "{{ result.m }}"}}
            """
        ),
        ["- name: pg_main\n  kind: stored", "auth: pg_main"],
        {"dropped", "save-task", "keychain-stored"},
    ),
    "a keychain entry as a whole": (
        book(
            """\
            keychain: [{name: tok, kind: stored}]
            workflow:
            - step: start
              tool: {kind: http, endpoint: http://x, auth: "{{ keychain.tok }}"}
            """
        ),
        ["auth: tok"],
        set(),
    ),
    "white space at the end of code": (
        HEAD + "workflow:\n- step: start\n  type: python\n  code: |\n    result = 1\n      \n- step: b\n  tool: {kind: noop}\n",
        ["    code: |\n      result = 1\n        \n"],
        set(),
    ),
    "a document in JSON": (
        '{"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "a", "path": "t/a"}, "workflow": [{"step": '
        '"start", "tool": {"kind": "http", "endpoint": "http://x", "retry": {"max_attempts": 5, "initial_delay": 2.0}}}]}\n',
        ['"attempts": 5', '"delay": 2.0'],
        set(),
    ),
    "a name that only a caller can provide, with a default": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool: {kind: python, args: {a: "{{ who.name if who is defined else 'none' }}", b: "{{ mode | default('fast') }}"}, code: result = a}
              next: [{step: use}]
            - step: use
              tool: {kind: python, args: {c: "{{ who.name }}", d: "{{ other }}", n: "{{ n }}"}, code: result = c}
            """
        ),
        [
            "workload: {n: 1, other: null}",
            "a: \"{{ workload.who.name if workload.who is defined else 'none' }}\"",
            "b: \"{{ workload.mode | default('fast') }}\"",
            'c: "{{ (workload.who.name | default(none)) }}"',
            'd: "{{ workload.other }}"',
        ],
        {"assumed-input", "arc-on-failure"},
    ),
    "the status of a response as a number": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, endpoint: http://x}
              next:
              - {step: use, when: "{{ start.status == 200 }}"}
              - {step: make, when: "{{ start.status in [404, 410] }}"}
              - {step: make, when: "{{ start.status_code != 200 }}"}
            - step: use
              tool: {kind: noop, input: {old: "{{ start.status < 300 }}"}}
            - step: make
              tool: {kind: noop}
            """
        ),
        [
            'when: "{{ output.http.status == 200 }}"',
            "when: \"{{ event.name in ['step.done', 'step.failed'] and (output.http.status in [404, 410]) }}\"",
            "when: \"{{ event.name in ['step.done', 'step.failed'] and (output.http.status != 200) }}\"",
            "{{ ctx.start.status_code < 300 }}",
        ],
        {"http-failure", "step-result", "arc-on-failure"},
    ),
    "the status of a response in the public command line": (
        book(
            """\
            executor: {profile: local}
            workflow:
            - step: start
              tool: {kind: http, endpoint: http://x}
              vars: {there: "{{ result.status == 200 }}"}
            """
        ),
        [
            "output.status == 'error' and output.http.status is not none",
            "do: continue",
            "{{ output.http.status == 200 }}",
        ],
        {"http-failure"},
    ),
    "code and scripts that are a constant": (
        book(
            """\
            workload: {body: result = 1, command: echo hi}
            workflow:
            - step: start
              tool: {kind: python, script: {uri: inline, source: {type: inline, code: "{{ workload.body }}"}}}
              next: [{step: say}]
            - step: say
              tool: {kind: shell, cmds: ["{{ command }}"]}
            """
        ),
        ['code: "result = 1"', 'sh: "echo hi"'],
        {"code-fixed", "arc-on-failure"},
    ),
    "a credential of duckdb that is named twice": (
        book(
            """\
            workload: {pg: pg_main}
            workflow:
            - step: start
              tool:
                kind: duckdb
                pg_credential: "{{ pg }}"
                auth: {db: {source: credential, tool: postgres, key: "{{ pg }}"}}
                command: "ATTACH '' AS db (TYPE postgres, SECRET db); SELECT * FROM db.t"
            """
        ),
        ["ATTACH {{ keychain.pg_main }} AS db"],
        {"dropped", "duckdb-credential", "keychain-stored"},
    ),
    "code that assigns the name of its argument": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"n": 1}'}
              next: [{step: use}]
            - step: use
              args: {found: "{{ start }}", other: "{{ start }}"}
              tool:
                kind: python
                code: |
                  if isinstance(found, str):
                      found = {"n": found}
                  other = 2
                  result = [found, other]
            """
        ),
        ['found: "{{ input.found }}"', 'found: "{{ ctx.start }}"'],
        {"step-result", "arc-on-failure"},
    ),
    "arguments as JSON text": (
        book(
            """\
            workload: {user: {name: a}}
            workflow:
            - step: start
              tool: {kind: python, args: {u: "{{ user | tojson }}", t: "{{ 'x' ~ user | tojson }}"}, code: result = u}
              next: [{step: send}]
            - step: send
              tool: {kind: http, method: POST, endpoint: http://x, body: "{{ user | default({}) | tojson }}"}
            """
        ),
        [
            'u: "{{ workload.user }}"',
            "t: \"{{ 'x' ~ workload.user | tojson }}\"",
            'json: "{{ workload.user | default({}) }}"',
        ],
        {"json-value", "http-body", "arc-on-failure"},
    ),
    "statements of one session": (
        book(
            """\
            keychain: [{name: sf, kind: stored}]
            workflow:
            - step: start
              type: snowflake
              auth: {key: sf}
              command: "CREATE DATABASE IF NOT EXISTS d; USE DATABASE d; CREATE SCHEMA s"
            """
        ),
        ['command: "CREATE DATABASE IF NOT EXISTS d; USE DATABASE d; CREATE SCHEMA s"'],
        {"one-transaction"},
    ),
}  # fmt: skip
