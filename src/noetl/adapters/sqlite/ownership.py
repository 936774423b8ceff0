"""Ownership of executions by processes, and commands for executions that another process holds.

Only executions of dead processes are taken over, each time under a higher number. The owner polls the commands.
A command stays until it is done, so that the next owner finds it if a process dies.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

import apsw
from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, decode, encode

from noetl.adapters.process_locks import LockFile, is_alive, lock_files, remove_lock
from noetl.adapters.sqlite.connection import is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.engine.commands import Command
from noetl.errors import NotFound, Rejected
from noetl.failpoints import failpoint

_OWNER: Final = """
SELECT heads.owner, owners.lock, owners.pid
FROM heads LEFT JOIN owners ON owners.number = heads.owner WHERE heads.execution_id = ?
"""


class SqliteOwnership:
    """An `ExecutionOwnership`. The first `hold` creates lock file and owner number of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._number = 0  # the newest owner number of this process that is committed
        self._entering = asyncio.Lock()

    async def hold(self, execution_id: str, *, is_new: bool = False) -> int:
        if not is_text(execution_id):
            raise Rejected("bad-id", f"{execution_id!a} is not an execution id")
        if not self._number:
            async with self._entering:
                if not self._number:
                    await self._enter()
        found = [] if is_new else self._database.fetch(_OWNER, (execution_id,))
        if not found:
            return self._number  # a new execution: its first append records the owner
        if self._ours(found[0][1]):
            owner: int = found[0][0]
            return owner
        number = await self._database.writer.write(lambda cursor: self._take_over(cursor, execution_id))
        self._number = max(self._number, number)
        return number

    def _ours(self, lock: object) -> bool:
        return self._database.lock is not None and lock == self._database.lock.name

    def _take_over(self, cursor: apsw.Cursor, execution_id: str) -> int:
        """Runs in a transaction that excludes all others, so a dead owner stays the owner until the end."""
        owner, lock, pid = cursor.execute(_OWNER, (execution_id,)).fetchall()[0]
        assert isinstance(owner, int)
        if self._ours(lock):
            return owner
        if isinstance(lock, str) and is_alive(self._database.locks, lock):
            raise Rejected("held", f"process {pid} holds {execution_id}: wait for it, or end it first")
        failpoint("sqlite.hold.before-take-over")
        ours = self._database.lock
        assert ours is not None
        number = self._number if self._number > owner else self._new_number(cursor, ours)
        cursor.execute("UPDATE heads SET owner = ? WHERE execution_id = ?", (number, execution_id))
        failpoint("sqlite.hold.after-take-over")
        return number

    async def _enter(self) -> None:
        made: list[LockFile] = []
        try:
            number = await self._database.writer.write(lambda cursor: self._register(cursor, made))
        except BaseException:
            for lock in made:
                lock.close()
            raise
        for lock in made[:-1]:  # of transactions that were repeated because another process was writing
            lock.close()
        self._database.lock, self._number = made[-1], number

    def _register(self, cursor: apsw.Cursor, made: list[LockFile]) -> int:
        """Create the lock file and remove those of dead processes, also of ones that have no row yet.

        Both happen in one transaction, so no process can mistake a new lock file for one of the dead.
        """
        folder = self._database.locks
        known = (lock for (lock,) in cursor.execute("SELECT DISTINCT lock FROM owners").fetchall())
        for lock in dict.fromkeys((*known, *lock_files(folder))):
            if isinstance(lock, str) and not is_alive(folder, lock):
                cursor.execute("DELETE FROM owners WHERE lock = ?", (lock,))
                remove_lock(folder, lock)
        made.append(LockFile(folder, f"{self._database.clock.new_id()}.lock"))
        failpoint("sqlite.hold.locked")
        return self._new_number(cursor, made[-1])

    def _new_number(self, cursor: apsw.Cursor, lock: LockFile) -> int:
        since = micros(self._database.clock.now())
        values = (lock.name, os.getpid(), since)
        cursor.execute("INSERT INTO owners (lock, pid, since) VALUES (?, ?, ?)", values)
        return cursor.connection.last_insert_rowid()


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
