"""The report of a what-if: what would have been different in a recorded execution with another playbook."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

OutputVerdict: TypeAlias = Literal["same", "differs"]


class Divergence(Struct, frozen=True, kw_only=True):
    """The first thing that is different."""

    seq: int  # of the recorded log
    step: str
    why: str


class RouteChange(Struct, frozen=True, kw_only=True):
    """Steps in the order of scheduling."""

    same: bool
    recorded: tuple[str, ...]
    replayed: tuple[str, ...]


class CallCounts(Struct, frozen=True, kw_only=True):
    same: int = 0
    changed: int = 0  # the input or the code differs; answered with the recorded output
    missing: int = 0  # not recorded
    live: int = 0  # made, because no record answers this input and the task is safe
    unused: int = 0  # recorded and not asked for


class CallChange(Struct, frozen=True, kw_only=True):
    """A call that is not the recorded one."""

    call: str
    frame: str
    what: Literal["changed", "missing", "live"]
    seq: int  # of the recorded call; 0: there is none


class ReplayCoverage(Struct, frozen=True, kw_only=True):
    """How many calls of the replay have a recorded answer for exactly their input."""

    answered: int
    of: int

    @property
    def percent(self) -> float:
        return 100.0 if not self.of else 100 * self.answered / self.of


class WhatIfReport(Struct, frozen=True, kw_only=True):
    """What would have been different."""

    execution_id: str
    path: str
    differs: bool
    status: tuple[str, str]  # recorded, replayed
    first_divergence: Divergence | None
    routes: RouteChange
    calls: CallCounts
    changes: tuple[CallChange, ...]  # the first of them
    output: OutputVerdict
    coverage: ReplayCoverage
    error: str | None = None  # the failure of the replay
