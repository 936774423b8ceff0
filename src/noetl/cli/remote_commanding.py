"""`noetl pause`, `cancel` and `signal` against a server, which reaches whoever has the execution."""

from __future__ import annotations

from typing import Final

from noetl.cli.answering import Voice
from noetl.cli.finding import short
from noetl.cli.remote import ServerDisk
from noetl.engine.state import LIVE
from noetl.output import JSON

END_S: Final = 15.0  # calls of a cancelled execution have 10 s
LOOK_S: Final = 0.25


async def pause_there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
    head = await disk.listing.head(execution_id)
    if head.status == "paused":
        return voice.told("paused", "it is paused already")
    told = await disk.client.pause(execution_id)
    return voice.told(told.status, f"paused; go on with: noetl resume {short(execution_id)}{voice.flag}")


async def cancel_there(voice: Voice, disk: ServerDisk, execution_id: str, reason: str) -> int:
    if (await disk.listing.head(execution_id)).status != "cancelling":
        await disk.client.cancel(execution_id, reason)
    clock = disk.client.clock
    until = clock.monotonic() + END_S
    while (status := (await disk.listing.head(execution_id)).status) in LIVE and clock.monotonic() < until:
        await clock.sleep(LOOK_S)
    if status in LIVE:
        return voice.told("cancelling", "it is being cancelled: calls that run have 10 s")
    return voice.told(status, status)


async def signal_there(voice: Voice, disk: ServerDisk, execution_id: str, name: str, data: JSON) -> int:
    told = await disk.client.signal(execution_id, name, data)
    return voice.told(told.status, "it was waited for, and has come")
