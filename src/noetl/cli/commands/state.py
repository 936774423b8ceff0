"""`noetl state`: the state of an execution after any of its facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Id, Server, app, on_execution
from noetl.cli.output.screen import STYLES, duration
from noetl.escape import one_line
from noetl.views.styled_text import Styled, table

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.session.execution import Execution
    from noetl.session.protocol import ExecutionInfo
    from noetl.views.documents import IterationCounts, StateDocument
    from noetl.views.runs import Runs


@app.command()
def state(
    id: Id,
    *,
    at: Annotated[
        int | None, typer.Option("--at", metavar="SEQ", help="Show the state after this fact. Default: the last fact.")
    ] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Show the state of an execution after any of its facts: tokens, runs, `workload` and `ctx`.

    JSON is `{seq, status, workload, ctx, tokens, runs}`.

    \b
    Examples:
      noetl state last
      noetl state last --at 12
      noetl state 0199b3c2 --at 12 --format json
    """

    from noetl.views.documents import state_document

    async def work(reporter: Reporter, execution: Execution) -> int:
        info, runs = await execution.runs_at(at)
        document = state_document(runs)
        return reporter.show(document, _lines(info, runs, document))

    on_execution(format, id, db, server, work)


LISTED_MAX = 100  # tokens, and runs; JSON has all of them


def _lines(info: ExecutionInfo, runs: Runs, document: StateDocument) -> Iterator[list[Styled]]:
    yield [Styled(info.id, "strong"), Styled(f"  {info.path}", "faint")]
    yield [
        Styled(document.status, STYLES[document.status]),
        Styled(f" after fact {document.seq:,} of {info.seq:,}"),
        *_when(runs),
    ]
    yield from _values("workload", document.workload)
    yield from _values("ctx", document.ctx)
    waits = Styled("waits", "info")
    tokens = [
        (
            Styled(one_line(token.id), "name"),
            Styled(f"to {one_line(token.step)}"),
            waits if token.waiting else Styled(""),
        )
        for token in document.tokens[:LISTED_MAX]
    ]
    yield from _listed("tokens", tokens, len(document.tokens))
    rows = [
        (Styled(one_line(run.id), "name"), Styled(run.status, STYLES.get(run.status, "")), _loop(run.iterations))
        for run in document.runs[:LISTED_MAX]
    ]
    yield from _listed("runs", rows, len(document.runs))


def _when(runs: Runs) -> Iterator[Styled]:
    from noetl.views.log import instant

    at, begun_at = runs.state.at, runs.begun_at
    if at is not None and begun_at is not None:
        passed = duration((at - begun_at).total_seconds())
        yield Styled(f", {passed} after the start, at {instant(at)}", "faint")


def _values(name: str, value: dict[str, JSON]) -> Iterator[list[Styled]]:
    from noetl.cli.output.documents import as_lines
    from noetl.engine.stored import described

    yield [Styled(name, "strong"), *([] if value else [Styled(" none", "faint")])]
    for line in as_lines(described(value)) if value else ():
        yield [Styled(f"  {line}")]


def _listed(name: str, rows: Sequence[Sequence[Styled]], total: int) -> Iterator[list[Styled]]:
    yield [Styled(name, "strong"), *([] if rows else [Styled(" none", "faint")])]
    yield from table(rows)
    if total > len(rows):
        yield [Styled(f"  … {total - len(rows):,} more, see --format json", "faint")]


def _loop(loop: IterationCounts | None) -> Styled:
    from noetl.net.describe import count

    if loop is None:
        return Styled("")
    failed = f", {loop.failed:,} failed" if loop.failed else ""
    return Styled(f"{loop.succeeded:,} of {count(loop.count, 'iteration')}{failed}")
