"""Which execution is meant: its id, the beginning of its id, or `last`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from noetl.cli.exits import Usage

LAST = "last"
SHORT_CHARS = 18  # of an id in a hint: its millisecond and 12 dice, so that it stays the only one
PAGE = 200  # executions that are looked at together when `last` is searched
FOUND_SHOWN_MAX = 10  # ids that begin alike

_ID_PART = re.compile(r"[0-9a-f-]{1,36}\Z")
_COMMAND = re.compile(r"(?:: |see )noetl [a-z]+( [^ :;]+)*\Z")  # at the end of what an error says


class Listed(Protocol):
    """An execution, as far as it matters here."""

    @property
    def execution_id(self) -> str: ...

    @property
    def parent(self) -> str | None: ...


class Listing(Protocol):
    """What executions there are, newest first."""

    async def find(self, prefix: str) -> list[str]: ...

    async def executions(self, limit: int = 100, *, before: str | None = None) -> Sequence[Listed]: ...


def short(execution_id: str) -> str:
    """Enough of an id to name it in a command."""
    return execution_id[:SHORT_CHARS]


def pasted(words: str, flag: str) -> str:
    """The same; a command at its end comes to the place where we have looked."""
    return f"{words}{flag}" if _COMMAND.search(words) else words


async def find_execution(listing: Listing, given: str, flag: str = "") -> str:
    """The id of the one execution that is meant. Raises Usage when it is none, or not clear which.

    `flag`: what commands in hints carry, so that they come to the same place.
    """
    if given == LAST:
        return await _last(listing)
    prefix = given.strip().lower()
    if not _ID_PART.match(prefix):
        raise Usage(f'"{given}" is no id of an execution: give one, its beginning, or `{LAST}`')
    found = await listing.find(prefix)
    if not found:
        raise Usage(f'no execution has an id that begins with "{given}"; see `noetl list{flag}`')
    if len(found) > 1:
        names = "".join(f"\n  {each}" for each in found[:FOUND_SHOWN_MAX])
        more = "\n  …" if len(found) > FOUND_SHOWN_MAX else ""
        raise Usage(f'"{given}" is the beginning of several ids; give more of it:{names}{more}')
    return found[0]


async def _last(listing: Listing) -> str:
    """The one that was started last by someone: children are their parents' affair."""
    page = await listing.executions(PAGE)
    while page:
        for each in page:
            if each.parent is None:
                return each.execution_id
        page = await listing.executions(PAGE, before=page[-1].execution_id)
    raise Usage("nothing has been run yet")
