"""Idioms of the oldest public playbooks: `save` and `sink`, `pass`, `on_error`, callbacks, arguments of arcs."""

from __future__ import annotations

from tests.public_idioms import book

SAVES = {
    "a sink that records the result": (
        book("workflow:\n- step: start\n  tool: python\n  code: result = 1\n  sink: {tool: event_log, args: '{{ result }}'}\n"),
        ["code: result = 1"],
        {"dropped"},
    ),
    "a sink that records other values": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              sink: {tool: event, args: {y: "{{ result.x }}", n: "{{ n }}"}}
            """
        ),
        ["name: sink_result", "kind: noop", "{{ main.data.x }}", "{{ workload.n }}"],
        {"save-task"},
    ),
    "a save without a storage": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  save: {data: {n: '{{ workload.n }}'}}\n"),
        ["kind: noop", "input: {n: '{{ workload.n }}'}"],
        set(),
    ),
    "a save to a service": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              save: {storage: {type: http, endpoint: http://x, headers: {X-A: b}}, data: {x: "{{ result.x }}"}}
            """
        ),
        ["kind: http", "method: POST", "url: http://x", "headers: {X-A: b}", 'json: {x: "{{ main.data.x }}"}'],
        {"save-task"},
    ),
    "a save of a result with a key of its own": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"status": "ok", "data": {"x": 1}}'}
              save: {storage: postgres, auth: pg, table: t, data: {x: "{{ result.data.x }}"}}
            """
        ),
        ["VALUES ({{ main.data.data.x }})"],
        {"save-task"},
    ),
    "a save whose place is read": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              type: save
              storage: postgres
              auth: pg
              table: public.t
              data: {x: 1}
              next: [{step: report}]
            - step: report
              tool: {kind: noop, input: {a: "{{ start.saved }}", b: "{{ start.result.table }}", c: "{{ start.data.saved }}"}}
            """
        ),
        [
            "name: save\n",
            "INSERT INTO public.t (x)",
            "name: stored\n",
            "saved: postgres",
            'table: "public.t"',
            '{a: "{{ ctx.start.saved }}", b: "{{ ctx.start.table }}", c: "{{ ctx.start.saved }}"}',
        ],
        {"arc-on-failure", "save-task", "step-result"},
    ),
    "a save by code": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              sink:
                storage:
                  tool: python
                  args: "{{ result }}"
                  code: |
                    def main(data):
                        return len(data)
            """
        ),
        ["name: sink_result", "kind: python", 'data: "{{ main.data }}"', "def main(data):"],
        {"save-task"},
    ),
    "a statement with values of the result": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              save:
                storage: {tool: postgres, auth: pg}
                statement: "INSERT INTO t VALUES ('{{ result.x }}', :b, '{{ data.c }}')"
                data: {b: "it's", c: "{{ result.x }}-{{ execution_id }}"}
            """
        ),
        ["VALUES ('{{ main.data.x }}', 'it''s', '{{ ((main.data.x) ~ '-' ~ (execution_id)) }}')"],
        {"save-task"},
    ),
    "a column with a mapping": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              sink: {tool: postgres, auth: pg, table: t, args: {id: 1, doc: {a: "{{ result.x }}", b: [1, two]}}}
            """
        ),
        ["INSERT INTO t (id, doc)", "VALUES (1, {{ {'a': (main.data.x), 'b': [1, 'two']} }})"],
        {"save-task"},
    ),
    "a sink in a branch": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              case:
              - when: "{{ event.name == 'step.exit' and response is defined }}"
                then:
                - sink: {tool: postgres, auth: pg, table: t, args: {x: "{{ response.x }}"}}
                - next: [{step: end}]
            - step: end
              tool: {kind: noop}
            """
        ),
        ["step: start_sink", "INSERT INTO t (x)", "VALUES ({{ ctx.start.x }})"],
        {"step-made", "step-result", "arc-on-failure"},
    ),
    "a sink for each iteration, and a target after the loop": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {items: [1]}
            workflow:
            - step: start
              loop: {in: "{{ workload.items }}", iterator: item}
              tool: {kind: python, args: {n: "{{ item }}"}, code: 'result = {"x": n}'}
              case:
              - when: "{{ event.name == 'call.done' and response is defined }}"
                then:
                  sink: {tool: postgres, auth: pg, table: t, args: {x: "{{ response.x }}"}}
                  next: [{step: end}]
            - step: end
              tool: {kind: noop}
            """
        ),
        ["VALUES ({{ main.data.x }})", "event.name == 'loop.done'"],
        {"step-made", "per-iteration"},
    ),
}  # fmt: skip

OLDEST = {
    "a step that is passed": (
        book("workload: {skip: true}\nworkflow:\n- step: start\n  pass: '{{ workload.skip }}'\n  type: python\n  code: result = 1\n"),
        ["((workload.skip) | default(false) | string | lower) in ['true', '1', 'yes', 'on', 'pass', 'ignore']", "do: skip"],
        {"pass-skips"},
    ),
    "a step that is always passed": (
        book("workflow:\n- step: start\n  pass: true\n  type: python\n  code: result = 1\n  next: [{step: end}]\n- step: end\n"),
        ["- step: start\n"],
        {"pass-skips", "arc-on-failure"},
    ),
    "an error that is ignored": (
        book("workflow:\n- step: start\n  type: http\n  url: http://x\n  on_error: continue\n"),
        ["\"{{ output.status == 'error' }}\"", "do: continue"],
        {"on-error"},
    ),
    "a router without a tool": (
        book("workflow:\n- step: start\n  tool: router\n  next: [{step: end}]\n- step: end\n  tool: end\n"),
        ["- step: start\n  next:"],
        {"dropped", "arc-on-failure"},
    ),
    "the number of an iteration": (
        book(
            """\
            workload: {items: [1]}
            workflow:
            - step: start
              loop: {in: "{{ workload.items }}", iterator: item}
              tool: {kind: noop, input: {n: "{{ _loop.current_index }}", item: "{{ _loop.current_item }}"}}
            """
        ),
        ["{{ iter.index }}", "{{ iter.item }}"],
        set(),
    ),
    "the result of another step is returned": (
        book("workflow:\n- step: start\n  tool: {kind: python, code: result = 1}\n  next: [{step: end}]\n- step: end\n  return: start\n"),
        ["code: \"result = value\"", "{{ ctx.start }}"],
        {"step-made", "step-result", "arc-on-failure"},
    ),
    "the result of noop": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  tool:\n  - {name: a, kind: noop, result: {n: '{{ n }}'}}\n"),
        ["kind: noop, input: {n: '{{ workload.n }}'}"],
        set(),
    ),
    "an artifact that is read by its arguments": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: result = 1}
              next: [{step: load}]
            - step: load
              tool: [{load_it: {kind: artifact, action: get, args: {result_ref: "{{ start._ref }}"}}}]
            """
        ),
        ["kind: resolve", "{{ ctx.start_ref }}"],
        {"step-result", "arc-on-failure"},
    ),
    "an answer through the gateway": (
        book(
            """\
            workload: {n: 1}
            workflow:
            - step: start
              tool: {kind: gateway, action: callback, step: s, data: {n: "{{ workload.n }}"}}
            """
        ),
        ["kind: nats", 'publish: "{{ workload.callback_subject }}"', "{{ not workload.callback_subject }}", "do: skip",
         "callback_subject: null", 'data: {n: "{{ workload.n }}"}', "kind: nats_credential"],
        {"gateway-nats", "keychain-stored", "assumed-input"},
    ),
    "parameters of SQL": (
        book("keychain: [{name: pg, kind: stored}]\nworkload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: postgres, auth: pg, code: 'SELECT $1', parameters: ['{{ n }}']}\n"),
        ["command: 'SELECT $1'", "params: ['{{ workload.n }}']"],
        set(),
    ),
    "arguments of an arc and of the tool": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: 'result = {"x": 1}'}
              case:
              - when: "{{ event.name == 'call.done' and response.x }}"
                then:
                - set: [{name: y, value: "{{ response.x }}"}]
                - next: [{step: end, args: {k: "{{ response.x }}"}}]
            - step: end
              tool: {kind: python, args: {k: null, m: 2}, code: result = k + m}
            """
        ),
        ["ctx.y: \"{{ output.data.x }}\"\n", "ctx.end_input.k: \"{{ output.data.x }}\"\n",
         "k: \"{{ input.k | default(none) }}\", m: 2"],
        set(),
    ),
    "a filter with another name, and null": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {a: '{{ n | to_json }}', b: '{{ null }}'}}\n"),
        ["{{ workload.n | tojson }}", "{{ none }}"],
        set(),
    ),
}  # fmt: skip

PASSED = {
    "a secret for a block": (
        book(
            """\
            keychain: [{name: token, kind: stored}]
            workbook:
            - name: ask
              type: http
              url: http://x
              headers: {Authorization: "Bearer {{ key }}"}
            - name: measure
              type: python
              code: |
                def main(key, n):
                    return len(key) + n
            workflow:
            - step: start
              type: workbook
              task: ask
              with: {key: "{{ keychain.token }}"}
              next: [{step: end}]
            - step: end
              type: workbook
              task: measure
              with: {key: "{{ keychain.token }}", n: 1}
            """
        ),
        ["Bearer {{ keychain.token }}", "def main(n, _main=main):", 'key=os.environ["KEY"])', 'KEY: "{{ keychain.token }}"'],
        {"secret-input", "arc-on-failure"},
    ),
    "a secret for a script": (
        book(
            """\
            keychain: [{name: token, kind: stored}]
            workflow:
            - step: start
              tool: python
              args: {key: "{{ keychain.token }}"}
              code: result = len(key)
            """
        ),
        ['key = os.environ["KEY"]', 'KEY: "{{ keychain.token }}"'],
        {"secret-input"},
    ),
    "secrets of a request": (
        book(
            """\
            workload: {path: projects/1/secrets/id/versions/1}
            workflow:
            - step: start
              type: http
              method: POST
              url: http://x
              auth: {api: {type: oauth2_client_credentials, provider: secret_manager, client_id_key: "{{ workload.path }}"}}
              data: {client_id: "{{ auth.api.client_id }}"}
            """
        ),
        ["name: api_client_id", "key: projects/1/secrets/id/versions/1", 'client_id: "{{ keychain.api_client_id }}"'],
        {"keychain-stored"},
    ),
    "rows of a service": (
        book(
            """\
            workload: {pg: my_pg}
            workflow:
            - step: start
              tool:
                kind: transfer
                chunk_size: 10
                source: {type: http, url: http://x, data_path: items}
                target: {type: postgres, auth: "{{ workload.pg }}", table: public.t, mapping: {id: id, city: address.city}}
            """
        ),
        ["name: transfer_fetch", "INSERT INTO public.t (id, city)", "'city', item #> '{address,city}'", "auth: my_pg",
         "(transfer_fetch.data.items | default([]))"],
        {"transfer-tasks", "auth-fixed", "keychain-stored", "dropped"},
    ),
    "rows of a database": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: transfer, source: {tool: postgres, auth: pg, query: SELECT 1}, target: {tool: postgres, auth: pg, table: t}}
            """
        ),
        ["source: {kind: postgres", "target: {kind: postgres"],
        set(),
    ),
    "rows that are counted": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, query: SELECT id FROM t}
              vars:
                found: "{{ result | length > 0 }}"
                valid: "{{ result[0].valid if result.command_0 | length > 0 else false }}"
              next: [{step: after}]
            - step: after
              tool: {kind: noop, args: {n: "{{ start | length }}", names: "{{ start.data | map(attribute='id') | list }}"}}
            """
        ),
        ['ctx.found: "{{ (output.data | default([], true)) | length > 0 }}"',
         'ctx.valid: "{{ (output.data | default([], true))[0].valid if (output.data | default([], true)) | length > 0 else false }}"',
         "ctx.start: \"{{ {'rows': (output.data | default([], true))} }}\"", "{{ ctx.start.rows | length }}",
         "{{ ctx.start.rows | map(attribute='id') | list }}"],
        {"rows-as-list", "step-result", "arc-on-failure"},
    ),
    "an SQL file for another database": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {db: trades}
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, with: {db_name: "{{ workload.db }}"}, script: {uri: ./a.sql, source: {type: file}}}
            """
        ),
        ["connect ' ~ (workload.db) }} -f {{ './a.sql' }}"],
        {"sql-file"},
    ),
    "a group by a value": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workload: {unit: day, kind: a}
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  SELECT date_trunc('{{ unit }}', t) AS at, '{{ kind }}' AS kind, count(*) FROM t
                  WHERE name = 'a;b' AND kind = '{{ kind }}'
                  GROUP BY date_trunc('{{ unit }}',  t), '{{ kind }}' HAVING count(*) > 1
                  ORDER BY date_trunc('{{ unit }}', t) DESC;
            """
        ),
        ["GROUP BY 1, 2 HAVING count(*) > 1", "ORDER BY 1 DESC;", "kind = '{{ workload.kind }}'"],
        set(),
    ),
    "code and a template that expect the same name": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: "http://x/{{ city }}"}
              next: [{step: end}]
            - step: end
              tool: python
              code: |
                def main(city):
                    return city
            """
        ),
        ["city: null", 'city: "{{ workload.city }}"'],
        {"assumed-input", "code-input", "arc-on-failure"},
    ),
    "arguments of a block as one mapping": (
        book(
            """\
            workbook:
            - name: count
              tool: {kind: python, code: "def main(input_data):\\n    return len(input_data)"}
            workflow:
            - step: start
              tool: {kind: workbook, name: count, args: {rows: 2}}
            """
        ),
        ["input_data:"],
        set(),
    ),
    "a query of duckdb with a credential": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: duckdb, auth: {pg: {type: postgres, key: my_pg}}, query: SELECT * FROM pg.t}
            """
        ),
        ["command: ", "ATTACH {{ keychain.my_pg }} AS pg (TYPE postgres);"],
        {"duckdb-credential", "keychain-stored"},
    ),
    "a playbook for the command line": (
        book(
            """\
            workload: {action: a}
            workflow:
            - step: start
              tool: {kind: shell, cmds: [echo start]}
              next:
              - when: "{{ action }} == a"
                then: [{step: first}]
              - when: "{{ action }} == b"
                then: [{step: second}]
              - step: help
            - step: first
              tool: {kind: shell, cmds: [echo a]}
            - step: second
              tool: {kind: shell, cmds: [echo b]}
            - step: help
              tool: {kind: shell, cmds: [echo help]}
            """
        ),
        ["  next:\n    arcs:\n", "(workload.action | string) == 'b'", "    - step: help\n"],
        {"read-as", "guard-text", "arc-on-failure"},
    ),
    "a retry after a call with an error": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              case:
              - when: "{{ event.name == 'call.done' and error is defined and error.status == 503 }}"
                then: {retry: {max_attempts: 3}}
            """
        ),
        ["{{ output.status == 'error' and output.error is defined and output.http.status == 503 }}", "attempts: 3"],
        set(),
    ),
    "extensions of duckdb": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: duckdb, commands: 'LOAD json; SELECT {{ n }}'}\n"),
        ["external_access: true"],
        {"duckdb-access"},
    ),
    "a file as a table": (
        book(
            """\
            workload: {bucket: b, file: a.parquet}
            workflow:
            - step: start
              tool: {kind: duckdb, spec: {external_access: true}, commands: "SELECT * FROM 'gs://{{ bucket }}/{{ file }}'"}
            """
        ),
        ["FROM read_parquet({{ 'gs://' ~ (workload.bucket) ~ '/' ~ (workload.file) }})"],
        set(),
    ),
}  # fmt: skip
