"""`noetl label`: change the labels of executions, by which lists find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from noetl.cli.completion import complete_execution
from noetl.cli.execute import OK, Reporter, find
from noetl.cli.options import Db, Format, Server, Yes, app, on_session
from noetl.cli.output.screen import short
from noetl.cli.selection import (
    Labels,
    PathPattern,
    Search,
    Selection,
    Since,
    Statuses,
    Until,
    on_selected,
)
from noetl.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noetl.session.protocol import Session


Ids: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID…]",
        help="Executions: ids, prefixes of ids, or `last`. Without them, options choose several.",
        autocompletion=complete_execution,
    ),
]
Added: TypeAlias = Annotated[
    list[str] | None, typer.Option("--add", metavar="KEY=VALUE", help="Add or change this label; may be repeated.")
]
Removed: TypeAlias = Annotated[
    list[str] | None, typer.Option("--remove", metavar="KEY", help="Remove this label; may be repeated.")
]


@app.command()
def label(
    ids: Ids = None,
    *,
    add: Added = None,
    remove: Removed = None,
    path: PathPattern = None,
    status: Statuses = None,
    with_label: Labels = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Add labels to executions, or remove some. Lists find executions by labels.

    Executions may run or have ended; labels have no effect on a run. `noetl run --label` gives labels at the start.
    Each change is recorded with its time and its author, and the audit trail names it.
    JSON is `{executions}` with the labels of each. Without an ID it labels all executions that match the options, at
    most 1,000; it prints its plan first, and asks on a terminal. JSON is then `{action, executions}`.

    \b
    Examples:
      noetl label last --add reviewed=ann
      noetl label --path 'orders/*' --status error --since 12h --add incident=4711
      noetl label 0199b3c2 0199b3c5 --remove incident
    """
    change: dict[str, str | None] = {}

    def before(_reporter: Reporter) -> None:
        change.update(_read_change(add or (), remove or ()))

    selection = Selection(path, status, with_label, search, since, until)
    if not ids or any(selection):
        from noetl.api.bulk import BulkRequest

        wanted = BulkRequest(action="label", labels=change)
        on_selected(format, db, server, selection, wanted, named=ids, yes=yes, before=before)
    on_session(format, db, server, lambda reporter, session: _label(reporter, session, ids, change), before=before)


def _read_change(add: Sequence[str], remove: Sequence[str]) -> dict[str, str | None]:
    """Raises UsageError."""
    from noetl.errors import Rejected
    from noetl.labels import changed_labels, parse_labels
    from noetl.session.errors import UsageError

    try:
        change: dict[str, str | None] = {**parse_labels(add), **dict.fromkeys(each.strip() for each in remove)}
        changed_labels({}, change)
    except Rejected as error:
        reason = str(error).removeprefix("bad-label: ")
        raise UsageError(f"{reason}; use --add KEY=VALUE and --remove KEY") from error
    return change


async def _label(reporter: Reporter, session: Session, ids: list[str], change: dict[str, str | None]) -> int:
    found = {}
    for each in ids:
        execution = await find(reporter, session, each)
        found[execution.id] = labels = await session.label(execution.id, change)
        if not reporter.json:
            texts = " ".join(f"{key}={value}" for key, value in labels.items())
            reporter.screen.line(f"{short(execution.id)}: {one_line(texts) or 'no labels'}")
    reporter.document({"executions": [{"execution_id": id, "labels": labels} for id, labels in found.items()]})
    return OK
