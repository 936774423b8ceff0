"""What tasks of the built-in tools do for a user: the command line checks and runs real playbooks."""

from __future__ import annotations

import asyncio
import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.processes import NOETL, PATIENCE_S, Workspace
from tests.playbooks import HEAD
from tests.services import database, postgres
from tests.wheels import write_wheel


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


PARTS = (
    HEAD
    + """\
workflow:
- step: start
  tool:
  - name: parse
    kind: python
    code: "raise KeyError('price')"
    spec:
      policy:
        rules:
        - when: "{{ output.py.exception_type == 'KeyError' }}"
          then: {do: continue, set: {ctx.missing: "{{ output.py.exception }}"}}
        - else: {then: {do: fail}}
  - name: fetch
    kind: http
    url: http://127.0.0.1:1/
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' }}"
          then: {do: continue, set: {ctx.status: "{{ output.http.status }}"}}
        - else: {then: {do: fail}}
  - {name: result, kind: noop, input: {missing: "{{ ctx.missing }}", status: "{{ ctx.status }}"}}
"""
)


def test_rules_and_set_read_the_own_part_of_failed_calls_d95(workspace: Workspace) -> None:
    code, document = workspace.json("run", workspace.write(PARTS))
    assert (code, document["output"]["data"]) == (0, {"missing": "'price'", "status": None})


def test_a_misspelt_field_of_a_tool_is_refused_before_the_run_d95(workspace: Workspace) -> None:
    file = workspace.write(PARTS.replace("exception_type", "exeption_type"))
    done = workspace.call("run", file)
    assert done.returncode == 2
    assert f'{file.name}:13:21: error: unknown-field: output.py has no part "exeption_type"' in done.stderr
    assert 'did you mean "output.py.exception_type"?' in done.stderr


FILES = (
    HEAD
    + """\
workflow:
- step: start
  tool:
    kind: python
    input: {pattern: "*.csv"}
    code: |
      from counting import count

      def main(pattern):
          return count(pattern)
"""
)


def test_a_python_task_finds_files_and_modules_beside_its_playbook_d108(workspace: Workspace) -> None:
    """A playbook that cron starts from another directory used to find no files, and ended ok."""
    file = workspace.write(FILES, "jobs/daily.yaml")
    workspace.write("import glob\n\ndef count(pattern):\n    return len(glob.glob(pattern))\n", "jobs/counting.py")
    for number in range(50):
        workspace.write("1", f"jobs/{number}.csv")
    elsewhere = workspace.folder / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [NOETL, "run", file, "--format", "json"],
        cwd=elsewhere, env=workspace.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["output"]["data"]) == (0, 50)


def test_a_python_task_gets_its_variables_and_its_packages_d108(workspace: Workspace) -> None:
    write_wheel(workspace.folder / "wheels", "1.0")
    workspace.environment |= {
        "UV_FIND_LINKS": str(workspace.folder / "wheels"),
        "UV_NO_INDEX": "1",
        "XDG_CACHE_HOME": str(workspace.folder / "cache"),
        "CANARY": "of the worker",
    }
    text = (
        HEAD
        + """\
workload: {mode: fast}
workflow:
- step: start
  tool:
    kind: python
    requirements: [noetl-probe==1.0]
    env: {MODE: "{{ workload.mode }}"}
    code: |
      import os
      import noetl_probe

      result = [noetl_probe.VERSION, os.environ["MODE"], os.environ.get("CANARY")]
"""
    )
    code, document = workspace.json("run", workspace.write(text))
    assert (code, document["output"]["data"]) == (0, ["1.0", "fast", None])


def test_code_that_cannot_run_is_refused_before_the_run_d108(workspace: Workspace) -> None:
    misfit = workspace.write(FILES.replace("{pattern: ", "{patern: "), "misfit.yaml")
    done = workspace.call("check", misfit)
    assert done.returncode == 2
    assert f'{misfit}:8:13: warning: unused-argument: the code of "start_task" does not use "patern"' in done.stdout
    assert f'{misfit}:12:16: error: missing-argument: main of "start_task" requires "pattern"' in done.stdout
    broken = workspace.write(FILES.replace("return count(", "return = count("), "broken.yaml")
    done = workspace.call("run", broken)
    assert done.returncode == 2
    assert f"{broken}:13:18: error: bad-code: the code of" in done.stderr


