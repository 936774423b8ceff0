"""The final state of an execution, without the parts that differ between deployments: instants, ids, addresses, stores."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from noetl.engine import facts
from noetl.output import JSON, Failure, Output
from noetl.ports import LogRow
from noetl.testing.scenario import audit
from noetl.views.documents import StepDocument, read_runs, show_document
from noetl.views.log import events_of

ID_CHARS = 36  # of a real id; the scenario player uses one letter


def final(
    execution_id: str,
    rows: list[LogRow],
    words: dict[str, str] | None = None,
    unordered: tuple[str, ...] = (),
) -> dict[str, JSON]:
    """Status, output, ctx, and the outputs of all runs and frames. It also audits the log.

    `words`: texts that differ between deployments, such as addresses, and their replacements. `unordered`: keys of lists
    whose order depends on concurrent events.
    """
    state = audit(execution_id, rows)
    runs = read_runs(execution_id, events_of(rows))
    document = show_document(runs)
    made = {
        "status": state.status,
        "output": _output(state.end_output),
        "failure": _failure(state.failure),
        "failed_step": state.failed_step,
        "ctx": state.ctx,
        "workload": state.workload,
        "waiting": sorted(state.waiting),
        "steps": {each.id: _step(each) for each in document.steps},
        "outputs": _outputs(rows),
    }
    text = msgspec.json.encode(made).decode()
    ids = {execution_id: "ID"} if len(execution_id) == ID_CHARS else {}
    for differs, same in {**(words or {}), **ids}.items():
        text = text.replace(differs, same)
    found: dict[str, JSON] = _plain(json.loads(text), unordered)
    return found


def _step(step: StepDocument) -> dict[str, Any]:
    iterations = step.iterations and (
        step.iterations.count,
        step.iterations.succeeded,
        step.iterations.failed,
    )
    return {
        "status": step.status,
        "iterations": iterations,
        "calls": step.calls,
        "retries": step.retries,
        "error": _failure(step.error),
        "handled": step.handled,
        "retry_of": step.retry_of,
        "blocks": {each.id: _step(each) for each in step.blocks},
    }


def _outputs(rows: list[LogRow]) -> dict[str, Any]:
    """The last output of each run and frame."""
    found: dict[str, Any] = {}
    for row in rows:
        for fact in row.facts:
            match fact:
                case facts.TaskDone(frame=frame, output=Output() as output):
                    found[frame] = _output(output)
                case facts.LoopDone(run=run, output=output):
                    found[f"{run} in all"] = _output(output)
                case facts.StepDone(run=run, output=Output() as output):
                    found[f"{run} in all"] = _output(output)
    return found


def _output(output: Output | None) -> dict[str, Any] | None:
    if output is None:
        return None
    return {
        "status": output.status,
        "data": output.data,
        "ref": output.ref,
        "error": _failure(output.error),
        "http": (output.own or {}).get("http", {}).get("status"),
    }


def _failure(failure: Failure | None) -> list[JSON] | None:
    return None if failure is None else [failure.kind, failure.message]


def _plain(value: Any, unordered: tuple[str, ...]) -> Any:
    """Replace refs by their content type and size: stores differ in location and compression."""
    match value:
        case {"meta": {"bytes": size, "content_type": content_type, **meta}}:
            return {"content_type": content_type, "bytes": meta.get("unpacked_bytes", size)}
        case dict():
            made = {key: _plain(each, unordered) for key, each in value.items() if key != "elapsed_ms"}
            return {key: sorted(each) if key in unordered else each for key, each in made.items()}
        case list():
            return [_plain(each, unordered) for each in value]
    return value
