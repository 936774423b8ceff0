"""Notifications: child executions that notify people or systems that an execution has ended, waits or is late.

The id of such a child is derived from the execution, the notification and the event, so that each starts once. It
is started after the commit that causes it. The store notes an end with that commit, and the sweeper repeats what
was lost. Nothing that a notification does reaches the execution that it speaks of.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from noetl.control.heartbeats import TRANSIENT
from noetl.control.live_execution import LiveExecution, fold
from noetl.engine import Event
from noetl.engine.commands import Start
from noetl.engine.facts import ForSignal, FrameParked, Processed, Requested
from noetl.engine.scopes import moment
from noetl.engine.state import State
from noetl.engine.stored import stored_key_in
from noetl.errors import NotFound, PlaybookError, Rejected
from noetl.ids import frame_parts
from noetl.net.notify import notification_digest
from noetl.net.program import Program
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import NOTIFY, NotifyEvent
from noetl.ports import Link, PendingNotifications
from noetl.template.compile import TemplateError
from noetl.views.log import instant

if TYPE_CHECKING:
    from noetl.control.executions import Control

REPAIR_AFTER_S = 10.0  # after the end of an execution: until then its own server starts the notifications
REPAIRED_MAX = 100  # executions in one sweep
RECENT_MAX = 1_000


class Subject(NamedTuple):
    """An execution as it was when the event happened."""

    execution_id: str
    path: str
    digest: str
    depth: int
    status: str
    error: Failure | None
    output: Output | None
    workload: dict[str, JSON]
    seq: int
    at: datetime
    has_ended: bool


class Notice(NamedTuple):
    """A notification that is due."""

    place: int  # in `notify`
    name: NotifyEvent
    key: str  # distinguishes the event from others of the execution
    step: str | None = None  # of a task that waits
    run: str | None = None
    signal: str | None = None
    frame: str | None = None
    title: str | None = None  # of the question; None: it has none


def decision_url(public_url: str, execution_id: str, frame: str) -> str | None:
    """The page on which a person decides this wait, and no other."""
    if not public_url:
        return None
    from urllib.parse import quote

    return f"{public_url}/ui/approvals/{execution_id}?frame={quote(frame)}"


def notification_id(execution_id: str, notice: Notice) -> str:
    seed = hashlib.sha256(f"notification {execution_id} {notice.place} {notice.key}".encode()).digest()[:16]
    return str(UUID(bytes=seed, version=5))


def notifies_end(program: Program, status: str) -> bool:
    return any(True for _ in _at_end(program, status, 0))


def _at_end(program: Program, status: str, seq: int) -> Iterator[Notice]:
    """One for each entry of `notify`; `seq`: a retry may end the execution again."""
    for index, each in enumerate(program.notifications):
        if status == "error" and "failed" in each.source.on:
            yield Notice(index, "failed", f"end {seq}")
        elif "finished" in each.source.on:
            yield Notice(index, "finished", f"end {seq}")


def _waiting(program: Program, state: State, frame: str, call: int, signal: str) -> Iterator[Notice]:
    owner, place = frame_parts(frame)
    run = state.runs.get(owner)
    parked = None if run is None or place not in run.frames else run.frames[place].parked
    if run is None or not isinstance(parked, ForSignal):
        return  # it has ended: a fork begins with facts of the past
    for index, each in enumerate(program.notifications):
        if "waiting" in each.source.on:
            yield Notice(
                index, "waiting", f"waiting {frame}@{call}", run.step, run.id, signal, frame, parked.title or None
            )


def _late(program: Program) -> Iterator[Notice]:
    for index, each in enumerate(program.notifications):
        if "late" in each.source.on:
            yield Notice(index, "late", "late")


def _subject(state: State, at: datetime) -> Subject:
    workload = state.workload
    if state.stored:  # values in the result store belong to the tasks of the execution
        workload = {key: value for key, value in workload.items() if not stored_key_in({key: value})}
    return Subject(
        execution_id=state.execution_id,
        path=state.path,
        digest=state.digest,
        depth=state.depth,
        status=state.status,
        error=None if state.live else state.failure,
        output=None if state.live else state.end_output,
        workload=workload,
        seq=state.seq,
        at=at,
        has_ended=not state.live,
    )


class Notifications:
    def __init__(self, control: Control, link: Link, pending: PendingNotifications | None) -> None:
        """`link`: to the owners of the notifications. `pending`: None: lost ones are not repeated."""
        self._control = control
        self._link = link
        self._pending = pending
        self._starting: set[asyncio.Task[None]] = set()
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)  # the ids of those that this process has started

    def on_commit(self, live: LiveExecution, events: Sequence[Event]) -> None:
        for event in events:
            match event.fact:
                case Processed():
                    subject = _subject(live.state, event.at)
                    self._spawn(self._tell_end(live.program, subject))
                case FrameParked(until=ForSignal(name=name), frame=frame, call=call):
                    notices = list(_waiting(live.program, live.state, frame, call, name))
                    subject = _subject(live.state, event.at)
                    self._spawn(self._tell_live(live, subject, notices))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def started(self) -> None:
        """Wait until those that are due have been started, or could not be."""
        while self._starting:
            await asyncio.wait(list(self._starting))

    async def sweep(self) -> None:
        """What was lost, and executions that are late now."""
        for live in list(self._control.executions.values()):
            if live.program.notifications and live.state.live and not live.busy:
                await self._sweep_live(live)
        if self._pending is not None:
            with suppress(*TRANSIENT):
                before = self._control.now() - timedelta(seconds=REPAIR_AFTER_S)
                for execution_id in await self._pending.unnotified(before, REPAIRED_MAX):
                    await self._repair(execution_id)

    async def _sweep_live(self, live: LiveExecution) -> None:
        state, program, now = live.state, live.program, self._control.now()
        notices: list[Notice] = []
        for run in state.runs.values():
            for frame in run.frames.values():
                if isinstance(frame.parked, ForSignal):
                    notices += _waiting(program, state, frame.id, frame.calls + 1, frame.parked.name)
        expected_s = program.playbook.executor.expected_s
        with suppress(*TRANSIENT):
            if expected_s is not None and now >= await self._started_at(live) + timedelta(seconds=expected_s):
                notices += _late(program)
        if notices and live.state.live:
            await self._tell_live(live, _subject(state, now), notices)

    async def _started_at(self, live: LiveExecution) -> datetime:
        if live.started_at is None:
            live.started_at = (await self._first(live.id))[0]
        return live.started_at

    async def _repair(self, execution_id: str) -> None:
        """The end of an execution whose server may have died before it started the notifications."""
        control = self._control
        with suppress(*TRANSIENT, PlaybookError):
            await control.owners.number(execution_id)  # another process or server may be about to do it
            rows = await control.store.read(execution_id)
            state = State(execution_id=execution_id)
            fold(state, rows)
            if not state.live and rows:  # otherwise it was retried, and will end again
                control.owners.on_ended(execution_id)
                await self._tell_end(await control.programs.by_digest(state.digest), _subject(state, rows[-1].at))

    async def _tell_end(self, program: Program, subject: Subject) -> None:
        with suppress(*TRANSIENT):
            for notice in _at_end(program, subject.status, subject.seq):
                await self._tell(program, subject, notice)
            if self._pending is not None:
                await self._pending.notified(subject.execution_id, subject.seq)

    async def _tell_live(self, live: LiveExecution, subject: Subject, notices: Sequence[Notice]) -> None:
        for notice in notices:
            with suppress(*TRANSIENT):
                if notice not in live.told:
                    await self._tell(live.program, subject, notice)
                    live.told.add(notice)

    async def _tell(self, program: Program, subject: Subject, notice: Notice) -> None:
        """Start it, unless it exists. Raises Unavailable, Conflict or Fenced: then it is tried again."""
        id = notification_id(subject.execution_id, notice)
        if await self._control.store.status(id) is not None:
            return
        scopes, labels = await self._scopes(subject, notice)
        error = None
        when = program.notifications[notice.place].when
        try:
            if not (when if isinstance(when, bool) else when.holds(scopes, moment(when, subject.at, id))):
                return
        except TemplateError as broken:
            error = Failure(kind="template", message=f"`when` of {NOTIFY}[{notice.place}]: {broken}")
        parent = f"{subject.execution_id}/{NOTIFY}[{notice.place}]@{notice.name}"
        start = Start(workload=scopes, parent=parent, depth=subject.depth + 1, labels=labels, error=error)
        with suppress(NotFound, PlaybookError, Rejected):  # it never can be started
            await self._link.start(id, notification_digest(subject.digest, notice.place), start)
            self.recent.append(id)

    async def _scopes(self, subject: Subject, notice: Notice) -> tuple[dict[str, JSON], dict[str, str]]:
        """What its templates read, and the labels of the execution."""
        started_at, request = await self._first(subject.execution_id)
        public_url, output = self._control.settings.public_url, subject.output
        seen = None if output is None else output.view()
        execution: dict[str, JSON] = {
            "id": subject.execution_id,
            "path": subject.path,
            "status": subject.status,
            "error": None if subject.error is None else subject.error.view(),
            "output": seen and {key: seen.get(key) for key in ("status", "data", "ref", "error", "meta")},
            "started_at": instant(started_at),
            "ended_at": instant(subject.at) if subject.has_ended else None,
            "duration_s": (subject.at - started_at).total_seconds(),
            "labels": dict(request.labels),
            "url": f"{public_url}/ui/executions/{subject.execution_id}" if public_url else None,
        }
        event: dict[str, JSON] = {
            "name": notice.name, "step": notice.step, "run": notice.run, "signal": notice.signal,
            "title": notice.title,
            "url": decision_url(public_url, subject.execution_id, notice.frame) if notice.frame else None,
        }  # fmt: skip
        workload = subject.workload or request.workload
        return {"workload": workload, "execution": execution, "event": event}, request.labels

    async def _first(self, execution_id: str) -> tuple[datetime, Requested]:
        """When it started, and its request. Raises NotFound when it has been deleted."""
        for row in await self._control.store.read(execution_id, up_to=1):
            if row.facts and isinstance(row.facts[0], Requested):
                return row.at, row.facts[0]
        raise NotFound(f"no execution {execution_id}")
