"""What-if over the executions of a session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from noetl.errors import Rejected
from noetl.output import JSON
from noetl.ports import LogRow, PlaybookText
from noetl.replay.what_if import WhatIfReplay
from noetl.views.what_if import WhatIfReport

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session
    from noetl.session.sources import PlaybookFile


class SessionRecords:
    """Implements RecordReader."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def rows(self, execution_id: str) -> Sequence[LogRow]:
        return await self._session.log.read(execution_id)

    async def text(self, digest: str) -> PlaybookText:
        return await self._session.catalog.get(digest)

    async def result(self, ref: dict[str, JSON]) -> bytes:
        return await self._session.results.get(ref)


class WhatIf:
    """An edited playbook, compiled once, for any number of recorded executions."""

    def __init__(
        self,
        session: Session,
        source: PlaybookFile,
        on_miss: Literal["fail", "null"] = "fail",
        *,
        live_if_safe: bool = False,
    ) -> None:
        """Raises PlaybookError when the playbook has errors.

        `live_if_safe`: calls without a recorded answer are made, if `spec.safe` of the task says that they change
        nothing.
        """
        folder = str(Path(source.origin).parent) if source.origin else None
        self._what_if = WhatIfReplay(
            SessionRecords(session),
            source.data,
            source.name,
            folder,
            on_miss,
            live_if_safe=live_if_safe,
            credentials=session.credentials() if live_if_safe else None,
        )

    async def compare(self, execution: Execution) -> WhatIfReport:
        """Raises Rejected while it runs, NotFound when it never started, Damaged when its log cannot be read."""
        await require_ended(execution)
        return await self._what_if.compare(execution.id)


async def require_ended(execution: Execution) -> None:
    """Raises Rejected while it runs."""
    if (await execution.info()).live:
        raise Rejected("running", f"{execution.id} has not ended: its calls are not complete")
