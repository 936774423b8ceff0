"""`noetl fork`: continue an execution in a new one, with a corrected playbook."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import typer

from noetl.cli.commands.run import Secrets
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Detach, Format, Id, Server, Yes, app, confirmed, finish

if TYPE_CHECKING:
    from noetl.fork.plan import ForkPlan
    from noetl.session.execution import Execution
    from noetl.session.protocol import ForkSpec, Session

SHOWN_MAX = 20  # runs of each kind that the plan lists


FailedOnly: TypeAlias = Annotated[
    bool, typer.Option("--failed-only", help="Keep all finished work, even if its text or its input has changed.")
]


@app.command()
def fork(
    id: Id,
    *,
    playbook: Annotated[
        str | None,
        typer.Option("--playbook", "-p", metavar="FILE|PATH", help="The corrected playbook. Default: the same text."),
    ] = None,
    at: Annotated[
        int | None, typer.Option("--at", min=1, metavar="SEQ", help="Only events up to this one count.")
    ] = None,
    from_step: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Repeat the runs of this step, and all that follows.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the workload. The value is YAML."),
    ] = None,
    secrets: Secrets = None,
    failed_only: FailedOnly = False,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    detach: Detach = False,
    format: Format = "auto",
) -> None:
    """Continue an execution in a new one, with a corrected playbook; its finished work is kept.

    A finished run is kept if the text of its tasks and the values that they read are the same. Everything else, and
    everything that depends on it, runs again. The plan is printed first. On a terminal the command asks for
    confirmation; elsewhere it needs --yes. The old execution must have ended or be paused, unless --at names an event.
    The fork receives its secret inputs. They are deleted when an execution ends with ok: then give them again with
    --secret. Exits like `run`. JSON is `{plan: {kept, redone,
    new}}`, and with --yes also `execution_id` and what `run` prints.

    \b
    Examples:
      noetl fork last --playbook orders.yaml
      noetl fork 0199b3c2 --playbook orders.yaml --set day=2026-11-16 --yes
      noetl fork 0199b3c2 --from store --yes
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.workload import read_secrets, read_workload
        from noetl.session.protocol import ForkSpec

        workload = partial(read_workload(None, sets or []).values_for, allow_extra=True)
        wanted = ForkSpec(playbook, at, from_step, workload, failed_only, secrets=read_secrets(secrets or ()))
        return _fork(reporter, id, wanted, db, server, yes=yes, detach=detach)

    finish(format, command)


def _fork(
    reporter: Reporter, id: str, wanted: ForkSpec, db: str | None, server: str | None, *, yes: bool, detach: bool
) -> int:
    from noetl.cli.execute import find
    from noetl.cli.runner import run_session
    from noetl.session.connect import resolve

    async def plan(session: Session) -> tuple[Execution, ForkSpec] | None:
        execution = await find(reporter, session, id)
        planned = await session.plan_fork(execution.id, wanted)
        print_plan(reporter, planned)
        reporter.extra = {"plan": msgspec.to_builtins(planned)}
        if confirmed(reporter, "fork it?", yes=yes):
            return execution, wanted._replace(at=planned.at)
        reporter.document({})
        return None

    def start(session: Session, found: tuple[Execution, ForkSpec]) -> Coroutine[object, object, Execution]:
        return session.fork(found[0].id, found[1])

    return run_session(reporter, resolve(db, server), plan, start, detach=detach, create=False)


def print_plan(reporter: Reporter, plan: ForkPlan) -> None:
    """To standard error: standard output is for what `run` prints."""
    from noetl.net.describe import count

    kept = f"kept: {count(len(plan.kept), 'run')}"
    if plan.kept_iterations:
        kept += f" and {count(plan.kept_iterations, 'iteration')}"
    for line in (
        f"{kept}, {count(plan.kept_calls, 'call')}",
        *_listed("redone", [f"{each.run}: {each.why}" for each in plan.redone]),
        *_listed("new", plan.new),
        *_listed("dropped", plan.dropped),
        *_unseen(plan.unseen),
    ):
        reporter.errors.line(line)


def _unseen(steps: tuple[str, ...]) -> list[str]:
    if not steps:
        return []
    shown = ", ".join(steps[:SHOWN_MAX]) + (", …" if len(steps) > SHOWN_MAX else "")
    return [f"not compared: files that the code of these steps may read: {shown}; repeat a step with --from STEP"]


def _listed(name: str, items: list[str] | tuple[str, ...]) -> list[str]:
    if not items:
        return []
    more = [f"  … {len(items) - SHOWN_MAX:,} more"] if len(items) > SHOWN_MAX else []
    return [f"{name}: {len(items):,}", *(f"  {each}" for each in items[:SHOWN_MAX]), *more]
