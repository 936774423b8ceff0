"""`noetl saved`: values that outlive executions, kept for the path of a playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_path
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, app, nothing_to_list, on_session
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.ports import SavedValue
    from noetl.session.protocol import Session


@app.command()
def saved(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="The path of a playbook: its `metadata.path`.", autocompletion=complete_path
        ),
    ],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[set KEY VALUE | unset KEY | history KEY]", help="Default: list.")
    ] = None,
    *,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """List and change the values that a playbook keeps between its executions: its `saved.*`.

    An execution reads them as they were at its start, so a change applies to executions that start later. VALUE is
    YAML. JSON is an array of `{key, value, at, execution_id, by}`, in a history the newest first.

    \b
    Examples:
      noetl saved orders/sync
      noetl saved orders/sync set cursor 2026-01-31
      noetl saved orders/sync history cursor --format json
    """

    def check(_reporter: Reporter) -> JSON:
        match words or []:
            case [] | ["unset" | "history", _]:
                return None
            case ["set", key, value]:
                from noetl.cli.workload import parse_value

                return parse_value(value, f"saved.{key}")
        raise UsageError("write: noetl saved PATH [set KEY VALUE | unset KEY | history KEY]")

    async def work(reporter: Reporter, session: Session) -> int:
        match words or []:
            case ["history", key]:
                return _show(reporter, session, await session.saved.history(path, key), f"{path} never saved {key}")
            case [verb, key, *_]:
                return await _change(reporter, session, path, key, check(reporter), removed=verb == "unset")
        return _show(reporter, session, await session.saved.current(path), f"{path} has no saved values")

    nothing = "there is no database yet: nothing is saved"
    missing = None if words and words[0] == "set" else (lambda reporter: nothing_to_list(reporter, nothing))
    on_session(format, db, server, work, create=True, before=check, if_missing=missing)


async def _change(reporter: Reporter, session: Session, path: str, key: str, value: JSON, *, removed: bool) -> int:
    from noetl.ports import SavedValue

    await session.saved.put(path, SavedValue(key, value, session.clock.now(), removed=removed))
    verb = "removed" if removed else "set"
    return reporter.show({"path": path, "key": key, "status": verb}, [[f"{verb} saved.{key} of {path}"]])


def _show(reporter: Reporter, session: Session, found: Sequence[SavedValue], nothing: str) -> int:
    from noetl.api.saved import SavedItem
    from noetl.cli.output.tables import saved_table

    if not found:
        return nothing_to_list(reporter, nothing)
    return reporter.show([SavedItem.from_value(each) for each in found], saved_table(found, session.clock.now()))
