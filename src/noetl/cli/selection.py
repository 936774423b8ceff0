"""Commands on all executions that options choose: `noetl cancel --path 'orders/*' --status running`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn, TypeAlias

import typer

from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import begin_of, confirmed, on_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from noetl.api.bulk import BulkItem, BulkRequest
    from noetl.cli.arguments import FormatChoice
    from noetl.session.protocol import ExecutionInfo, Session, Standing

STANDINGS: Final[tuple[Standing, ...]] = ("running", "interrupted", "paused", "ok", "error", "cancelled")
SHOWN_MAX: Final = 20  # executions of a plan, and refusals of a result

PathPattern: TypeAlias = Annotated[
    str | None, typer.Option("--path", metavar="PATTERN", help="Only executions of these playbooks: `orders/*`.")
]
Statuses: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--status", metavar="STATUS", help=f"Only executions with one of these statuses: {', '.join(STANDINGS)}."
    ),
]
Labels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="KEY=VALUE",
        help="Only executions with this label; with several labels, those that have all of them.",
    ),
]
Search: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--search",
        metavar="TEXT",
        help="Only executions whose path, error or label contains this text, or whose id starts or ends with it.",
    ),
]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only executions that started in the last 12h, 2d, 4w, …")
]
Until: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only executions that started longer ago than 12h, 2d, …")
]


class Selection(NamedTuple):
    """The options that choose executions."""

    path: str | None = None
    status: str | None = None
    label: Sequence[str] | None = None
    search: str | None = None
    since: str | None = None
    until: str | None = None

    def check(self, named: object) -> None:
        """Either executions are named, or options choose them. Raises UsageError."""
        from noetl.session.errors import UsageError

        if bool(named) == any(self):
            raise UsageError(
                "name an execution, or choose several with --path, --status, --label, --search, --since or --until"
                + (": not both" if named else "")
            )

    async def read(self, session: Session, limit: int, *, roots: bool) -> list[ExecutionInfo]:
        """The newest first; `roots`: without those that another one called. Raises UsageError."""
        from noetl.cli.workload import read_labels

        found = session.executions(
            status=read_standings(self.status), path=self.path, labels=read_labels(self.label or ()),
            search=self.search, since=None if self.since is None else begin_of(self.since),
            until=None if self.until is None else begin_of(self.until, "--until"), roots=roots, limit=limit,
        )  # fmt: skip
        return [each async for each in found]


def read_standings(words: str | None) -> list[Standing]:
    """Raises UsageError."""
    from noetl.session.errors import UsageError

    found: list[Standing] = []
    for word in words.split(",") if words is not None else ():
        known = next((each for each in STANDINGS if each == word.strip()), None)
        if known is None:
            raise UsageError(f'--status "{word.strip()}" is unknown: write one or more of {", ".join(STANDINGS)}')
        found.append(known)
    return found


def on_selected(
    format: FormatChoice,
    db: str | None,
    server: str | None,
    selection: Selection,
    wanted: BulkRequest,
    *,
    named: object,
    yes: bool,
    one_only: bool = False,
    before: Callable[[Reporter], None] = lambda _: None,
) -> NoReturn:
    """Act on the executions that the options choose, and exit.

    `named`: the executions that the command names, which excludes a choice; `one_only`: other options need one;
    `before`: reads other options before anything is opened. Raises UsageError.
    """

    def check(reporter: Reporter) -> None:
        from noetl.session.errors import UsageError

        before(reporter)
        selection.check(named)
        if one_only:
            raise UsageError("--step and --from-start are for one execution: name it")

    async def work(reporter: Reporter, session: Session) -> int:
        return await act_on_selected(reporter, session, selection, wanted, yes=yes)

    on_session(format, db, server, work, before=check)


async def act_on_selected(
    reporter: Reporter, session: Session, selection: Selection, wanted: BulkRequest, *, yes: bool
) -> int:
    """Print the plan, ask, carry it out, and print what happened to each execution. The exit code."""
    from msgspec.structs import replace

    from noetl.api.bulk import BULK_MAX, BulkTarget

    # An execution that another one called is retried and deleted with its caller.
    found = await selection.read(session, BULK_MAX + 1, roots=wanted.action in ("retry", "delete"))
    targets = tuple(BulkTarget(execution_id=each.id) for each in found[:BULK_MAX])
    items = await session.bulk(replace(wanted, executions=targets, dry_run=True)) if targets else []
    planned = [each for each in items if each.result == "planned"]
    _print_plan(reporter, session, found, items, wanted.action)
    if len(found) > BULK_MAX:
        reporter.warn(
            f"more than {BULK_MAX:,} executions match: only the newest {BULK_MAX:,} are included;"
            " repeat the command for the rest"
        )
    code = OK
    if planned and confirmed(reporter, f"{wanted.action} {_executions(len(planned))}?", yes=yes):
        chosen = tuple(BulkTarget(execution_id=each.execution_id, seq=each.seq) for each in planned)
        done = {each.execution_id: each for each in await session.bulk(replace(wanted, executions=chosen))}
        items = [done.get(each.execution_id, each) for each in items]
        _print_result(reporter, list(done.values()), wanted.action)
        code = FAILED if any(each.result == "refused" for each in done.values()) else OK
        if wanted.action == "retry" and session.runs_here:
            ids = [each.execution_id for each in done.values() if each.result == "done"]
            code = max(code, await _wait(reporter, session, ids))
    reporter.document({"action": wanted.action, "executions": items})
    return code


def _executions(number: int) -> str:
    from noetl.net.describe import count

    return count(number, "execution")


_DONE: Final = {"cancel": "cancelled", "retry": "retried", "delete": "deleted", "label": "labelled"}


def _print_plan(
    reporter: Reporter, session: Session, found: Sequence[ExecutionInfo], items: Sequence[BulkItem], action: str
) -> None:
    from noetl.cli.output.tables import execution_table

    if reporter.json:
        return
    by_id = {each.id: each for each in found}
    planned = [by_id[each.execution_id] for each in items if each.result == "planned"]
    if not items:
        reporter.screen.line("no execution matches")
        return
    reporter.screen.line(f"{_executions(len(planned))} will be {_DONE[action]}")
    reporter.screen.lines(execution_table(planned[:SHOWN_MAX], session.clock.now(), reporter.screen.columns))
    if len(planned) > SHOWN_MAX:
        reporter.screen.line(f"… and {len(planned) - SHOWN_MAX:,} more")
    reasons: dict[str, int] = {}
    for each in items:
        if each.result != "planned":
            reasons[each.detail] = reasons.get(each.detail, 0) + 1
    for reason, number in reasons.items():
        stays = "stays as it is" if number == 1 else "stay as they are"
        reporter.screen.line(f"{_executions(number)} {stays}: {reason}")


def _print_result(reporter: Reporter, done: Sequence[BulkItem], action: str) -> None:
    from noetl.cli.output.screen import short

    if reporter.json:
        return
    others = [each for each in done if each.result != "done"]
    reporter.screen.line(f"{_DONE[action]} {_executions(len(done) - len(others))}")
    for each in others[:SHOWN_MAX]:
        reporter.screen.line(f"{short(each.execution_id)}: {each.result}: {each.detail}")
    if len(others) > SHOWN_MAX:
        reporter.screen.line(f"… and {len(others) - SHOWN_MAX:,} more that were not {_DONE[action]}")


async def _wait(reporter: Reporter, session: Session, ids: Sequence[str]) -> int:
    """Retried executions of a file run in this process, until each has ended. The exit code."""
    from noetl.cli.output.screen import short

    code = OK
    for id in ids:
        status = await session.rest(id)
        code = code if status == "ok" else FAILED
        if not reporter.json:
            reporter.screen.line(f"{short(id)}: {status}")
    return code
