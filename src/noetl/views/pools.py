"""Why due frames do not begin: their pool has no worker, its slots are busy, or the execution holds its share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import Struct


class PoolLoad(NamedTuple):
    """The workers of a pool now."""

    workers: int  # also those that are leaving, because they still complete their calls
    slots: int
    busy: int


class ShareWait(Struct, frozen=True):
    """Due frames of an execution wait only because workers hold its share of the slots of a pool for it."""

    pool: str
    held: int  # slots that run frames of the execution
    share: int  # slots that one execution may hold
    runs: tuple[str, ...]  # whose frames wait


def no_worker(pool: str) -> str:
    return f'waits for a worker: the pool "{pool}" has none'


def busy_pool(pool: str, load: PoolLoad) -> str:
    busy = f"{load.slots} slots" if load.slots != 1 else "slot"
    return f'waits for a worker: the {busy} of the pool "{pool}" {"are" if load.slots != 1 else "is"} busy'


def share_reasons(waits: Iterable[ShareWait], load_of: Callable[[str], PoolLoad]) -> dict[str, str]:
    """What each run waits for. Without the runs of a pool whose slots all belong to the share: its slots are busy."""
    found: dict[str, str] = {}
    for wait in waits:
        slots = load_of(wait.pool).slots
        if wait.share < slots:
            share = "its share" if wait.held == wait.share else f"its share is {wait.share}"
            held = f'the execution holds {wait.held} of the {slots} slots of the pool "{wait.pool}"'
            found |= dict.fromkeys(wait.runs, f"waits for a slot: {held}, {share} (NOETL_SLOT_RESERVE)")
    return found
