"""`noetl triggers`: what starts executions automatically."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from noetl.cli.completion import complete_trigger
from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Format, Server, app, finish
from noetl.escape import visible
from noetl.session.errors import UsageError
from noetl.views.styled_text import Style, Styled

if TYPE_CHECKING:
    from noetl.api.triggers import FiringItem, TriggerDetails, TriggerItem
    from noetl.session.protocol import TriggerAdmin

T = TypeVar("T")
HELP = """List, pause and fire the triggers of registered playbooks.

A trigger starts executions automatically: on a schedule (`cron`, `interval`), for requests (`webhook`) or for messages
(`nats`).
It is declared under `triggers` in a playbook, and fires while `noetl server` runs.

\b
Examples:
  noetl triggers list
  noetl triggers show orders/sync:nightly
  noetl triggers pause orders/sync:nightly
"""
triggers = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(triggers, name="triggers", help=HELP)

Trigger = Annotated[
    str,
    typer.Argument(
        metavar="PATH:NAME",
        help="The path of the playbook, and the name of the trigger.",
        autocompletion=complete_trigger,
    ),
]
_STYLES: dict[str, Style] = {"started": "good", "duplicate": "faint", "failed": "error"}


def _administer(db: str | None, server: str | None, work: Callable[[TriggerAdmin], Awaitable[T]]) -> T:
    import asyncio

    from noetl.session.connect import open_session, resolve

    async def run() -> T:
        async with open_session(resolve(db, server)) as session:
            return await work(session.triggers)

    return asyncio.run(run())


def _parts(trigger: str) -> tuple[str, str]:
    path, colon, name = trigger.rpartition(":")
    if not colon or not path or not name:
        raise UsageError(f'"{trigger}" is not PATH:NAME, such as orders/sync:nightly: see noetl triggers list')
    return path, name


@triggers.command(name="list")
def list_triggers(
    *,
    path: Annotated[str | None, typer.Option("--path", metavar="PATH", help="Only triggers of this playbook.")] = None,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """List the triggers with their next times.

    JSON is an array of `{path, name, kind, schedule, paused, next_at, fired}`.

    \b
    Examples:
      noetl triggers list
      noetl triggers list --path orders/sync --format json
    """

    def command(reporter: Reporter) -> int:
        import msgspec

        found = _administer(db, server, lambda admin: admin.list(path))
        if not found and not reporter.json:
            reporter.errors.line("nothing to list: no registered playbook has triggers")
            return 0
        return reporter.show(msgspec.to_builtins(found), _table(found))

    finish(format, command)


def _table(found: Sequence[TriggerItem]) -> Iterator[list[Styled]]:
    names = [f"{each.path}:{each.name}" for each in found]
    width, middle = max(map(len, names)), max(len(each.schedule) for each in found)
    for name, each in zip(names, found, strict=True):
        when = "paused" if each.paused else f"next {each.next_at}" if each.next_at else ""
        yield [
            Styled(visible(f"{name:<{width}}  "), "name"),
            Styled(visible(f"{each.schedule:<{middle}}  ")),
            Styled(when, "warning" if each.paused else "faint"),
        ]


@triggers.command(name="show")
def show_trigger(
    trigger: Trigger,
    *,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The maximum number of history entries.")
    ] = 20,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Show a trigger, its next times, and its history: the executions it started, and the reasons when it started none.

    JSON is `{trigger, declaration, next_times, history}`.

    \b
    Examples:
      noetl triggers show orders/sync:nightly
      noetl triggers show orders/sync:nightly --limit 100 --format json
    """

    def command(reporter: Reporter) -> int:
        import msgspec

        path, name = _parts(trigger)
        found = _administer(db, server, lambda admin: admin.show(path, name, limit=limit))
        return reporter.show(msgspec.to_builtins(found), _details(found))

    finish(format, command)


def _details(found: TriggerDetails) -> Iterator[list[Styled]]:
    yield from _table([found.trigger])
    for at in found.next_times:
        yield [Styled(f"  next    {at}", "faint")]
    for each in found.history:
        yield [Styled("  "), *_firing(each)]
    if not found.history:
        yield [Styled("  it has not fired yet", "faint")]


def _firing(each: FiringItem) -> list[Styled]:
    words = [each.execution_id or "", each.detail or ""]
    return [
        Styled(f"{each.at}  ", "faint"),
        Styled(f"{each.status:<9}  ", _STYLES.get(each.status, "warning")),
        Styled(visible(" ".join(filter(None, words)))),
    ]


@triggers.command(name="next")
def next_times(
    trigger: Trigger,
    *,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, max=100, help="How many.")] = 10,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Print the next times of a trigger, in UTC and without jitter. JSON is an array of times.

    \b
    Examples:
      noetl triggers next orders/sync:nightly
      noetl triggers next orders/sync:nightly --count 50
    """

    def command(reporter: Reporter) -> int:
        path, name = _parts(trigger)
        found = _administer(db, server, lambda admin: admin.show(path, name, times=count, limit=1))
        if not found.next_times and not reporter.json:
            reporter.errors.line("it has no next time: it is paused, or a webhook")
        return reporter.show(list(found.next_times), [[Styled(at)] for at in found.next_times])

    finish(format, command)


@triggers.command(name="pause")
def pause_trigger(trigger: Trigger, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Pause a trigger: it starts nothing until it is resumed. JSON is an item of `list`.

    \b
    Examples:
      noetl triggers pause orders/sync:nightly
      noetl triggers pause orders/sync:order --server http://localhost:8700
    """
    _set_paused(trigger, db, server, format, paused=True)


@triggers.command(name="resume")
def resume_trigger(trigger: Trigger, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Resume a trigger. Times that passed during the pause start nothing. JSON is an item of `list`.

    \b
    Examples:
      noetl triggers resume orders/sync:nightly
      noetl triggers resume orders/sync:order --server http://localhost:8700
    """
    _set_paused(trigger, db, server, format, paused=False)


def _set_paused(trigger: str, db: Db, server: Server, format: Format, *, paused: bool) -> None:
    def command(reporter: Reporter) -> int:
        import msgspec

        path, name = _parts(trigger)
        found = _administer(db, server, lambda admin: admin.set_paused(path, name, paused=paused))
        return reporter.show(msgspec.to_builtins(found), _table([found]))

    finish(format, command)


@triggers.command(name="fire")
def fire_trigger(trigger: Trigger, *, db: Db = None, server: Server = None, format: Format = "auto") -> None:
    """Start an execution now, as the trigger would. Exits with 1 if it could not start.

    JSON is `{at, status, execution_id, scheduled_at, key, detail}`.

    \b
    Examples:
      noetl triggers fire orders/sync:nightly --server http://localhost:8700
      noetl triggers fire orders/sync:poll --format json
    """

    def command(reporter: Reporter) -> int:
        import msgspec

        path, name = _parts(trigger)
        found = _administer(db, server, lambda admin: admin.fire(path, name))
        reporter.show(msgspec.to_builtins(found), [_firing(found)])
        return 0 if found.status == "started" else 1

    finish(format, command)
