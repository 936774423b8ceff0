"""Every rule of the front end for public playbooks: an idiom, what it becomes, and its note."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.errors import PlaybookError
from noetl.playbook.migrate import migrate
from tests.public_idioms import HEAD, IDIOMS, book
from tests.public_idioms_legacy import OLDEST, PASSED, SAVES
from tests.public_idioms_services import SERVICES, SMALLER, all_kinds
from tests.public_idioms_values import VALUES

KINDS = all_kinds()
CASES = IDIOMS | SAVES | OLDEST | PASSED | SERVICES | SMALLER | VALUES | {
    "metadata at the root": (
        "apiVersion: noetl.io/v1\nkind: Playbook\nname: a\npath: t/a\nworkflow: [{step: start, tool: {kind: noop}}]\n",
        ["metadata:\n  name: a\n  path: t/a\n", "apiVersion: noetl.io/v2"],
        {"api-version"},
    ),
    "no path": (
        book("workflow: [{step: start, tool: {kind: noop}}]\n", HEAD.replace(", path: t/a", "")),
        ["path: a"],
        {"path-made"},
    ),
    "tags": (
        book("workflow: [{step: start, tool: {kind: noop}}]\n", HEAD.replace("t/a}", "t/a, tags: [x]}")),
        ["x: true"],
        {"labels"},
    ),
    "executor": (
        book("executor: {profile: local, version: noetl-runtime/1, requires: {}}\nworkflow: [{step: start, tool: {kind: noop}}]\n"),
        ["executor: {profile: local}"],
        {"dropped"},
    ),
    "no step start": (
        book("workflow:\n- step: first\n  tool: {kind: noop}\n"),
        ["entry_step: first"],
        {"entry-made"},
    ),
    "root vars": (
        book("vars: {n: 1}\nworkflow: [{step: start, tool: {kind: noop, input: {a: '{{ n }}'}}}]\n"),
        ["workload: {n: 1}", "{{ workload.n }}"],
        {"root-vars"},
    ),
    "tool fields on the step": (
        book("workflow:\n- step: start\n  type: http\n  endpoint: http://x\n  method: get\n  next: [{step: end}]\n"),
        ["kind: http", "url: http://x", "method: GET"],
        {"arc-on-failure"},
    ),
    "a bare kind": (
        book("workflow:\n- step: start\n  tool: python\n  code: result = 1\n"),
        ["tool:\n    kind: python\n    code: result = 1"],
        set(),
    ),
    "a workbook as a list": (
        book(
            """\
            workbook:
            - name: double
              tool: {kind: python, code: 'result = n * 2'}
            workflow:
            - step: start
              tool: {kind: workbook, name: double, args: {n: 2}}
            """
        ),
        ["double:", "block: double", 'n: "{{ input.n }}"'],
        set(),
    ),
    "an iterator step": (
        book(
            """\
            workload: {cities: [1]}
            workflow:
            - step: start
              type: iterator
              collection: "{{ workload.cities }}"
              element: city
              mode: async
              task: {type: python, args: {c: "{{ city }}"}, code: result = c}
            """
        ),
        ["iterator: city", "mode: parallel", "{{ iter.city }}"],
        {"default-changed"},
    ),
    "shell commands": (
        book("workflow:\n- step: start\n  tool:\n    kind: shell\n    cmds:\n    - echo one\n    - echo two\n"),
        ['sh: "echo one"', 'sh: "echo two"', "name: cmd_0"],
        set(),
    ),
    "a bash script": (
        book("workflow:\n- step: start\n  tool:\n    kind: shell\n    cmds:\n    - |\n      set -euo pipefail\n      echo a\n"),
        ["argv:", "- bash", "- -c"],
        set(),
    ),
    "a format of docker": (
        book("workflow:\n- step: start\n  tool: {kind: shell, cmds: ['docker ps --format \"{{.Names}}\"']}\n"),
        ["{{ '{{.Names}}' | raw_shell }}"],
        set(),
    ),
    "http fields": (
        book("workflow:\n- step: start\n  tool: {kind: http, endpoint: http://x, method: POST, payload: {a: 1}, verify_ssl: false, timeout: 5}\n"),
        ["url: http://x", "json: {a: 1}", "verify: false", "timeout: 5"],
        set(),
    ),
    "libs": (
        book("workflow:\n- step: start\n  tool: {kind: python, libs: {j: json}, code: 'result = j.dumps(1)'}\n"),
        ["import json as j  # by noetl migrate\n"],
        set(),
    ),
    "code that returns": (
        book("workflow:\n- step: start\n  tool: {kind: python, args: {n: 1}, code: 'return n'}\n"),
        ["def main(n):  # by noetl migrate", "    return n"],
        set(),
    ),
    "names that the engine provides": (
        book("workload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: python, args: {a: 1}, code: 'result = json.dumps([input_data, n])', auth: {}}\n"),
        ["import json", 'input_data = {"a": a, "n": n}', 'n: "{{ workload.n }}"'],
        {"code-input"},
    ),
    "a result read by name": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              next: [{step: use, when: "{{ start.status_code == 200 }}"}]
            - step: use
              tool: {kind: noop, input: {items: "{{ start.data.items }}"}}
            """
        ),
        ["{{ output.http.status == 200 }}", "ctx.start: \"{{ {'data': output.data} }}\"", "{{ ctx.start.data.items }}"],
        {"step-result", "arc-on-failure"},
    ),
    "rows read by name": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: postgres, auth: pg, query: SELECT 1 AS n}
              next: [{step: use}]
            - step: use
              tool: {kind: noop, input: {n: "{{ start.command_0.rows[0].n }}"}}
            """
        ),
        ["{{ ctx.start.command_0.rows[0].n }}", "'rows': (output.data | default([], true))"],
        {"step-result", "arc-on-failure", "keychain-stored"},
    ),
    "auth as a template": (
        book("workload: {pg_auth: pg_k8s}\nworkflow:\n- step: start\n  tool: {kind: postgres, auth: '{{ pg_auth }}', query: SELECT 1}\n"),
        ["auth: pg_k8s", "name: pg_k8s"],
        {"auth-fixed", "keychain-stored"},
    ),
    "auth as a mapping": (
        book("workflow:\n- step: start\n  tool: {kind: postgres, auth: {pg: {type: postgres, key: pg_k8s}}, query: SELECT 1}\n"),
        ["auth: pg_k8s"],
        {"keychain-stored"},
    ),
    "a keychain of old kinds": (
        book("keychain:\n- {name: pg, kind: credential, ref: pg_k8s, scope: global}\nworkflow: [{step: start, tool: {kind: postgres, auth: pg, query: SELECT 1}}]\n"),
        ["kind: stored", "key: pg_k8s"],
        {"keychain-stored"},
    ),
    "a case that routes": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'n': 1}"}
              case:
              - when: "{{ event.name == 'call.done' and response.n > 0 }}"
                then: {next: [{step: high}]}
              next: [{step: low}]
            - step: high
            - step: low
            """
        ),
        ["{{ event.name == 'step.done' and output.data.n > 0 }}", "- step: low"],
        {"arc-on-failure"},
    ),
    "a case that retries": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              case:
              - when: "{{ event.name == 'call.error' and response.status_code == 429 }}"
                then: {retry: {max_attempts: 4, initial_delay: 2, backoff_multiplier: 2}}
              next: [{step: end}]
            """
        ),
        ["output.status == 'error' and output.http.status == 429", "attempts: 4", "backoff: exponential", "on_unmatched: fail"],
        {"arc-on-failure"},
    ),
    "a case with a tool": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: result = 1}
              case:
              - when: "{{ event.name == 'step.exit' }}"
                then:
                - log: {tool: {kind: noop}}
                - next: [{step: end}]
            """
        ),
        ["step: start_log", "{{ event.name == 'step.done' }}"],
        {"step-made", "arc-on-failure"},
    ),
    "then and else": (
        book(
            """\
            workload: {go: true}
            workflow:
            - step: start
              next:
              - when: "{{ workload.go }}"
                then: [{step: yes_step}]
              - else: [{step: no_step}]
            - step: yes_step
            - step: no_step
            """
        ),
        ['when: "{{ workload.go }}"', "- step: no_step"],
        {"arc-on-failure"},
    ),
    "a payload on an arc": (
        book(
            """\
            workflow:
            - step: start
              next: [{step: use, data: {n: 1}}]
            - step: use
              tool: {kind: python, code: result = n}
            """
        ),
        ["ctx.use_input.n: 1", 'n: "{{ ctx.use_input.n }}"', 'n: "{{ input.n }}"'],
        {"arc-on-failure"},
    ),
    "step vars": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'n': 1}"}
              vars: {total: "{{ result.n }}"}
              next: [{step: use}]
            - step: use
              tool: {kind: noop, input: {t: "{{ vars.total }}", u: "{{ total }}"}}
            """
        ),
        ['ctx.total: "{{ output.data.n | default(none) }}"', "{{ ctx.total }}"],
        {"lenient", "arc-on-failure"},
    ),
    "a set without a scope": (
        book("workflow:\n- step: start\n  tool: {kind: noop, input: {a: 1}, set: {page: 1}}\n  next: {arcs: [{step: end, when: '{{ page > 1 }}'}]}\n"),
        ["set: {ctx.page: 1}", "{{ ctx.page > 1 }}"],
        {"scope-chosen"},
    ),
    "a guard that is text": (
        book("workload: {action: x}\nworkflow:\n- step: start\n  next: {arcs: [{step: end, when: '{{ workload.action }} == destroy'}]}\n"),
        ["{{ (workload.action | string) == 'destroy' }}"],
        {"guard-text"},
    ),
    "a retry block": (
        book("workflow:\n- step: start\n  tool: {kind: http, url: http://x, retry: {max_attempts: 3, initial_delay: 1, jitter: true}}\n"),
        ["{{ output.status == 'error' }}", "attempts: 3", "jitter: 0.5"],
        set(),
    ),
    "a save": (
        book(
            """\
            workflow:
            - step: start
              type: python
              code: "result = {'id': 1}"
              save: {storage: postgres, auth: pg, table: t, mode: upsert, key: id, data: {id: "{{ result.id }}", note: x}}
            """
        ),
        ["INSERT INTO t (id, note)", "VALUES ({{ main.data.id }}, 'x')", "ON CONFLICT (id) DO UPDATE SET note = EXCLUDED.note"],
        {"save-task", "keychain-stored"},
    ),
    "SQL with text around a template": (
        book("workload: {n: 1, t: x}\nworkflow:\n- step: start\n  tool:\n    kind: postgres\n    auth: {type: postgres, credential: pg}\n    command: SELECT 'a {{ n }} b' FROM {{ t }} WHERE j = '{{ n | tojson }}'::jsonb\n"),
        ["{{ 'a ' ~ (workload.n) ~ ' b' }}", "FROM {{ workload.t | sql_ident }}", "'{{ workload.n | tojson }}'::jsonb"],
        {"sql-name", "keychain-stored"},
    ),
    "duckdb commands": (
        book("workflow:\n- step: start\n  tool:\n    kind: duckdb\n    commands: |\n      SELECT 1;\n      SELECT 2;\n"),
        ["command: |\n      SELECT 1;\n      SELECT 2;"],
        set(),
    ),
    "a child playbook": (
        book("workflow:\n- step: start\n  tool: {kind: playbook, path: t/b, payload: {a: 1}, return_step: end}\n"),
        ["input: {a: 1}"],
        {"child-result"},
    ),
    "a name that nothing provides": (
        book("workflow:\n- step: start\n  tool: {kind: shell, cmds: ['echo {{ os_type }}']}\n"),
        ["os_type: null", "{{ workload.os_type }}"],
        {"assumed-input"},
    ),
    "several targets": (
        book("workflow:\n- step: start\n  next: [a, b]\n- step: a\n- step: b\n", HEAD.replace("noetl.io/v2", "noetl.io/v1")),
        ["mode: inclusive", "- step: a", "- step: b"],
        {"all-targets", "api-version", "arc-on-failure"},
    ),
    "a step with a path as its name": (
        book("workflow:\n- step: start\n  next: [{step: tests/a}]\n- step: tests/a\n  tool: {kind: noop}\n"),
        ["- step: tests_a\n"],
        {"step-renamed", "arc-on-failure"},
    ),
    "a shell text that ends with a line break": (
        book("workflow:\n- step: start\n  tool:\n    kind: shell\n    cmds:\n    - |\n      echo \"a\"\n"),
        ["echo"],
        set(),
    ),
    "secrets with fields": (
        book("keychain:\n- {name: k, kind: secrets, provider: gcp, map: {token: projects/1/secrets/t}}\nworkflow:\n- step: start\n  tool: {kind: http, url: http://x, headers: {A: '{{ keychain.k.token }}'}}\n"),
        ["name: k_token", "kind: secret_manager", "{{ keychain.k_token }}"],
        {"keychain-stored"},
    ),
    "the error of a call": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: http, url: http://x}
              case:
              - when: "{{ event.name == 'call.error' and error.status in [500, 503] }}"
                then: {retry: {max_attempts: 2}}
            """
        ),
        ["output.status == 'error' and output.http.status in [500, 503]"],
        set(),
    ),
    "a case that sets a list of values": (
        book(
            """\
            workflow:
            - step: start
              tool: {kind: python, code: "result = {'n': 1}"}
              case:
              - when: "{{ event.name == 'call.done' }}"
                then:
                - set: [{name: total, value: "{{ response.n }}"}]
                - next: [{step: use}]
            - step: use
              tool: {kind: noop, input: {t: "{{ vars.total }}"}}
            """
        ),
        ["ctx.total", "{{ output.data.n }}", "{{ ctx.total }}"],
        set(),
    ),
    "a default in a block": (
        book(
            """\
            workbook:
            - name: double
              tool: {kind: python, args: {n: null}, code: 'result = n * 2'}
            workflow:
            - step: start
              tool: {kind: workbook, name: double, args: {n: 2}}
            """
        ),
        ['n: "{{ input.n }}"'],
        {"block-defaults"},
    ),
    "an assertion": (
        book("workflow:\n- step: start\n  tool: {kind: python, code: 'result = {}', assert: {returns: [a]}}\n"),
        ["validate:", "required: [a]"],
        {"assertion"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_idiom_becomes_canonical_text_with_its_note(name: str) -> None:
    before, parts, codes = CASES[name]
    made = migrate(before)
    assert [part for part in parts if part not in made.text] == [], made.text
    assert {note.code for note in made.notes} == codes


@pytest.mark.parametrize("name", CASES)
def test_the_result_passes_the_check_and_migrating_it_again_changes_nothing(name: str) -> None:
    made = migrate(CASES[name][0])
    assert [str(problem) for problem in check(made.text, KINDS).errors] == [], made.text
    assert migrate(made.text).text == made.text


@pytest.mark.parametrize("name", CASES)
def test_no_comment_is_lost(name: str) -> None:
    lines = CASES[name][0].splitlines()
    blocks = any(line.rstrip().endswith("|") for line in lines)
    text = "".join(f"{line}\n" if blocks else f"{line}  # behind {number}.\n" for number, line in enumerate(lines))
    made = migrate(f"# first\n{text}# last\n").text
    missing = [number for number in range(len(lines)) if not blocks and made.count(f"# behind {number}.") != 1]
    assert (missing, "# first" in made, "# last" in made) == ([], True, True)


REFUSED = {
    "a cursor loop": (
        "workflow:\n- step: start\n  loop: {cursor: {kind: postgres}, iterator: x}\n  tool: {kind: noop}\n", 6, "read the rows",
    ),
    "pages": (
        "workflow:\n- step: start\n  tool: {kind: http, url: http://x, retry: {on_success: {while: x}}}\n", 6, "pagination",
    ),
    "pages of a loop": (
        "workflow:\n- step: start\n  loop: {in: [1], iterator: x, pagination: {type: x}}\n  tool: {kind: http, url: http://x}\n", 6, "pagination",
    ),
    "a token in a parameter": (
        "workflow:\n- step: start\n  tool: {kind: http, url: http://x, params: {a: \"{{ token('x') }}\"}}\n", 6, "keychain.<name>",
    ),
    "a timeout that a caller chooses": (
        "workflow:\n- step: start\n  tool: {kind: http, url: http://x, timeout: '{{ t }}'}\n", 6, "number of seconds",
    ),
    "encoded SQL with control characters": (
        "workflow:\n- step: start\n  tool: {kind: postgres, auth: pg, command_b64: U0VMRUNUEyAx}\n", 6, "under `command`",
    ),
    "several results of statements with values": (
        "keychain: [{name: pg, kind: stored}]\nworkflow:\n- step: start\n  tool: {kind: postgres, auth: pg, params: {a: 1}, command: 'SELECT 1; SELECT 2;'}\n"
        "  next: [{step: end, when: '{{ start.command_0.rows }}'}]\n", 7, "a task for each statement",
    ),
    "a step that is left before it runs": (
        "workflow:\n- step: start\n  tool: {kind: noop}\n  case: [{when: \"{{ event.name == 'step.enter' }}\", then: {next: [{step: end}]}}]\n",
        7, "admission rule",
    ),
    "the environment of the worker": (
        "workflow:\n- step: start\n  tool: {kind: shell, cmds: ['echo {{ env.HOME }}']}\n", 6, "declare HOME in `workload`",
    ),
    "a credential in a template": (
        "workload: {n: 1}\nworkflow:\n- step: start\n  tool: {kind: noop, args: {a: '{{ auth.api.token }}', b: '{{ n }}'}}\n", 7, "keychain.<name>",
    ),
    "credentials for duckdb": (
        "workflow:\n- step: start\n  tool: {kind: duckdb, auth: {sf: {type: snowflake, key: x}}, command: SELECT 1}\n", 6, "hand the rows over",
    ),
    "code from elsewhere": (
        "workflow:\n- step: start\n  tool: {kind: python, script: {uri: '{{ workload.x }}', source: {type: gcs}}}\n", 6, "beside the playbook",
    ),
    "a secret of another service": (
        "keychain: [{name: x, kind: other_kind}]\nworkflow: [{step: start, tool: {kind: noop}}]\n", 4, "kind: stored",
    ),
    "a command that YAML splits": (
        "workflow:\n- step: start\n  tool:\n    kind: shell\n    cmds:\n    - echo one\n    - echo \"two: three\"\n", 10, "single quotes",
    ),
    "a key that occurs twice": (
        "workflow:\n- step: start\n  tool: {kind: noop}\n  tool: {kind: noop}\n", 7, "remove one",
    ),
    "a save that names no columns": (
        "workflow:\n- step: start\n  tool: {kind: noop}\n  save: {storage: postgres, table: t, data: '{{ result }}'}\n", 7, "INSERT INTO",
    ),
    "a transfer that names no fields": (
        "keychain: [{name: pg, kind: stored}]\nworkflow:\n- step: start\n  tool: {kind: transfer, source: {type: http, url: http://x}, target: {type: postgres, auth: pg, table: t}}\n",
        7, "kind `postgres` with INSERT",
    ),
    "a filter that compares two parts": (
        "workload: {l: []}\nworkflow:\n- step: start\n  loop: {in: '{{ workload.l }}', iterator: x, filter: '{{ x.a and x.b }}'}\n  tool: {kind: noop}\n",
        7, "selectattr",
    ),
    "arguments by other names": (
        "workflow:\n- step: start\n  tool: {kind: python, args: '{{ workload }}', code: 'def main(**kwargs): return kwargs[\"a\"]'}\n",
        6, "input: {name",
    ),
    "a container with volumes": (
        "workflow:\n- step: start\n  tool: {kind: container, image: a, command: [ls], volumes: [{name: v}]}\n", 6, "into the image",
    ),
    "a script that is chosen elsewhere": (
        "workflow:\n- step: start\n  tool: {kind: script, script: {source: {type: gcs}}}\n", 6, "`object` task",
    ),
    "a transfer that names no columns": (
        "keychain: [{name: a, kind: stored}]\nworkflow:\n- step: start\n  tool: {kind: transfer, source: {kind: snowflake, auth: a, query: SELECT * FROM t}, target: {kind: postgres, auth: a, table: t}}\n",
        7, "one that writes them",
    ),
    "an error with a word of its own": (
        "workflow:\n- step: start\n  tool: {kind: http, url: http://x, on_error: goto_end}\n", 6, "step.failed",
    ),
    "a login with a password": (
        "keychain: [{name: x, kind: oauth2, endpoint: http://x, data: {user: a}}]\nworkflow: [{step: start, tool: {kind: noop}}]\n",
        4, "oauth2_client",
    ),
    "a loop over several steps": (
        "workload: {l: [1]}\nworkflow:\n- step: start\n  loop: {in: '{{ workload.l }}', iterator: x}\n  next: [{step: use, with: {x: '{{ x }}'}}]\n"
        "- step: use\n  tool: {kind: noop, input: {x: '{{ x }}'}}\n", 7, "as a list under `tool`",
    ),
    "a part of an older dialect that no rule knows": (
        "workload: {n: 1}\nworkbook:\n- name: a\n  when: '{{ true }}'\n  type: noop\nworkflow: [{step: start, tool: {kind: noop, input: {n: '{{ n }}'}}}]\n",
        7, "write this part in the canonical form",
    ),
    "code that a caller sends": (
        "workload: {c: null}\nworkflow:\n- step: start\n  tool: {kind: python, libs: {}, code: '{{ workload.c }}'}\n",
        7, "write the text under `code`",
    ),
    "a script that a caller sends": (
        "workflow:\n- step: start\n  tool: {kind: shell, cmds: ['{{ command }}']}\n", 6, "write the text under `sh`",
    ),
    "results of statements of one session": (
        "keychain: [{name: pg, kind: stored}]\nworkflow:\n- step: start\n"
        "  tool: {kind: postgres, auth: pg, command: 'CREATE TEMP TABLE t (a int); SELECT 1; SELECT 2;'}\n"
        "  next: [{step: end, when: '{{ start.command_1.rows }}'}]\n", 7, "a task for each statement",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_with_line_and_way_out(name: str) -> None:
    text, line, advice = REFUSED[name]
    with pytest.raises(PlaybookError) as refused:
        migrate(HEAD + text)
    problems = refused.value.problems
    assert [problem.at.line for problem in problems] == [line]
    assert advice in (problems[0].fix or "")


def test_a_problem_of_the_result_is_shown_where_the_author_wrote_its_cause() -> None:
    made = migrate(book("workflow:\n- step: start\n  # above\n  type: rhai\n  code: x\n  next:\n  - step: nowhere\n"))
    found = check(made.text, KINDS).errors
    assert {(problem.code, made.author_mark(problem.at).line) for problem in found} == {
        ("unknown-kind", 7),
        ("unknown-step", 10),
    }


def test_an_exact_migration_leaves_a_step_also_after_a_failure() -> None:
    text = book(
        "workflow:\n- step: start\n  tool: {kind: noop}\n"
        "  next: {arcs: [{step: end, when: \"{{ event.name == 'step.exit' and output.status == 'error' }}\"}]}\n"
    )
    made = migrate(text, exact=True)
    assert "{{ event.name in ['step.done', 'step.failed'] and output.status == 'error' }}" in made.text
    assert made.notes == ()
