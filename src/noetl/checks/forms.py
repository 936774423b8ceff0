"""Forms of `wait` tasks: are the fields that a person fills in declared correctly?"""

from __future__ import annotations

from noetl.net.inputs import ValueMismatch, form_inputs
from noetl.output import JSON
from noetl.playbook.model import Playbook, Task
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.values import is_template


def check_forms(playbook: Playbook, report: ProblemReport) -> None:
    for owner in playbook.pipelines:
        for task in owner.tasks:
            if task.kind == "wait":
                _check_form(task, report)


def _check_form(task: Task, report: ProblemReport) -> None:
    form = task.fields.get("form", task.input.get("form"))
    if not isinstance(form, dict):
        return
    beside: Path = (*task.at, "form")
    at = beside if report.document.find(beside) else (*task.at, "input", "form")
    for name, field in form.items():
        if _has_template(field):
            continue  # it is known only at run time
        try:
            form_inputs({name: field})
        except ValueMismatch as misfit:
            report.add("bad-value", (*at, name), str(misfit).removeprefix(f'"{name}": '), key=True)


def _has_template(value: JSON) -> bool:
    if isinstance(value, dict):
        return any(map(_has_template, value.values()))
    if isinstance(value, list):
        return any(map(_has_template, value))
    return isinstance(value, str) and is_template(value)
