"""Commands for executions that another process has: it finds them here, as soon as it looks.

A command stays until it is done, so that a process that dies over it leaves it to the next owner.
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
COLLECT_MAX: Final = 100  # commands at a time

_KINDS: Final[dict[str, type[Command]]] = {kind.__name__: kind for kind in get_args(Command)}
# In this order: the inbox is short, the heads are many.
_COLLECT: Final = """
SELECT inbox.id, inbox.execution_id, inbox.command
FROM inbox CROSS JOIN heads USING (execution_id) CROSS JOIN owners ON owners.number = heads.owner
WHERE owners.lock = ? AND inbox.id NOT IN (SELECT value FROM json_each(?)) ORDER BY inbox.id LIMIT ?
"""


class Posted(NamedTuple):
    id: int
    execution_id: str
    command: Command


class _Envelope(Struct, frozen=True, kw_only=True):
    name: str
    body: Raw


class SqliteInbox:
    """Post from anywhere, collect where the execution is."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._handed: set[int] = set()  # collected here and not done
        self._seen: int | None = None  # the file's version when there was nothing for us

    async def post(self, execution_id: str, command: Command) -> None:
        """Raises NotFound when there is no such execution, Rejected when the command is too large."""
        body = encode({"name": type(command).__name__, "body": command})
        if len(body) > COMMAND_BYTES_MAX:
            raise Rejected("too-large", f"the command has {len(body)} bytes, {COMMAND_BYTES_MAX} are allowed")
        at = micros(self._database.clock.now())

        if not self._database.fetch("SELECT 1 FROM heads WHERE execution_id = ?", (execution_id,)):
            raise NotFound(f"no execution {execution_id}")
        values = (execution_id, body, at)
        query = "INSERT INTO inbox (execution_id, command, at) VALUES (?, ?, ?)"
        await self._database.writer.write(lambda cursor: cursor.execute(query, values))

    async def collect(self) -> list[Posted]:
        """The oldest that are for us, each once; nearly free when nobody has written since there was none."""
        lock = self._database.lock
        if lock is None:
            return []
        # The version is taken first: what is written in between is seen the next time.
        version: int = self._database.fetch("PRAGMA data_version")[0][0]
        if version == self._seen:
            return []
        handed = encode(sorted(self._handed)).decode()
        found = self._database.fetch(_COLLECT, (lock.name, handed, COLLECT_MAX))
        self._seen = version if not found else None
        self._handed.update(row[0] for row in found)
        return [posted for row in found if (posted := _posted(*row)) is not None]

    async def done(self, ids: Sequence[int]) -> None:
        """They are carried out, or were refused: away with them."""
        failpoint("sqlite.inbox.before-done")
        values = (encode(list(ids)).decode(),)
        query = "DELETE FROM inbox WHERE id IN (SELECT value FROM json_each(?))"
        await self._database.writer.write(lambda cursor: cursor.execute(query, values))
        self._handed.difference_update(ids)


def _posted(id: int, execution_id: str, body: bytes) -> Posted | None:
    """None: a command that only a newer NoETL understands, and one is on the file, or was; it stays."""
    try:
        envelope = decode(body, type=_Envelope)
        kind = _KINDS.get(envelope.name)
        return Posted(id, execution_id, Decoder(kind).decode(envelope.body)) if kind is not None else None
    except MsgspecError:
        return None
