"""Limits by key that executions share (D113): Control asks the store for permits, and releases them.

The store decides who holds a permit, so limits hold on all servers. A permit is requested after the commit that
waits for it, and released after the commit that ends its use. Messages may be lost: the sweeper compares the
executions of this server with the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from noetl.control.heartbeats import TRANSIENT
from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.accept import concurrency_key
from noetl.engine.commands import Cancel, Command, Permitted, Retry, Start
from noetl.engine.facts import ForPermit, FrameParked, StepWaiting, TaskDone
from noetl.engine.limits import Permit, frame_permit, permit_of, permits_of
from noetl.engine.state import LIVE
from noetl.errors import Rejected, Unavailable
from noetl.ids import frame_parts, permit_frame
from noetl.net.program import CompiledConcurrency, CompiledLimit, Program
from noetl.output import JSON, Failure
from noetl.ports import Limits, Link, PermitAnswer, PermitEntry, PermitRequest, Rate

if TYPE_CHECKING:
    from noetl.control.executions import Control
    from noetl.views.documents import ShowDocument

REFUSED = "concurrency"  # code and kind of a refused execution
ENDED_S = 10.0  # permits of an execution that has ended are released by anyone after this time
UNKNOWN_S = 60.0  # and those of one that was never committed after this time
RETRY_AFTER_S_MAX = 86_400.0  # a server cannot hold up a key for longer
CHECKED_MAX = 16  # permits of other servers whose executions a sweep looks up
NAMED_MAX = 5  # executions that are named

Post: TypeAlias = Callable[[str, Command], Awaitable[None]]


def store_key(program: Program, limit: CompiledLimit | CompiledConcurrency, key: str) -> str:
    """A limit of executions belongs to a playbook; other limits are shared by all playbooks."""
    if isinstance(limit, CompiledConcurrency):
        return f"executions of {program.playbook.path} {key}".rstrip()
    return f"limit {key}"


def key_words(key: str) -> tuple[Literal["executions", "calls"], str]:
    """What a key of the store limits, and the key for people."""
    kind, _, name = key.partition(" ")
    return ("calls", name) if kind == "limit" else ("executions", name.removeprefix("of "))


def holder_id(execution_id: str, permit: str) -> str:
    return f"{execution_id}/{permit}"


def parts_of(holder: str) -> tuple[str, str]:
    """The execution, and its permit."""
    execution_id, _, permit = holder.partition("/")
    return execution_id, permit


class _Block(NamedTuple):
    """A key that grants nothing until then."""

    key: str
    until: datetime
    rate: Rate | None


class SharedLimits:
    """The permits of the executions of one server."""

    def __init__(self, control: Control, store: Limits | None, link: Link, post: Post | None) -> None:
        """`link`: to the owners of other executions. `post`: leaves a command for another process on the file."""
        self._control = control
        self._store = store
        self._link = link
        self._post = post
        self._entering: set[str] = set()  # executions whose start or retry is not committed yet
        self._watched: set[str] = set()  # keys whose rate will grant more
        self._is_used = True  # the store may have permits; at first because another server may have died
        self._checked = 0  # permits that earlier sweeps have looked up

    @property
    def store(self) -> Limits:
        if self._store is None:
            raise Rejected("no-limits", "this runtime has no store for limits that executions share")
        return self._store

    # Executions

    async def admit(self, execution_id: str, program: Program, start: Start) -> Start:
        """The request as it is recorded: it may begin, waits for its turn, or is refused."""
        self.store  # noqa: B018  # raises Rejected: steps and tasks need it, too
        concurrency, now = program.concurrency, self._control.now()
        if concurrency is None or start.error is not None:
            return start
        key = concurrency_key(program, execution_id, start, now)
        if isinstance(key, Failure):
            return replace(start, error=key)
        if key is None:
            return start  # its inputs do not fit: it does not start
        try:
            waits = await self._enter(execution_id, program, concurrency, key, "")
        except Rejected as error:
            return replace(start, error=Failure(kind=REFUSED, message=str(error)))
        return replace(start, held=key) if waits else start

    async def readmit(self, live: LiveExecution, retry: Retry) -> Retry:
        """An execution that has ended needs another permit. Raises Rejected when it is refused."""
        state, concurrency = live.state, live.program.concurrency
        if concurrency is None or state.live:
            return retry
        started = Start(workload=state.workload, ctx=state.ctx, saved=state.saved)
        key = concurrency_key(live.program, live.id, started, self._control.now())
        if not isinstance(key, str):
            return retry
        permit = f"@{state.seq}"
        waits = await self._enter(live.id, live.program, concurrency, key, permit)
        live.permits[permit] = Permit(permit, key, concurrency, waits)
        return replace(retry, permit=permit, held=key if waits else None)

    async def _enter(
        self, execution_id: str, program: Program, concurrency: CompiledConcurrency, key: str, permit: str
    ) -> bool:
        """Whether the execution has to wait. Raises Rejected when it is refused."""
        shared, holder = store_key(program, concurrency, key), holder_id(execution_id, permit)
        self._entering.add(execution_id)
        request = PermitRequest(shared, holder, concurrency.limit)
        try:
            answer = await self.store.acquire(request, self._control.now(), wait=concurrency.when_full != "refuse")
            self._wake(each for each in answer.granted if each != holder)
            if holder in answer.granted:
                return False
            others = [each for each in await self.store.entries([shared]) if each.holder != holder]
            if concurrency.when_full == "refuse":
                raise Rejected(REFUSED, _refusal(concurrency, key, others))
        except BaseException:
            self.entered(execution_id)
            raise
        if concurrency.when_full == "replace":
            self._replace(execution_id, concurrency.limit, others)
        return True

    def _replace(self, execution_id: str, limit: int, older: Sequence[PermitEntry]) -> None:
        """Cancel so many of the older executions that this one is next."""
        for each in older[: max(0, len(older) - limit + 1)]:
            self._control.spawn(self._send(parts_of(each.holder)[0], Cancel(reason=f"replaced by {execution_id}")))

    def entered(self, execution_id: str) -> None:
        """The start or the retry is committed, or has failed."""
        self._entering.discard(execution_id)

    def drop(self, live: LiveExecution) -> None:
        """Its start or its retry was refused: its permits are not needed."""
        holders, live.permits = [holder_id(live.id, id) for id in live.permits], {}
        self._control.spawn(self._release(holders))

    # Commits

    def on_load(self, live: LiveExecution) -> None:
        self._is_used = True
        live.permits = {each.id: each for each in permits_of(live.program, live.state)}

    def on_commit(self, live: LiveExecution, events: Iterable[Event]) -> None:
        """Request the permits that the events wait for, and release those that are no longer needed."""
        self._is_used = True
        program, state = live.program, live.state
        delays: dict[str, float] = {}  # frame → the seconds of its Retry-After
        asked: list[str] = []
        for event in events:
            match event.fact:
                case StepWaiting(limit=str(), run=run):
                    asked.append(state.permit if run is None else run)
                case FrameParked(until=ForPermit(), frame=name):
                    owner, index = frame_parts(name)
                    frame = state.runs[owner].frames.get(index) if owner in state.runs else None
                    asked += [frame_permit(frame)] if frame is not None else []
                case FrameParked(frame=name, tries=(*_, {"retry_after_s": float() | int() as seconds})):
                    delays[name] = float(seconds)
                case TaskDone(frame=name) as done:
                    if (waits_s := _retry_after_s(done)) is not None:
                        delays[name] = waits_s
        for id in asked:
            permit = permit_of(program, state, id)
            if permit is not None and permit.waits:
                live.permits[id] = permit
                self._control.spawn(self._ask(live, permit))
        unused = [each for id, each in live.permits.items() if permit_of(program, state, id) is None]
        blocks = self._blocks(live, delays) if delays else []
        if unused or blocks:
            for each in unused:
                del live.permits[each.id]
            self._control.spawn(self._release([holder_id(live.id, each.id) for each in unused], blocks))

    def _blocks(self, live: LiveExecution, delays: dict[str, float]) -> list[_Block]:
        """The keys that HTTP responses with Retry-After hold up: of the calls, and of the steps around them."""
        found, now = [], self._control.now()
        for id, permit in live.permits.items():
            limit = permit.limit
            if not isinstance(limit, CompiledLimit) or not limit.respect_retry_after:
                continue
            for frame, seconds in delays.items():
                if id == frame_parts(frame)[0] or permit_frame(id) == frame:
                    until = now + timedelta(seconds=min(seconds, RETRY_AFTER_S_MAX))
                    found.append(_Block(store_key(live.program, limit, permit.key), until, _rate(limit)))
        return found

    async def _ask(self, live: LiveExecution, permit: Permit) -> None:
        holder = holder_id(live.id, permit.id)
        request = _request(live.program, permit, holder)
        with suppress(Unavailable):  # the sweeper asks again
            answer = await self.store.acquire(request, self._control.now())
            self._answered(request.key, answer)
            if permit_of(live.program, live.state, permit.id) is None:  # it has ended meanwhile
                await self._release([holder])

    def _answered(self, key: str, answer: PermitAnswer) -> None:
        self._wake(answer.granted)
        if answer.retry_at is not None and key not in self._watched:
            self._watched.add(key)
            self._control.spawn(self._watch(key, answer.retry_at))

    async def _watch(self, key: str, at: datetime | None) -> None:
        """Grant what the rate permits, as soon as it does."""
        control = self._control
        try:
            while at is not None:
                await control.clock.sleep(max(0.001, (at - control.now()).total_seconds()))
                answer = await self.store.advance(key, control.now())
                self._wake(answer.granted)
                at = answer.retry_at
        except Unavailable:
            pass  # the sweeper begins again
        finally:
            self._watched.discard(key)

    async def _release(self, holders: Sequence[str], blocks: Iterable[_Block] = ()) -> None:
        with suppress(Unavailable):  # the sweeper releases them
            for each in blocks:  # first: the released permits must not be granted to others
                await self.store.block(*each)
            if holders:
                self._wake(await self.store.release(holders, self._control.now()))

    def _wake(self, holders: Iterable[str]) -> None:
        for holder in holders:
            execution_id, permit = parts_of(holder)
            self._control.spawn(self._send(execution_id, Permitted(permit=permit)))

    async def _send(self, execution_id: str, command: Command) -> None:
        with suppress(*TRANSIENT):
            try:
                await self._link.command(execution_id, command)
            except Rejected as error:
                if error.code == "held" and self._post is not None:
                    await self._post(execution_id, command)

    # The sweeper

    async def sweep(self) -> None:
        """Repeat lost requests, releases and messages. While no permits exist, it asks the store nothing."""
        control = self._control
        limited = {id: live for id, live in control.executions.items() if live.program.limited and live.state.live}
        if self._store is None or not (limited or self._is_used):
            return
        with suppress(Unavailable):
            entries = await self.store.entries()
            self._is_used = bool(entries)
            known = {each.holder: each for each in entries}
            waited: dict[str, PermitRequest] = {}  # by the keys that executions of ours wait for
            for live in limited.values():
                if not live.busy and not live.abandoned:
                    waited |= await self._sweep_one(live, known, entries)
            await self._advance(waited, entries)
            unused = [each.holder for each in entries if self._is_unused(limited, each)]
            foreign = [each for each in entries if parts_of(each.holder)[0] not in limited]
            for each in self._next_checked(foreign):
                unused += await self._foreign(each, is_ahead=False)
            for each in foreign:
                if each.holds and each.key in waited and each.holder not in unused:
                    unused += await self._foreign(each, is_ahead=True)
            if unused:
                await self._release(unused)

    async def _sweep_one(
        self, live: LiveExecution, known: dict[str, PermitEntry], entries: Sequence[PermitEntry]
    ) -> dict[str, PermitRequest]:
        waited: dict[str, PermitRequest] = {}
        for permit in permits_of(live.program, live.state):
            if not permit.waits:
                continue
            holder = holder_id(live.id, permit.id)
            request = _request(live.program, permit, holder)
            entry = known.get(holder)
            waited[request.key] = request
            if entry is not None and entry.holds:
                await self._send(live.id, Permitted(permit=permit.id))
            elif entry is None:
                self._answered(request.key, await self.store.acquire(request, self._control.now()))
            concurrency = permit.limit
            if isinstance(concurrency, CompiledConcurrency) and concurrency.when_full == "replace" and entry:
                same = [each for each in entries if each.key == request.key]
                self._replace(live.id, concurrency.limit, same[: same.index(entry)])
        return waited

    async def _advance(self, waited: dict[str, PermitRequest], entries: Sequence[PermitEntry]) -> None:
        """Keys that no release will advance: a rate grants by time, and the server that watched it may have died."""
        held = Counter(each.key for each in entries if each.holds)
        for key, request in waited.items():
            is_full = request.in_flight is not None and held[key] >= request.in_flight
            if key not in self._watched and not is_full:
                self._answered(key, await self.store.advance(key, self._control.now()))

    def _is_unused(self, limited: dict[str, LiveExecution], entry: PermitEntry) -> bool:
        """A permit of ours that nothing needs: a server died before it released it."""
        execution_id, permit = parts_of(entry.holder)
        live = limited.get(execution_id)
        if live is None or live.busy or live.abandoned or execution_id in self._entering:
            return False
        return permit_of(live.program, live.state, permit) is None

    def _next_checked(self, foreign: list[PermitEntry]) -> list[PermitEntry]:
        """Some of them in each sweep, all of them in turn."""
        if not foreign:
            return []
        first, self._checked = self._checked % len(foreign), self._checked + CHECKED_MAX
        return (foreign[first:] + foreign[:first])[:CHECKED_MAX]

    async def _foreign(self, entry: PermitEntry, *, is_ahead: bool) -> list[str]:
        """The permit of an execution that has ended, or was never committed.

        `is_ahead`: executions of ours wait behind it, so that one whose process has died is continued.
        """
        control, (execution_id, _) = self._control, parts_of(entry.holder)
        if execution_id in self._entering:
            return []
        age_s = (control.now() - entry.at).total_seconds()
        status = await control.store.status(execution_id)
        if status in LIVE:
            with suppress(*TRANSIENT):
                if is_ahead:
                    await control.load(execution_id)  # if its process is dead, we take it over
            return []
        return [entry.holder] if age_s > (UNKNOWN_S if status is None else ENDED_S) else []


async def with_holders(document: ShowDocument, store: Limits) -> ShowDocument:
    """The same document with who holds the limits that the execution waits for. The log does not contain this."""
    if document.limits is UNSET:
        return document
    entries = await store.entries()
    known = {each.holder: (number, each) for number, each in enumerate(entries)}
    found = []
    for limit in document.limits:
        number, entry = known.get(holder_id(document.execution_id, limit.permit), (0, None))
        if entry is not None:
            others = [each for each in entries if each.key == entry.key]
            ahead = sum(not each.holds for each in entries[:number] if each.key == entry.key)
            held_by = dict.fromkeys(parts_of(each.holder)[0] for each in others if each.holds)
            limit = replace(limit, ahead=ahead, held_by=tuple(held_by)[:NAMED_MAX])
        found.append(limit)
    return replace(document, limits=tuple(found))


def _request(program: Program, permit: Permit, holder: str) -> PermitRequest:
    limit = permit.limit
    key = store_key(program, limit, permit.key)
    if isinstance(limit, CompiledConcurrency):
        return PermitRequest(key, holder, limit.limit)
    return PermitRequest(key, holder, limit.in_flight, _rate(limit))


def _rate(limit: CompiledLimit) -> Rate | None:
    return None if limit.rate is None else Rate(*limit.rate)


def _retry_after_s(fact: TaskDone) -> float | None:
    """Of an HTTP response. A success may have one, too."""
    output = fact.output
    seconds: JSON = None
    if output is not None and output.error is not None:
        seconds = output.error.details.get("retry_after_s")
    elif output is not None and isinstance(own := output.own.get("http"), dict):
        text = str((own.get("headers") or {}).get("retry-after", ""))
        seconds = float(text[:9]) if text.isascii() and text.isdigit() else None
    return float(seconds) if type(seconds) in (int, float) and seconds > 0 else None


def _refusal(concurrency: CompiledConcurrency, key: str, others: Sequence[PermitEntry]) -> str:
    running = [parts_of(each.holder)[0] for each in others if each.holds]
    named = ", ".join(running[:NAMED_MAX]) + (", …" if len(running) > NAMED_MAX else "")
    of = f' with the key "{key}"' if key else ""
    return f"at most {concurrency.words} of this playbook may run{of}; running: {named or 'none that is known'}"
