"""`noetl what-if`: run an edited playbook over the recorded calls of executions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from noetl.cli.execute import FAILED, OK, Reporter, find
from noetl.cli.options import Db, Format, Server, app, on_session
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session
    from noetl.views.what_if import WhatIfReport

CHANGES_SHOWN = 10
_WHY = {
    "changed": "its input or code differs",
    "missing": "it was not recorded",
    "live": "it was not recorded, and was made now",
}


@app.command(name="what-if")
def what_if(
    target: Annotated[
        str, typer.Argument(metavar="ID|PATH", help="An execution; with --last, the path of a playbook.")
    ],
    *,
    playbook: Annotated[str, typer.Option("--playbook", metavar="FILE", help="The edited playbook.")],
    last: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="Use the last N finished executions of the path.")
    ] = None,
    on_miss: Annotated[
        Literal["fail", "null"],
        typer.Option("--on-miss", help="What a call that was not recorded does: it fails, or returns null."),
    ] = "fail",
    live_if_safe: Annotated[
        bool,
        typer.Option("--live-if-safe", help="Make calls that were not recorded, if their task has `spec.safe: true`."),
    ] = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Show what an edited playbook would have done in executions that have ended.

    It runs in memory with the recorded answers, and makes no call unless --live-if-safe is given. A call is matched by
    step, iteration, task and number. If its input differs, it is reported, and answered as recorded.
    Exits with 0 when nothing differs, with 1 when something does, with 2 when the playbook has problems. JSON is
    `{differs, first_divergence, routes, calls, coverage, …}`, with --last an array of them.

    \b
    Examples:
      noetl what-if last --playbook orders.yaml
      noetl what-if shop/orders --last 20 --playbook orders.yaml
      noetl what-if last --playbook orders.yaml --live-if-safe
    """

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.session.sources import read_source
        from noetl.session.what_if import WhatIf

        source = read_source(playbook)
        compared = WhatIf(session, source, on_miss, live_if_safe=live_if_safe)
        if last is None:
            report = await compared.compare(await find(reporter, session, target))
            reporter.show(report, _lines(report))
            return FAILED if report.differs else OK
        reports = [await compared.compare(each) for each in await _ended(session, target, last)]
        reporter.show(reports, _table(reports))
        return FAILED if any(each.differs for each in reports) else OK

    on_session(format, db, server, work)


async def _ended(session: Session, path: str, last: int) -> list[Execution]:
    """The newest first. Raises UsageError when there is none."""
    from noetl.session.errors import UsageError
    from noetl.session.execution import Execution

    found = session.executions(path=path, status=("ok", "error", "cancelled"), limit=last)
    executions = [Execution(session, each.id) async for each in found]
    if not executions:
        raise UsageError(f'no execution of "{path}" has ended: see noetl list --path')
    return executions


def _lines(report: WhatIfReport) -> Iterator[list[Styled]]:
    from noetl.net.describe import count

    verdict = Styled("differs", "warning") if report.differs else Styled("the same", "good")
    yield [Styled(report.execution_id, "strong"), Styled(f" {report.path}: "), verdict]
    if report.first_divergence is not None:
        first = report.first_divergence
        yield [
            Styled("  first divergence: ", "faint"),
            Styled(first.why),
            Styled(f" (after fact {first.seq})", "faint"),
        ]
    if not report.routes.same:
        yield [Styled("  recorded route: ", "faint"), Styled(" → ".join(report.routes.recorded), "removed")]
        yield [Styled("  its route now:  ", "faint"), Styled(" → ".join(report.routes.replayed) or "no step", "added")]
    if report.status[0] != report.status[1]:
        yield [Styled("  status: ", "faint"), Styled(f"{report.status[0]} → {report.status[1]}")]
    if report.error is not None:
        yield [Styled("  error now: ", "faint"), Styled(report.error)]
    if report.output == "differs":
        yield [Styled("  output: ", "faint"), Styled("differs")]
    for each in report.changes[:CHANGES_SHOWN]:
        yield [Styled(f"  {each.frame} ", "faint"), Styled(each.call, "name"), Styled(f": {_WHY[each.what]}")]
    if (more := report.calls.changed + report.calls.missing + report.calls.live - CHANGES_SHOWN) > 0:
        yield [Styled(f"  … and {more:,} more calls", "faint")]
    calls = report.calls
    live = f", {calls.live:,} made" if calls.live else ""
    unused = f", {calls.unused:,} recorded but no longer made" if calls.unused else ""
    yield [
        Styled("  calls: ", "faint"),
        Styled(f"{calls.same:,} the same, {calls.changed:,} changed, {calls.missing:,} not recorded{live}{unused}"),
    ]
    covered = report.coverage
    yield [
        Styled("  coverage: ", "faint"),
        Styled(
            f"{covered.answered:,} of {count(covered.of, 'call')} answered for the same input ({covered.percent:.0f} %)"
        ),
    ]


def _table(reports: Sequence[WhatIfReport]) -> Iterator[list[Styled]]:
    from noetl.cli.output.screen import short
    from noetl.cli.output.tables import titled
    from noetl.net.describe import count

    rows = [
        [
            Styled(short(each.execution_id), "name"),
            Styled("differs", "warning") if each.differs else Styled("same", "good"),
            Styled(f"{each.status[0]} → {each.status[1]}" if each.status[0] != each.status[1] else each.status[0]),
            Styled(f"{each.calls.same:,}"),
            Styled(f"{each.calls.changed:,}"),
            Styled(f"{each.calls.missing:,}"),
            Styled(f"{each.coverage.percent:.0f} %"),
            Styled(each.first_divergence.why if each.first_divergence is not None else "", "faint"),
        ]
        for each in reports
    ]
    yield from titled(("ID", "RESULT", "STATUS", "SAME", "CHANGED", "MISSING", "COVERED", "FIRST DIVERGENCE"), rows)
    differing = sum(each.differs for each in reports)
    yield [Styled(f"{count(len(reports), 'execution')}, {differing:,} differ{'s' if differing == 1 else ''}")]
