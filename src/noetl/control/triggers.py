"""Triggers of registered playbooks: each firing starts one execution, even if several servers notice it (D112).

The id of the execution is derived from the trigger and the key of the firing. A server that dies between the start
and the next time in the store leaves a start that the next server repeats, and that the owner of the execution
finds done.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.control.deps import ProgramSource
from noetl.control.limits import REFUSED
from noetl.engine.commands import Start
from noetl.engine.scopes import is_foreign, named_refs, owner_of
from noetl.engine.state import Status
from noetl.errors import Conflict, Fenced, NotFound, PlaybookError, Rejected, Unavailable
from noetl.net.program import Program
from noetl.net.triggers import CompiledTrigger, Schedule, declaration_of, trigger_of
from noetl.output import JSON
from noetl.playbook.model import Credential, Trigger
from noetl.ports import Firing, FiringStatus, StoredTrigger, TriggerStore
from noetl.template.values import Moment, TemplateError
from noetl.views.log import instant

DUE_MAX = 1_000  # triggers in one round
AT_ONCE = 32  # starts
CATCHUP_MAX = 100  # missed times of one trigger in one round
GRACE = timedelta(seconds=60)  # `catchup: none` starts nothing for a time longer ago than this
DETAIL_CHARS_MAX = 500
REFUSED_S = 1.0


class DueTrigger(NamedTuple):
    """What a trigger has to do now."""

    times: list[datetime]  # that start an execution
    skipped: tuple[datetime, datetime] | None  # the first and the last time that start none
    next: datetime


def due_times(schedule: Schedule, path: str, first: datetime, now: datetime) -> DueTrigger:
    """`first`: the earliest time that has not been handled; it is due."""
    last = max(schedule.until(now.replace(microsecond=0)), first)
    while last > first and last + schedule.jitter(path, last) > now:
        last = schedule.until(last - timedelta(microseconds=1))
    catchup = schedule.trigger.catchup
    if catchup == "all":
        times = [first]
        while times[-1] < last and len(times) < CATCHUP_MAX:
            times.append(schedule.after(times[-1]))
        return DueTrigger(times, None, schedule.after(times[-1]))
    if catchup == "none" and now - (last + schedule.jitter(path, last)) > GRACE:
        return DueTrigger([], (first, last), schedule.after(last))
    skipped = (first, schedule.until(last - timedelta(microseconds=1))) if first < last else None
    return DueTrigger([last], skipped, schedule.after(last))


def declared_triggers(program: Program, now: datetime) -> list[StoredTrigger]:
    """The triggers of a playbook that is registered now."""
    path, found = program.playbook.path, []
    for each in program.triggers:
        trigger = each.source
        declaration = declaration_of(trigger)
        since = now.replace(microsecond=0)
        row = StoredTrigger(path, trigger.name, trigger.kind, program.digest, declaration, since)
        if trigger.is_timed:
            found.append(_scheduled(row, trigger, now))
        elif trigger.kind == "webhook":
            found.append(row._replace(hook=f"{trigger.method} {trigger.path}"))
        else:
            found.append(row)
    return found


async def declare(store: TriggerStore, program: Program, now: datetime) -> None:
    """Its triggers act from now on. Raises Rejected."""
    await store.declare(program.playbook.path, program.digest, declared_triggers(program, now))


def _scheduled(row: StoredTrigger, trigger: Trigger, after: datetime) -> StoredTrigger:
    schedule = Schedule(trigger, row.since)
    at = schedule.after(after)
    return row._replace(scheduled_at=at, due_at=at + schedule.jitter(row.path, at))


def execution_of(path: str, name: str, key: str) -> str:
    """The id of the execution that a firing starts."""
    seed = hashlib.sha256(f"trigger {path} {name} {key}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


class ExecutionStarter(Protocol):
    """Starts executions, on any server."""

    async def start(self, execution_id: str, digest: str, start: Start) -> None: ...


def _named_by_data(compiled: CompiledTrigger, workload: dict[str, JSON]) -> str | None:
    """The execution that a Ref in the data of a trigger names; None: there is none. A request could read it (D99)."""
    written = [ref["locator"] for ref in named_refs(compiled.source.workload)]
    found = (owner_of(ref) for ref in named_refs(workload) if not is_foreign(ref) and ref["locator"] not in written)
    return next((owner for owner in found if owner is not None), None)


class ExecutionStatuses(Protocol):
    """Says whether an execution is in the log."""

    async def status(self, execution_id: str) -> Status | None: ...


class Triggers:
    """Fires the triggers of one server's share."""

    def __init__(
        self,
        store: TriggerStore,
        programs: ProgramSource,
        link: ExecutionStarter,
        events: ExecutionStatuses,
        clock: Clock,
        *,
        now: Callable[[], datetime],
        owns: Callable[[str], bool],
    ) -> None:
        """`now`: the time of the store. `owns`: whether this server fires a trigger, by an id."""
        self.store = store
        self._programs = programs
        self._link = link
        self._events = events
        self._clock = clock
        self._now = now
        self._owns = owns
        self._refused: BoundedCache[str, float] = BoundedCache(DUE_MAX)  # trigger → time of its last entry
        self._starting: dict[str, asyncio.Event] = {}  # by execution: set at the end of a start of this process

    async def declare(self, digest: str) -> None:
        """A playbook has been registered. Raises Rejected when a path of a webhook belongs to another one."""
        await declare(self.store, await self._programs.by_digest(digest), self._now())

    async def run(self) -> None:
        """Fire what is due, every second."""
        while True:
            await self._clock.sleep(1.0 - self._now().microsecond / 1_000_000)
            with suppress(Unavailable):
                await self.fire_due()

    async def fire_due(self) -> None:
        found = await self.store.due(self._now(), DUE_MAX)
        ours = [each for each in found if self._owns(f"{each.path}:{each.name}")]
        for begin in range(0, len(ours), AT_ONCE):
            await asyncio.gather(*map(self._fire_scheduled, ours[begin : begin + AT_ONCE]))

    async def _fire_scheduled(self, row: StoredTrigger) -> None:
        """All times of a trigger that are due. An outage leaves it as it is, for the next round."""
        assert row.scheduled_at is not None
        trigger = trigger_of(row.declaration)
        schedule, now = Schedule(trigger, row.since), self._now()
        due = self._due(schedule, row.path, row.scheduled_at)
        firings = []
        if due.skipped is not None:
            first, last = due.skipped
            detail = f"missed while no server ran: {instant(first)} to {instant(last)} (catchup: {trigger.catchup})"
            firings.append(Firing(now, "skipped", scheduled_at=last, detail=detail))
        with suppress(Unavailable, Conflict, Fenced):
            for at in due.times:
                scope: dict[str, JSON] = {"trigger": scope_of(trigger, at)}
                firings.append(await self.start(row, instant(at), scope, at))
            await self.store.advance(row, due.next, due.next + schedule.jitter(row.path, due.next), firings)

    def _due(self, schedule: Schedule, path: str, first: datetime) -> DueTrigger:
        return due_times(schedule, path, first, self._now())

    async def fire(self, path: str, name: str) -> Firing:
        """Start an execution now, without regard to the schedule. Raises NotFound."""
        row, now = await self.store.get(path, name), self._now()
        trigger = trigger_of(row.declaration)
        scope: dict[str, JSON] = {"trigger": scope_of(trigger, now)}
        if trigger.kind == "nats":
            scope["message"] = {"subject": trigger.subject or "", "headers": {}, "data": None}
        elif trigger.kind == "webhook":
            scope["request"] = {
                "method": trigger.method,
                "path": trigger.path,
                "query": {},
                "headers": {},
                "body": None,
            }
        firing = await self.start(row, f"manual {self._clock.new_id()}", scope, now)
        await self.store.record(path, name, [firing])
        return firing

    async def start(
        self, row: StoredTrigger, key: str, scope: dict[str, JSON], scheduled_at: datetime | None = None
    ) -> Firing:
        """Start the execution of a firing, unless it has been started. Raises Unavailable."""
        id = execution_of(row.path, row.name, key)
        while (other := self._starting.get(id)) is not None:  # the later one of two deliveries is the duplicate
            await other.wait()
        done = self._starting[id] = asyncio.Event()
        try:
            return await self._start(row, id, key, scope, scheduled_at)
        finally:
            del self._starting[id]
            done.set()

    async def _start(
        self, row: StoredTrigger, id: str, key: str, scope: dict[str, JSON], scheduled_at: datetime | None
    ) -> Firing:
        def firing(status: FiringStatus, detail: str = "") -> Firing:
            has_started = status in ("started", "duplicate")
            return Firing(
                self._now(), status, key, scheduled_at, id if has_started else None, detail[:DETAIL_CHARS_MAX]
            )

        if await self._events.status(id) is not None:
            return firing("duplicate" if scheduled_at is None else "started")
        try:
            compiled = await self.compiled(row)
            moment = Moment(instant(scheduled_at or self._now()), id)
            workload = compiled.request(scope, moment)
            if (owner := _named_by_data(compiled, workload)) is not None:
                return firing("failed", f"the data of the trigger names a result of execution {owner[:64]}")
            command = Start(workload=workload, by=f"trigger {row.path}:{row.name}")
            await self._link.start(id, row.digest, command)
        except TemplateError as error:
            return firing("failed", f"a template of the trigger failed: {error}")
        except (NotFound, PlaybookError) as error:
            return firing("failed", str(error))
        except Rejected as error:
            if error.code == REFUSED:
                return firing("refused", str(error))
            if await self._events.status(id) is not None:  # another process was first
                return firing("duplicate" if scheduled_at is None else "started")
            return firing("refused", str(error))
        return firing("started")

    async def record_refused(self, row: StoredTrigger, detail: str) -> None:
        """At most once per second and trigger: refused requests must not replace the whole history."""
        now, id = self._clock.monotonic(), f"{row.path}:{row.name}"
        last = self._refused.peek(id)
        if last is None or now - last >= REFUSED_S:
            self._refused.put(id, now)
            await self.store.record(row.path, row.name, [Firing(self._now(), "refused", detail=detail)])

    async def compiled(self, row: StoredTrigger) -> CompiledTrigger:
        """Raises NotFound when the path is archived, and PlaybookError when the text cannot run here."""
        try:
            await self._programs.find(row.path)
        except NotFound:
            raise NotFound(f'"{row.path}" is archived: register it again') from None
        program = await self._programs.by_digest(row.digest)
        return next(each for each in program.triggers if each.source.name == row.name)

    async def credential(self, row: StoredTrigger, name: str) -> Credential:
        """A keychain entry of its playbook. Raises NotFound and PlaybookError."""
        program = await self._programs.by_digest(row.digest)
        return next(each for each in program.playbook.keychain if each.name == name)

    def now(self) -> datetime:
        """The time of the store."""
        return self._now()

    async def set_paused(self, path: str, name: str, *, paused: bool) -> StoredTrigger:
        """Raises NotFound."""
        return await set_paused(self.store, path, name, self._now(), paused=paused)


async def set_paused(store: TriggerStore, path: str, name: str, now: datetime, *, paused: bool) -> StoredTrigger:
    """Times that pass during a pause start nothing. Raises NotFound."""
    row = await store.get(path, name)
    trigger = trigger_of(row.declaration)
    if not paused and row.paused and trigger.is_timed:
        row = _scheduled(row, trigger, now)
    await store.set_paused(path, name, paused=paused, scheduled_at=row.scheduled_at, due_at=row.due_at)
    return row._replace(paused=paused)


def scope_of(trigger: Trigger, at: datetime) -> dict[str, JSON]:
    """What templates read as `trigger`."""
    local = at.astimezone(ZoneInfo(trigger.timezone))
    return {
        "name": trigger.name,
        "kind": trigger.kind,
        "scheduled_at": instant(at),
        "local_at": local.replace(tzinfo=None).isoformat(),
        "timezone": trigger.timezone,
    }
