"""`noetl replay`: fold the log of an execution again, and compare it with the stored state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.cli.connected import on_execution
from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import Db, Format, Id, Server, app
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.verify import ReplayReport


@app.command()
def replay(id: Id, *, format: Format = "auto", db: Db = None, server: Server = None) -> None:
    """Fold the log of an execution again, and compare the result with the stored head and snapshot.

    Exits with 1 when there are differences.

    \b
    Examples:
      noetl replay last
      noetl replay 0199b3c2 --format json
    """

    from noetl.session.verify import replay_execution

    async def work(reporter: Reporter, execution: Execution) -> int:
        report = await replay_execution(execution)
        reporter.show(report, _lines(report))
        return OK if report.identical else FAILED

    on_execution(format, id, db, server, work)


def _lines(report: ReplayReport) -> Iterator[list[Styled]]:
    from noetl.net.describe import count

    line = [Styled(report.execution_id, "strong"), Styled(f": {count(report.facts, 'fact')}, ")]
    if report.identical:
        line.append(Styled("identical", "good"))
    else:
        line.append(Styled(count(len(report.differences), "difference"), "error"))
    snapshot = f", with the snapshot at {report.snapshot:,}" if report.snapshot is not None else ""
    yield [*line, Styled(snapshot, "faint")]
    for each in report.differences:
        yield [Styled(f"  {each.kept} at {each.at}: "), Styled(each.path, "name")]
        yield [Styled("    by the log ", "faint"), Styled(each.folded or "(nothing)")]
        yield [Styled("    stored     ", "faint"), Styled(each.other or "(nothing)")]
