"""`noetl run` as a person or a program calls it: documents, lines, exit codes, what is imported."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import NOETL, ROOT, Workspace
from tests.playbooks import HEAD

OK = (
    HEAD
    + """\
workload: {name: world, options: {depth: 1, wide: false}}
workflow:
- step: start
  tool: {kind: noop, input: {text: "hello, {{ workload.name }}", options: "{{ workload.options }}"}}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ range(3) }}", iterator: n}
  tool: {kind: python, input: {n: "{{ iter.n }}"}, code: "def main(n): return n * n"}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop, input: {squares: "{{ range(3) }}", name: "{{ workload.name }}"}}
"""
)
FAILING = HEAD + "workflow:\n- {step: start, tool: {kind: python, code: 'def main(): return 1 // 0'}}\n"
WRONG = HEAD + "workflow:\n- {step: start, next: {arcs: [{step: no}]}}\n"
FIRST_OF_WRONG = (
    'the playbook has 1 problem, at 5:38: unknown-step: arc of "start" leads to "no", which is not a step;'
    " the steps are start"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def without_times(document: dict[str, object]) -> dict[str, object]:
    """Instants and lengths of time are different each time: only that they are there counts."""
    text = re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"at"', json.dumps(document))
    made: dict[str, object] = json.loads(re.sub(r'("duration_s": )[\d.e-]+', r"\g<1>0", text))
    return made


def test_the_document_of_a_run_that_goes_well_is_all_there_is_on_standard_output(
    workspace: Workspace,
) -> None:
    """D76."""
    code, document = workspace.json("run", workspace.write(OK))
    id = document["execution_id"]
    assert (code, re.fullmatch(r"[0-9a-f-]{36}", id) is not None) == (0, True)
    once = {"started": "at", "ended": "at", "duration_s": 0}
    assert without_times(document) == {
        "execution_id": id,
        "status": "ok",
        "output": {"status": "ok", "data": {"squares": [0, 1, 2], "name": "world"}},
        "error": None,
        "duration_s": 0,
        "steps": [
            {"id": "start#1", "step": "start", "status": "ok", **once, "calls": 1},
            {
                "id": "each#1", "step": "each", "status": "ok", **once,
                "iterations": {"count": 3, "succeeded": 3, "failed": 0}, "calls": 3,
            },
            {"id": "last#1", "step": "last", "status": "ok", **once, "calls": 1},
        ],
    }  # fmt: skip


def test_plain_lines_say_what_ends_and_a_table_closes_the_run(workspace: Workspace) -> None:
    done = workspace.call("run", workspace.write(OK))
    assert (done.returncode, done.stderr) == (0, "")
    said = re.sub(r"\d+\.\d\d s", "0.00 s", done.stdout)
    id = done.stdout[:36]
    assert [line for line in said.splitlines() if not line.startswith("▶ ")] == [
        id,
        "✓ start  0.00 s",
        "✓ each  0.00 s  3 iterations",
        "✓ last  0.00 s",
        "",
        "  step   status  time    iterations  calls",
        "  start  ok      0.00 s              1",
        "  each   ok      0.00 s  3           3",
        "  last   ok      0.00 s              1",
        "",
        f"ok in 0.00 s  {id}",
        "output:",
        "  squares:",
        "  - 0",
        "  - 1",
        "  - 2",
        "  name: world",
    ]


def test_a_run_that_fails_exits_with_1_and_says_where_and_why(workspace: Workspace) -> None:
    file = workspace.write(FAILING)
    code, document = workspace.json("run", file)
    error = document["error"]
    assert (code, document["status"], error["kind"], error["step"], error["run"]) == (
        1, "error", "python", "start", "start#1",
    )  # fmt: skip
    assert "ZeroDivisionError" in error["message"]
    told = workspace.call("run", file).stdout
    assert "✗ start  python: ZeroDivisionError" in told
    assert "python in start#1: ZeroDivisionError" in told
    assert "def main(): return 1 // 0" in told  # the line of the traceback
    assert "noetl retry" in told


def test_problems_exit_with_2_and_the_request_is_on_record(workspace: Workspace) -> None:
    """D65, D78."""
    code, document = workspace.json("run", workspace.write(WRONG), "--set", "n=1")
    id = document.pop("execution_id")
    assert (code, document["status"], document["error"]) == (
        2,
        "error",
        {"kind": "problems", "message": FIRST_OF_WRONG},
    )
    assert [each["code"] for each in document["problems"] if each["severity"] == "error"] == ["unknown-step"]
    assert workspace.json("resume", id) == (
        1,
        {
            "execution_id": id, "status": "error", "output": None, "duration_s": 0.0, "steps": [],
            "error": {"kind": "problems", "message": FIRST_OF_WRONG},
        },
    )  # fmt: skip


@pytest.mark.parametrize("text", ["{", "[]", "a: b\n", HEAD.replace("path: t", "path: 3") + "workflow: []\n"])
def test_text_without_a_path_is_refused_without_a_record(text: str, workspace: Workspace) -> None:
    """D78."""
    code, document = workspace.json("run", workspace.write(text))
    assert (code, document["execution_id"], document["error"]["kind"]) == (2, None, "problems")
    assert not workspace.db.exists()


def test_set_beats_workload_beats_defaults_and_maps_merge_deep(workspace: Workspace) -> None:
    """D77."""
    text = HEAD + (
        "workload: {a: 1, b: {c: 2, d: 3}, e: [1, 2]}\n"
        "workflow:\n- {step: start, tool: {kind: noop, input: {all: '{{ workload }}'}}}\n"
    )
    values = workspace.write('{"a": "x", "b": {"c": 5}, "e": [3]}', "values.json")
    done = workspace.call(
        "run", workspace.write(text), "--workload", values, "--set", "b.d={n: [1, yes]}", "--set", "f.g=",
        "--set", "b.c=7", "--format", "json",
    )  # fmt: skip
    assert json.loads(done.stdout)["output"]["data"] == {
        "all": {"a": "x", "b": {"c": 7, "d": {"n": [1, "yes"]}}, "e": [3], "f": {"g": None}}
    }
    assert 'noetl: the playbook\'s workload has no "f"\n' in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "novalue"], "key=value"),
        (["--set", "a..b=1"], "is not a key"),
        (["--set", "a={"], "--set a: "),
        (["--set", "a=!!python/object:x 1"], "not supported"),
        (["--set", "a=1e999"], "finite"),
        (["--workload", "none.yaml"], "none.yaml: there is no such file"),
        (["--workload", "list.yaml"], "it must contain a mapping"),
        (["--workload", "bad.yaml"], "bad.yaml:2:2: "),
    ],
)
def test_a_workload_that_can_not_be_read_is_wrong_usage(arguments: list[str], words: str, workspace: Workspace) -> None:
    workspace.write("[1]", "list.yaml")
    workspace.write("a: [\n]]", "bad.yaml")
    code, document = workspace.json("run", workspace.write(OK), *arguments)
    assert (code, document["execution_id"], document["error"]["kind"]) == (2, None, "usage")
    assert words in document["error"]["message"]
    assert not workspace.db.exists()


def test_an_older_dialect_is_upgraded_in_memory_and_what_was_upgraded_is_run(workspace: Workspace) -> None:
    old = HEAD + "workflow:\n- {step: start, tool: {kind: noop, args: {n: 1}}, next: [{step: end}]}\n"
    file = workspace.write(old)
    assert workspace.json("run", file)[0] == 2
    done = workspace.call("run", file, "--dialect", "auto", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["status"], "note: " in done.stderr) == (0, "ok", True)
    assert file.read_text() == old


def test_a_child_is_a_file_beside_its_caller_and_resume_finds_it_from_elsewhere(workspace: Workspace) -> None:
    child = HEAD.replace("path: t", "path: t/child") + (
        "workflow:\n- {step: start, tool: {kind: noop, input: {got: '{{ workload.n }}'}}}\n"
    )
    workspace.write(child, "parts/child.yaml")
    text = HEAD + "workflow:\n- {step: start, tool: {kind: playbook, path: child.yaml, input: {n: 3}}}\n"
    code, document = workspace.json("run", workspace.write(text, "parts/parent.yaml"))
    assert (code, document["output"]["data"]) == (0, {"got": 3})
    # The child was started later, but not by the user: `last` is its parent.
    assert workspace.json("resume", "last")[1]["execution_id"] == document["execution_id"]


def test_warnings_are_counted_on_standard_error_and_stop_nothing(workspace: Workspace) -> None:
    """D78."""
    file = workspace.write(HEAD + "workflow:\n- {step: start}\n")
    done = workspace.call("run", file)
    assert (done.returncode, done.stderr) == (0, f"noetl: 1 warning; see noetl check {file}\n")


def test_a_playbook_from_standard_input_runs(workspace: Workspace) -> None:
    done = workspace.call("run", "-", "--format", "json", input=OK)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "ok")


def test_a_file_that_is_no_database_of_ours_exits_with_3(workspace: Workspace) -> None:
    workspace.db.write_text("no database, but a text that is long enough to be read as one " * 20)
    code, document = workspace.json("run", workspace.write(OK))
    assert (code, document["execution_id"], document["error"]) == (
        3,
        None,
        {
            "kind": "unavailable",
            "message": f'"{workspace.db}" is not a database: choose another file, or move it',
        },
    )


def test_a_folder_that_may_not_be_made_exits_with_3_and_no_traceback(workspace: Workspace) -> None:
    workspace.write("", "plain")
    done = workspace.call("run", workspace.write(OK), "--db", workspace.folder / "plain" / "noetl.db")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "cannot be opened" in done.stderr


def test_a_path_that_is_given_and_new_is_said_once(workspace: Workspace) -> None:
    db = workspace.folder / "nosuch" / "x.db"
    first, second = (workspace.call("run", workspace.write(OK), "--db", db) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, f"noetl: a new database: {db}\n")
    assert (second.returncode, second.stderr) == (0, "")


def test_a_run_in_a_pipe_imports_only_what_it_needs(workspace: Workspace) -> None:
    program = (
        "import sys, noetl.__main__ as m\ntry: m.main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", ROOT / "examples/hello.yaml"],
        capture_output=True, text=True, check=True, env=workspace.environment,
    )  # fmt: skip
    heavy = {
        "litestar", "uvicorn", "aiohttp", "asyncpg", "nats", "obstore", "duckdb", "rich", "typer", "click",
        "apsw", "jinja2", "mcp", "pydantic", "importlib.metadata", "email", "zipfile",
    }  # fmt: skip
    assert set(done.stderr.split()) & heavy == {"apsw"}


def test_a_locale_without_unicode_gets_the_document_all_the_same(workspace: Workspace) -> None:
    workspace.environment |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    code, document = workspace.json("run", workspace.write(OK), "--set", "name=wörld")
    assert (code, document["output"]["data"]["name"]) == (0, "wörld")
    done = workspace.call("run", workspace.write(WRONG + "# ö\n"))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_the_example_of_make_run_runs(workspace: Workspace) -> None:
    code, document = workspace.json("run", ROOT / "examples/word_count.yaml", "--set", "many=10")
    assert (code, document["output"]["data"]) == (
        0, {"verdict": "long", "words": 16, "longest": ["truth", "state", "Whatever"]},
    )  # fmt: skip


def test_a_reader_that_has_seen_enough_does_not_stop_the_execution(workspace: Workspace) -> None:
    arguments, flag, _ = workspace.slow()
    with workspace.started(*arguments) as run:
        id = run.read_until("▶ slow")[0]
        assert run.process.stdout is not None
        run.process.stdout.close()
        flag.touch()
        assert run.process.wait() == 141
        assert run.process.stderr is not None
        assert run.process.stderr.read() == ""
    assert workspace.json("resume", id)[1]["status"] == "ok"


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_a_terminal_shows_rows_with_colours_and_the_cursor_comes_back(workspace: Workspace) -> None:
    ours, theirs = pty.openpty()
    arguments, flag, _ = workspace.slow()
    environment = {**workspace.environment, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [NOETL, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=workspace.folder
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # Linux says so when the last writer has gone
                break
            if not part:
                break
            seen += part
            if "● slow" in without_escapes(seen.decode(errors="ignore")):
                flag.touch()
        assert process.wait() == 0
    os.close(ours)
    text = seen.decode()
    assert "\x1b[?25l" in text  # the cursor is hidden while rows are drawn
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    plain = without_escapes(text)
    assert [word in plain for word in ("✓ start", "● slow", "✓ slow", "✓ after", "ok in ")] == [True] * 5
