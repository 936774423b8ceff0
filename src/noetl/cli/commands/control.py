"""`noetl resume`, `retry`, `pause`, `cancel` and `signal`: commands to an execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from noetl.cli.completion import complete_step
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Detach, Format, Id, OptionalId, Server, Yes, app, finish, on_execution
from noetl.cli.output.screen import short
from noetl.cli.selection import (
    Labels,
    PathPattern,
    Search,
    Selection,
    Since,
    Statuses,
    Until,
    on_selected,
)

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.session.execution import Execution


@app.command()
def resume(
    id: Id,
    *,
    no_breakpoints: Annotated[
        bool,
        typer.Option(
            "--no-breakpoints",
            help="Remove its breakpoints and those of its children, and release everything that they hold.",
        ),
    ] = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Continue an execution that was interrupted or paused.

    If another process runs the execution, the command is refused. If it has ended, its result is shown. If a server
    runs it, its progress is shown. Work that a breakpoint holds stays held: `noetl debug` continues it.
    Exits like `run`.

    \b
    Examples:
      noetl resume last
      noetl resume 0199b3c2 --format json
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.runner import continue_execution
        from noetl.session.connect import resolve

        async def resume_it(execution: Execution) -> None:
            await execution.resume()
            if no_breakpoints:
                from noetl.session.debugger import DebuggedTree

                await DebuggedTree(execution.session, execution.id).clear()

        return continue_execution(reporter, id, resolve(db, server), resume_it, detach=detach, show_if_ended=True)

    finish(format, command)


RetriedStep = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="STEP",
        help="Retry only the failures of this step, including handled ones.",
        autocompletion=complete_step,
    ),
]
RetriedIterations = Annotated[
    list[int] | None,
    typer.Option(
        "--iteration",
        metavar="N",
        min=0,
        help="Retry only this iteration of the loop of --step, counted from 0; may be repeated.",
    ),
]


@app.command()
def retry(
    id: OptionalId = None,
    *,
    step: RetriedStep = None,
    iteration: RetriedIterations = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Start with the first task instead of the failed one.")
    ] = False,
    path: PathPattern = None,
    status: Statuses = None,
    label: Labels = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Retry the failed parts of a finished execution, and run it to its end.

    Successful iterations, and the tasks before the failed one, are kept. The execution keeps the playbook text that it
    started with; `noetl fork` continues with a corrected one. Exits like `run`.

    Without an ID it retries all executions that match the options, at most 1,000, without child executions. It prints
    its plan first. On a terminal it asks for confirmation; elsewhere it does nothing unless --yes is given.
    JSON is then `{action, executions}`, with a `result` for each.

    \b
    Examples:
      noetl retry last
      noetl retry --path 'orders/*' --status error --since 12h
      noetl retry 0199b3c2 --step fetch --iteration 21 --iteration 40
    """

    from noetl.api.bulk import BulkRequest

    selection = Selection(path, status, label, search, since, until)
    parts = RetriedParts(step, tuple(iteration or ()), from_start)
    if id is None or any(selection):
        on_selected(format, db, server, selection, BulkRequest(action="retry"), named=id, yes=yes, one_only=any(parts))
    finish(format, lambda reporter: _retry_one(reporter, id, (db, server), parts, detach=detach))


class RetriedParts(NamedTuple):
    """What of an execution is retried."""

    step: str | None
    iterations: tuple[int, ...]
    from_start: bool


def _retry_one(
    reporter: Reporter,
    id: str,
    place: tuple[str | None, str | None],
    parts: RetriedParts,
    *,
    detach: bool,
) -> int:
    from noetl.cli.runner import continue_execution
    from noetl.session.connect import resolve
    from noetl.session.errors import UsageError

    if parts.iterations and parts.step is None:
        raise UsageError("--iteration needs --step: the step with the loop")

    async def retry_it(execution: Execution) -> None:
        error = (await execution.show()).error
        if error is not None and error.kind == "template":
            again = f"noetl fork {short(execution.id)}{execution.session.hint} --playbook FILE"
            reporter.warn(f"retry uses the playbook as it was at the start; to use a corrected file: {again}")
        await execution.retry(parts.step, iterations=parts.iterations, from_start=parts.from_start)

    return continue_execution(reporter, id, resolve(*place), retry_it, detach=detach)


