"""An execution in this process, from its beginning or from where it stands until it is at rest.

It stops cleanly when it is interrupted: what is on record stays, and `noetl resume` goes on from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec

from noetl.cli.answering import Voice
from noetl.cli.closing import Around, closing
from noetl.cli.drawing import shown_progress
from noetl.cli.exits import FAILED, INTERRUPTED, OK
from noetl.cli.finding import short
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.progress import Progress
from noetl.defaults import EMBEDDED_GRACE_S
from noetl.engine.state import State, Status
from noetl.errors import Unavailable
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.runtime import EmbeddedRuntime, LocalStore, relax_collector
from noetl.tool import Tools
from noetl.views.documents import ShowDocument, read_runs, show_document
from noetl.views.log import events_of
from noetl.views.runs import Runs
from noetl.views.styled_text import Styled

Begin: TypeAlias = Callable[[EmbeddedRuntime], Awaitable[None]]  # makes the execution ours, and sets it going

PAUSED_GRACE_S = 86_400.0  # calls that run when it is paused come to their end (D67)
TOLD: dict[Status, str] = {"new": "running", "cancelling": "running"}  # the others are told as they are
CODES = {"ok": OK, "error": FAILED, "cancelled": FAILED, "paused": INTERRUPTED, "running": INTERRUPTED}


class Kit(NamedTuple):
    """The tools that are installed, described once."""

    tools: Tools
    kinds: Kinds

    @classmethod
    def installed(cls) -> Kit:
        tools = Tools.installed()
        return cls(tools, tools.kinds())


async def carry_on(voice: Voice, disk: LocalStore, kit: Kit, execution_id: str, begin: Begin) -> int:
    """Until it has ended, is paused or interrupted; what came of it is told, and is the exit code."""
    voice.execution_id = execution_id
    progress = Progress(execution_id, disk.database.clock, flag=voice.flag)

    def hear() -> None:
        words = f"stopping: calls that run have {EMBEDDED_GRACE_S:g} s; press again to stop at once"
        if voice.screen.colour:
            progress.say(words)  # above the rows that are drawn: nothing else may write there
        else:
            voice.warn(words)

    with Interrupts(hear) as interrupts:
        house = EmbeddedRuntime(disk, disk.database.clock, kit.tools, kinds=kit.kinds)
        try:
            await _until_rest(voice, house, progress, begin, interrupts)
        except Interrupted:
            return await _interrupted(voice, disk)
        except Unavailable:
            await _explain_trouble(voice, disk)
            raise
        return await conclude(voice, disk, execution_id)


async def _explain_trouble(voice: Voice, disk: LocalStore) -> None:
    """The disk does not take it: what is on it can go on later."""
    assert voice.execution_id is not None
    voice.status = "interrupted"
    with suppress(Unavailable):
        if await disk.store.status(voice.execution_id) is not None:
            voice.hint = f"nothing is lost; go on with: noetl resume {short(voice.execution_id)}{voice.flag}"


async def _until_rest(
    voice: Voice, house: EmbeddedRuntime, progress: Progress, begin: Begin, interrupts: Interrupts
) -> None:
    house.watchers.append(progress.watch)
    house.listeners.append(progress.hear)
    relax_collector()
    house.open()
    grace_s = EMBEDDED_GRACE_S
    if await house.storage.store.status(progress.root) is not None:
        voice.screen.line(Styled(progress.root, "faint"))
    async with shown_progress(progress, voice.screen, house.clock):
        try:
            state = await interrupts.unless(_rested(house, progress, begin))
            if state.status == "paused":
                grace_s = PAUSED_GRACE_S
        except Unavailable:
            grace_s = 0  # whatever comes to an end now could not be kept
            raise
        finally:
            await _close(house, grace_s, interrupts)


async def _rested(house: EmbeddedRuntime, progress: Progress, begin: Begin) -> State:
    await begin(house)
    for live in list(house.control.executions.values()):  # its own, and those of children
        progress.seed(live)
    return await house.wait_until_idle(progress.root)


async def _close(house: EmbeddedRuntime, grace_s: float, interrupts: Interrupts) -> None:
    """One more signal than was heard so far ends the patience with calls that run."""
    again = interrupts.unless_again if interrupts.first.is_set() else interrupts.unless
    try:
        await again(house.close(grace_s))
    except Interrupted:
        await house.close(0)


async def _interrupted(voice: Voice, disk: LocalStore) -> int:
    assert voice.execution_id is not None
    if await disk.store.status(voice.execution_id) is None:
        voice.warn("interrupted before it was on record: nothing has been run")
        voice.document({"execution_id": None, "status": "interrupted"})
        return INTERRUPTED
    if voice.json:
        events = events_of(disk.store.stream(voice.execution_id))
        shown = show_document(read_runs(voice.execution_id, events))
        voice.document(_as_told(shown, "interrupted"))
    name = f"{short(voice.execution_id)}{voice.flag}"
    voice.warn(f"interrupted: nothing is lost; go on with: noetl resume {name}")
    return INTERRUPTED


def _as_told(shown: ShowDocument, status: str) -> dict[str, JSON]:
    document: dict[str, JSON] = msgspec.to_builtins(shown)
    return {**document, "status": status}


async def conclude(voice: Voice, disk: LocalStore, execution_id: str) -> int:
    """Say how it stands, from its log."""
    return conclusion(voice, read_runs(execution_id, events_of(disk.store.stream(execution_id))))


def conclusion(voice: Voice, runs: Runs) -> int:
    shown = show_document(runs)
    if voice.json:
        voice.document(shown)
    else:
        voice.screen.lines(closing(shown, Around(voice.screen.columns, voice.flag)))
    return CODES[shown.status]
