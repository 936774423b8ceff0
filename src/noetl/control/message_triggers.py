"""Triggers of kind `nats`: each message of a subject or a stream starts one execution (D112).

Every server receives for every trigger; NATS gives each message to one of them. A message of a stream is
acknowledged after its execution is in the log, so a server that dies in between causes a second delivery, which
finds the execution by its id.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec

from noetl.clock import Clock
from noetl.control.triggers import Triggers, scope_of
from noetl.errors import Conflict, Fenced, NoetlError, NotFound, PlaybookError, Rejected, Unavailable
from noetl.net.triggers import trigger_of
from noetl.output import JSON, NotJSON, clean, clean_decoded
from noetl.playbook.model import Credential, Trigger
from noetl.ports import (
    FetchedCredential,
    Firing,
    MessageAnswer,
    MessageSelection,
    MessageSource,
    ReceivedMessage,
    StoredTrigger,
)
from noetl.template.values import Moment, TemplateError
from noetl.views.log import instant

FOLLOW_S = 2.0  # between two comparisons of the triggers with the receivers
PAGE = 1_000
DELIVERIES_MAX = 5  # of a message that cannot start an execution
REPEAT_S = (1.0, 2.0, 5.0, 10.0)  # after each of these deliveries
OUTAGE_S = 2.0  # until a message is delivered again after an outage of the store or of another server
OUTAGE_TRIES = 10  # for a message without a stream, which is not delivered again
PAUSED_S = 5.0
RECONNECT_S = (1.0, 2.0, 5.0, 10.0, 30.0)
DATA_BYTES_MAX = 1 << 20

_DONE = MessageAnswer("done")


class _Receiver(NamedTuple):
    """A trigger that receives."""

    declared: tuple[str, str]  # when this changes, the receiver is replaced
    row: StoredTrigger
    task: asyncio.Task[None]


class MessageTriggers:
    """Receives the messages of all triggers, and starts their executions."""

    def __init__(
        self,
        triggers: Triggers,
        source: MessageSource,
        fetch_secret: Callable[[Credential], Awaitable[FetchedCredential]],
        clock: Clock,
    ) -> None:
        self._triggers = triggers
        self._source = source
        self._fetch_secret = fetch_secret
        self._clock = clock
        self._receivers: dict[tuple[str, str], _Receiver] = {}

    async def run(self) -> None:
        """Follow the registered triggers until the task is cancelled; then finish messages that have arrived."""
        try:
            while True:
                with suppress(Unavailable):
                    await self.follow()
                await self._clock.sleep(FOLLOW_S)
        finally:
            receivers, self._receivers = self._receivers, {}
            for each in receivers.values():
                each.task.cancel()
            await asyncio.gather(*(each.task for each in receivers.values()), return_exceptions=True)

    async def follow(self) -> None:
        """Begin and end receivers, so that they are those of the triggers that are not paused or archived."""
        rows = {(row.path, row.name): row for row in await self._rows()}
        wanted = {key: row for key, row in rows.items() if not row.paused and await self._is_active(row)}
        for key, receiver in list(self._receivers.items()):
            row = wanted.get(key)
            if row is None or _declared(row) != receiver.declared or receiver.task.done():
                del self._receivers[key]
                await _stop(receiver.task)
            if key not in rows:
                await self._forget(receiver.row)
        for key, row in wanted.items():
            if key not in self._receivers:
                task = asyncio.ensure_future(self._receive(row))
                self._receivers[key] = _Receiver(_declared(row), row, task)

    async def _rows(self) -> list[StoredTrigger]:
        found: list[StoredTrigger] = []
        after = ("", "")
        while page := await self._triggers.store.list(kind="nats", after=after, limit=PAGE):
            found += page
            after = page[-1].path, page[-1].name
        return found

    async def _is_active(self, row: StoredTrigger) -> bool:
        """Whether the path is not archived. A text that cannot run here is in the history of each message."""
        try:
            await self._triggers.compiled(row)
        except NotFound:
            return False
        except PlaybookError:
            return True
        return True

    async def _receive(self, row: StoredTrigger) -> None:
        """Receive again after each failure; the history has each reason once."""
        failures, reason = 0, ""
        while True:
            began = self._clock.monotonic()
            try:
                await self._source.receive(await self._selection(row), lambda message: self.handle(row, message))
            except NoetlError as error:
                if str(error) != reason:
                    reason = str(error)
                    await self._record(
                        row, Firing(self._triggers.now(), "failed", detail=f"it cannot receive: {error}")
                    )
            if self._clock.monotonic() - began > RECONNECT_S[-1]:
                failures, reason = 0, ""
            await self._clock.sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            failures += 1

    async def _selection(self, row: StoredTrigger) -> MessageSelection:
        """Raises NotFound, PlaybookError or Unavailable."""
        trigger, credential = trigger_of(row.declaration), None
        if trigger.auth is not None:
            entry = await self._triggers.credential(row, trigger.auth)
            credential = (await self._fetch_secret(entry)).values
        since = row.since if trigger.deliver == "new" else None
        group = trigger.group or f"noetl-{hashlib.sha256(f'{row.path}:{row.name}'.encode()).hexdigest()[:20]}"
        return MessageSelection(group, trigger.subject, trigger.stream, since, credential)

    async def _forget(self, row: StoredTrigger) -> None:
        with suppress(NoetlError):  # the consumer stays; it is harmless unless the stream waits for it
            await self._source.forget(await self._selection(row))

    # One message

    async def handle(self, declared: StoredTrigger, message: ReceivedMessage) -> MessageAnswer:
        """Start the execution of a message. The answer is for the stream."""
        for attempt in range(OUTAGE_TRIES):
            try:
                return await self._handle(declared, message)
            except (Unavailable, Conflict, Fenced):
                if message.stream is not None:
                    return MessageAnswer("again", OUTAGE_S)
                await self._clock.sleep(min(0.25 * 2**attempt, 8.0))
        detail = "a message is lost: the store or the owner of the execution did not answer. A stream would keep it"
        await self._record(declared, Firing(self._triggers.now(), "failed", detail=detail))
        return _DONE

    async def _handle(self, declared: StoredTrigger, message: ReceivedMessage) -> MessageAnswer:
        try:
            row = await self._triggers.store.get(declared.path, declared.name)
        except NotFound:
            return MessageAnswer("again", PAUSED_S)
        if row.paused:
            if message.stream is None:
                await self._triggers.record_refused(row, "the trigger is paused: a message is lost")
            return MessageAnswer("again", PAUSED_S)
        if message.dropped:
            detail = f"{message.dropped:,} messages are lost: they arrived faster than executions start. Use a stream"
            await self._record(row, Firing(self._triggers.now(), "failed", detail=detail))
        firing = await self._start(row, message)
        is_bad = firing.execution_id is None
        gives_up = is_bad and (message.stream is None or message.deliveries >= DELIVERIES_MAX)
        if is_bad and message.stream is not None:
            count = f"delivery {message.deliveries} of {DELIVERIES_MAX}"
            firing = firing._replace(detail=f"{count}{', given up' if gives_up else ''}: {firing.detail}")
        await self._record(row, firing)
        if not is_bad:
            return _DONE
        if gives_up:
            return MessageAnswer("never")
        return MessageAnswer("again", REPEAT_S[min(message.deliveries, len(REPEAT_S)) - 1])

    async def _start(self, row: StoredTrigger, message: ReceivedMessage) -> Firing:
        """Raises Unavailable, Conflict or Fenced."""
        key = f"message {self._clock.new_id()}"
        if message.stream is not None:  # a stream of the same name counts from 1 again
            stored = "" if message.stored_at is None else f" {instant(message.stored_at)}"
            key = f"{message.stream} {message.sequence}{stored}"
        try:
            compiled = await self._triggers.compiled(row)
            scope = message_scope(compiled.source, message, self._triggers.now)
            key = compiled.delivery_key(scope, Moment(instant(self._triggers.now()), key)) or key
        except TemplateError as error:
            return Firing(self._triggers.now(), "failed", key, detail=f"the key cannot be computed: {error}")
        except (NotFound, PlaybookError, Rejected) as error:
            return Firing(self._triggers.now(), "failed", key, detail=str(error))
        return await self._triggers.start(row, key, scope)

    async def _record(self, row: StoredTrigger, firing: Firing) -> None:
        with suppress(Unavailable):  # the execution is in the log; only the entry is missing
            await self._triggers.store.record(row.path, row.name, [firing])


def _declared(row: StoredTrigger) -> tuple[str, str]:
    """A new text may have another keychain."""
    return row.declaration, row.digest if trigger_of(row.declaration).auth is not None else ""


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def message_scope(trigger: Trigger, message: ReceivedMessage, now: Callable[[], datetime]) -> dict[str, JSON]:
    """What templates of the trigger read. Raises Rejected if the message is too large."""
    if len(message.data) > DATA_BYTES_MAX:
        size = f"{len(message.data):,} bytes, and at most {DATA_BYTES_MAX:,} are accepted"
        raise Rejected("too-large", f"the message has {size}: send a reference to the data")
    headers: JSON = clean(dict(message.headers))
    found: dict[str, JSON] = {"subject": clean(message.subject), "headers": headers, "data": message_data(message.data)}
    if message.stream is not None:
        found |= {"stream": message.stream, "sequence": message.sequence}
    return {"trigger": scope_of(trigger, message.stored_at or now()), "message": found}


def message_data(data: bytes) -> JSON:
    """JSON as a value, other text as text, anything else as `{base64: …}`; null if it is empty."""
    if not data:
        return None
    try:
        return clean_decoded(msgspec.json.decode(data))
    except (ValueError, RecursionError, msgspec.DecodeError, NotJSON):
        try:
            return clean_decoded(data.decode())
        except (ValueError, NotJSON):
            return {"base64": base64.b64encode(data).decode()}
