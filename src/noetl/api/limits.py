"""Bodies of the route that lists limits by key."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class PermitItem(Struct, frozen=True, kw_only=True):
    """An execution that holds a permit, or waits for one."""

    execution_id: str
    path: str
    place: str  # the run or the call that needs it; "@" and a number: the whole execution
    since: str  # when it asked


class RateItem(Struct, frozen=True, kw_only=True):
    burst: int
    per_s: float


class LimitItem(Struct, frozen=True, kw_only=True):
    kind: Literal[
        "executions", "calls"
    ]  # a limit of executions of one playbook, or of steps and calls of all playbooks
    key: str
    in_flight: int | None  # at once, as the newest request says; null: any number
    rate: RateItem | None
    tokens: float | None  # in the bucket of the rate; null: it is full
    next_at: str | None  # nothing is granted before; null: as soon as there is a permit
    holds: int
    waits: int
    holders: tuple[PermitItem, ...]  # the first ones
    waiting: tuple[PermitItem, ...]  # the first ones, in their order


class LimitList(Struct, frozen=True, kw_only=True):
    items: tuple[LimitItem, ...]
    left_out: int
