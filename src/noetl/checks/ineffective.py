"""Keys that have no effect: each is reported, so that no author relies on one (D100)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.program import CompiledPipeline, CompiledTask, Program
from noetl.net.scopes import task_writes
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Block, Loop, Pipeline, Playbook, Task
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.values import contains_template

RUNTIMES = ("noetl-runtime/2",)  # values of executor.version that this release knows


def check_effects(program: Program, kinds: Kinds, report: ProblemReport) -> None:
    playbook = program.playbook
    _executor(playbook, report)
    _dsn(playbook, report)
    for pipeline in program.pipelines:
        _pipeline(pipeline, report)
        for loop in pipeline.source.loops:
            _loop(loop, pipeline.source, report)
        for task in pipeline.source_tasks:
            _task(task, kinds, report)
    _kind_specs(playbook, kinds, report)


def _executor(playbook: Playbook, report: ProblemReport) -> None:
    executor = playbook.executor
    if executor.profile is not None:
        message = (
            f"profile: {executor.profile} states an intention and selects nothing:"
            " noetl run executes the playbook in its own process, and a server on its workers"
        )
        report.add("no-effect", ("executor", "profile"), message, key=True, severity="info")
    if executor.version is not None and executor.version not in RUNTIMES:
        message = f'"{executor.version}" is not a runtime that this release knows, so it has no effect'
        report.add("no-effect", ("executor", "version"), message, fix=RUNTIMES[0])
    if (executor.policy.get("results") or {}).get("reference_first") is False:
        at: Path = ("executor", "spec", "policy", "results", "reference_first")
        message = "reference_first: false has no effect: a large result is always stored, and passed by reference"
        report.add("no-effect", at, message, fix="inline_max_bytes: …")


def _dsn(playbook: Playbook, report: ProblemReport) -> None:
    for entry in playbook.keychain:
        if entry.kind == "postgres_credential" and "dsn" in entry.fields:
            for key in entry.fields.keys() - {"dsn", "desc"}:
                message = f'"{key}" has no effect beside "dsn", which contains all parameters'
                report.add("no-effect", (*entry.at, key), message, key=True)


def _pipeline(pipeline: CompiledPipeline, report: ProblemReport) -> None:
    owner = pipeline.source
    at: Path = (*owner.at, "spec", "policy")
    if "failure" in owner.policy and not owner.loops:
        message = '"failure" has no effect without a loop: it decides what a failed iteration does'
        report.add("no-effect", (*at, "failure"), message, key=True)
    if isinstance(owner, Block) and report.document.find((*at, "admit")) is not None:
        message = '"admit" has no effect in a block: only steps admit tokens'
        report.add("no-effect", (*at, "admit"), message, key=True)
    for name, value in owner.input.items() if isinstance(owner, Block) else ():
        if contains_template(value):
            message = (
                f'"{name}" has no effect: defaults of a block are not templates; pass it where the block is called'
            )
            report.add("no-effect", (*owner.at, "input", name), message, key=True)


def _loop(loop: Loop, owner: Pipeline, report: ProblemReport) -> None:
    policy: Path = (*loop.at, "spec", "policy")
    if loop.exec == "local":
        message = "exec: local has no effect: iterations run where workers are free; the results are the same"
        report.add("no-effect", (*policy, "exec"), message, key=True)
    if loop.mode == "sequential":
        for at in ((*loop.at, "spec", "max_in_flight"), (*policy, "max_in_flight"), (*policy, "reduce")):
            if report.document.find(at) is not None:
                message = f'"{at[-1]}" has no effect in a sequential loop'
                report.add("no-effect", at, message, key=True, fix="mode: parallel")
    elif not any(task.kind == "workbook" for task in owner.tasks):
        written = {target for writes, _ in task_writes(owner) for target in writes}
        for target in loop.reduce.keys() - written:
            message = f'no task of "{owner.name}" writes "{target}", so the reducer has no effect'
            report.add("no-effect", (*policy, "reduce", target), message, key=True)


def _task(task: CompiledTask, kinds: Kinds, report: ProblemReport) -> None:
    source, kind = task.source, kinds.get(task.kind)
    policy = source.policy
    if policy is not None and policy.on_unmatched is not None and any(rule.always for rule in task.written_rules):
        message = '"on_unmatched" has no effect: a rule matches every output'
        report.add("no-effect", (*policy.at, "on_unmatched"), message, key=True)
    for key in () if kind is None else kind.ignores:
        for at in _places(source, key.split(".")):
            if report.document.find(at) is not None:
                message = f'"{key}" has no effect on a task of kind "{task.kind}"'
                report.add("no-effect", at, message, key=True)


def _places(task: Task, key: list[str]) -> Iterator[Path]:
    """Where a task can have the key: `auth` beside `kind` or under `input`, others under `spec`."""
    if key == ["auth"]:
        yield from ((*task.at, "auth"), (*task.at, "input", "auth"))
    else:
        yield from ((*task.at, "spec", *key), (*task.at, "spec", task.kind, *key))


def _kind_specs(playbook: Playbook, kinds: Kinds, report: ProblemReport) -> None:
    """Settings for a kind that no task below has (D63)."""
    every = {task.kind for owner in playbook.pipelines for task in owner.tasks}
    _unused(playbook.executor.spec, ("executor", "spec"), every, kinds, report)
    for owner in playbook.pipelines:
        own = {task.kind for task in owner.tasks}
        for part in (owner, *owner.loops):
            _unused(part.spec, (*part.at, "spec"), own, kinds, report)
        for task in owner.tasks:
            _unused(task.spec, (*task.at, "spec"), {task.kind}, kinds, report)


def _unused(spec: dict[str, JSON], at: Path, used: set[str], kinds: Kinds, report: ProblemReport) -> None:
    for kind in spec:
        if kind not in kinds or kind in used:
            continue
        message = f'no task here has the kind "{kind}", so its settings have no effect'
        report.add("no-effect", (*at, kind), message, key=True)
    if spec.get("sandbox") is not None:
        able = sorted(name for name, kind in kinds.items() if "sandbox" in kind.knobs.keys)
        if not used & set(able):
            message = f"no task here has a kind that runs programs ({', '.join(able)}), so the sandbox has no effect"
            report.add("no-effect", (*at, "sandbox"), message, key=True)
