"""One open SQLite file: its readers, its writer with group commit, and the locks of its processes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import apsw
from msgspec import Struct

from noetl.adapters.process_locks import LockFile
from noetl.adapters.running_calls import RunningCalls
from noetl.adapters.sqlite.connection import BUSY_MS, explained, open_reader, open_writer, translated
from noetl.clock import Clock
from noetl.errors import NoetlError, Unavailable
from noetl.failpoints import failpoint
from noetl.time_slice import shorten_time_slice

T = TypeVar("T")
_OPEN: Final = "SELECT 1 FROM heads WHERE execution_id = ? AND status NOT IN ('ok', 'error', 'cancelled')"
FAST_S: Final = 0.001  # slower commits would block the event loop
RECENT: Final = 16  # commits whose average counts for it
AT_ONCE_MAX: Final = 8  # immediate commits in one iteration of the loop
GROUP_MAX: Final = 256  # writes in one transaction on the loop's thread, which take some milliseconds
THREAD_GROUP_MAX: Final = 4_096  # on the writer thread, where they share one wait for a slow disk
# 2 MB. Syncing an overwritten file takes half the time of a growing one: 160 µs per commit, not 310.
CHECKPOINT_PAGES: Final = 500


class _Refused(NamedTuple):
    """A write that raised an error before it changed anything. The others of its group are committed."""

    error: NoetlError


class _Committed(NamedTuple, Generic[T]):
    answer: T


class _Write(Struct, frozen=True):
    work: Callable[[apsw.Cursor], Any]
    answer: asyncio.Future[Any]


_Answers: TypeAlias = "list[Any] | Exception"  # of each write; or the error of the transaction


class Writer:
    """The writing connection. While `_in_thread`, the writer thread uses it, otherwise the event loop.

    All writes of one iteration of the event loop become one transaction. While the disk is fast, the thread of
    the event loop commits, a single write even at once: passing it to a thread costs more than the disk does (per
    write in a chain: 185 µs at once, 215 at the end of the iteration, 320 by thread). A thread commits when it has
    to wait for a slow disk, another process or a checkpoint.
    """

    def __init__(self, connection: apsw.Connection, clock: Clock, name: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._clock = clock
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: deque[_Write] = deque()
        self._scheduled = False  # `_end_iteration` runs at the end of this iteration of the loop
        self._first_task: asyncio.Task[Any] | None = None  # that wrote in this iteration
        self._writes = 0  # in this iteration
        self._shares = False  # several tasks have written in this iteration
        self._shared = False  # and in the last iteration with writes
        self._commits: deque[float] = deque(maxlen=RECENT)  # durations in seconds
        self._waits_ms = BUSY_MS
        self._in_thread = False
        self._thread: Thread | None = None
        self._groups: SimpleQueue[list[_Write] | None] = SimpleQueue()
        self._closed = False
        self._pages = 0  # in the write-ahead log
        self._checkpoint_at = CHECKPOINT_PAGES
        connection.set_wal_hook(self._count_pages)

    async def write(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run `work` in a transaction, which is durable when this returns.

        `work` may run again if another process was writing. It refuses with a NoetlError before it changes
        anything. Raises that error, or Unavailable: the write may have happened or not.
        """
        if self._closed:
            raise Unavailable(f'"{self._name}" is closed')
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not self._scheduled:
            self._loop, self._scheduled = loop, True
            self._first_task, self._writes = asyncio.current_task(), 0
            loop.call_soon(self._end_iteration)
        self._writes += 1
        self._shares = self._shares or asyncio.current_task() is not self._first_task
        if self._can_commit_at_once():
            committed = self._commit_at_once(work)
            if committed is not None:
                return committed.answer
        write = _Write(work, loop.create_future())
        self._pending.append(write)
        result: T = await write.answer
        return result

    def close(self) -> None:
        """Finish the transaction of the thread. Pending writes fail with Unavailable."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._groups.put(None)
            self._thread.join()
        self._settle(list(self._pending), Unavailable(f'"{self._name}" is closed'))
        self._pending.clear()
        self._connection.close()

    # On the thread of the event loop

    def _can_commit_at_once(self) -> bool:
        """Whether this is probably the only write of this iteration, and commits do not block the loop."""
        return (
            not self._shared
            and not self._shares
            and self._writes <= AT_ONCE_MAX
            and not self._pending
            and not self._in_thread
            and self._is_fast()
        )

    def _commit_at_once(self, work: Callable[[apsw.Cursor], T]) -> _Committed[T] | None:
        """None: another process is writing, and the loop must not wait for it."""
        try:
            (answer,) = self._transaction([work], self._commit, waits_ms=0)
        except apsw.BusyError:
            return None
        except apsw.Error as error:
            raise explained(error, self._name) from error
        self._checkpoint_when_due()
        if isinstance(answer, _Refused):
            raise answer.error
        return _Committed(answer)

    def _end_iteration(self) -> None:
        self._scheduled = False
        self._shared, self._shares = self._shares, False
        self._pump()

    def _pump(self) -> None:
        if self._in_thread or not self._pending:
            return
        fast = self._is_fast()
        size = min(GROUP_MAX if fast else THREAD_GROUP_MAX, len(self._pending))
        group = [self._pending.popleft() for _ in range(size)]
        if not fast:
            self._pass_to_thread(group)
            return
        try:
            answers: _Answers = self._transaction([write.work for write in group], self._commit, waits_ms=0)
        except apsw.BusyError:
            self._pass_to_thread(group)
            return
        except Exception as error:  # noqa: BLE001  # every write must get an answer
            answers = error
        except BaseException:
            self._settle(group, Unavailable(f'"{self._name}": the process is ending'))
            raise
        self._settle(group, answers)
        self._checkpoint_when_due()
        if self._pending and self._loop is not None:
            self._loop.call_soon(self._pump)

    def _commit(self) -> float:
        started = self._clock.monotonic()
        self._cursor.execute("COMMIT")
        return self._clock.monotonic() - started

    def _is_fast(self) -> bool:
        return sum(self._commits) <= FAST_S * len(self._commits)

    def _checkpoint_when_due(self) -> None:
        if self._pages >= self._checkpoint_at and not self._in_thread:
            self._pass_to_thread([])

    def _pass_to_thread(self, group: list[_Write]) -> None:
        self._in_thread = True
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="noetl-sqlite", daemon=True)
            self._thread.start()
        self._groups.put(group)

    def _settle(self, group: Sequence[_Write], answers: _Answers) -> None:
        """Answer every write. Cancelled ones are skipped."""
        for place, write in enumerate(group):
            if write.answer.done() or write.answer.get_loop().is_closed():
                continue
            if isinstance(answers, Exception):
                write.answer.set_exception(self._translated(answers))
            elif isinstance(answers[place], _Refused):
                write.answer.set_exception(answers[place].error)
            else:
                write.answer.set_result(answers[place])

    def _translated(self, error: Exception) -> Exception:
        """A new exception for each write: a shared one would collect the tracebacks of all."""
        if not isinstance(error, apsw.Error):
            return error
        translated = explained(error, self._name)
        translated.__cause__ = error
        return translated

    # On the writer thread

    def _serve(self) -> None:
        shorten_time_slice()  # all writes wait for this thread
        while (group := self._groups.get()) is not None:
            if group:
                works = [write.work for write in group]
                try:
                    answers: _Answers = self._transaction(works, self._commit_in_thread, waits_ms=BUSY_MS)
                except Exception as error:  # noqa: BLE001  # the main loop of a service (STYLE §2)
                    answers = error
                self._call_in_loop(self._settle, group, answers)
            if self._pages >= self._checkpoint_at:
                self._checkpoint()
            self._in_thread = False  # the thread does not use the connection after this
            self._call_in_loop(self._pump)

    def _commit_in_thread(self) -> float:
        """The duration according to SQLite: in whole milliseconds, which are right on average.

        Our own clock is read when the thread has got Python's lock back. Beside a busy event loop it waits for the
        lock longer than for a fast disk, and commits would stay in the thread for as long as the loop is busy.
        """
        took: list[int] = []
        self._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda statement: took.append(statement["nanoseconds"]))
        try:
            self._cursor.execute("COMMIT")
        finally:
            self._connection.trace_v2(0, None)
        return sum(took) / 1e9

    def _call_in_loop(self, what: Callable[..., None], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(what, *values)

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the file. If readers or a full disk prevent it, retry much later."""
        failpoint("sqlite.checkpoint.before")
        self._checkpoint_at = self._pages + CHECKPOINT_PAGES
        with suppress(apsw.Error):
            total, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if moved == total:
                self._checkpoint_at = CHECKPOINT_PAGES

    # On either thread

    def _transaction(
        self, works: Sequence[Callable[[apsw.Cursor], Any]], commit: Callable[[], float], *, waits_ms: int
    ) -> list[Any]:
        """`commit` returns its duration in seconds."""
        if waits_ms != self._waits_ms:
            self._connection.set_busy_timeout(waits_ms)
            self._waits_ms = waits_ms
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            answers = [self._answer(work) for work in works]
            failpoint("sqlite.before-commit")
            self._commits.append(commit())
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


