"""Commands for executions that another process holds, which polls this table.

A command stays until it is done, so that the next owner finds it if a process dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, decode, encode

from noetl.adapters.sqlite.connection import micros
from noetl.adapters.sqlite.database import Database
from noetl.engine.commands import Command
from noetl.errors import NotFound, Rejected
from noetl.failpoints import failpoint

COMMAND_BYTES_MAX: Final = 1 << 20
COLLECT_MAX: Final = 100  # commands in one call

_KINDS: Final[dict[str, type[Command]]] = {kind.__name__: kind for kind in get_args(Command)}
# CROSS JOIN fixes the order: the inbox is short, and there are many heads.
_COLLECT: Final = """
SELECT inbox.id, inbox.execution_id, inbox.command
FROM inbox CROSS JOIN heads USING (execution_id) CROSS JOIN owners ON owners.number = heads.owner
WHERE owners.lock = ? AND inbox.id NOT IN (SELECT value FROM json_each(?)) ORDER BY inbox.id LIMIT ?
"""


class PostedCommand(NamedTuple):
    id: int
    execution_id: str
    command: Command


class _Envelope(Struct, frozen=True, kw_only=True):
    name: str
    body: Raw


class SqliteInbox:
    """Any process posts; the process that holds the execution collects."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collected: set[int] = set()  # and not done yet
        self._seen: int | None = None  # the version of the file when there was no command for this process

    async def post(self, execution_id: str, command: Command) -> None:
        """Raises NotFound for an unknown execution, Rejected if the command is too large."""
        body = encode({"name": type(command).__name__, "body": command})
        if len(body) > COMMAND_BYTES_MAX:
            raise Rejected("too-large", f"the command has {len(body)} bytes; the limit is {COMMAND_BYTES_MAX}")
        at = micros(self._database.clock.now())
        if not self._database.fetch("SELECT 1 FROM heads WHERE execution_id = ?", (execution_id,)):
            raise NotFound(f"no execution {execution_id}")
        values = (execution_id, body, at)
        query = "INSERT INTO inbox (execution_id, command, at) VALUES (?, ?, ?)"
        await self._database.writer.write(lambda cursor: cursor.execute(query, values))

    async def collect(self) -> list[PostedCommand]:
        """The oldest commands for this process, each once. It is cheap while the file is unchanged."""
        lock = self._database.lock
        if lock is None:
            return []
        # Read the version first: a command that is posted in between is seen the next time.
        version: int = self._database.fetch("PRAGMA data_version")[0][0]
        if version == self._seen:
            return []
        collected = encode(sorted(self._collected)).decode()
        found = self._database.fetch(_COLLECT, (lock.name, collected, COLLECT_MAX))
        self._seen = version if not found else None
        self._collected.update(row[0] for row in found)
        return [posted for row in found if (posted := _posted(*row)) is not None]

    async def done(self, ids: Sequence[int]) -> None:
        """Remove commands that were carried out or refused."""
        failpoint("sqlite.inbox.before-done")
        values = (encode(list(ids)).decode(),)
        query = "DELETE FROM inbox WHERE id IN (SELECT value FROM json_each(?))"
        await self._database.writer.write(lambda cursor: cursor.execute(query, values))
        self._collected.difference_update(ids)


def _posted(id: int, execution_id: str, body: bytes) -> PostedCommand | None:
    """None: only a newer NoETL knows the command, so it stays for a process of that version."""
    try:
        envelope = decode(body, type=_Envelope)
        kind = _KINDS.get(envelope.name)
        return PostedCommand(id, execution_id, Decoder(kind).decode(envelope.body)) if kind is not None else None
    except MsgspecError:
        return None
