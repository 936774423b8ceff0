"""What the commands that only look have in common: where they look, one execution's log, where it is told.

They never make a file that is not there, and take no execution away from the process that runs it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import flag_at, server_at
from noetl.cli.exits import Usage
from noetl.cli.finding import find_execution, pasted
from noetl.cli.screen import Screen, is_terminal
from noetl.clock import Clock
from noetl.engine import Event
from noetl.engine.state import LIVE, Status
from noetl.errors import Damaged, NotFound
from noetl.output import JSON
from noetl.ports import Catalog, ExecutionHead, ExecutionListing, LogRow, Snapshot
from noetl.runtime import LocalStore, open_local_store
from noetl.runtime.settings import database_path
from noetl.views.log import events_of
from noetl.views.styled_text import Style

Standing: TypeAlias = Literal["running", "interrupted", "paused", "ok", "error", "cancelled"]

STYLES: dict[str, Style] = {
    "running": "info", "interrupted": "warning", "paused": "warning", "ok": "good", "error": "error",
    "cancelled": "warning", "waiting": "info", "scheduled": "faint", "stopped": "warning",
}  # fmt: skip


class Reading(Protocol):
    """Of EventStore what reads."""

    async def read(self, execution_id: str, after: int = 0, up_to: int | None = None) -> list[LogRow]: ...

    async def status(self, execution_id: str) -> Status | None: ...

    async def snapshot(self, execution_id: str) -> Snapshot | None: ...


class Fetching(Protocol):
    """Of ResultStore what reads."""

    async def get(self, ref: dict[str, JSON]) -> bytes: ...


class Beneath(Protocol):
    """What lies under the parts: its clock, and a file that can be asked, where there is one."""

    @property
    def clock(self) -> Clock: ...

    def fetch(self, query: str, values: tuple[str | int, ...] = ()) -> list[Any]: ...


class Shelf(Protocol):
    """Where commands look: a Disk, or a server that has the same parts."""

    @property
    def store(self) -> Reading: ...

    @property
    def listing(self) -> ExecutionListing: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def results(self) -> Fetching: ...

    @property
    def database(self) -> Beneath: ...

    @property
    def flag(self) -> str:
        """What commands in hints carry, so that they come to the same place."""
        ...


class Execution(ExecutionHead):
    """The same for people: does it run?"""

    __slots__ = ()

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def standing(self) -> Standing:
        """The status for people: an execution that nobody runs does not run, whatever its log says."""
        match self.status:
            case "new" | "running" | "cancelling":
                return "running" if self.owner_alive else "interrupted"
            case status:
                return status


class Log(NamedTuple):
    """An execution with all of its facts."""

    execution: Execution
    rows: list[LogRow]

    @property
    def id(self) -> str:
        return self.execution.execution_id

    @property
    def last_seq(self) -> int:
        return self.rows[-1].first_seq + len(self.rows[-1].facts) - 1 if self.rows else 0

    def events(self) -> Iterator[Event]:
        return events_of(self.rows)


@contextmanager
def opened(db: str | None) -> Iterator[Shelf]:
    """The place that a command was given: a server, or a file. Raises Usage when there is none."""
    if (server := server_at(db)) is not None:
        from noetl.cli.remote import ServerDisk

        with hinting(server.flag):
            yield ServerDisk.of(server)
        return
    with opened_file(db) as disk:
        yield disk


@contextmanager
def opened_file(db: str | None) -> Iterator[LocalStore]:
    """For what works on the file itself. Raises Usage when there is none, or when a server is meant."""
    if server_at(db) is not None:
        raise Usage("this works on the file itself, and not through a server: --db PATH names a file")
    path = database_path(db)
    if not path.exists():
        raise Usage(f"{path}: there is no such database: nothing was run there yet; --db names another")
    disk = open_local_store(path)._replace(flag=flag_at(db))
    try:
        with hinting(disk.flag):
            yield disk
    finally:
        disk.close()


@contextmanager
def hinting(flag: str) -> Iterator[None]:
    """Who finds that something is missing or damaged says what to type, and does not know where it looked."""
    try:
        yield
    except (NotFound, Damaged) as error:
        if (words := pasted(str(error), flag)) == str(error):
            raise
        raise type(error)(words) from error


async def execution_of(disk: Shelf, execution_id: str) -> Execution:
    return Execution(*await disk.listing.head(execution_id))


async def log_of(disk: Shelf, given: str) -> Log:
    """`given` is an id, the beginning of one, or `last`."""
    execution_id = await find_execution(disk.listing, given, disk.flag)
    execution = await execution_of(disk, execution_id)
    log = Log(execution, await disk.store.read(execution_id))
    gc.freeze()  # Facts are no garbage: to look through 100,000 of them again and again takes a second.
    return log


def screen_for(form: FormatChoice) -> Screen:
    """Standard output, for people: with colours when they were asked for, or when it is a terminal."""
    return Screen(sys.stdout, colour=is_terminal(sys.stdout) if form == "auto" else form == "rich")
