"""What a worker of an isolated pool may request: work of its own pool, and data of the frames that it holds.

The sender is known from the key that sealed the request. Servers may request everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from noetl.engine import facts
from noetl.engine.breakpoints import author_step
from noetl.engine.commands import Command, Decide, EndLoop, Report, StartLoop
from noetl.engine.delegation import is_decision, pipeline_of
from noetl.engine.facts import ForBlock, ForChild, ForDebugger, ForDocument, ForPermit, FrameParked
from noetl.engine.parking import child_id
from noetl.engine.scopes import named_results
from noetl.engine.stored import filled, key_of, marks_on
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.ids import call_id, frame_of_call, frame_parts
from noetl.json_slices import decode_stored
from noetl.link.messages import (
    BeatRequest,
    BeginRequest,
    CommandRequest,
    CredentialRequest,
    HeldFrame,
    IterationsRequest,
    LinesRequest,
    LinkRequest,
    LinkStartRequest,
    ParentRequest,
    PlaybookRequest,
    ReportRequest,
    ReportsRequest,
    WorkRequest,
    decode_command,
)
from noetl.link.secret_channel import OwnedExecution, Owner, load_held
from noetl.net.credentials import entry_names
from noetl.net.notify import split_digest
from noetl.net.program import CompiledPipeline
from noetl.output import JSON, STORED
from noetl.ports import ResultStore
from noetl.slices import in_slices
from noetl.template.compile import Template

DEPTH_MAX: Final = 64  # more than children can be nested


async def authorise(pool: str, request: LinkRequest, owner: Owner) -> None:
    """Raises Rejected if a worker of the pool may not send the request, and the errors of the owner."""
    match request:
        case BeginRequest(execution_id, frame):
            await _check_frame(pool, owner, execution_id, frame)
        case ReportRequest(execution_id, report):
            await _check_report(pool, owner, execution_id, report)
        case ReportsRequest():
            pass  # each report is checked alone
        case BeatRequest(holds=holds):
            for execution_id, frame, _ in holds:
                await _check_frame(pool, owner, execution_id, frame)
        case CredentialRequest(execution_id, frame):  # the secret channel checks the grant
            await _check_frame(pool, owner, execution_id, frame)
            _check_entry(pool, await owner.load(execution_id), request.entry)
        case CommandRequest():
            await _check_command(pool, owner, request)
        case IterationsRequest(execution_id, held=held):
            await _check_tree(await _load_held(pool, owner, held), owner, {execution_id}, owner.results)
        case ParentRequest(execution_id, held=held):
            await _check_tree(await _load_held(pool, owner, held), owner, {execution_id})
        case PlaybookRequest(digest, held):
            if split_digest((await _load_held(pool, owner, held)).state.digest)[0] != digest:
                raise _refused(pool, "read this playbook")
        case LinesRequest(execution_id, lines):
            _check_lines(pool, await owner.load(execution_id), {line.call for line in lines})
        case LinkStartRequest():
            raise _refused(pool, "start executions")
        case WorkRequest():
            raise _refused(pool, "list the work of all pools")


def _refused(pool: str, what: str) -> Rejected:
    return Rejected("not-permitted", f'a worker of the pool "{pool}" may not {what}')


def _pipeline(execution: OwnedExecution, frame: str) -> CompiledPipeline | None:
    """None: there is no such frame."""
    try:
        if is_decision(frame):
            return pipeline_of(execution.program, execution.state, frame)
        run = execution.state.runs[frame_parts(frame)[0]]
        return execution.program.pipeline(run.step, block=run.block)
    except (KeyError, ValueError):
        return None


async def _check_frame(pool: str, owner: Owner, execution_id: str, frame: str) -> CompiledPipeline | None:
    """A frame that does not exist is none of another pool: the owner answers that it is over."""
    try:
        execution = await owner.load(execution_id)
    except (NotFound, Unavailable):
        return None  # the owner answers so, or stops nothing
    pipeline = _pipeline(execution, frame)
    if pipeline is not None and pipeline.pool != pool:
        raise _refused(pool, f'work on {frame}, which is of the pool "{pipeline.pool}"')
    return pipeline


def _check_entry(pool: str, execution: OwnedExecution, entry: str) -> None:
    """An execution may have steps in several pools: a worker gets the secrets that steps of its own pool use."""
    program = execution.program
    pipelines = (*(step.pipeline for step in program.steps.values()), *program.blocks.values())
    for task in [task for each in pipelines if each.pool == pool for task in each.tasks]:
        names = entry_names(task)
        if names is None or entry in names:
            return
    raise _refused(pool, f'fetch the keychain entry "{entry[:80]}", which no step of this pool uses')


def _check_lines(pool: str, execution: OwnedExecution, calls: Iterable[str]) -> None:
    """The last lines of a call may arrive after the end of its run, so they are compared with the playbook alone."""
    program = execution.program
    pipelines = (*(step.pipeline for step in program.steps.values()), *program.blocks.values())
    names = tuple(f"/{each.name}" for each in pipelines if each.pool == pool)
    for call in calls:
        stem = frame_of_call(call).rpartition("#")[0]
        if not f"/{stem}".endswith(names):
            raise _refused(pool, f"write lines of {call[:80]}")


async def _load_held(pool: str, owner: Owner, held: HeldFrame | None) -> OwnedExecution:
    if held is None:
        raise _refused(pool, "send this without a frame that it holds")
    await _check_frame(pool, owner, held.execution_id, held.frame)
    return await load_held(owner, held)


# Reports and commands


async def _check_report(pool: str, owner: Owner, execution_id: str, report: Report) -> None:
    pipeline = await _check_frame(pool, owner, execution_id, report.frame)
    parts = (*report.facts, report.running, report.parked)
    if any(part is not None and part.frame != report.frame for part in parts):
        raise _refused(pool, f"report frames other than {report.frame}")
    if report.parked is not None and pipeline is not None:
        _check_parked(pool, execution_id, report, report.parked, pipeline)
        match report.parked.until:
            case ForChild(workload=input) | ForBlock(input=input) if STORED in input:
                raise _refused(pool, f"hand over an input with the reserved key {STORED}")
            case ForChild(workload=workload):
                await _check_refs(await owner.load(execution_id), owner, workload)


def _check_parked(
    pool: str, execution_id: str, report: Report, parked: FrameParked, pipeline: CompiledPipeline
) -> None:
    """A frame waits only for a child or a block that its step calls."""
    until = parked.until
    kinds = {task.kind for task in pipeline.tasks}
    match until:
        case ForDocument():
            raise _refused(pool, "answer for the server")
        case ForDebugger(place=place) if not place.startswith(f"{author_step(pipeline.name)}."):
            raise _refused(pool, f"hold {report.frame} there")
        case ForPermit() if all(task.limit is None for task in pipeline.tasks):
            raise _refused(pool, f"wait for a limit in {report.frame}")
        case ForBlock() if "workbook" not in kinds:
            raise _refused(pool, f"call a block in {report.frame}")
        case ForChild():
            sources = [task.source for task in pipeline.tasks if task.kind == "playbook"]
            paths = [str(each.fields.get("path", "")) for each in sources if "document" not in each.fields]
            made = report.document is not None and sha256(report.document.encode()).hexdigest() == until.digest
            if until.digest is not None or report.document is not None:
                fits = made and any("document" in each.fields for each in sources)
            else:
                fits = until.path in paths or any("{{" in path or "{%" in path for path in paths)
            if not fits or until.execution_id != child_id(f"{execution_id}/{call_id(report.frame, parked.call)}"):
                raise _refused(pool, f"start this playbook in {report.frame}")


async def _check_command(pool: str, owner: Owner, request: CommandRequest) -> None:
    """Workers start and end loops and make decisions, each under the grant of that work."""
    command = decode_command(request)
    held = request.held
    subject = _subject(command)
    if subject is None or held is None or (held.execution_id, held.frame) != (request.execution_id, subject):
        raise _refused(pool, f"send the command {request.kind[:40]}")
    execution = await _load_held(pool, owner, held)
    if isinstance(command, Decide) and not is_answer(execution, command):
        raise _refused(pool, f"decide this in {command.decision}")


def _subject(command: Command) -> str | None:
    """The frame under whose grant a worker makes the command; None: workers do not make it."""
    match command:
        case StartLoop(run=run) | EndLoop(run=run):
            return run
        case Decide(decision=decision):
            return decision
    return None


def is_answer(execution: OwnedExecution, command: Decide) -> bool:
    """Whether the fact is about the decision, and not about other runs."""
    subject, _, kind = command.decision.rpartition("!")
    state, run = execution.state, execution.state.runs.get(subject)
    tokens = state.joins.get(subject, ()) if kind == "join" else (subject,)
    match command.fact:
        case None:
            return True
        case facts.StepScheduled():  # control makes the fact itself, with this input
            return kind in ("token", "join")
        case facts.StepWaiting(token=token, limit=None):
            return kind in ("token", "join") and token in tokens
        case facts.StepFailed(run=None, tokens=failed):
            return kind in ("token", "join") and set(failed) <= set(tokens)
        case facts.LoopStarted(run=name) | facts.LoopDone(run=name) | facts.StepFailed(run=name):
            return kind in ("loop", "end") and name == subject
        case facts.Finished(status="error") | facts.Compensating(status="error"):
            return kind == "loop"  # its items exceed a limit of the execution
        case facts.FrameResumed(frame=frame, run=name):
            return kind == "route" and name == subject and run is not None and frame == run.parent
        case facts.NextEvaluated(run=name, tokens=made):
            leads = kind == "route" and run is not None and all(_leads(execution, run.step, each) for each in made)
            return leads and name == subject
    return False


def _leads(execution: OwnedExecution, step: str, token: facts.Token) -> bool:
    """Whether an arc of the step may make the token."""
    for arc in execution.program.steps[step].arcs:
        targets = arc.targets if isinstance(arc.target, Template) else (arc.target,)
        if targets is None or token.step in targets:
            return True
    return False


# Reading


async def _check_refs(execution: OwnedExecution, owner: Owner, workload: dict[str, JSON]) -> None:
    """A child reads what its workload names, so the worker of its caller names results of their tree only."""
    named = set((await in_slices(named_results(workload))).values())
    await _check_tree(execution, owner, named, owner.results)  # also of stored values: they are read only then
    if (complete := await _complete(workload, owner.results)) is not workload:
        more = set((await in_slices(named_results(complete))).values()) - named
        await _check_tree(execution, owner, more, owner.results)


async def _check_tree(
    execution: OwnedExecution, owner: Owner, others: set[str], results: ResultStore | None = None
) -> None:
    """Raises NotFound for an execution that has no ancestor in common and that the workload does not name.

    `results` None: values of the workload that are too large for the log are not searched.
    """
    state, workload = execution.state, execution.state.workload
    others = others - {state.execution_id}
    if others:
        others.difference_update((await in_slices(named_results(workload))).values())
    if others:
        parents: dict[str, str | None] = {}
        roots = {await _root(owner, each, parents) for each in (state.execution_id, *state.origins)}
        others = {each for each in others if await _root(owner, each, parents) not in roots}
    if others and results is not None and (complete := await _complete(workload, results)) is not workload:
        others.difference_update((await in_slices(named_results(complete))).values())
    if others:
        raise NotFound(f"no execution {min(others)} in the tree of {state.execution_id}")


async def _complete(workload: dict[str, JSON], results: ResultStore) -> dict[str, JSON]:
    """With the values that are too large for the log; the same object if there are none."""
    values = {key_of(ref): await decode_stored(await results.get(ref)) for ref in marks_on(workload, ())}
    complete: dict[str, JSON] = filled(workload, values) if values else workload
    return complete


async def _root(owner: Owner, execution_id: str, parents: dict[str, str | None]) -> str:
    """`parents`: those that are known already."""
    for _ in range(DEPTH_MAX):
        if execution_id not in parents:
            parents[execution_id] = await owner.parent(execution_id)
        if (parent := parents[execution_id]) is None:
            break
        execution_id = parent
    return execution_id
