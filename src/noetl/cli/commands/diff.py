"""`noetl diff`: what differs between two executions, or between two playbooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import FAILED, OK, Reporter
from noetl.cli.options import Db, Format, Server, app, finish, on_session
from noetl.views.styled_text import Style, Styled

if TYPE_CHECKING:
    from noetl.playbook.model import Playbook
    from noetl.session.protocol import Session
    from noetl.views.difference import ExecutionDifference, PartChange, StepSummary

_STYLES: dict[str, Style] = {"added": "added", "removed": "removed"}


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An execution, a file, or a playbook as path@version.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same for the other one.")],
    *,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Show what differs between two executions, or by meaning between two playbooks.

    Executions: workload, route, output, and for each step its runs, status, calls, retries, inputs and outputs;
    durations are listed, but are no difference. Playbooks: steps, tasks and arcs that were added, removed or changed;
    layout and comments do not count. Exits with 0 when they are the same, with 1 when they differ.
    JSON is `{differs, routes, steps, …}` for executions, `{differs, changes}` for playbooks.

    \b
    Examples:
      noetl diff 0199b3c2 0199b3c5
      noetl diff shop/orders@3 shop/orders@4
      noetl diff shop/orders orders.yaml
    """

    import os

    if os.path.isfile(a) and os.path.isfile(b):
        finish(format, lambda reporter: _compare_playbooks(reporter, _read(_file(a), a), _read(_file(b), b)))

    async def work(reporter: Reporter, session: Session) -> int:
        from noetl.session.errors import UsageError

        one, other = await _playbook(session, a), await _playbook(session, b)
        if one is not None and other is not None:
            return _compare_playbooks(reporter, one, other)
        if one is not None or other is not None:
            raise UsageError(f'"{a if one is None else b}" is not a playbook: name two playbooks or two executions')
        difference = await _executions(session, a, b)
        reporter.show(difference, _execution_lines(difference))
        return FAILED if difference.differs else OK

    on_session(format, db, server, work)


def _compare_playbooks(reporter: Reporter, one: Playbook, other: Playbook) -> int:
    from noetl.views.difference import playbook_changes

    changes = playbook_changes(one, other)
    reporter.show({"differs": bool(changes), "changes": changes}, _playbook_lines(changes))
    return FAILED if changes else OK


def _file(name: str) -> bytes:
    from noetl.session.sources import read_source

    return read_source(name).data


def _read(text: str | bytes, name: str) -> Playbook:
    """Raises PlaybookError."""
    from noetl.cli.checker import installed_kinds
    from noetl.errors import PlaybookError
    from noetl.playbook.reader import read

    found = read(text, installed_kinds(), name)
    if found.playbook is None or any(each.severity == "error" for each in found.problems):
        raise PlaybookError(found.problems)
    return found.playbook


async def _playbook(session: Session, name: str) -> Playbook | None:
    """None: neither a file nor a registered playbook, but perhaps an execution. Raises PlaybookError, NotFound."""
    from noetl.session.errors import UsageError
    from noetl.session.sources import PlaybookFile, find_registered, find_source

    source = find_source(name)
    if isinstance(source, PlaybookFile):
        return _read(source.data, name)
    try:
        return _read((await find_registered(session.catalog, name)).text, name)
    except UsageError:
        if "@" in name or "/" in name:
            raise
        return None


async def _executions(session: Session, a: str, b: str) -> ExecutionDifference:
    from noetl.views.difference import execution_difference

    logs = [await (await session.execution(name)).log() for name in (a, b)]
    one, other = logs
    return execution_difference((one.id, one.events()), (other.id, other.events()))


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
