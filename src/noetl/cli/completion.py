"""What the shell completes: ids of executions, steps, paths of playbooks, triggers, and kinds of tools.

A completion never prints an error: if there is no database or the server does not answer soon, it offers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import typer

from noetl.errors import NoetlError

if TYPE_CHECKING:
    from noetl.session.protocol import Session

Offer = tuple[str, str]  # the word, and a description for shells that show it
TIMEOUT_S: Final = 2.0
EXECUTIONS_MAX: Final = 50  # the newest
PATHS_MAX: Final = 1_000
FILE_ENDINGS: Final = (".yaml", ".yml")


def complete_execution(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """The newest executions, and `last`."""

    async def work(session: Session) -> list[Offer]:
        found = [each async for each in session.executions(limit=EXECUTIONS_MAX)]
        return [
            ("last", "the execution that started last"),
            *((each.id, f"{each.path} {each.standing}") for each in found),
        ]

    return _beginning(incomplete, _ask(ctx, work))


def complete_step(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """The steps of the execution that the command names."""
    # Before the value of an option, click has not assigned the arguments yet.
    named = ctx.params.get("id") or ctx.params.get("file") or next(iter(ctx.args), None)
    if not isinstance(named, str):
        return []

    async def work(session: Session) -> list[Offer]:
        document = await (await session.execution(named)).show()
        return [(step, "") for step in dict.fromkeys(each.step for each in document.steps)]

    return _beginning(incomplete, _ask(ctx, work))


def complete_path(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """The paths of registered playbooks."""

    async def work(session: Session) -> list[Offer]:
        return [(each.path, f"version {each.version}") for each in await session.catalog.list(limit=PATHS_MAX)]

    return _beginning(incomplete, _ask(ctx, work))


def complete_playbook(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Files and folders, and the paths of registered playbooks."""
    return [*complete_file(incomplete), *complete_path(ctx, incomplete)]


def complete_file(incomplete: str) -> list[Offer]:
    """Files of playbooks, and folders."""
    from pathlib import Path

    folder, slash, begin = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder or (slash or ".")).iterdir())
    except OSError:
        return []
    found = [each for each in found if each.name.startswith(begin) and (begin or not each.name.startswith("."))]
    names = [f"{each.name}/" if each.is_dir() else each.name for each in found]
    return [(f"{folder}{slash}{name}", "") for name in names if name.endswith(("/", *FILE_ENDINGS))]


def complete_file_or_execution(ctx: typer.Context, incomplete: str) -> list[Offer]:
    return [*complete_file(incomplete), *complete_execution(ctx, incomplete)]


def complete_trigger(ctx: typer.Context, incomplete: str) -> list[Offer]:
    async def work(session: Session) -> list[Offer]:
        return [(f"{each.path}:{each.name}", each.schedule) for each in await session.triggers.list()]

    return _beginning(incomplete, _ask(ctx, work))


def complete_kind(incomplete: str) -> list[Offer]:
    """The installed kinds of tools."""
    from noetl.tool import Tools
    from noetl.views.tool_kinds import summary_of

    kinds = Tools.installed().kinds()
    return _beginning(incomplete, [(name, summary_of(kinds[name].doc)) for name in sorted(kinds)])


def _beginning(incomplete: str, offers: list[Offer]) -> list[Offer]:
    return [offer for offer in offers if offer[0].startswith(incomplete)]


def _ask(ctx: typer.Context, work: Callable[[Session], Awaitable[list[Offer]]]) -> list[Offer]:
    """On the database file or the server that the command names."""
    import asyncio

    from noetl.session.connect import open_session, resolve

    async def run() -> list[Offer]:
        target = resolve(ctx.params.get("db"), ctx.params.get("server"))
        if not target.exists:
            return []
        async with asyncio.timeout(TIMEOUT_S), open_session(target) as session:
            return await work(session)

    try:
        return asyncio.run(run())
    except (NoetlError, OSError):  # a message in the middle of a command line does not help
        return []
