"""`noetl audit-log`: who did what on a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, app, begin_of, finish
from noetl.escape import visible
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from datetime import datetime

    from noetl.ports import AuditRecord
    from noetl.session.protocol import AuditReader

PAGE: Final = 1_000


@app.command(name="audit-log")
def audit_log(
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only entries of the last 12h, 2d, 4w, …")
    ] = "1d",
    action: Annotated[
        str | None,
        typer.Option(
            "--action",
            metavar="ACTION",
            help="Only `start`, `command`, `register`, `secret`, `token`, `saved`, `sign-in`, `sign-out` or `denied`.",
        ),
    ] = None,
    who: Annotated[str | None, typer.Option("--who", metavar="NAME", help="Only the token with this name.")] = None,
    format: Format = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the audit trail: who did what, the oldest entry first. A server needs the scope `admin`.

    JSON is an array of `{id, at, action, what, target, who, caller, address, detail, times}`.

    \b
    Examples:
      noetl audit-log --since 2d
      noetl audit-log --since 4w --action denied --format json
    """

    def command(reporter: Reporter) -> int:
        import asyncio

        import msgspec

        from noetl.api.admin import AuditItem
        from noetl.session.connect import open_audit, resolve

        begin = begin_of(since)

        async def run() -> list[AuditRecord]:
            async with open_audit(resolve(db, server)) as read:
                return await _read_all(read, begin, action, who)

        found = asyncio.run(run())
        items = [AuditItem.from_record(each) for each in found]
        if not items and not reporter.json:
            reporter.errors.line(f"nothing to list: there are no entries of the last {since}")
            return 0
        return reporter.show(msgspec.to_builtins(items), _lines(found))

    finish(format, command)


async def _read_all(read: AuditReader, since: datetime, action: str | None, who: str | None) -> list[AuditRecord]:
    """All entries since then, the oldest first."""
    from typing import get_args

    from noetl.api.admin import AuditAction

    if action is not None and action not in get_args(AuditAction):
        raise UsageError(f'--action "{action}" is unknown: use one of {", ".join(get_args(AuditAction))}')
    found: list[AuditRecord] = []
    while page := await read(PAGE, before=found[-1].id if found else None, since=since, action=action, who=who):
        found += page
        if len(page) < PAGE:
            break
    return found[::-1]


def _lines(found: Sequence[AuditRecord]) -> Iterator[list[Styled]]:
    from noetl.views.log import instant

    for _, each in found:
        is_bad = each.action in ("denied", "lost")
        words = " ".join(part for part in (each.what, each.target) if part)
        times = f" × {each.times:,}" if each.times > 1 else ""
        origin = f" from {each.address}" if each.address else ""
        yield [
            Styled(f"{instant(each.at)}  ", "faint"),
            Styled(f"{each.action:<8}  ", "warning" if is_bad else "name"),
            Styled(visible(f"{each.who or 'without a token'}{origin}: {words}{times}")),
            Styled(visible(f"  {each.detail}") if each.detail else "", "faint"),
        ]
