"""Where an execution failed and what to do about it, on a real file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from noetl.runtime.embedded import open_embedded
from noetl.testing import FakeClock
from tests.playbooks import HEAD
from tests.unit.cli.executed import AT, CHILD, LEFT, started
from tests.unit.cli.invoke import run_explain_execution, run_retry, run_run, run_show

WRONG = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: nowhere}, {step: nobody}]}\n"
WHY = (
    'the playbook has 2 problems, the first at 7:24: unknown-step: arc of "start" leads to "nowhere",'
    " which is not a step; the steps are start"
)
NEVER = f"it never started: {WHY}; fix that and run it again: noetl run FILE"

BROKEN_LOOP = (
    HEAD
    + """
workflow:
- step: start
  loop: {in: [2, 1, 0], iterator: n}
  tool: {kind: noop, input: {n: "{{ 1 // iter.n }}"}}
"""
)
CONFLICT = (
    HEAD
    + """
workflow:
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, set: {ctx.n: "{{ iter.n }}"}}
"""
)
PRINTING = (
    HEAD
    + """
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n}
  tool:
    kind: shell
    sh: seq -f 'line %g' 1 12; test "$n" = 1 || { echo "it is $n" >&2; false; }
    env: {n: "{{ iter.n }}"}
"""
)
TOLERANT = (
    HEAD
    + """
workflow:
- step: start
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [0, 1, 0, 0, 0, 0, 0, 0], iterator: n}
  tool: {kind: noop, input: {n: "{{ 10 // iter.n }}"}}
  next: {arcs: [{step: after}]}
- {step: after, tool: {kind: noop, input: {n: "{{ 1 // 0 }}"}}}
"""
)
CALLING_LOOP = (
    HEAD.replace("path: t", "path: demo/callers")
    + """
workflow:
- step: start
  loop: {in: [ann, bob], iterator: name}
  tool: {kind: playbook, path: demo/child, input: {name: "{{ iter.name }}"}}
"""
)


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A database with a request that was refused for its problems."""
    file, db = tmp_path / "wrong.yaml", str(tmp_path / "own.db")
    file.write_text(WRONG)
    assert run_run(str(file), db=db) == 2
    capsys.readouterr()
    return db


def test_what_never_began_can_not_be_taken_up_and_says_why(refused: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_retry("last", refused) == 1
    never = f"{NEVER} --db {refused}"
    assert capsys.readouterr() == ("", f"noetl: {never}\n")
    assert run_retry("last", refused, "--step", "start", "--format", "json") == 1
    assert json.loads(capsys.readouterr().out)["error"] == {"kind": "never-began", "message": never}


@pytest.mark.parametrize("step", ["start", None])
def test_no_step_of_what_never_began_is_explained(
    refused: str, step: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explain_execution("last", step, refused, "auto") == 1
    assert capsys.readouterr() == ("", f"noetl: {NEVER} --db {refused}\n")


def test_what_never_began_is_shown_with_what_to_do(refused: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_show("last", "plain", refused) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "",
        f"error  problems: {WHY}",
        "it did not start: fix the error, and run it again",
    ]


def run_here(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """What `run` and then `show` say."""
    file, db = tmp_path / "t.yaml", str(tmp_path / "own.db")
    file.write_text(text)
    assert run_run(str(file), db=db) == 1
    ran = capsys.readouterr().out.splitlines()
    assert run_show("last", "plain", db) == 0
    return ran, capsys.readouterr().out.splitlines()


def test_a_loop_that_failed_names_its_iteration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran, shown = run_here(tmp_path, BROKEN_LOOP, capsys)
    (told,) = [line for line in ran if line.startswith("template in ")]
    assert told.startswith("template in start#1[2]: ")
    assert shown[-1].startswith("error in start#1[2]  template: ")


def test_values_that_conflict_are_of_no_one_iteration_and_name_the_reducer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D47."""
    cure = "loop.spec.policy.reduce: {ctx.n: last} keeps the last value; append, sum and others combine them"
    ran, shown = run_here(tmp_path, CONFLICT, capsys)
    assert cure in ran
    assert shown[-2].startswith("error in start#1  ctx-conflict: ")
    assert shown[-1] == cure


def test_what_the_call_that_failed_has_printed_stands_below_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran, shown = run_here(tmp_path, PRINTING, capsys)
    printed = ["printed:", *(f"  line {number}" for number in range(4, 13)), "  it is 2"]
    assert (ran[-12:-1], shown[-11:]) == (printed, printed)


def test_failures_that_were_tolerated_are_listed_by_their_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, shown = run_here(tmp_path, TOLERANT, capsys)
    words = 'template: input of task "start_task": "{{ 10 // iter.n }}": division by zero'
    below = [line.strip("│├└─ ") for line in shown]
    assert [line for line in below if line.startswith(("[", "…"))] == [
        *(f"[{index}] {words}" for index in (0, 2, 3, 4, 5)),
        "… 2 more failed",
    ]


def test_executions_that_iterations_have_called_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def fill() -> None:
        async with open_embedded(tmp_path / "own.db", clock=FakeClock(AT), slots=1) as runtime:
            await runtime.playbooks.add(CHILD, None)
            await started(runtime, CALLING_LOOP, LEFT)
            await runtime.wait_until_idle(LEFT)

    asyncio.run(fill())
    assert run_show(LEFT, "plain", str(tmp_path / "own.db")) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("called")
    assert [line.split()[1:] for line in lines[place + 1 : place + 3]] == [
        ["demo/child", "ok", "by", "start#1[0]"],
        ["demo/child", "ok", "by", "start#1[1]"],
    ]
