"""The shortest way to the owner of an execution: a call when that is we, the link when it is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noetl.control.executions import Control
from noetl.engine.commands import Command, Report, Start
from noetl.output import Output
from noetl.ports import Epoch, Grant, Link, ReportAnswer


class OwnerLink:
    """Keeps the contract of Link, for a server among others."""

    def __init__(self, control: Control, far: Link, is_ours: Callable[[str], bool]) -> None:
        self._control = control
        self._far = far
        self._is_ours = is_ours

    def _to(self, execution_id: str) -> Link:
        return self._control if self._is_ours(execution_id) else self._far

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        return await self._to(execution_id).begin(execution_id, frame, worker)

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        return await self._to(execution_id).report(execution_id, report, room=room)

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        return await self._far.beat(worker, holds)

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        await self._to(execution_id).start(execution_id, digest, start)

    async def command(self, execution_id: str, command: Command) -> None:
        await self._to(execution_id).command(execution_id, command)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        return await self._control.iterations(execution_id, run, only)