@app.command()
def pause(id: Id, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Pause an execution: running calls finish, nothing new starts.

    Its process then ends; `noetl resume` continues the execution. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl pause last
      noetl pause 0199b3c2 --format json
    """

    async def work(reporter: Reporter, execution: Execution) -> int:
        if (await execution.info()).status == "paused":
            return reporter.execution("paused", "it is already paused")
        await execution.pause()
        name = f"{short(execution.id)}{execution.session.hint}"
        return reporter.execution("paused", f"paused; continue with: noetl resume {name}")

    on_execution(format, id, db, server, work)


@app.command()
def cancel(
    id: OptionalId = None,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason, which is recorded in the log.")
    ] = "",
    compensate: Annotated[
        bool, typer.Option("--compensate", help="Then undo the completed steps with their `compensate` tasks.")
    ] = False,
    path: PathPattern = None,
    status: Statuses = None,
    label: Labels = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """End an execution and its children: nothing new starts, running calls have 10 seconds.

    JSON is `{execution_id, status}`; the status is `cancelling` while calls still run, and `running` while
    completed steps are undone.

    Without an ID it cancels all executions that match the options, at most 1,000. It prints its plan first. On a
    terminal it asks for confirmation; elsewhere it does nothing unless --yes is given. JSON is then
    `{action, executions}`, with a `result` for each.

    \b
    Examples:
      noetl cancel last
      noetl cancel 0199b3c2 --reason "wrong account" --compensate
      noetl cancel --path 'orders/*' --status running --reason "wrong month"
    """

    from noetl.api.bulk import BulkRequest

    selection = Selection(path, status, label, search, since, until)
    if id is None or any(selection):
        wanted = BulkRequest(action="cancel", reason=reason, compensate=compensate)
        on_selected(format, db, server, selection, wanted, named=id, yes=yes)

    async def work(reporter: Reporter, execution: Execution) -> int:
        return await _cancel_one(reporter, execution, reason, compensate=compensate)

    on_execution(format, id, db, server, work)


async def _cancel_one(reporter: Reporter, execution: Execution, reason: str, *, compensate: bool) -> int:
    from noetl.engine.state import LIVE

    status = await execution.session.cancel(execution.id, reason, compensate=compensate)
    if status == "running" and compensate:
        see = f"noetl show {short(execution.id)}{execution.session.hint}"
        return reporter.execution(status, f"it is cancelled, and its completed steps are being undone: {see}")
    if status in LIVE:
        return reporter.execution("cancelling", "it is being cancelled: running calls have 10 s")
    return reporter.execution(status, status)


@app.command()
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal that a `wait` task waits for.")],
    *,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="YAML", help="The data of the signal. It becomes `output.data` of the task."),
    ] = None,
    frame: Annotated[
        str | None,
        typer.Option(
            "--frame", metavar="FRAME", help="Send it only to this waiting frame, such as ask#1[2]. Default: to all."
        ),
    ] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Send a signal that an execution waits for, such as an approval.

    Exits with 1 when nothing waits for it. JSON is `{execution_id, status}`.

    \b
    Examples:
      noetl signal last approved
      noetl signal 0199b3c2 approved --data "{by: ann, amount: 12}"
    """

    def value(_reporter: Reporter) -> JSON:
        from noetl.cli.workload import parse_value

        return None if data is None else parse_value(data, "--data")

    async def work(reporter: Reporter, execution: Execution) -> int:
        if await execution.session.signal(execution.id, name, value(reporter), frame=frame):
            return reporter.execution(reporter.status, "the signal was delivered")
        resumed = f"{short(execution.id)}{execution.session.hint}"
        text = f"the signal is logged; continue with: noetl resume {resumed}"
        return reporter.execution(reporter.status, text)

    on_execution(format, id, db, server, work, before=value)
