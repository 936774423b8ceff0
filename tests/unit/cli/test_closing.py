"""The table, the output and the error at the end of an execution."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.cli.closing import OUTPUT_LINES_MAX, STEPS_SHOWN_MAX, closing
from noetl.output import JSON
from noetl.views.documents import ShowDocument

ID = "01a1df73-f57c-7914-bb45-80921dc2a2bb"
STEP = {"id": "a#1", "step": "a", "status": "ok", "duration_s": 0.5, "calls": 1}


def told(columns: int = 60, **parts: Any) -> list[str]:
    plain: dict[str, Any] = {
        "execution_id": ID,
        "status": "ok",
        "output": None,
        "error": None,
        "duration_s": 1.5,
        "steps": [],
    }
    document = msgspec.convert({**plain, **parts}, ShowDocument)
    return ["".join(piece.text for piece in line).rstrip() for line in closing(document, columns)]


def output(data: JSON) -> dict[str, JSON]:
    return {"status": "ok", "data": data}


def test_steps_are_a_table_with_iterations_retries_and_what_they_wait_for() -> None:
    steps = [
        STEP,
        {**STEP, "id": "a#2", "status": "error", "handled": True, "calls": 3, "retries": 2},
        {**STEP, "id": "b#1", "step": "b", "iterations": {"count": 10_000, "succeeded": 9_999, "failed": 1}},
        {"id": "b#1>0", "step": "c", "status": "waiting", "why": "is not admitted"},
    ]
    assert told(steps=steps) == [
        "",
        "  step   status          time    iterations        calls",
        "  a      ok              0.50 s                    1",
        "  a#2    error, handled  0.50 s                    3, 2 retried",
        "  b      ok              0.50 s  10,000, 1 failed  1",
        "  b#1>0  waiting                                   is not admitted",
        "",
        f"ok in 1.50 s  {ID}",
    ]


def test_of_many_steps_the_first_and_the_last_are_shown() -> None:
    lines = told(steps=[{**STEP, "id": f"a#{number}"} for number in range(1, 1_001)])
    assert len(lines) == STEPS_SHOWN_MAX + 5
    assert lines[STEPS_SHOWN_MAX // 2 + 2].strip() == "… 960 more: noetl show 01a1df73-f57c-7914"


def test_output_is_yaml_and_cut_with_a_way_to_see_it_all() -> None:
    assert told(output=output({"a": [1, "x"]}))[4:] == ["output:", "  a:", "  - 1", "  - x"]
    assert told(output=output("two\nlines"))[4:] == ["output:", "  two", "  lines"]
    assert told(output=output(3))[4:] == ["output:", "  3"]
    lines = told(output=output(list(range(100))))[4:]
    assert lines[-1] == "  … 80 lines more, see noetl output 01a1df73-f57c-7914"
    assert len(lines) == OUTPUT_LINES_MAX + 2
    assert told(20, output=output("x" * 1_000_000))[5] == f"  {'x' * 17}…"


def test_a_large_output_is_only_named() -> None:
    reference = {"type": "blob", "meta": {"bytes": 70_000}}
    lines = told(output={**output(None), "ref": reference})
    assert lines[4:] == ["output: 70,000 bytes, see noetl output 01a1df73-f57c-7914"]
    assert told(output=output(None))[4:] == []


def test_an_error_says_where_with_the_lines_of_its_traceback() -> None:
    error = {"kind": "python", "message": "ValueError: no\nreally", "step": "a", "run": "a#1"}
    trace = {"details": {"traceback": "line 1, in main\n    raise ValueError"}}
    assert told(status="error", error={**error, **trace})[3:] == [
        f"error in 1.50 s  {ID}",
        "python in a#1: ValueError: no",
        "  really",
        "  line 1, in main",
        "      raise ValueError",
        "noetl show 01a1df73-f57c-7914 tells more; noetl retry 01a1df73-f57c-7914 takes up what failed",
    ]


def test_a_paused_execution_says_how_to_go_on() -> None:
    assert told(status="paused")[-1] == "go on with: noetl resume 01a1df73-f57c-7914"
