"""Idioms of public playbooks for the kinds of the plugins, and smaller ones of all generations."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from noetl.playbook.kinds import Kinds
from noetl.tool import Tools, describe
from tests.public_idioms import book


def all_kinds() -> Kinds:
    """Those of NoETL and of its plugins, which need not be installed."""
    plugins = {"container": "noetl_container.tool:ContainerTool", "snowflake": "noetl_snowflake.tool:SnowflakeTool"}
    points = {name: EntryPoint(name, place, "noetl.tools") for name, place in plugins.items()}
    return {**Tools.built_in().kinds(), **{name: describe(point.load()) for name, point in points.items()}}


SERVICES = {
    "a container": (
        book(
            """\
            workload: {image: app:1}
            workflow:
            - step: start
              tool:
                kind: container
                image: "{{ image }}"
                command: [sh, -c]
                args: ["echo a"]
                env: [{name: A, value: "1"}, {name: B, value: "{{ image }}"}]
                service_account: loader
                restart_policy: Never
                timeout_seconds: 60
            """
        ),
        ["engine: kubernetes", "entrypoint: [sh, -c]", 'arguments: ["echo a"]', 'A: "1"', 'B: "{{ workload.image }}"',
         "timeout: 60"],
        {"container-job", "dropped"},
    ),
    "a container with a runtime": (
        book(
            """\
            workflow:
            - step: start
              tool:
                kind: container
                runtime: {provider: kubernetes, image: app:1, command: ls /, serviceAccountName: loader, backoffLimit: 2,
                  activeDeadlineSeconds: 60, env: {A: 1, B: 2}}
                env: {A: 3}
            """
        ),
        ["image: app:1", "- sh", "- ls /", "service_account: loader", "backoff_limit: 2", "timeout: 60", "A: 3", "B: 2"],
        {"container-job", "dropped"},
    ),
    "a container whose arguments are empty": (
        book("workflow:\n- step: start\n  tool: {kind: container, image: app:1, command: [ls], args: []}\n"),
        ["entrypoint: [ls]"],
        {"container-job"},
    ),
    "the result of a container": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: container, image: app:1, command: [ls]}
              next: [{step: use, when: "{{ start.exit_code == 0 }}"}]
            - step: use
              tool: {kind: noop, input: {text: "{{ start.output }}"}}
            """
        ),
        ["{{ output.container.exit_code == 0 }}", "{{ ctx.start.output }}", "{'output': output.data}"],
        {"container-job", "step-result", "arc-on-failure"},
    ),
    "a script": (
        book(
            """\
            workload: {uri: gs://b/run.py, day: x}
            workflow:
            - step: start
              tool:
                kind: script
                script: {uri: "{{ uri }}", source: {type: gcs, auth: gcs_key}}
                args: {day: "{{ day }}", n: 1}
                job: {image: python:3.12, namespace: etl, install_dependencies: [requests], env: {A: b}}
            """
        ),
        ["kind: object", 'get: "{{ workload.uri }}"', "auth: gcs_key", "kind: gcp_credential", "image: python:3.12",
         "pip3 install --quiet requests && python3 -u /scripts/script.py", "{{ {'day': workload.day, 'n': 1} | tojson }}",
         '"/scripts/script.py": "{{ start_fetch.data }}"', "namespace: etl", "A: b", "timeout: 600"],
        {"script-container", "keychain-stored"},
    ),
    "SQL of Snowflake": (
        book(
            """\
            workload: {sf: sf_test, t: users, n: 1}
            workflow:
            - step: start
              type: snowflake
              auth: {sf: {type: snowflake, key: "{{ sf }}"}}
              with: {database: SALES}
              command: |
                DELETE FROM {{ t }};
                INSERT INTO {{ t }} VALUES ('{{ n }}');
            """
        ),
        ["kind: snowflake", "auth: sf_test", "database: SALES", "DELETE FROM {{ workload.t | sql_ident }};"],
        {"auth-fixed", "keychain-stored", "sql-name", "one-transaction"},
    ),
    "a transfer to Snowflake": (
        book(
            """\
            workload: {sf: sf_test}
            workflow:
            - step: start
              tool:
                kind: transfer
                source: {tool: postgres, auth: pg, query: "SELECT * FROM a"}
                target:
                  tool: snowflake
                  auth: {source: credential, tool: snowflake, key: "{{ sf }}"}
                  query: "MERGE INTO b USING (SELECT %s AS id, %s AS n) AS s ON b.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"
            """
        ),
        ["name: transfer_read", "kind: postgres", "USING (SELECT ? AS id, ? AS n)", 'rows: "{{ transfer_read.data }}"'],
        {"transfer-tasks", "auth-fixed", "keychain-stored"},
    ),
    "a transfer from Snowflake": (
        book(
            """\
            workflow:
            - step: start
              type: snowflake_transfer
              direction: sf_to_pg
              source: {query: "SELECT id, n FROM a"}
              target: {query: "INSERT INTO b (id, n) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"}
              auth: {sf: {type: snowflake, key: sf_test}, pg: {type: postgres, key: pg_test}}
            """
        ),
        ["kind: snowflake", "auth: sf_test", "row_format: lists", "kind: postgres", "auth: pg_test",
         "INSERT INTO b (id, n)", "jsonb_build_object('id', item -> 0, 'n', item -> 1)", "ON CONFLICT (id) DO NOTHING"],
        {"transfer-tasks", "keychain-stored"},
    ),
    "a transfer to a table with a template as its name": (
        book(
            """\
            keychain: [{name: pg, kind: stored}, {name: sf, kind: stored}]
            workload: {t: b}
            workflow:
            - step: start
              tool: {kind: transfer, source: {kind: snowflake, auth: sf, query: "SELECT id FROM a"}, target: {kind: postgres, auth: pg, query: "INSERT INTO {{ t }} (id) VALUES (%s)"}}
            """
        ),
        ["INSERT INTO {{ workload.t | sql_ident }} (id)", "NULL::{{ workload.t | sql_ident }}"],
        {"transfer-tasks"},
    ),
    "a transfer of columns to a table": (
        book(
            """\
            keychain: [{name: pg, kind: stored}, {name: sf, kind: stored}]
            workflow:
            - step: start
              tool: {kind: transfer, source: {kind: postgres, auth: pg, query: "SELECT id, n FROM a"}, target: {kind: snowflake, auth: sf, table: b}}
            """
        ),
        ["INSERT INTO b (id, n)", "VALUES (?, ?)"],
        {"transfer-tasks"},
    ),
}  # fmt: skip