class Database:
    """Shared by the adapters of one file. It belongs to one event loop."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.name = str(path)
        self.clock = clock
        self.locks = path.with_name(path.name + "-locks")
        self.lock: LockFile | None = None  # None: this process holds no execution
        self.writer = Writer(open_writer(path, self.locks), clock, self.name)
        self._reader: apsw.Connection | None = None
        self._thread_reader: apsw.Connection | None = None  # for long reads on other threads
        self._thread_lock = Lock()
        self._closed = False

    def fetch(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """A short query on committed data, on the thread of the event loop."""
        try:
            with translated(self.name):
                return self.reader().execute(query, values).fetchall()
        except UnicodeEncodeError:
            return []  # a lone surrogate: no stored name contains one

    def fetch_in_thread(self, query: str, values: tuple[apsw.SQLiteValue, ...] = ()) -> list[Any]:
        """A long query, on any other thread."""
        with self._thread_lock, translated(self.name):
            if self._thread_reader is None:
                self._thread_reader = self._open_reader()
            return self._thread_reader.execute(query, values).fetchall()

    def reader(self) -> apsw.Connection:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _open_reader(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable(f'"{self.name}" is closed')
        return open_reader(self.path)

    def close(self) -> None:
        """Release the file and the executions of this process. Acknowledged writes are on disk already."""
        with self._thread_lock:  # after a long query that is still running
            self._closed = True
            for reader in (self._reader, self._thread_reader):
                if reader is not None:
                    reader.close()
            self._reader = self._thread_reader = None
        self.writer.close()
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def running_calls_of(database: Database) -> RunningCalls:
    """The calls of this process on the database."""

    def is_open(execution_id: str) -> bool:
        return bool(database.fetch(_OPEN, (execution_id,)))

    return RunningCalls(database.locks, lambda: database.lock, is_open)


def open_sqlite(path: Path | str, clock: Clock) -> Database:
    """Open or create the file. Raises Unavailable, which says what is wrong and how to fix it."""
    return Database(Path(path).absolute(), clock)
