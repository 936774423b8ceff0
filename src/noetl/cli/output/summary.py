"""The end of an execution for people: a table of its steps, its output, or why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from msgspec import UnsetType

from noetl.cli.output.documents import as_lines
from noetl.cli.output.screen import duration, short, with_hint
from noetl.escape import head, one_line, visible, width
from noetl.ids import run_id
from noetl.output import JSON
from noetl.views.documents import ErrorDocument, IterationCounts, OutputDocument, ShowDocument, StepDocument
from noetl.views.styled_text import Style, Styled, table

STEPS_SHOWN_MAX = 40
OUTPUT_LINES_MAX = 20
TRACE_LINES_MAX = 20
_STYLES: dict[str, Style] = {
    "ok": "good", "error": "error", "cancelled": "warning", "paused": "warning", "waiting": "warning",
    "stopped": "warning", "interrupted": "warning",
}  # fmt: skip


NEVER_BEGAN: Final = "it did not start: fix the error, and run it again"
_NO_VALUE: Final = re.compile(r"\bworkload\.(\w+) is undefined$")
_CONFLICT: Final = re.compile(r'write different values to "(ctx\.[^"]+)" and no reducer')


def summary(document: ShowDocument, columns: int, hint: str = "") -> Iterator[list[Styled]]:
    """Everything that is printed when an execution has ended or is paused. `hint`: of commands in hints."""
    name = f"{short(document.execution_id)}{hint}"
    if document.steps:
        yield []
        yield from table([_HEADING, *_rows(document.steps, name)])
    yield []
    style = _STYLES.get(document.status, "")
    time = f" in {duration(document.duration_s)}" if document.duration_s is not None else ""
    yield [Styled(document.status, style), Styled(f"{time}  "), Styled(document.execution_id, "faint")]
    yield from cancel_lines(document)
    if document.error is not None:
        yield from _error(document.error, columns, hint)
    elif document.output is not None:
        yield from _output(document.output, f"noetl output {name}", columns)
    yield from compensation_lines(document, name)
    if (advice := _advice(document, name, hint)) is not None:
        yield [Styled(advice, "faint")]


def cancel_lines(document: ShowDocument) -> Iterator[list[Styled]]:
    """Who cancelled it, and why, if that is known."""
    cancelled = document.cancelled
    if isinstance(cancelled, UnsetType) or not (cancelled.reason or cancelled.by):
        return
    by = f" by {one_line(cancelled.by)}" if cancelled.by else ""
    yield [Styled(f"cancelled{by}"), Styled(f": {one_line(cancelled.reason)}" if cancelled.reason else "")]


HELD_SHOWN_MAX = 10


def held_lines(document: ShowDocument, name: str) -> Iterator[list[Styled]]:
    """What breakpoints hold, and what was changed by hand. `name`: of the execution."""
    for change in document.changes or ():
        values = ", ".join(map(one_line, change.set))
        by = f" by {one_line(change.by)}" if change.by else ""
        yield [Styled(f"changed by hand at {one_line(change.at)}: {values}{by}", "faint")]
    held = document.held or ()
    for each in held[:HELD_SHOWN_MAX]:
        yield [Styled("■ ", "warning"), Styled(f"{one_line(each.at)} is held before {one_line(each.place)}")]
    if len(held) > HELD_SHOWN_MAX:
        yield [Styled(f"  {len(held) - HELD_SHOWN_MAX} more are held", "faint")]
    if held:
        yield [Styled(f"debug it: noetl debug {name}", "faint")]


def compensation_lines(document: ShowDocument, name: str) -> Iterator[list[Styled]]:
    """Whether completed steps are undone, and what to do about those that are not. `name`: of the execution."""
    compensation = document.compensation
    if isinstance(compensation, UnsetType):
        return
    left = ", ".join(map(one_line, compensation.uncompensated))
    match compensation.status:
        case "running":
            yield [Styled(f"its completed steps are being undone; still to do: {left}", "warning")]
        case "done":
            yield [Styled("its completed steps were undone: run it again when the cause is gone", "faint")]
        case "incomplete":
            yield [Styled(f"not undone: {left}  ", "error"), Styled(f"noetl retry {name} tries again", "faint")]


_HEADING = [Styled(word, "faint") for word in ("step", "status", "time", "iterations", "calls")]


def _rows(steps: Sequence[StepDocument], name: str) -> Iterator[list[Styled]]:
    half = STEPS_SHOWN_MAX // 2
    if len(steps) <= STEPS_SHOWN_MAX:
        yield from map(_row, steps)
        return
    yield from map(_row, steps[:half])
    left_out = f"… {len(steps) - 2 * half:,} more: noetl show {name}"
    yield [Styled(left_out, "faint"), *[Styled("")] * 4]
    yield from map(_row, steps[-half:])


def _row(step: StepDocument) -> list[Styled]:
    name = step.step if step.id == run_id(step.step, 1) else step.id
    status = f"{step.status}, handled" if step.handled else step.status
    time = duration(step.duration_s) if step.duration_s is not None else ""
    iterations = _iterations(step.iterations) if step.iterations is not None else ""
    calls = f"{step.calls:,}" if step.calls else ""
    calls += f", {step.retries:,} retried" if step.retries else ""
    calls += f", {step.kept:,} kept" if step.kept else ""
    if step.why:
        calls = step.why if not calls else f"{calls}; {step.why}"
    cells = (Styled(one_line(name)), Styled(status, _STYLES.get(step.status, "")), Styled(time))
    return [*cells, Styled(iterations), Styled(calls)]


def _iterations(loop: IterationCounts) -> str:
    words = f"{loop.count:,}"
    words += f", {loop.failed:,} failed" if loop.failed else ""
    return f"{words}; {_iterations(loop.inside)} inside" if loop.inside is not None else words


def _error(error: ErrorDocument, columns: int, hint: str) -> Iterator[list[Styled]]:
    where = f" in {one_line(error.place)}" if error.place else ""
    first, *others = with_hint(error.message, hint).splitlines() or [""]
    yield [Styled(f"{error.kind}{where}: ", "error"), Styled(first)]
    for line in others[:TRACE_LINES_MAX]:
        yield [Styled(f"  {line}")]
    for cause in causes(error):
        yield [Styled(f"  cause: {one_line(cause)}", "faint")]
    trace = error.details.get("traceback")
    if isinstance(trace, str):
        for line in trace.splitlines()[-TRACE_LINES_MAX:]:
            yield [Styled(f"  {_cut(line, columns - 2)}", "faint")]
    for line in printed_lines(error):
        yield [Styled(_cut(line, columns), "faint")]
    if (fix := suggested_fix(error)) is not None:
        yield [Styled(fix, "faint")]


def _output(output: OutputDocument, see: str, columns: int) -> Iterator[list[Styled]]:
    if output.data is None:
        if isinstance(output.ref, dict):
            yield [Styled("output: ", "faint"), Styled(f"{_size(output.ref)}, see {see}")]
        return
    lines = as_lines(output.data)
    yield [Styled("output:", "faint")]
    for line in lines[:OUTPUT_LINES_MAX]:
        yield [Styled(f"  {_cut(line, columns - 2)}")]
    if len(lines) > OUTPUT_LINES_MAX:
        yield [Styled(f"  … {len(lines) - OUTPUT_LINES_MAX:,} more lines, see {see}", "faint")]


def _size(ref: dict[str, JSON]) -> str:
    meta = ref.get("meta")
    size = meta.get("bytes") if isinstance(meta, dict) else None
    return f"{size:,} bytes" if isinstance(size, int) else "large"


def _cut(line: str, columns: int) -> str:
    """At most `columns` of a line that may be a megabyte long."""
    text = visible(line[: columns + 1])
    return text if width(text) <= columns and len(line) <= columns else head(text, columns - 1) + "…"


def _advice(document: ShowDocument, name: str, hint: str) -> str | None:
    match document.status:
        case "error" if did_not_begin(document):
            return NEVER_BEGAN
        case "error":
            step = document.error.step if document.error is not None else None
            why = f"more: noetl show {name}"
            if step is not None:
                why = f"why it failed: noetl explain {short(document.execution_id)} {quote(one_line(step))}{hint}"
            undone = not isinstance(document.compensation, UnsetType)
            if document.error is not None and document.error.kind == "template" and not undone:
                return f"{why}; correct the playbook and continue: noetl fork {name} --playbook FILE"
            return why if undone else f"{why}; retry what failed: noetl retry {name}"
        case "paused":
            return f"continue with: noetl resume {name}"
        case "running":
            return f"more: noetl show {name}"
        case "ok" if any(step.iterations is not None and step.iterations.failed for step in document.steps):
            return f"what failed: noetl show {name}"
    return None


def suggested_fix(error: ErrorDocument) -> str | None:
    """What to write in the playbook, where the error itself does not say it; None: unknown."""
    missing = _NO_VALUE.search(error.message) if error.kind == "template" else None
    if missing is not None:
        return f"`--set {missing[1]}=VALUE` of `noetl run` sets it, or a default under `workload:`"
    conflict = _CONFLICT.search(error.message) if error.kind == "ctx-conflict" else None
    if conflict is None:
        return None
    reducer = f"loop.spec.policy.reduce: {{{conflict[1]}: last}}"
    return f"{reducer} keeps the last value; append, sum and others combine them"


def causes(error: ErrorDocument) -> list[str]:
    """The failures that rules with their own messages replaced, the latest first."""
    found, cause = [], error.cause
    while cause is not None:
        found.append(f"{cause.kind}: {cause.message}")
        cause = cause.cause
    return found


def printed_lines(error: ErrorDocument) -> list[str]:
    """The last output of the call that failed, under a heading; empty when it printed nothing."""
    lines = error.printed.splitlines()
    return ["printed:", *(f"  {line}" for line in lines)] if lines else []


def did_not_begin(document: ShowDocument) -> bool:
    """It ended before its first step (D65), so there is nothing to retry."""
    return document.status == "error" and not document.steps