SMALLER = {
    "root ctx": (
        book("ctx: {n: 1, pg: pg_k8s}\nworkflow: [{step: start, tool: {kind: postgres, auth: '{{ ctx.pg }}', query: 'SELECT {{ ctx.n }}'}}]\n"),
        ["workload: {n: 1, pg: pg_k8s}", "{{ workload.n }}", "auth: pg_k8s"],
        {"root-vars", "auth-fixed", "keychain-stored"},
    ),
    "a filter of a loop": (
        book(
            """\
            workload: {cities: []}
            workflow:
            - step: start
              loop: {collection: "{{ cities }}", element: city, filter: "{{ city.name != 'x' }}", distribution: true}
              tool: {kind: noop, input: {n: "{{ city.name }}"}}
            """
        ),
        ["{{ (workload.cities) | selectattr('name', '!=', 'x') }}"],
        {"condition-read", "dropped"},
    ),
    "SQL in base64 with a line break": (
        book("workflow:\n- step: start\n  type: postgres\n  auth: pg\n  command_b64: |\n    U0VMRUNUIDE7\n"),
        ["SELECT 1;"],
        {"keychain-stored"},
    ),
    "a list of saves that record events": (
        book("workflow:\n- step: start\n  tool: python\n  code: result = 1\n  save: [{when: '{{ result }}', tool: event_log, data: {a: 1}}]\n"),
        ["code: result = 1"],
        {"dropped"},
    ),
    "a credential below an empty auth": (
        book("workflow:\n- step: start\n  tool:\n    kind: postgres\n    auth:\n    type: postgres\n    credential: pg\n  query: SELECT 1\n"),
        ["auth: pg", "query: SELECT 1"],
        {"keychain-stored", "dropped"},
    ),
    "an error in the tool of a branch": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: result = 1}
              case:
              - when: "{{ event.name == 'call.error' }}"
                then:
                - tell: {tool: {kind: noop, input: {why: "{{ event.error | default('unknown') }}"}}}
                - next: [{step: end}]
            """
        ),
        ["ctx.start_error", "{{ output.error.message | default(none) }}", "{{ ctx.start_error | default('unknown') }}"],
        {"step-made"},
    ),
    "a message of a branch": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: result = 1}
              case:
              - {when: "{{ event.name == 'call.done' }}", then: [{log: done}, {next: [{step: end}]}]}
            """
        ),
        ["event.name == 'step.done'"],
        {"dropped"},
    ),
    "a credential that a header reads": (
        book("workflow:\n- step: start\n  type: http\n  url: http://x\n  auth: {api: {type: bearer, key: service}}\n  headers: {Authorization: 'Bearer {{ auth.api.token }}'}\n"),
        ["Bearer {{ keychain.service.token }}", "name: service"],
        {"keychain-stored"},
    ),
    "arguments that are one value": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'a': 1}"}
              next: [{step: use}]
            - step: use
              tool: python
              args: "{{ start }}"
              code: "result = len(str(a))"
            """
        ),
        ['a: "{{ (ctx.start).a | default(none) }}"'],
        {"code-input", "step-result", "arc-on-failure"},
    ),
    "arguments that the code does not read": (
        book("workload: {a: {}}\nworkflow:\n- step: start\n  tool: python\n  args: '{{ workload.a }}'\n  code: 'result = 1'\n"),
        ["code: 'result = 1'"],
        {"dropped"},
    ),
    "a declared result of code": (
        book("workflow:\n- step: start\n  tool: {kind: python, code: result = 1, accepts: {a: number}, returns: {b: number}}\n"),
        ["code: result = 1"],
        {"dropped"},
    ),
    "a constant statement in v2": (
        book("workload: {q: SELECT 1 AS n}\nworkflow:\n- step: start\n  tool:\n    kind: duckdb\n    command: '{{ workload.q }}'\n    eval: [{expr: \"{{ outcome.status == 'error' }}\", do: fail}]\n"),
        ['command: "SELECT 1 AS n"'],
        {"sql-statement"},
    ),
    "input of a step that its code reads": (
        book("workload: {a: 1}\nworkflow:\n- step: start\n  input: {n: '{{ workload.a }}'}\n  tool: {kind: python, code: 'result = n'}\n"),
        ['n: "{{ input.n }}"'],
        set(),
    ),
    "groups in a WITH": (
        book(
            """\
            workload: {size: 2}
            workflow:
            - step: start
              tool:
                kind: postgres
                auth: pg
                command: |
                  WITH a AS (SELECT 1 AS n), b AS (
                    SELECT (n / {{ size }}) + 1 AS batch, count(*) FROM a GROUP BY (n / {{ size }}) + 1
                  )
                  SELECT * FROM b
            """
        ),
        ["count(*) FROM a GROUP BY 1\n"],
        {"keychain-stored"},
    ),
    "the kind of a failed request": (
        book(
            """\
            workflow:
            - step: start
              tool:
                kind: http
                url: http://x
                spec: {policy: {rules: [{when: "{{ outcome.error.kind == 'rate_limit' }}", then: {do: retry, attempts: 2}},
                  {when: "{{ output.error.kind == 'server_error' }}", then: {do: fail}}, {else: {then: {do: continue}}}]}}
            """
        ),
        ["{{ output.http.status == 429 }}", "{{ (output.http.status | default(0, true)) >= 500 }}"],
        {"error-kind", "mixed-dialects"},
    ),
    "vars with a default at the root": (
        book(
            """\
            vars: {a: null}
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'a': 1}", eval: [{else: {do: continue, set_vars: {a: "{{ outcome.result.a }}"}}}]}
              next: [{step: end, when: "{{ vars.a == 1 }}"}]
            """
        ),
        ['ctx.a: "{{ output.data.a }}"', "{{ (ctx.a | default(workload.a)) == 1 }}"],
        {"root-vars", "scope-chosen", "shadowed-workload", "arc-on-failure"},
    ),
    "rows of a block": (
        book(
            """\
            keychain: [{name: pg, kind: stored}]
            workbook:
            - {name: ask, tool: postgres, auth: pg, query: SELECT 1 AS n}
            workflow:
            - step: start
              tool: workbook
              name: ask
              vars: {n: "{{ result.data.command_0.rows[0].n }}"}
            """
        ),
        ["(output.data | default([], true))[0].n"],
        {"lenient"},
    ),
}  # fmt: skip