def test_values_in_a_shell_script_are_data_d109(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
workload: {name: "it's $(touch pwned); `id`", files: [a b, "*"]}
workflow:
- step: start
  tool:
    kind: shell
    sh: |
      printf '[%s]' {{ workload.name }} "{{ workload.name }}" '{{ workload.name }}'
      for file in {{ workload.files }}; do printf '<%s>' "$file"; done
      cat <<END
      {{ workload.name }}
      END
"""
    )
    code, document = workspace.json("run", workspace.write(text))
    name = "it's $(touch pwned); `id`"
    assert (code, document["output"]["data"]) == (0, f"[{name}]" * 3 + f"<a b><*>{name}")
    assert not (workspace.folder / "pwned").exists()


def test_raw_shell_runs_the_value_and_the_check_warns_d109(workspace: Workspace) -> None:
    body = "workload: {command: echo a b}\nworkflow:\n- {step: start, tool: {kind: shell, sh: '{{ workload.command%s }}'}}\n"
    raw = workspace.write(HEAD + body % " | raw_shell", "raw.yaml")
    code, document = workspace.json("run", raw)
    assert (code, document["output"]["data"]) == (0, "a b")
    assert (
        ":6:64: warning: raw-shell: the shell interprets the value as a part of the script"
        in workspace.call("check", raw).stdout
    )
    word = workspace.write(HEAD + body % "", "word.yaml")
    assert ":6:41: warning: shell-word: the value is one word" in workspace.call("check", word).stdout
    code, document = workspace.json("run", word)
    assert (code, document["error"]["kind"]) == (1, "shell")


VALIDATED = (
    HEAD
    + """\
workload: {rows: [{id: 1}]}
workflow:
- step: start
  tool:
    name: load
    kind: python
    input: {rows: "{{ workload.rows }}"}
    code: "def main(rows): return rows"
    spec:
      validate: {type: array, items: {type: object, required: [id], properties: {id: {type: integer}}}}
      policy:
        rules:
        - when: "{{ output.error.kind == 'validation' and workload.tolerant | default(false) }}"
          then: {do: continue, set: {ctx.problems: "{{ output.error.details.problems }}"}}
        - when: "{{ output.status == 'error' }}"
          then: {do: fail}
        - else: {then: {do: continue}}
  next: {arcs: [{step: result}]}
- step: result
  tool: {kind: noop, input: {problems: "{{ ctx.problems | default([]) }}"}}
"""
)


def test_an_output_that_does_not_fit_its_schema_is_an_error_of_kind_validation(workspace: Workspace) -> None:
    file = workspace.write(VALIDATED)
    code, document = workspace.json("run", file)
    assert (code, document["output"]["data"]) == (0, {"problems": []})
    code, document = workspace.json("run", file, "--set", 'rows=[{id: 1}, {id: "canary"}]')
    assert (code, document["error"]["kind"]) == (1, "validation")
    expected = "output.data[1].id: expected an integer, got text"
    assert document["error"]["message"] == f"the output does not fit spec.validate: {expected}"
    code, document = workspace.json("run", file, "--set", "rows=[{}]", "--set", "tolerant=true")
    assert (code, document["output"]["data"]) == (0, {"problems": ["output.data[0].id: it is missing"]})


def test_the_output_of_a_child_playbook_is_validated_too(workspace: Workspace) -> None:
    workspace.write(
        HEAD.replace("path: t", "path: child") + "workflow:\n- {step: start, tool: {kind: noop, input: {n: x}}}\n",
        "child.yaml",
    )
    call = "{kind: playbook, path: child.yaml, spec: {validate: {type: object, properties: {n: {type: integer}}}}}"
    file = workspace.write(f"{HEAD}workflow:\n- {{step: start, tool: {call}}}\n")
    code, document = workspace.json("run", file)
    assert (code, document["error"]["kind"]) == (1, "validation")
    assert "output.data.n: expected an integer, got text" in document["error"]["message"]


class Refusing(BaseHTTPRequestHandler):
    """Refuses every request, and repeats its query."""

    def do_GET(self) -> None:
        body = json.dumps({"detail": "page must be a number", "query": self.path}).encode()
        self.send_response(422)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests quiet."""


def test_a_failed_request_shows_its_query_and_the_answer_without_secrets(workspace: Workspace) -> None:
    workspace.environment["API_TOKEN"] = "canary/with+signs"
    text = (
        HEAD
        + """\
keychain: [{name: api, kind: bearer, token: {env: API_TOKEN}}]
workload: {url: ""}
workflow:
- step: start
  tool:
    kind: http
    url: "{{ workload.url }}/items?api_key=plain-canary"
    params: {page: two, q: "{{ keychain.api }}"}
"""
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, document = workspace.json("run", workspace.write(text), "--set", f"url={url}")
        server.shutdown()
        thread.join()
    message = document["error"]["message"]
    asked = f"HTTP 422 Unprocessable Entity from GET {url}/items?api_key=***&page=two&q=***"
    assert (code, message.startswith(f'{asked}: {{"detail": "page must be a number"')) == (1, True), message
    log = workspace.call("events", "last", "--format", "json").stdout
    assert "canary/with" not in log + message
    assert "canary%2Fwith" not in log + message


def test_connections_of_postgres_limit_parallel_iterations(workspace: Workspace) -> None:
    text = (
        HEAD
        + """\
keychain: [{name: db, kind: postgres_credential, dsn: {env: TEST_DSN}}]
executor: {spec: {postgres: {connections: 2}}}
workflow:
- step: start
  loop: {in: "{{ range(20) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
  tool: {kind: postgres, auth: db, query: "SELECT pg_backend_pid() AS pid, pg_sleep(0.02)"}
"""
    )

    async def work() -> set[int]:
        async with database() as name:
            workspace.environment["TEST_DSN"] = postgres().dsn(name)
            code, document = await asyncio.to_thread(workspace.json, "run", workspace.write(text))
            assert code == 0, document
            return {row["pid"] for rows in document["output"]["data"] for row in rows}

    assert 1 <= len(asyncio.run(work())) <= 2
