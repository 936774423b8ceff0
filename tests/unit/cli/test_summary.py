"""The table, the output and the error at the end of an execution."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.cli.output.summary import OUTPUT_LINES_MAX, STEPS_SHOWN_MAX, summary
from noetl.output import JSON
from noetl.views.documents import ShowDocument

ID = "01a1df73-f57c-7914-bb45-80921dc2a2bb"
COLUMNS = 60
STEP = {"id": "a#1", "step": "a", "status": "ok", "duration_s": 0.5, "calls": 1}


def summarized(columns: int = COLUMNS, hint: str = "", **parts: Any) -> list[str]:
    plain: dict[str, Any] = {
        "execution_id": ID,
        "status": "ok",
        "output": None,
        "error": None,
        "duration_s": 1.5,
        "steps": [],
    }
    document = msgspec.convert({**plain, **parts}, ShowDocument)
    return ["".join(piece.text for piece in line).rstrip() for line in summary(document, columns, hint)]


def output(data: JSON) -> dict[str, JSON]:
    return {"status": "ok", "data": data}


def test_steps_are_a_table_with_iterations_retries_and_what_they_wait_for() -> None:
    steps = [
        STEP,
        {**STEP, "id": "a#2", "status": "error", "handled": True, "calls": 3, "retries": 2},
        {**STEP, "id": "b#1", "step": "b", "iterations": {"count": 10_000, "succeeded": 9_999, "failed": 1}},
        {"id": "b#1>0", "step": "c", "status": "waiting", "why": "is not admitted"},
    ]
    assert summarized(steps=steps) == [
        "",
        "  step   status          time    iterations        calls",
        "  a      ok              0.50 s                    1",
        "  a#2    error, handled  0.50 s                    3, 2 retried",
        "  b      ok              0.50 s  10,000, 1 failed  1",
        "  b#1>0  waiting                                   is not admitted",
        "",
        f"ok in 1.50 s  {ID}",
        "what failed: noetl show 01a1df73-f57c-7914",
    ]


def test_of_many_steps_the_first_and_the_last_are_shown() -> None:
    lines = summarized(steps=[{**STEP, "id": f"a#{number}"} for number in range(1, 1_001)])
    assert len(lines) == STEPS_SHOWN_MAX + 5
    assert lines[STEPS_SHOWN_MAX // 2 + 2].strip() == "… 960 more: noetl show 01a1df73-f57c-7914"


def test_output_is_yaml_and_cut_with_a_way_to_see_it_all() -> None:
    assert summarized(output=output({"a": [1, "x"]}))[2:] == ["output:", "  a:", "  - 1", "  - x"]
    assert summarized(output=output("two\nlines"))[2:] == ["output:", "  two", "  lines"]
    assert summarized(output=output(3))[2:] == ["output:", "  3"]
    lines = summarized(output=output(list(range(100))))[2:]
    assert lines[-1] == "  … 80 more lines, see noetl output 01a1df73-f57c-7914"
    assert len(lines) == OUTPUT_LINES_MAX + 2
    assert summarized(20, output=output("x" * 1_000_000))[3] == f"  {'x' * 17}…"


def test_a_large_output_is_only_named() -> None:
    reference = {"type": "blob", "meta": {"bytes": 70_000}}
    lines = summarized(output={**output(None), "ref": reference})
    assert lines[2:] == ["output: 70,000 bytes, see noetl output 01a1df73-f57c-7914"]
    assert summarized(output=output(None))[2:] == []


def test_an_error_says_where_with_the_lines_of_its_traceback() -> None:
    error = {"kind": "python", "message": "ValueError: no\nreally", "step": "a", "run": "a#1"}
    trace = {"details": {"traceback": "line 1, in main\n    raise ValueError"}}
    assert summarized(status="error", error={**error, **trace}, steps=[STEP])[4:] == [
        f"error in 1.50 s  {ID}",
        "python in a#1: ValueError: no",
        "  really",
        "  line 1, in main",
        "      raise ValueError",
        "why it failed: noetl explain 01a1df73-f57c-7914 a; retry what failed: noetl retry 01a1df73-f57c-7914",
    ]


def test_an_error_ends_with_what_was_printed_before_it() -> None:
    error = {"kind": "python", "message": "no", "step": "a", "run": "a#1", "printed": f"one\n{'x' * 80}"}
    lines = summarized(status="error", error=error, steps=[STEP])
    assert lines[6:9] == ["printed:", "  one", f"  {'x' * 57}…"]


def test_a_paused_execution_says_how_to_go_on() -> None:
    assert summarized(status="paused")[-1] == "continue with: noetl resume 01a1df73-f57c-7914"


def test_a_loop_that_failed_names_its_iteration() -> None:
    error = {"kind": "http", "message": "HTTP 404", "step": "a", "run": "a#1", "iteration": 1}
    assert summarized(status="error", error=error)[2] == "http in a#1[1]: HTTP 404"


def test_of_a_list_of_loops_all_iterations_of_the_last_one_are_lines() -> None:
    inside = {"count": 45, "succeeded": 44, "failed": 1}
    step = {**STEP, "iterations": {"count": 6, "succeeded": 6, "failed": 0, "inside": inside}, "calls": 50}
    assert summarized(steps=[step])[2] == "  a     ok      0.50 s  6; 45, 1 failed inside  50"


def test_every_command_that_is_named_goes_to_the_server_that_was_asked() -> None:
    there = 60, " --server up"
    name = "01a1df73-f57c-7914 --server up"
    error = {"kind": "http", "message": "HTTP 404", "step": "a", "run": "a#1"}
    steps = [{**STEP, "id": f"a#{number}"} for number in range(1, 1_001)]
    assert f"… 960 more: noetl show {name}" in [line.strip() for line in summarized(*there, steps=steps)]
    assert summarized(*there, output=output(list(range(100))))[-1] == f"  … 80 more lines, see noetl output {name}"
    assert summarized(*there, status="paused")[-1] == f"continue with: noetl resume {name}"
    assert summarized(*there, status="running")[-1] == f"more: noetl show {name}"
    last = summarized(*there, status="error", error=error, steps=[STEP])[-1]
    why = "why it failed: noetl explain 01a1df73-f57c-7914 a --server up"
    assert last == f"{why}; retry what failed: noetl retry {name}"
    limit = {"kind": "limit", "message": "too many"}  # of no step
    last = summarized(*there, status="error", error=limit, steps=[STEP])[-1]
    assert last == f"more: noetl show {name}; retry what failed: noetl retry {name}"


def test_after_an_error_in_a_template_no_retry_is_proposed() -> None:
    error = {"kind": "template", "message": "ctx.a is undefined", "step": "a", "run": "a#1"}
    why = "why it failed: noetl explain 01a1df73-f57c-7914 a"
    expected = f"{why}; correct the playbook and continue: noetl fork 01a1df73-f57c-7914 --playbook FILE"
    assert summarized(status="error", error=error, steps=[STEP])[-1] == expected


def test_without_steps_there_is_no_table_of_them() -> None:
    error = {"kind": "problems", "message": "the playbook has 1 problem"}
    assert summarized(status="error", error=error) == [
        "",
        f"error in 1.50 s  {ID}",
        "problems: the playbook has 1 problem",
        "it did not start: fix the error, and run it again",
    ]


def test_values_that_no_reducer_folds_name_where_one_is_declared_d47() -> None:
    message = 'iterations write different values to "ctx.words" and no reducer folds them'
    error = {"kind": "ctx-conflict", "message": message, "step": "a", "run": "a#1"}
    assert summarized(status="error", error=error)[2:4] == [
        f"ctx-conflict in a#1: {message}",
        "loop.spec.policy.reduce: {ctx.words: last} keeps the last value; append, sum and others combine them",
    ]
    misfit = {**error, "message": 'reducer "sum" of "ctx.words": text is no number'}
    assert len(summarized(status="error", error=misfit)) == 4


def test_a_missing_value_of_the_workload_names_the_option_that_sets_it() -> None:
    message = 'input of task "a": "{{ workload.day }}": workload.day is undefined'
    error = {"kind": "template", "message": message, "step": "a", "run": "a#1"}
    assert summarized(status="error", error=error)[3] == (
        "`--set day=VALUE` of `noetl run` sets it, or a default under `workload:`"
    )
    assert len(summarized(status="error", error={**error, "message": "ctx.day is undefined"})) == 4
