"""`noetl gc`: delete stored results that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, app, on_session
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.session.garbage import GarbageReport
    from noetl.session.protocol import Session

REASONS = {"orphan": "orphan", "gone": "of a deleted execution", "expired": "expired", "torn": "unfinished"}


@app.command()
def gc(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Only results older than 90m, 24h, 7d, …")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")] = False,
    format: Format = "auto",
    db: Db = None,
) -> None:
    """Delete stored results that are no longer needed.

    These are: results of finished executions that no log refers to; results whose `ttl` has passed; results of
    executions that do not exist; and parts of results that were never finished.
    JSON is `{dry_run, results, bytes, dropped}`.

    \b
    Examples:
      noetl gc --dry-run
      noetl gc --older-than 7d
    """

    async def work(reporter: Reporter, session: Session) -> int:
        report = await session.collect_garbage(_seconds(older_than), dry_run=dry_run)
        return reporter.show(report, _lines(report))

    on_session(format, db, None, work, before=lambda _: _seconds(older_than))


def _seconds(older_than: str) -> float:
    from noetl.worker.result_stores import seconds_of

    seconds = seconds_of(older_than)
    if seconds is None:
        raise UsageError(f'"{older_than}" is not a duration: write it as 24h, 7d or 90m')
    return seconds


def _lines(report: GarbageReport) -> Iterator[list[Styled]]:
    from collections import Counter

    from noetl.net.describe import count

    for store in dict.fromkeys(each.store for each in report.dropped):
        results = [each for each in report.dropped if each.store == store]
        reasons = Counter(each.why for each in results)
        text = ", ".join(f"{number:,} {REASONS[why]}" for why, number in reasons.items())
        size = sum(each.bytes for each in results)
        yield [Styled(store, "name"), Styled(f": {count(len(results), 'result')}, {size:,} bytes ({text})")]
    if not report.dropped:
        yield [Styled("nothing to delete: every result is still needed, or too new")]
    elif report.dry_run:
        yield [Styled(f"would delete {count(report.results, 'result')}, {report.bytes:,} bytes", "warning")]
    else:
        yield [Styled(f"deleted {count(report.results, 'result')}, {report.bytes:,} bytes", "good")]
