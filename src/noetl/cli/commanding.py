"""`noetl pause`, `cancel` and `signal`: a word to an execution, whichever process has it, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noetl.cli.answering import Voice
from noetl.cli.asked import Named
from noetl.cli.carrying import TOLD
from noetl.cli.executing import with_execution
from noetl.cli.finding import short
from noetl.cli.workload import given_value
from noetl.engine.commands import Cancel, Command, Pause, Signal
from noetl.engine.facts import Cancelled, Fact, ForSignal, FrameResumed, Paused
from noetl.engine.state import LIVE, State
from noetl.errors import Rejected, Unavailable
from noetl.escape import one_line
from noetl.ports import ExecutionHead
from noetl.runtime import EmbeddedRuntime, LocalStore
from noetl.tool import Tools
from noetl.views.log import events_of, folded

if TYPE_CHECKING:
    from noetl.cli.remote import ServerDisk

ANSWER_S = 10.0  # within this the process that has the execution should have looked into its inbox
END_S = 15.0  # calls of a cancelled execution have 10 s
LOOK_S = 0.1
AWAITED_SHOWN_MAX = 10  # signals that are waited for, when another one came


def run_pause(asked: Named) -> int:
    async def work(voice: Voice, disk: LocalStore, execution_id: str) -> int:
        head = await disk.listing.head(execution_id)
        if head.status == "paused":
            return voice.told("paused", "it is paused already")
        if head.status not in LIVE:
            raise Rejected("execution-over", f"it has ended: {head.status}")
        if head.status != "running":
            raise Rejected("not-running", f"it can not be paused: it is {head.status}")
        await carried_out(disk, head, Pause(), lambda fact: isinstance(fact, Paused))
        return voice.told("paused", f"paused; go on with: noetl resume {short(execution_id)}{disk.flag}")

    async def there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
        from noetl.cli.remote_commanding import pause_there

        return await pause_there(voice, disk, execution_id)

    return with_execution(asked, work, there)


def run_cancel(asked: Named, reason: str) -> int:
    async def work(voice: Voice, disk: LocalStore, execution_id: str) -> int:
        head = await disk.listing.head(execution_id)
        if head.status not in LIVE:
            raise Rejected("execution-over", f"it has ended: {head.status}")
        status = await _cancelled(disk, head, Cancel(reason=reason))
        if status in LIVE:
            words = "it is being cancelled: calls that run have 10 s"
            return voice.told("cancelling", words)
        return voice.told(status, status)

    async def there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
        from noetl.cli.remote_commanding import cancel_there

        return await cancel_there(voice, disk, execution_id, reason)

    return with_execution(asked, work, there)


def run_signal(asked: Named, name: str, data: str | None) -> int:
    value = None if data is None else given_value(data, "--data")

    async def work(voice: Voice, disk: LocalStore, execution_id: str) -> int:
        head = await disk.listing.head(execution_id)
        state = folded(execution_id, events_of(await disk.store.read(execution_id)))
        if not state.live:
            raise Rejected("execution-over", f"it has ended: {state.status}")
        woken = _awaiting(state, name)
        words = "it was waited for, and has come"
        if not await carried_out(
            disk,
            head,
            Signal(name=name, data=value),
            lambda fact: isinstance(fact, FrameResumed) and fact.frame in woken,
        ):
            words = f"it is on record; go on with: noetl resume {short(execution_id)}{disk.flag}"
        return voice.told(TOLD.get(head.status, head.status), words)

    async def there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
        from noetl.cli.remote_commanding import signal_there

        return await signal_there(voice, disk, execution_id, name, value)

    return with_execution(asked, work, there)


def _awaiting(state: State, name: str) -> set[str]:
    """The frames that wait for it. When none does, whoever sends it is told for what else they do."""
    awaited = {
        frame.id: frame.parked.name
        for run in state.runs.values()
        if run.output is None
        for frame in run.frames.values()
        if isinstance(frame.parked, ForSignal)
    }
    if name not in awaited.values():
        names = sorted({one_line(each) for each in awaited.values()})
        others = f"; it waits for {', '.join(names[:AWAITED_SHOWN_MAX])}" if awaited else ""
        raise Rejected("nobody-waits", f'nothing waits for the signal "{name}" now{others}')
    return {frame for frame, each in awaited.items() if each == name}


async def carried_out(
    disk: LocalStore, head: ExecutionHead, command: Command, is_effect: Callable[[Fact], bool]
) -> bool:
    """By the process that has the execution: True. Put on record by us, since none has: False."""
    if not head.owner_alive:
        with _unless_taken():
            await _record(disk, head.execution_id, command)
            return False
    await _post(disk, head.execution_id, command, is_effect)
    return True


async def _cancelled(disk: LocalStore, head: ExecutionHead, command: Cancel) -> str:
    if not head.owner_alive:
        with _unless_taken():
            return await _cancel_here(disk, head.execution_id, command)
    if head.status != "cancelling":
        await _post(disk, head.execution_id, command, lambda fact: isinstance(fact, Cancelled))
    return await _ended(disk, head.execution_id)


@contextmanager
def _unless_taken() -> Iterator[None]:
    """Somebody may take it (`noetl resume`) after we have seen that nobody had it."""
    try:
        yield
    except Rejected as error:
        if error.code != "held":
            raise


# Another process has it


async def _post(
    disk: LocalStore, execution_id: str, command: Command, is_effect: Callable[[Fact], bool]
) -> None:
    """Leave it in the inbox, and wait until the log shows that it was carried out."""
    seq = (await disk.listing.head(execution_id)).seq
    await disk.inbox.post(execution_id, command)
    clock = disk.database.clock
    until = clock.monotonic() + ANSWER_S
    while clock.monotonic() < until:
        for event in events_of(await disk.store.read(execution_id, seq), after=seq):
            seq = event.seq
            if is_effect(event.fact):
                return
        head = await disk.listing.head(execution_id)
        if head.status not in LIVE:
            raise Rejected("execution-over", f"it has ended meanwhile: {head.status}")
        if not head.owner_alive:
            raise Unavailable(
                "its process has ended meanwhile; the command is carried out when it goes on:"
                f" noetl resume {short(execution_id)}{disk.flag}"
            )
        await clock.sleep(LOOK_S)
    raise Unavailable(f"process {head.pid} has not answered within {ANSWER_S:g} s; the command waits for it")


async def _ended(disk: LocalStore, execution_id: str) -> str:
    """Its status when it has ended, or when we have waited long enough."""
    clock = disk.database.clock
    until = clock.monotonic() + END_S
    while (head := await disk.listing.head(execution_id)).status in LIVE and clock.monotonic() < until:
        await clock.sleep(LOOK_S)
    return head.status


# Nobody has it


async def _record(disk: LocalStore, execution_id: str, command: Command) -> None:
    """Only what is said goes on record: no worker is there to begin anything."""
    house = EmbeddedRuntime(disk, disk.database.clock, Tools.installed())
    try:
        await house.command(execution_id, command)
    finally:
        await house.close(0)


async def _cancel_here(disk: LocalStore, execution_id: str, command: Command) -> str:
    """The execution and its children are ours until they have ended; nothing of them is begun."""
    house = EmbeddedRuntime(disk, disk.database.clock, Tools.installed())
    house.open()
    try:
        if (await disk.listing.head(execution_id)).status != "cancelling":
            await house.command(execution_id, command)
        return (await house.wait_until_idle(execution_id)).status
    finally:
        await house.close(0)
