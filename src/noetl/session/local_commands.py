"""Commands to an execution of a file that another process runs, or none: by its inbox, or into its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from noetl.engine.commands import Command
from noetl.engine.facts import Fact, ForSignal, FrameResumed
from noetl.engine.state import LIVE, State, Status
from noetl.errors import Rejected, Unavailable
from noetl.escape import one_line
from noetl.ports import ExecutionHead
from noetl.runtime.embedded import EmbeddedRuntime, LocalStore
from noetl.session.execution import POLL_S
from noetl.tool import Tools
from noetl.views.log import events_of

ANSWER_S: Final = 10.0  # within this the owner of the execution reads its inbox
AWAITED_SHOWN_MAX: Final = 10  # signals that are waited for, when another one was sent
ID_CHARS: Final = 18  # of an id in a hint: enough to be unique


async def deliver(
    store: LocalStore, head: ExecutionHead, command: Command, is_effect: Callable[[Fact], bool], hint: str
) -> bool:
    """True: the process that runs the execution did it. False: no process runs it, so it is only logged."""
    if not head.owner_alive:
        with unless_taken():
            await _record(store, head.execution_id, command)
            return False
    await post(store, head.execution_id, command, is_effect, hint)
    return True


@contextmanager
def unless_taken() -> Iterator[None]:
    """Another process may take the execution (`noetl resume`) after its owner was found dead."""
    try:
        yield
    except Rejected as error:
        if error.code != "held":
            raise


async def post(
    store: LocalStore, execution_id: str, command: Command, is_effect: Callable[[Fact], bool], hint: str
) -> None:
    """Put it into the inbox, and wait until the log shows its effect."""
    seq = (await store.listing.head(execution_id)).seq
    await store.inbox.post(execution_id, command)
    clock = store.database.clock
    until = clock.monotonic() + ANSWER_S
    while clock.monotonic() < until:
        for event in events_of(await store.store.read(execution_id, seq), after=seq):
            seq = event.seq
            if is_effect(event.fact):
                return
        head = await store.listing.head(execution_id)
        if head.status not in LIVE:
            raise Rejected("execution-over", f"it has ended meanwhile: {head.status}")
        if not head.owner_alive:
            raise Unavailable(
                "its process has ended meanwhile; the command takes effect on resume:"
                f" noetl resume {execution_id[:ID_CHARS]}{hint}"
            )
        await clock.sleep(POLL_S)
    raise Unavailable(f"process {head.pid} did not answer within {ANSWER_S:g} s; the command is queued")


async def _record(store: LocalStore, execution_id: str, command: Command) -> None:
    """Only the command is logged: the runtime has no worker, so that nothing starts."""
    runtime = EmbeddedRuntime(store, store.database.clock, Tools.installed())
    try:
        await runtime.command(execution_id, command)
    finally:
        await runtime.close(0)


async def cancel_ownerless(store: LocalStore, execution_id: str, command: Command) -> Status:
    """Own the execution and its children until they have ended; nothing of them starts."""
    runtime = EmbeddedRuntime(store, store.database.clock, Tools.installed())
    runtime.open()
    try:
        if (await store.listing.head(execution_id)).status != "cancelling":
            await runtime.command(execution_id, command)
        return (await runtime.wait_until_idle(execution_id)).status
    finally:
        await runtime.close(0)


def require_not_undone(state: State) -> None:
    """Raises Rejected when it is being cancelled, or its completed steps are being undone."""
    if state.status == "cancelling":
        raise Rejected("already-cancelled", "the execution is being cancelled")
    if state.compensation is not None:
        raise Rejected("already-compensating", "its completed steps are being compensated already")


def frames_awaiting(state: State, signal: str) -> set[str]:
    """The frames that wait for it. Raises Rejected when there is none; the message lists other signals."""
    if not state.live:
        raise Rejected("execution-over", f"it has ended: {state.status}")
    awaited = {
        frame.id: frame.parked.name
        for run in state.runs.values()
        if run.output is None
        for frame in run.frames.values()
        if isinstance(frame.parked, ForSignal)
    }
    if signal not in awaited.values():
        names = sorted({one_line(each) for each in awaited.values()})
        others = f"; it waits for {', '.join(names[:AWAITED_SHOWN_MAX])}" if awaited else ""
        raise Rejected("nobody-waits", f'nothing waits for the signal "{signal}" now{others}')
    return {frame for frame, each in awaited.items() if each == signal}


def is_resumed(frames: set[str]) -> Callable[[Fact], bool]:
    return lambda fact: isinstance(fact, FrameResumed) and fact.frame in frames
