"""Group commit: whatever is asked for in one turn of the loop becomes one transaction.

While the disk is quick, it is committed on the loop's own thread, a lone write even at once: handing it
over costs more than the disk does (in a lone chain 185 µs at once, 215 at the end of the turn, 320 by
thread). A thread does what waits: for a slow disk, another process that writes, a checkpoint.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import apsw

from noetl.adapters.sqlite.connection import BUSY_MS, explained
from noetl.clock import Clock
from noetl.errors import NoetlError, Unavailable
from noetl.failpoints import failpoint

T = TypeVar("T")
QUICK_S: Final = 0.001  # commits that take longer would hold up everything else on the loop
RECENT: Final = 16  # commits that are looked at for it
AT_ONCE_MAX: Final = 8  # commits without a turn of the loop
GROUP_MAX: Final = 256  # writes in one transaction on the loop's thread, which take some milliseconds
FAR_GROUP_MAX: Final = 4_096  # and on the writer's, where they share one wait for a slow disk
# 2 MB. A file that is written over is synced in half the time of one that grows: 160 µs a commit, not 310.
CHECKPOINT_PAGES: Final = 500


class _Refused(NamedTuple):
    """A write that said no, before it changed anything: the others of its group stand."""

    error: NoetlError


class _Done(NamedTuple, Generic[T]):
    answer: T


class _Write(NamedTuple):
    work: Callable[[apsw.Cursor], Any]
    answer: asyncio.Future[Any]


_Answers: TypeAlias = "list[Any] | Exception"  # of each write; or why all of them failed


class Writer:
    """The one connection that writes. It is the thread's while `_away`, and the loop's otherwise."""

    def __init__(self, connection: apsw.Connection, clock: Clock, name: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._clock = clock
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: deque[_Write] = deque()
        self._coming = False  # the end of this turn of the loop will find what was gathered
        self._asker: asyncio.Task[Any] | None = None  # who wrote first in this turn
        self._asked = 0  # writes in this turn
        self._shares = False  # others have written in this turn, too
        self._shared = False  # and so it was in the last turn that had writes
        self._commits: deque[float] = deque(maxlen=RECENT)  # how long each took, in seconds
        self._waits_ms = BUSY_MS
        self._away = False
        self._thread: Thread | None = None
        self._handed: SimpleQueue[list[_Write] | None] = SimpleQueue()
        self._closed = False
        self._pages = 0  # in the write-ahead log
        self._checkpoint_at = CHECKPOINT_PAGES
        connection.set_wal_hook(self._count_pages)

    async def write(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Do it in a transaction; durable when it returns.

        `work` may be called again when another process was in the way, and refuses by an error before it
        changes anything. Raises that error, or Unavailable: it may have happened or not.
        """
        if self._closed:
            raise Unavailable(f'"{self._name}" is closed')
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not self._coming:
            self._loop, self._coming = loop, True
            self._asker, self._asked = asyncio.current_task(), 0
            loop.call_soon(self._turn_over)
        self._asked += 1
        self._shares = self._shares or asyncio.current_task() is not self._asker
        if self._may_be_at_once():
            done = self._at_once(work)
            if done is not None:
                return done.answer
        write = _Write(work, loop.create_future())
        self._gathered.append(write)
        result: T = await write.answer
        return result

    def close(self) -> None:
        """What the thread has in hand is finished, what has only been asked for is not begun."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._handed.put(None)
            self._thread.join()
        self._settle(list(self._gathered), Unavailable(f'"{self._name}" is closed'))
        self._gathered.clear()
        self._connection.close()

    # On the loop's thread

    def _may_be_at_once(self) -> bool:
        """Nobody else writes in this turn, if it is like the last one; and the loop still gets its turns."""
        return (
            not self._shared
            and not self._shares
            and self._asked <= AT_ONCE_MAX
            and not self._gathered
            and not self._away
            and self._quick()
        )

    def _at_once(self, work: Callable[[apsw.Cursor], T]) -> _Done[T] | None:
        """None: another process writes; it has to be waited for, and not here."""
        try:
            (answer,) = self._transaction([work], waits_ms=0)
        except apsw.BusyError:
            return None
        except apsw.Error as error:
            raise explained(error, self._name) from error
        self._checkpoint_when_due()
        if isinstance(answer, _Refused):
            raise answer.error
        return _Done(answer)

    def _turn_over(self) -> None:
        self._coming = False
        self._shared, self._shares = self._shares, False
        self._pump()

    def _pump(self) -> None:
        if self._away or not self._gathered:
            return
        quick = self._quick()
        size = min(GROUP_MAX if quick else FAR_GROUP_MAX, len(self._gathered))
        group = [self._gathered.popleft() for _ in range(size)]
        if not quick:
            self._hand_over(group)
            return
        try:
            answers: _Answers = self._transaction([write.work for write in group], waits_ms=0)
        except apsw.BusyError:
            self._hand_over(group)
            return
        except Exception as error:  # noqa: BLE001  # nobody may wait for ever, whatever it was
            answers = error
        except BaseException:
            self._settle(group, Unavailable(f'"{self._name}": the process is ending'))
            raise
        self._settle(group, answers)
        self._checkpoint_when_due()
        if self._gathered and self._loop is not None:
            self._loop.call_soon(self._pump)

    def _quick(self) -> bool:
        return sum(self._commits) <= QUICK_S * len(self._commits)

    def _checkpoint_when_due(self) -> None:
        if self._pages >= self._checkpoint_at and not self._away:
            self._hand_over([])

    def _hand_over(self, group: list[_Write]) -> None:
        self._away = True
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="noetl-sqlite", daemon=True)
            self._thread.start()
        self._handed.put(group)

    def _settle(self, group: Sequence[_Write], answers: _Answers) -> None:
        """Every future gets its answer; those that nobody waits for any more are passed over."""
        for place, write in enumerate(group):
            if write.answer.done() or write.answer.get_loop().is_closed():
                continue
            if isinstance(answers, Exception):
                write.answer.set_exception(self._told(answers))
            elif isinstance(answers[place], _Refused):
                write.answer.set_exception(answers[place].error)
            else:
                write.answer.set_result(answers[place])

    def _told(self, error: Exception) -> Exception:
        """One for each: an exception that several raise would gather the tracebacks of all."""
        if not isinstance(error, apsw.Error):
            return error
        told = explained(error, self._name)
        told.__cause__ = error
        return told

    # On the writer's thread

    def _serve(self) -> None:
        while (group := self._handed.get()) is not None:
            if group:
                try:
                    answers: _Answers = self._transaction([write.work for write in group], waits_ms=BUSY_MS)
                except Exception as error:  # noqa: BLE001  # the main loop of a service (STYLE §2)
                    answers = error
                self._tell(self._settle, group, answers)
            if self._pages >= self._checkpoint_at:
                self._checkpoint()
            self._away = False  # the last thing that this thread does with the connection
            self._tell(self._pump)

    def _tell(self, what: Callable[..., None], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(what, *values)

    def _checkpoint(self) -> None:
        """Write the log's file back. When readers or a full disk prevent it, it is tried again much later."""
        failpoint("sqlite.checkpoint.before")
        self._checkpoint_at = self._pages + CHECKPOINT_PAGES
        with suppress(apsw.Error):
            total, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if moved == total:
                self._checkpoint_at = CHECKPOINT_PAGES

    # On either

    def _transaction(self, works: Sequence[Callable[[apsw.Cursor], Any]], *, waits_ms: int) -> list[Any]:
        if waits_ms != self._waits_ms:
            self._connection.set_busy_timeout(waits_ms)
            self._waits_ms = waits_ms
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            answers = [self._answer(work) for work in works]
            failpoint("sqlite.before-commit")
            started = self._clock.monotonic()
            self._cursor.execute("COMMIT")
            self._commits.append(self._clock.monotonic() - started)
            failpoint("sqlite.after-commit")
        except BaseException:
            if self._connection.in_transaction:
                with suppress(apsw.Error):
                    self._cursor.execute("ROLLBACK")
            raise
        return answers

    def _answer(self, work: Callable[[apsw.Cursor], Any]) -> Any:
        try:
            return work(self._cursor)
        except NoetlError as error:
            return _Refused(error)

    def _count_pages(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK
