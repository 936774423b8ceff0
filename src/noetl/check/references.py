"""References (D54): a name that ends in `_ref` takes a Ref, another none, and nothing is read through one."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.program import Program, TemplateUse
from noetl.net.scopes import all_writes
from noetl.output import JSON, REF_FIELDS
from noetl.playbook.report import ProblemReport
from noetl.playbook.source import Path
from noetl.template.compile import Template
from noetl.template.values import is_template

_NEVER_A_REF = frozenset({"status", "error", "meta"})


def check_references(program: Program, report: ProblemReport) -> None:
    by_path = {use.path: use for use in program.templates}
    for name, value, at in _targets(program):
        _check_target(name, value, at, by_path.get(at), report)
    for use in program.templates:
        _check_reads(use, report)


def _targets(program: Program) -> Iterator[tuple[str, JSON, Path]]:
    """Everything that is written under a name of the author's: `set` targets and `input` keys."""
    for writes, at in all_writes(program.playbook):
        for target, value in writes.items():
            yield target, value, (*at, target)
    for owner in program.playbook.pipelines:
        for key, value in owner.input.items():
            yield key, value, (*owner.at, "input", key)
        for task in owner.tasks:
            for key, value in task.input.items():
                if key != "ref":
                    yield key, value, (*task.at, "input", key)


def _check_target(name: str, value: JSON, at: Path, use: TemplateUse | None, report: ProblemReport) -> None:
    template = use.template if use else None
    if name.endswith("_ref"):
        if _never_a_ref(value, template):
            message = f'"{name}" takes a reference, and this is none'
            report.tell("ref-expected", at, message, fix='"{{ output.ref }}"')
    elif template and template.sole_path and is_ref(template.sole_path):
        message = f'"{name}" gets a reference: its name must end in _ref'
        report.tell("ref-unexpected", at, message, key=True, fix=f"{name}_ref")


def is_ref(path: Path) -> bool:
    last = path[-1]
    return path == ("output", "ref") or (isinstance(last, str) and last.endswith("_ref"))


def _never_a_ref(value: JSON, template: Template | None) -> bool:
    """Can it be seen that this is no Ref? A null clears the name; a mapping may be a Ref written out."""
    if template is None:
        return not (
            value is None or isinstance(value, dict) or (isinstance(value, str) and is_template(value))
        )
    if not template.typed:
        return True
    path = template.sole_path
    if path is None or path[0] != "output":
        return False
    return path == ("output", "data") or (len(path) > 1 and path[1] in _NEVER_A_REF)


def _check_reads(use: TemplateUse, report: ProblemReport) -> None:
    for read in use.template.reads:
        for place in range(1, len(read.path) - 1):
            part, following = read.path[place], read.path[place + 1]
            through = read.path[: place + 1] == ("output", "ref") or (
                isinstance(part, str) and part.endswith("_ref")
            )
            if through and following not in REF_FIELDS:
                ref, whole = (".".join(map(str, each)) for each in (read.path[: place + 1], read.path))
                message = (
                    f'"{whole}" reads through the reference "{ref}"; fetch it with a task of kind resolve'
                )
                report.tell("ref-read-through", use.path, message, word=whole)
                break
