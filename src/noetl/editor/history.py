"""The newest execution of a playbook, as an editor shows it: status of steps, and values under the pointer."""

from __future__ import annotations

from typing import Final, NamedTuple

from noetl.editor.analysis import Analysis
from noetl.editor.cursor import cursor_at
from noetl.escape import shorten, visible
from noetl.output import JSON
from noetl.playbook.write import emit

VALUE_CHARS_MAX: Final = 1_000
_SCOPES: Final = ("ctx", "workload")


class StepStatus(NamedTuple):
    """The last run of a step."""

    status: str
    duration_s: float | None


class NewestExecution(NamedTuple):
    """What the log of an execution says; secrets are masked in it."""

    id: str
    status: str
    workload: dict[str, JSON]
    ctx: dict[str, JSON]
    steps: dict[str, StepStatus]


def value_at(text: str, offset: int, last: NewestExecution) -> str | None:
    """The last value of the `ctx` or `workload` path at the cursor, as Markdown; None: there is none."""
    cursor = cursor_at(text, offset)
    if cursor.place != "template":
        return None
    scope, *keys = text[cursor.start : cursor.end].split(".")
    if scope not in _SCOPES or not keys:
        return None
    value: JSON = last.ctx if scope == "ctx" else last.workload
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return _shown(f"Last value, in execution `{last.id}` ({last.status}):", value)


def step_at(text: str, offset: int, known: Analysis, last: NewestExecution) -> str | None:
    """The step at the cursor that has run in the last execution."""
    here = known.at(offset) if known.text == text else None
    return here.name.text if here is not None and here.name.kind == "step" and here.name.text in last.steps else None


def step_text(name: str, last: NewestExecution, output: JSON) -> str:
    """The last run of a step, as Markdown."""
    ran = last.steps[name]
    return _shown(f"Last run of **{name}**: {status_text(ran)}, in execution `{last.id}`. Its output:", output)


def status_text(ran: StepStatus) -> str:
    return ran.status if ran.duration_s is None else f"{ran.status}, {ran.duration_s:.2f} s"


def _shown(words: str, value: JSON) -> str:
    text = shorten(emit({"value": value}).removeprefix("value:").strip("\n"), VALUE_CHARS_MAX)
    lines = "\n".join(visible(line) for line in text.split("\n")).replace("```", "'''")
    return f"{words}\n\n```yaml\n{lines.strip()}\n```"
