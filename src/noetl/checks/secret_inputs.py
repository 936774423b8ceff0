"""Secret inputs: who can start a playbook that needs them, and what cannot read them."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.credentials import used_credentials
from noetl.net.program import Program
from noetl.playbook.exposed import EXPOSE
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport

_FIX = "required: false"


def check_secret_inputs(program: Program, report: ProblemReport) -> None:
    if program.inputs is None or not program.inputs.secrets:
        return
    required = [each for each in program.inputs.secrets if each.fields["required"]]
    for entry in required[:1]:
        advice = f'make "{entry.name}" optional, or declare it under `keychain`'
        for place, who in _starts_without(program):
            message = f'{who} cannot give the secret input "{entry.name}": {advice}'
            report.add("secret-input", place, message, key=True, fix=_FIX)
    names = {each.name for each in program.inputs.secrets}
    _workload_reads(program, names, report)
    _notifications(program, names, report)


def _starts_without(program: Program) -> Iterator[tuple[Path, str]]:
    """The places in the playbook that let somebody start it who cannot give secrets."""
    playbook = program.playbook
    for trigger in playbook.triggers:
        yield trigger.at, "a trigger"
    if "GET" in playbook.executor.methods:
        yield ("executor", "spec", "methods"), "a query string, which servers write to their logs,"
    if playbook.metadata.get(EXPOSE) is True:
        yield ("metadata", EXPOSE), "an agent, whose messages are kept,"


def _workload_reads(program: Program, names: set[str], report: ProblemReport) -> None:
    for use in program.templates:
        for read in dict.fromkeys(use.template.reads):
            if read.path[0] == "workload" and len(read.path) > 1 and read.path[1] in names:
                fix = f"keychain.{read.path[1]}"
                message = f'"{read.path[1]}" is a secret input: it is not in workload; fields of a task read {fix}'
                report.add("secret-input", use.path, message, word=f"workload.{read.path[1]}", fix=fix)


def _notifications(program: Program, names: set[str], report: ProblemReport) -> None:
    """A notification is an execution of its own: secret inputs are not its own."""
    blocks = {id(each.block): each.block for each in program.playbook.notifications}
    reads = [
        (str(read.path[1]), use.path, f"keychain.{read.path[1]}")
        for use in program.templates
        if id(use.owner) in blocks
        for read in use.template.reads
        if read.path[0] == "keychain" and len(read.path) > 1
    ]
    tasks = [task for block in blocks.values() for task in block.tasks]
    named = [(name, (*task.at, *place), name) for task in tasks for name, place in used_credentials(task)]
    for name, path, word in (*reads, *named):
        if name in names:
            message = f'a notification cannot read the secret input "{name}" of the execution; use a keychain entry'
            report.add("secret-input", path, message, word=word)
