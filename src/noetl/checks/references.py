"""Checks of `_ref` targets and of reads below them: which values are Refs, and how to fetch their data (D99)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.net.origins import SUFFIX, RefOrigins
from noetl.net.program import Program, TemplateUse
from noetl.net.scopes import all_writes
from noetl.output import JSON, REF_FIELDS
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.compile import Template
from noetl.template.values import is_template

_NEVER_A_REF = frozenset({"status", "error", "meta"})


def check_references(program: Program, report: ProblemReport) -> None:
    origins = program.origins
    assert origins is not None  # a program that is checked has an author
    targets = [target for target in _targets(program) if target.concerns_ref]
    by_path = {use.path: use for use in program.templates} if targets else {}
    for target in targets:
        _check_target(target, by_path.get(target.at), origins, report)
    for use in program.templates:
        if "ref" in use.template.source:
            _check_reads(use, origins, report)


class _Target(NamedTuple):
    name: str
    value: JSON
    around: Path

    @property
    def at(self) -> Path:
        return (*self.around, self.name)

    @property
    def concerns_ref(self) -> bool:
        """Is it the name of a Ref, or may the value be one?"""
        return self.name.endswith(SUFFIX) or (isinstance(self.value, str) and "ref" in self.value)


def _targets(program: Program) -> Iterator[_Target]:
    """Everything that is written under a name that the author chose: `set` targets and `input` keys."""
    for writes, at in all_writes(program.playbook):
        for target, value in writes.items():
            yield _Target(target, value, at)
    for owner in program.playbook.pipelines:
        for key, value in owner.input.items():
            yield _Target(key, value, (*owner.at, "input"))
        for task in owner.tasks:
            for key, value in task.input.items():
                if key != "ref":
                    yield _Target(key, value, (*task.at, "input"))


def _check_target(target: _Target, use: TemplateUse | None, origins: RefOrigins, report: ProblemReport) -> None:
    name, value, at = target.name, target.value, target.at
    template = use.template if use else None
    if name.endswith(SUFFIX):
        if _never_a_ref(value, template):
            message = f'"{name}" takes a reference, but the value is not one'
            report.add("ref-expected", at, message, fix='"{{ output.ref }}"')
    elif use and use.template.sole_path and origins.is_named(use.template.sole_path, use.owner):
        message = (
            f'"{name}" gets a reference, not the data: fetch the data with a task of kind resolve;'
            f' to pass the reference on, write "{name}{SUFFIX}"'
        )
        report.add("ref-unexpected", at, message, key=True, fix=_resolving(name, template))


def _resolving(name: str, template: Template | None) -> str:
    """What to write so that the name gets the data of the reference that it gets now."""
    source = template.source.strip() if template is not None else "{{ output.ref }}"
    if "." not in name:  # a key of an input: the task before it fetches the data
        return f'- {{name: fetched, kind: resolve, ref: "{source}"}}\n…\n{name}: "{{{{ fetched.data }}}}"'
    return f'{name}{SUFFIX}: "{source}"\n…\n- {{kind: resolve, ref: "{{{{ {name}{SUFFIX} }}}}"}}'


def _never_a_ref(value: JSON, template: Template | None) -> bool:
    """Is this certainly not a Ref? A null clears the name; a mapping may be a literal Ref."""
    if template is None:
        return not (value is None or isinstance(value, dict) or (isinstance(value, str) and is_template(value)))
    if not template.typed:
        return True
    path = template.sole_path
    if path is None or path[0] != "output":
        return False
    return path == ("output", "data") or (len(path) > 1 and path[1] in _NEVER_A_REF)


def _check_reads(use: TemplateUse, origins: RefOrigins, report: ProblemReport) -> None:
    for read in use.template.reads:
        for place in range(1, len(read.path) - 1):
            part = read.path[place]
            if not (isinstance(part, str) and part.endswith("ref")):
                continue
            through = origins.is_named(read.path[: place + 1], use.owner)
            if through and read.path[place + 1] not in REF_FIELDS:
                ref, whole = (".".join(map(str, each)) for each in (read.path[: place + 1], read.path))
                message = f'"{whole}" reads through the reference "{ref}"; fetch it with a task of kind resolve'
                report.add("ref-read-through", use.path, message, word=whole)
                break
