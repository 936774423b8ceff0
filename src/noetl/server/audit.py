"""The audit trail of a server: who did what when.

Changes are written before their response. Starts, sign-ins and denied requests are collected and written within
`FLUSH_S` and `DENIED_S`, so that they cost no commit of their own; a server that is killed loses these.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.errors import Unavailable
from noetl.ports import AuditStore, AuditTrailEntry
from noetl.server.auth import LOCAL, Caller
from noetl.telemetry.logs import get_logger

FLUSH_S: Final = 1.0  # between two writes of collected entries
DENIED_S: Final = 60.0  # equal denied requests within this time are one entry
DENIED_MAX: Final = 20  # different entries in that time, for callers with and without a token each
WAITING_MAX: Final = 10_000  # collected entries while the store is unavailable; further ones are only counted
SIGN_IN_S: Final = 3_600.0  # a token that was not used for this time signs in again
TEXT_CHARS_MAX: Final = 200  # of one field

STRANGER: Final = Caller("", "", frozenset())  # a request without a token
_SOMEONE: Final = Caller("*", "*", frozenset())  # several tokens

log = get_logger("api")


class AuditTrail:
    def __init__(self, store: AuditStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: deque[AuditTrailEntry] = deque()
        self._lost = 0
        self._denied: dict[tuple[str, ...], AuditTrailEntry] = {}
        self._denied_until = 0.0
        self._seen: BoundedCache[str, float] = BoundedCache(WAITING_MAX)
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def record(self, caller: Caller, action: str, what: str, target: str, detail: str = "") -> None:
        """Write an entry now. If the store is unavailable, it is written later: the change has happened."""
        self.collect(caller, action, what, target, detail)
        await self.flush()

    def collect(self, caller: Caller, action: str, what: str, target: str, detail: str = "") -> None:
        """Write an entry within FLUSH_S."""
        if len(self._waiting) >= WAITING_MAX:
            self._lost += 1
            return
        self._waiting.append(self._entry(caller, action, what, target, detail))
        self._start()

    def _entry(self, caller: Caller, action: str, what: str, target: str, detail: str) -> AuditTrailEntry:
        return AuditTrailEntry(
            at=self._clock.now(),
            action=action,
            what=what[:TEXT_CHARS_MAX],
            target=target[:TEXT_CHARS_MAX],
            who=caller.name,
            caller=caller.id,
            address=caller.address[:TEXT_CHARS_MAX],
            detail=detail[:TEXT_CHARS_MAX],
        )

    def sign_in(self, caller: Caller) -> None:
        """Note the first request with a token, and the first one after a long time.

        The sign-in of a session is recorded when it begins.
        """
        if caller.id == LOCAL.id or caller.session:
            return
        now, last = self._clock.monotonic(), self._seen.peek(caller.id)
        if last is None or now - last >= SIGN_IN_S:
            self.collect(caller, "sign-in", "token", caller.id)
        if last is None or now - last >= FLUSH_S:
            self._seen.put(caller.id, now)

    def deny(self, caller: Caller | None, address: str, what: str, code: str) -> None:
        """Count a denied request. Those beyond DENIED_MAX are one entry, so that they cannot fill the disk."""
        denied = STRANGER._replace(address=address) if caller is None else caller
        key = (denied.id, address, what, code)
        if key not in self._denied and sum(bool(each[0]) == bool(denied.id) for each in self._denied) >= DENIED_MAX:
            denied = STRANGER if caller is None else _SOMEONE
            what, code = "other requests", ""
            key = (denied.id, "", what, code)
        entry = self._denied.get(key)
        if entry is None:
            if not self._denied:
                self._denied_until = self._clock.monotonic() + DENIED_S
            entry = self._entry(denied, "denied", what, "", code)._replace(times=0)
        self._denied[key] = entry._replace(times=entry.times + 1)
        self._start()

    async def flush(self, *, denied: bool = False) -> None:
        """Write the collected entries. `denied`: also the denied requests of the current minute."""
        async with self._lock:
            if self._denied and (denied or self._clock.monotonic() >= self._denied_until):
                self._waiting += self._denied.values()
                self._denied.clear()
            if self._lost:
                what = "entries that could not be written"
                self._waiting.append(AuditTrailEntry(self._clock.now(), "lost", what, "", "", times=self._lost))
                self._lost = 0
            entries = list(self._waiting)
            if not entries:
                return
            try:
                await self._store.add(entries)
            except Unavailable as error:
                log.warning("audit.unavailable", waiting=len(entries), error=type(error).__name__)
                return
            for _ in entries:
                self._waiting.popleft()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self._waiting or self._denied or self._lost:
            await self._clock.sleep(FLUSH_S)
            await self.flush()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.flush(denied=True)
