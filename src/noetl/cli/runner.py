"""`noetl run`, `resume` and `retry`: start or continue an execution, show its progress, print how it ended.

On a file the execution runs in this process, and Ctrl-C stops it cleanly: its log is kept and `noetl resume`
continues it. On a server Ctrl-C only stops the progress display.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec

from noetl.cli.arguments import RunOptions
from noetl.cli.execute import FAILED, INTERRUPTED, OK, WRONG, Reporter, execute, find, hinting
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.output.problems import print_notes
from noetl.cli.output.progress import Progress, drawn
from noetl.cli.output.screen import short
from noetl.cli.output.summary import summary
from noetl.cli.workload import UNDECLARED_MAX, read_ctx, read_labels, read_secrets, read_workload, undeclared
from noetl.control.refusals import describe_problems
from noetl.errors import NotFound, Unavailable
from noetl.net.describe import count
from noetl.output import JSON
from noetl.session.connect import Target, open_session, resolve
from noetl.session.errors import StartRefused, UsageError
from noetl.session.execution import Execution
from noetl.session.protocol import GRACE_S, Session
from noetl.session.sources import STDIN, find_source
from noetl.views.documents import ShowDocument
from noetl.views.styled_text import Styled

T = TypeVar("T")
Begin: TypeAlias = Callable[[], Coroutine[object, object, Execution]]

PAUSED_GRACE_S: Final = 86_400.0  # running calls of a paused execution finish (D67)
CODES: Final = {
    "ok": OK, "error": FAILED, "cancelled": FAILED, "paused": INTERRUPTED, "running": INTERRUPTED
}  # fmt: skip


def run(options: RunOptions) -> int:
    return execute(options.format, partial(_run, options=options))


def _run(reporter: Reporter, options: RunOptions) -> int:
    target = resolve(options.db, options.server)
    session = open_session(target, create=True, dedicated=True)
    if options.detach:
        session.detach()
    if options.file == STDIN == options.workload:
        raise UsageError("standard input can be read only once: for the playbook or for the workload")
    given = read_workload(options.workload, options.sets)
    workload = partial(given.values_for, allow_extra=options.allow_extra)
    ctx = partial(read_ctx(options.ctx).values_for, allow_extra=options.allow_extra) if options.ctx else None
    labels = read_labels(options.labels)
    secrets = read_secrets(options.secrets) if options.secrets else None
    source = find_source(options.file)
    is_new_file = target.is_new_file

    async def begin() -> Execution:
        try:
            execution = await session.start(
                source, workload=workload, ctx=ctx, labels=labels, dialect=options.dialect, secrets=secrets
            )
        finally:
            if is_new_file and target.exists:
                reporter.warn(f"a new database: {target.option}")
        print_notes_of(reporter, execution, options.file, given.values)
        return execution

    async def work() -> int:
        async with session:
            return await _until_rest(reporter, session, begin, detach=options.detach)

    try:
        return asyncio.run(work())
    except StartRefused as refused:
        return refuse(reporter, refused)


def run_session(
    reporter: Reporter,
    target: Target,
    plan: Callable[[Session], Awaitable[T | None]],
    start: Callable[[Session, T], Coroutine[object, object, Execution]],
    *,
    detach: bool,
    create: bool = True,
) -> int:
    """For commands with a plan: start what it says, and show the progress. A plan of None: there is nothing to do.

    `create`: make the database file when it does not exist.
    """

    async def work() -> int:
        async with open_session(target, create=create, dedicated=True) as session:
            if detach:
                session.detach()
            with hinting(session.hint):
                if (planned := await plan(session)) is None:
                    return OK
            return await _until_rest(reporter, session, lambda: start(session, planned), detach=detach)

    try:
        return asyncio.run(work())
    except StartRefused as refused:
        return refuse(reporter, refused)


def print_notes_of(reporter: Reporter, execution: Execution, file: str, workload: dict[str, JSON]) -> None:
    """Warnings about the playbook, and keys of the workload that it does not declare."""
    notes = execution.notes
    print_notes(notes.migration, reporter.errors)
    warnings = sum(problem.severity == "warning" for problem in notes.problems)
    if warnings:
        reporter.warn(f"{count(warnings, 'warning')}; see noetl check {file}")
    for sentence in notes.ignored:
        reporter.warn(sentence)
    unknown = list(undeclared(notes.declared.defaults, workload)) if notes.declared.types is None else []
    for sentence in unknown[:UNDECLARED_MAX]:
        reporter.warn(sentence)
    if len(unknown) > UNDECLARED_MAX:
        reporter.warn(f"… and {len(unknown) - UNDECLARED_MAX:,} more keys that it does not declare")


def refuse(reporter: Reporter, refused: StartRefused) -> int:
    if refused.not_recorded is not None:
        reporter.warn(f"this request is not logged: {refused.not_recorded}")
    reporter.execution_id = refused.execution_id
    reporter.problems(refused.problems, refused.text)
    if refused.execution_id is not None:
        reporter.warn(f"{describe_problems(refused.problems)}; the request is logged as {refused.execution_id}")
    return WRONG


def continue_execution(
    reporter: Reporter,
    name: str,
    target: Target,
    command: Callable[[Execution], Awaitable[None]],
    *,
    detach: bool,
    show_if_ended: bool = False,
) -> int:
    """For `resume` and `retry`. `show_if_ended`: an execution that has ended is only shown."""

    async def work() -> int:
        async with open_session(target, dedicated=True) as session:
            if detach:
                session.detach()
            execution = await find(reporter, session, name)
            if show_if_ended and not (info := await execution.info()).live:
                reporter.warn(f"the execution has already ended: {info.status}")
                return conclude(reporter, await execution.show(), session.hint)

            async def begin() -> Execution:
                await command(execution)
                return execution

            with hinting(session.hint):
                return await _until_rest(reporter, session, begin, known=execution.id, detach=detach)

    return asyncio.run(work())


async def _until_rest(
    reporter: Reporter, session: Session, begin: Begin, *, known: str | None = None, detach: bool = False
) -> int:
    """Until it has ended, is paused or interrupted; the exit code. `known`: an execution that exists."""
    progress = Progress(known, session.clock, hint=session.hint)
    session.observe(progress)

    def on_first_signal() -> None:
        if session.runs_here:
            text = f"stopping: running calls have {GRACE_S:g} s; press Ctrl-C again to stop immediately"
            # On a terminal only the view may write between the rows that it draws.
            (progress.warn if reporter.screen.colour else reporter.warn)(text)

    with Interrupts(on_first_signal) as interrupts:
        try:
            execution = await _begin(session, begin, interrupts)
            reporter.execution_id, reporter.status = execution.id, "running"
            if detach:
                return await _detached(reporter, execution)
            if known is not None:
                reporter.screen.line(Styled(known, "faint"))
            await _rest(reporter, execution, progress, interrupts)
        except Interrupted:
            return await _interrupted(reporter, session, progress.root)
        except Unavailable:
            _advise(reporter, session, progress.root)
            raise
        for id, status in session.untold.items():
            what, verb = ("failed", "show") if status == "error" else (f"is {status}", "resume")
            reporter.warn(f"a notification {what}; see: noetl {verb} {short(id)}{session.hint}")
        return conclude(reporter, await execution.show(), session.hint)


async def _begin(session: Session, begin: Begin, interrupts: Interrupts) -> Execution:
    try:
        return await interrupts.unless(begin())
    except BaseException:
        await session.drain(0)
        raise


async def _rest(reporter: Reporter, execution: Execution, progress: Progress, interrupts: Interrupts) -> None:
    session, grace_s = execution.session, GRACE_S
    async with drawn(progress, reporter.screen, session.clock):
        try:
            if await interrupts.unless(session.rest(execution.id)) == "paused":
                grace_s = PAUSED_GRACE_S
        except Unavailable:
            grace_s = 0  # results that arrive now could not be stored
            raise
        finally:
            await _drain(session, grace_s, interrupts)


async def _drain(session: Session, grace_s: float, interrupts: Interrupts) -> None:
    """One more signal than so far ends the wait for running calls."""
    unless = interrupts.unless_again if interrupts.first.is_set() else interrupts.unless
    try:
        await unless(session.drain(grace_s))
    except Interrupted:
        await session.drain(0)


# How it ended


def conclude(reporter: Reporter, document: ShowDocument, hint: str) -> int:
    if reporter.json:
        reporter.document(document)
    else:
        reporter.screen.lines(summary(document, reporter.screen.columns, hint))
    return CODES[document.status]


async def _detached(reporter: Reporter, execution: Execution) -> int:
    status, id = (await execution.info()).status, execution.id
    reporter.document({"execution_id": id, "status": status})
    if not reporter.json:
        reporter.screen.line(id)
        hint = execution.session.hint
        reporter.warn(f"the execution runs on the server; follow it with: noetl events {short(id)}{hint} --follow")
    return OK


async def _interrupted(reporter: Reporter, session: Session, id: str | None) -> int:
    if id is None:
        reporter.warn("interrupted before it was logged: nothing has run")
        reporter.document({"execution_id": None, "status": "interrupted"})
        return INTERRUPTED
    name = f"{short(id)}{session.hint}"
    if session.runs_here:
        if reporter.json:
            document: Mapping[str, JSON] = msgspec.to_builtins(await session.show(id))
            reporter.document({**document, "status": "interrupted"})
        reporter.warn(f"interrupted: nothing is lost; continue with: noetl resume {name}")
        return INTERRUPTED
    live = True
    with suppress(Unavailable, NotFound):
        shown = await session.show(id)
        reporter.document(shown)
        live = shown.status == "running"
    if live:
        advice = f"see it with: noetl show {name}; end it with: noetl cancel {name}"
        reporter.warn(f"stopped following; the execution continues on the server; {advice}")
    else:
        reporter.warn(f"the execution has just ended; see: noetl show {name}")
    return INTERRUPTED


def _advise(reporter: Reporter, session: Session, id: str | None) -> None:
    """What to do when storage or the server fails."""
    if id is None:
        return
    name = f"{short(id)}{session.hint}"
    if session.runs_here:
        reporter.status = "interrupted"
        reporter.advice = f"nothing is lost; continue with: noetl resume {name}"
    else:
        reporter.advice = f"the execution continues on the server; see: noetl show {name}"
