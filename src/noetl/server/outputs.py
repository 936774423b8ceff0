"""What an execution gave back, whole, wherever it lies: in its log, or in the result store."""

from __future__ import annotations

from typing import Final

from noetl.engine.iterations import iteration_outputs
from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON, Output
from noetl.server.errors import Refused
from noetl.server.services import Services
from noetl.views.log import readable
from noetl.views.outputs import OutputLocation, decoded, given_by_playbook

DEPTH_MAX: Final = 16  # of results that are lists of results
OUTPUT_BYTES_MAX: Final = 64 << 20  # that are fetched for one answer; more is to be had by GET /results


async def given_back(desk: Services, execution_id: str) -> OutputLocation:
    """By the playbook. Raises NotFound, or Rejected while it runs."""
    head = await desk.listing.head(execution_id)
    if head.status in ("new", "running", "paused", "cancelling"):
        raise Rejected("not-over", f"{execution_id} has not ended: it is {head.status}")
    rows = await desk.store.read(execution_id, max(0, head.seq - 2))
    return given_by_playbook(execution_id, [fact for row in rows for fact in row.facts])


class Fetching:
    """Fetches what belongs to one output, up to a limit."""

    def __init__(self, desk: Services) -> None:
        self._desk = desk
        self._left = OUTPUT_BYTES_MAX

    async def whole(self, output: Output, depth: int = 0) -> JSON:
        """Its data. Raises Refused when that is more than one answer holds, or Damaged."""
        if output.data is not None or output.ref is None:
            return output.data
        match output.ref:
            case {"type": "relational", "locator": {"execution_id": str(execution_id), "run": str(run)}}:
                if depth >= DEPTH_MAX:
                    raise Damaged(f"the results of {run} lie more than {DEPTH_MAX} levels deep")
                return await self._of_loop(execution_id, run, depth)
            case {"locator": {"key": str()}}:
                return decoded(await self._fetched(output.ref), output.ref)
        return output.ref  # It lies where only its tool finds it (D56).

    async def _of_loop(self, execution_id: str, run: str, depth: int) -> JSON:
        """A loop's results are in the log, by index; those that failed are null (D30)."""
        facts = [fact for row in await self._desk.store.read(execution_id) for fact in row.facts]
        if not facts:
            raise Damaged(f"the results of {run} lie in the log of {execution_id}, which is not there")
        with readable(execution_id):
            outputs = [output for _, output in iteration_outputs(facts, run)]
        return [None if each is None else await self.whole(each, depth + 1) for each in outputs]

    async def _fetched(self, ref: dict[str, JSON]) -> bytes:
        meta = ref.get("meta")
        size = meta.get("unpacked_bytes", meta.get("bytes", 0)) if isinstance(meta, dict) else 0
        self._left -= size if isinstance(size, int) and size > 0 else 0
        if self._left < 0:
            words = f"more than {OUTPUT_BYTES_MAX >> 20} MiB in all: fetch its parts by GET /results"
            raise Refused(422, "output-too-large", words)
        try:
            return await self._desk.results.get(ref)
        except NotFound as error:
            raise Damaged(f"{error}: it was stored, and is gone") from error
