"""An older version of a playbook becomes the current one again, and its triggers replace those of the newer one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from noetl.errors import NotFound, PlaybookError, Rejected
from noetl.net.program import Program
from noetl.ports import Catalog, PlaybookText, PlaybookVersion


class RollbackPlan(NamedTuple):
    current: PlaybookVersion
    wanted: PlaybookVersion
    text: PlaybookText  # of the wanted version
    triggers: tuple[str, ...]  # names of the triggers that act afterwards
    stopped: tuple[str, ...]  # names of the triggers that no longer act


async def plan_rollback(
    catalog: Catalog, program_of: Callable[[str], Awaitable[Program]], path: str, version: int
) -> RollbackPlan:
    """`program_of`: the program of a digest.

    Raises NotFound; Rejected if it is the current version; PlaybookError if it can no longer run.
    """
    versions = await catalog.versions(path)
    current = next(each for each in versions if each.current)
    wanted = next((each for each in versions if each.version == version), None)
    if wanted is None:
        raise NotFound(f'"{path}" has no version {version}: its versions are 1 to {versions[0].version}')
    if wanted.current and not wanted.archived:
        raise Rejected("current-version", f'version {version} is already the current version of "{path}"')
    triggers = _triggers(await program_of(wanted.digest))
    before: tuple[str, ...] = ()
    with suppress(NotFound, PlaybookError):  # a version that cannot run is a reason to roll back
        before = _triggers(await program_of(current.digest))
    stopped = tuple(name for name in before if name not in triggers)
    return RollbackPlan(current, wanted, await catalog.get(wanted.digest), triggers, stopped)


def _triggers(program: Program) -> tuple[str, ...]:
    return tuple(each.source.name for each in program.triggers)
