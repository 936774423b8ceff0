"""`noetl audit`: check logs, stored results and the database for inconsistencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.connected import on_session
from noetl.cli.execute import FAILED, OK, Reporter, find
from noetl.cli.options import Db, Format, Server, app
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.protocol import Session
    from noetl.session.verify import AuditReport


@app.command()
def audit(
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One execution; default: all of them.")] = None,
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
