"""Ownership of executions: only those of dead processes are taken over, each time under a higher number."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import apsw

from noetl.adapters.sqlite import locks
from noetl.adapters.sqlite.connection import is_text, micros
from noetl.adapters.sqlite.database import Database
from noetl.errors import Rejected
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

    async def hold(self, execution_id: str) -> int:
        if not is_text(execution_id):
            raise Rejected("bad-id", f"{execution_id!a} is not an execution id")
        if not self._number:
            async with self._entering:
                if not self._number:
                    await self._enter()
        found = self._database.fetch(_OWNER, (execution_id,))
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
        if isinstance(lock, str) and locks.is_alive(self._database.locks, lock):
            raise Rejected("held", f"process {pid} holds {execution_id}: wait for it, or end it first")
        failpoint("sqlite.hold.before-take-over")
        ours = self._database.lock
        assert ours is not None
        number = self._number if self._number > owner else self._new_number(cursor, ours)
        cursor.execute("UPDATE heads SET owner = ? WHERE execution_id = ?", (number, execution_id))
        failpoint("sqlite.hold.after-take-over")
        return number

    async def _enter(self) -> None:
        made: list[locks.LockFile] = []
        try:
            number = await self._database.writer.write(lambda cursor: self._register(cursor, made))
        except BaseException:
            for lock in made:
                lock.close()
            raise
        for lock in made[:-1]:  # of transactions that were repeated because another process was writing
            lock.close()
        self._database.lock, self._number = made[-1], number

    def _register(self, cursor: apsw.Cursor, made: list[locks.LockFile]) -> int:
        """Create the lock file and remove those of dead processes, also of ones that have no row yet.

        Both happen in one transaction, so no process can mistake a new lock file for one of the dead.
        """
        folder = self._database.locks
        known = (lock for (lock,) in cursor.execute("SELECT DISTINCT lock FROM owners").fetchall())
        for lock in dict.fromkeys((*known, *locks.lock_files(folder))):
            if isinstance(lock, str) and not locks.is_alive(folder, lock):
                cursor.execute("DELETE FROM owners WHERE lock = ?", (lock,))
                locks.remove(folder, lock)
        made.append(locks.LockFile(folder, f"{self._database.clock.new_id()}.lock"))
        failpoint("sqlite.hold.locked")
        return self._new_number(cursor, made[-1])

    def _new_number(self, cursor: apsw.Cursor, lock: locks.LockFile) -> int:
        since = micros(self._database.clock.now())
        values = (lock.name, os.getpid(), since)
        cursor.execute("INSERT INTO owners (lock, pid, since) VALUES (?, ?, ?)", values)
        return cursor.connection.last_insert_rowid()
