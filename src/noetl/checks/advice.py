"""Advice (level L6): playbooks that run, but probably not as intended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.net.credentials import used_credentials
from noetl.net.program import CompiledPipeline, CompiledStep, CompiledTask, Program
from noetl.net.scopes import OLD_NAMES, task_writes
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import RETRY_ATTEMPTS, Pipeline
from noetl.playbook.shapes import TextShape
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.compile import Template
from noetl.template.values import is_template

_SECRET = re.compile(r"(?:^|[_.-])(?:password|passwd|secret|token|api_?key|private_?key|authorization)$", re.IGNORECASE)
_KEY = r"(?!\$(?:\.|$)|\*(?:\.|$))[^.\[\]{}]+"
_KEYS = re.compile(rf"{_KEY}(?:\.{_KEY})*")
_RAW_SHELL = re.compile(r"\|\s*raw_shell\b")
_COMMAND = re.compile(r"\s*\{\{[^{}]*\}\}\s*")  # the whole script is one value
_JOINED = re.compile(r"(?<![\"'])\{\{[^}]*\|\s*(?P<join>join\((?P<quote>[\"'])\s+(?P=quote)\))\s*-?\}\}")
_GOES_ON = ("continue", "jump", "break")
_SAYS_NO_ERROR = ("data", "ref", "meta")  # parts of an output that exist with and without an error


def check_advice(program: Program, kinds: Kinds, report: ProblemReport) -> None:
    used = {task.source.kind for pipeline in program.pipelines for task in pipeline.source_tasks}
    working = frozenset(name for name in used if name in kinds and not kinds[name].pure)
    for pipeline in program.pipelines:
        _pipeline(pipeline, working, report)
    for step in program.steps.values() if not program.playbook.compensations else ():
        _failure(step, working, report)
    _secrets(program.playbook.workload, ("workload",), report)
    _credentials(program, report)
    _shell(program, {name: kinds[name] for name in used if name in kinds}, report)
    for spec, at in _specs(program):
        _selects(spec, at, report)


def _pipeline(pipeline: CompiledPipeline, working: frozenset[str], report: ProblemReport) -> None:
    for each in pipeline.source_tasks:
        _rules(each, report)
        if each.source.kind in working:
            _unseen_error(each, report)
        _secrets(each.source.input, (*each.source.at, "input"), report)
    _parallel_writes(pipeline.source, report)


def _rules(each: CompiledTask, report: ProblemReport) -> None:
    policy = each.source.policy
    if policy is None or not each.written_rules or not policy.whole:
        return
    if not any(rule.always for rule in each.written_rules) and policy.on_unmatched is None:
        message = (
            f'the rules of "{each.source.name}" have no else: without a match the task continues,'
            " even after an error; add on_unmatched beside rules, or an else"
        )
        # Of all fixes, this one does not turn an error into a success.
        report.add("no-else", (*policy.at, "rules"), message, key=True, fix="on_unmatched: fail")
    for rule in each.rules:
        if rule.source.do != "retry":
            continue
        inside = ("then",) if rule.source.when is not None else ("else", "then")
        at = (*rule.source.at, *inside)
        if rule.source.attempts is None:
            message = f'retry of "{each.source.name}" has no attempts: the default is {RETRY_ATTEMPTS} calls in all'
            report.add("retry-without-attempts", at, message, fix=f"attempts: {RETRY_ATTEMPTS}")
        if rule.source.delay is None:
            message = f'retry of "{each.source.name}" has no delay, so the call is repeated immediately'
            report.add("retry-without-delay", at, message, fix="delay: 1.0")


def _unseen_error(each: CompiledTask, report: ProblemReport) -> None:
    """Rules that test the output, but never for an error. An `else` alone is intended."""
    asked = [rule.when for rule in each.written_rules if isinstance(rule.when, Template)]
    last = next((rule.source for rule in each.written_rules if rule.always), None)
    if not asked or last is None or last.do not in _GOES_ON:
        return
    own = ("output", each.source.name, *OLD_NAMES)
    if not any(
        read.path[0] in own and (len(read.path) == 1 or read.path[1] not in _SAYS_NO_ERROR)
        for when in asked
        for read in when.reads
    ):
        message = f'no rule of "{each.source.name}" tests for an error, so a failed call may count as a success'
        fix = "- when: \"{{ output.status == 'error' }}\"\n  then: {do: fail}"
        report.add("unseen-error", last.at, message, fix=fix)


def _parallel_writes(owner: Pipeline, report: ProblemReport) -> None:
    parallel = [loop for loop in owner.loops if loop.mode == "parallel"]
    if not parallel:
        return
    folded = {target for loop in owner.loops for target in loop.reduce}
    for writes, at in task_writes(owner):
        for target in writes:
            if target.startswith("ctx.") and target not in folded:
                message = f'parallel iterations of "{owner.name}" write "{target}" and no reducer combines the values'
                fix = f"loop: {{spec: {{policy: {{reduce: {{{target}: last}}}}}}}}"
                report.add("parallel-ctx", (*at, target), message, key=True, fix=fix)


def _failure(step: CompiledStep, working: frozenset[str], report: ProblemReport) -> None:
    """Steps with side effects and arcs. The failure of a last step fails the execution anyway."""
    works = any(task.kind in working for task in step.source.tasks)
    if works and step.arcs and step.source.whole and not any(arc.takes_failure for arc in step.arcs):
        message = f'no arc handles a failure of "{step.source.name}", so its failure ends the execution in error'
        fix = "- step: …\n  when: \"{{ event.name == 'step.failed' }}\""
        report.add("failure-without-arc", (*step.source.at, "next"), message, key=True, fix=fix)


def _secrets(value: JSON, at: Path, report: ProblemReport) -> None:
    if isinstance(value, list):
        for index, each in enumerate(value):
            _secrets(each, (*at, index), report)
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        where = (*at, key)
        if isinstance(each, str) and len(each) > 3 and _SECRET.search(key) and not is_template(each):
            message = f'"{key}" looks like a secret and is written to the log in plain text'
            report.add("secret-near-log", _written(where, report), message, key=True)
        else:
            _secrets(each, where, report)


def _credentials(program: Program, report: ProblemReport) -> None:
    """All entries of the keychain are resolved before the first step, even unused ones (D57)."""
    used: set[JSON] = {name for spec, _ in _specs(program) for name in _auths(spec)}
    for owner in program.playbook.pipelines:
        for task in owner.tasks:
            used.update(name for name, _ in used_credentials(task))
            if task.kind == "playbook" and "document" in task.fields:
                return  # The document may use all entries of its caller (D103).
    used.update(each.verify.secret for each in program.playbook.triggers if each.verify is not None)
    used.update(each.auth for each in program.playbook.triggers)
    reads = [read.path for use in program.templates for read in use.template.reads if read.path[0] == "keychain"]
    used.update(str(path[1]) if len(path) > 1 else "{{ }}" for path in reads)
    if any(isinstance(name, str) and is_template(name) for name in used):
        return  # The entry is known only at run time.
    for entry in program.playbook.keychain:
        if entry.name not in used:
            message = f'nothing uses the keychain entry "{entry.name}", but it must exist for the playbook to start'
            report.add("unused-credential", (*entry.at, "name"), message, fix=f"auth: {entry.name}")


def _auths(value: JSON) -> Iterator[JSON]:
    """The keychain entries with which result stores are accessed, anywhere in a spec."""
    if isinstance(value, dict):
        yield value.get("auth")
        for each in value.values():
            yield from _auths(each)


def _shell(program: Program, kinds: Kinds, report: ProblemReport) -> None:
    """Values in shell scripts (D109)."""
    scripts = {
        (name, key)
        for name, kind in kinds.items()
        for key, field in kind.fields.keys.items()
        if isinstance(field.shape, TextShape) and field.shape.shell
    }
    for use in program.templates:
        source = use.template.source
        is_script = use.place == "task" and use.task is not None and (use.task.kind, use.path[-1]) in scripts
        if "raw_shell" in source and _RAW_SHELL.search(source):
            message = "raw_shell has no effect here; use it only in `sh` of a shell task"
            if is_script:
                message = "the shell interprets the value as a part of the script, so it can run any command"
            report.add("raw-shell", use.path, message, word="raw_shell")
        elif is_script and _COMMAND.fullmatch(source):
            message = (
                "the value is one word, and it is the name of a program here; for a whole command write | raw_shell"
            )
            report.add("shell-word", use.path, message)
        elif is_script and (found := _JOINED.search(source)):
            message = "the words are joined, so the shell sees one word; for several words use the list itself"
            report.add("shell-word", use.path, message, word=found["join"])


def _specs(program: Program) -> Iterator[tuple[JSON, Path]]:
    """Every spec that the author wrote, with its path (D60); a key named like a kind may hold another."""
    written: list[tuple[JSON, Path]] = [(program.playbook.executor.spec, ("executor", "spec"))]
    for owner in program.playbook.pipelines:
        written += [(each.spec, (*each.at, "spec")) for each in (owner, *owner.loops, *owner.tasks)]
    for spec, at in written:
        yield spec, at
        yield from ((inner, (*at, key)) for key, inner in spec.items() if isinstance(inner, dict))


def _selects(spec: JSON, at: Path, report: ProblemReport) -> None:
    """`select` follows keys from mapping to mapping: a JSON path selects nothing."""
    match spec:
        case {"result": {"select": {**chosen}}}:
            for name, path in chosen.items():
                if isinstance(path, str) and not _KEYS.fullmatch(path):
                    message = f'"{path}" selects nothing: a path is keys with dots between them, no lists'
                    bare = path.removeprefix("$.")
                    fix = bare if _KEYS.fullmatch(bare) else None
                    report.add("nothing-selected", (*at, "result", "select", str(name)), message, fix=fix)


def _written(at: Path, report: ProblemReport) -> Path:
    """The path in the text: a task's field may be beside `kind` instead of under `input` (D9)."""
    if report.document.find(at) is None and "input" in at:
        place = at.index("input")
        return (*at[:place], *at[place + 1 :])
    return at
