"""`noetl diff`: what differs between two executions, or between two playbooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import Db, Format, Server, app, finish, on_session
from noetl.views.styled_text import Style, Styled

if TYPE_CHECKING:
    from noetl.session.protocol import Session
    from noetl.views.difference import ExecutionDifference, PartChange, StepSummary

_STYLES: dict[str, Style] = {"added": "added", "removed": "removed"}


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An execution, a file, or a playbook as path@version.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other execution, file or playbook.")],
    *,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Show the differences between two executions, or the differences in meaning between two playbooks.

    Executions: workload, route, output, and for each step its runs, status, calls, retries, inputs and outputs;
    durations are listed, but do not count as differences. Playbooks: steps, tasks and arcs that were added, removed
    or changed; layout and comments do not count. Exits with 0 when they are the same, with 1 when they differ.
    JSON is `{differs, routes, steps, …}` for executions, `{differs, changes}` for playbooks.

    \b
    Examples:
      noetl diff 0199b3c2 0199b3c5
      noetl diff shop/orders@3 shop/orders@4
      noetl diff shop/orders orders.yaml
    """

    import os

    if os.path.isfile(a) and os.path.isfile(b):
        finish(format, lambda reporter: _compare_files(reporter, a, b))

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.cli.checker import installed_kinds
        from noetl.session.analysis import PlaybookDifference, compare

        found = await compare(session, a, b, installed_kinds())
        if isinstance(found, PlaybookDifference):
            return _show_changes(reporter, found.changes)
        reporter.show(found, _execution_lines(found))
        return FAILED if found.differs else OK

    on_session(format, db, server, work)


def _compare_files(reporter: Reporter, a: str, b: str) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.session.analysis import read_playbook
    from noetl.session.sources import read_source
    from noetl.views.difference import playbook_changes

    kinds = installed_kinds()
    one, other = [read_playbook(read_source(name).data, name, kinds) for name in (a, b)]
    return _show_changes(reporter, playbook_changes(one, other))


def _show_changes(reporter: Reporter, changes: Sequence[PartChange]) -> int:
    reporter.show({"differs": bool(changes), "changes": changes}, _playbook_lines(changes))
    return FAILED if changes else OK


def _playbook_lines(changes: Sequence[PartChange]) -> Iterator[list[Styled]]:
    yield from _change_lines(changes, "")
    if not changes:
        yield [Styled("they mean the same", "good")]


def _change_lines(changes: Iterable[PartChange], indent: str) -> Iterator[list[Styled]]:
    for each in changes:
        yield [Styled(f"{indent}{each.change} ", _STYLES.get(each.change, "info")), Styled(each.path, "name")]
        if each.before is not None:
            yield [Styled(f"{indent}  - {each.before}", "removed")]
        if each.after is not None:
            yield [Styled(f"{indent}  + {each.after}", "added")]


def _execution_lines(found: ExecutionDifference) -> Iterator[list[Styled]]:
    from noetl.cli.output.screen import duration
    from noetl.cli.output.tables import titled

    for name, each in (("A", found.a), ("B", found.b)):
        yield [Styled(f"{name} {each.id}", "strong"), Styled(f" {each.path}: {each.status} {duration(each.seconds)}")]
    if found.a.digest != found.b.digest:
        yield [Styled("  they ran different versions of the playbook", "faint")]
    yield from _change_lines(found.workload, "  ")
    if not found.same_route:
        yield [Styled("  route of A: ", "faint"), Styled(" → ".join(found.routes[0]))]
        yield [Styled("  route of B: ", "faint"), Styled(" → ".join(found.routes[1]))]
    rows = [
        [Styled(each.step, "name"), *_cells(each.a), *_cells(each.b), Styled(", ".join(each.differs), "warning")]
        for each in found.steps
    ]
    yield from titled(("STEP", "A", "TIME", "CALLS", "B", "TIME", "CALLS", "DIFFERS IN"), rows)
    yield from _change_lines(found.output, "  ")
    yield [Styled("they differ", "warning") if found.differs else Styled("they are the same", "good")]


def _cells(summary: StepSummary | None) -> list[Styled]:
    from noetl.cli.output.screen import duration

    if summary is None:
        return [Styled("–", "faint"), Styled(""), Styled("")]
    return [Styled(summary.status), Styled(duration(summary.seconds), "faint"), Styled(f"{summary.calls:,}")]
