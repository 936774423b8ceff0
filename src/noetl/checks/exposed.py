"""Playbooks that agents call as tools: they need typed inputs, and a name that is free."""

from __future__ import annotations

from noetl.playbook.exposed import EXPOSE, name_problem
from noetl.playbook.model import Playbook
from noetl.playbook.validation import ProblemReport


def check_exposed(playbook: Playbook, report: ProblemReport) -> None:
    if playbook.metadata.get(EXPOSE) is not True:
        return
    if playbook.inputs is None:
        message = f'"{EXPOSE}" needs typed inputs, which become the arguments of the tool: write them under `input`'
        report.add("missing-key", ("metadata", EXPOSE), message, key=True, fix="input: {day: {type: date}}")
    reason = name_problem(playbook.path)
    if reason is not None:
        report.add("tool-name", ("metadata", "path"), reason)
