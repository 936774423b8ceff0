"""`noetl replay` and `noetl audit`: check logs, stored results and the database for inconsistencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_execution
from noetl.cli.execute import FAILED, OK, Reporter, find
from noetl.cli.options import Db, Format, Id, Server, app, on_execution, on_session
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session
    from noetl.session.verify import AuditReport, ReplayReport


@app.command()
def replay(id: Id, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Compute the state of an execution again from its log, and compare it with the stored state.

    The stored state is the latest state (`head`) and, if they exist, a `snapshot` and the run `records` that
    `noetl show` starts from.

    Exits with 1 when there are differences.

    \b
    Examples:
      noetl replay last
      noetl replay 0199b3c2 --format json
    """

    from noetl.session.verify import replay_execution

    async def work(reporter: Reporter, execution: Execution) -> int:
        report = await replay_execution(execution)
        reporter.show(report, _replay_lines(report))
        return OK if report.identical else FAILED

    on_execution(format, id, db, server, work)


def _replay_lines(report: ReplayReport) -> Iterator[list[Styled]]:
    from noetl.net.describe import count

    line = [Styled(report.execution_id, "strong"), Styled(f": {count(report.facts, 'fact')}, ")]
    if report.identical:
        line.append(Styled("identical", "good"))
    else:
        line.append(Styled(count(len(report.differences), "difference"), "error"))
    copies = (("snapshot", report.snapshot), ("run records", report.records))
    compared = [f"the {name} at {at:,}" for name, at in copies if at is not None]
    yield [*line, Styled(f", with {' and '.join(compared)}" if compared else "", "faint")]
    for each in report.differences:
        yield [Styled(f"  {each.kept} at {each.at}: "), Styled(each.path, "name")]
        yield [Styled("    by the log ", "faint"), Styled(each.folded or "(nothing)")]
        yield [Styled("    stored     ", "faint"), Styled(each.other or "(nothing)")]


@app.command()
def audit(
    id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="One execution; default: all of them.", autocompletion=complete_execution),
    ] = None,
    *,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Check that logs, results and the database are consistent.

    The audit has its own bookkeeping and does not rely on the engine.
    Exits with 1 when it finds an inconsistency.

    \b
    Examples:
      noetl audit last
      noetl audit --db other.db --format json
    """

    from noetl.session.verify import audit_executions

    async def work(reporter: Reporter, session: Session) -> int:
        execution = None if id is None else await find(reporter, session, id)
        report = await audit_executions(session, execution)
        reporter.show(report, _lines(report))
        return FAILED if report.findings else OK

    on_session(format, db, server, work)


def _lines(report: AuditReport) -> Iterator[list[Styled]]:
    from noetl.net.describe import count

    before: str | None = None
    for each in report.findings:
        if each.execution_id != before:
            before = each.execution_id
            yield [Styled(before or "the database", "strong")]
        yield [Styled(f"  {each.seq}: ", "faint"), Styled(each.code, "error"), Styled(f": {each.message}")]
    checked = ", ".join(
        (count(report.executions, "execution"), count(report.facts, "fact"), count(report.results, "result"))
    )
    if report.findings:
        yield [Styled(f"{checked}: "), Styled(count(len(report.findings), "finding"), "error")]
    else:
        yield [Styled(f"{checked}: "), Styled("no findings", "good")]
