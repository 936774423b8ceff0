"""Try a playbook without effects: run its tests, and compare recorded executions with what it would do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from litestar import post
from litestar.params import JSONBody

from noetl.api.trials import TestsRequest, TestsResponse, WhatIfRequest, WhatIfResponse
from noetl.engine.facts import Requested
from noetl.errors import NotFound, Rejected
from noetl.output import JSON
from noetl.ports import ExecutionFilter, LogRow, PlaybookText
from noetl.server.auth import Caller
from noetl.server.errors import ApiError
from noetl.server.log_readers import checked_id
from noetl.server.params import OF_LIST, OF_NOTHING, READ, AppContext, CallerParam, ContextParam, clean_text, route
from noetl.server.services import Trials, WhatIfSpec

_BODY_MAX: Final = 4 << 20  # a playbook and its tests
FACTS_MAX: Final = 200_000  # of one execution


def _trials(context: AppContext) -> Trials:
    if context.settings.trials is None:
        raise ApiError(404, "not-installed", "this server runs no tests and no what-ifs")
    return context.settings.trials


@route(
    post,
    READ | OF_NOTHING,
    "playbooks",
    "/playbooks/test",
    "Run tests of a text, without storing it",
    404,
    422,
    status_code=200,
    request_max_body_size=_BODY_MAX,
)
async def test_playbook(context: ContextParam, data: JSONBody[TestsRequest]) -> TestsResponse:
    """Calls are answered by the stubs of the tests: nothing outside is reached. Tests with a cassette or with live
    calls are refused. All of it runs in a process with limits of memory and time.
    """
    return await _trials(context).test(data)


@route(
    post,
    READ | OF_LIST,
    "playbooks",
    "/playbooks/what-if",
    "What a text would have done in recorded executions",
    404,
    422,
    status_code=200,
    request_max_body_size=_BODY_MAX,
)
async def what_if(context: ContextParam, caller: CallerParam, data: JSONBody[WhatIfRequest]) -> WhatIfResponse:
    """The calls of the text are answered by the recorded ones, and no call is made. Name the executions, or take the
    last ones of a path that have ended.
    """
    if bool(data.executions) == (data.path is not None):
        raise ApiError(422, "bad-request", "give either `executions` or `path`")
    reads = _CallerReads(context, caller)
    if data.path is not None:
        wanted = ExecutionFilter(path=clean_text(data.path, "path"), within=caller.paths("read"))
        found = await context.services.listing.executions(data.last + _OPEN_MAX, wanted)
        ids = [each.execution_id for each in found if each.status in _ENDED][: data.last]
    else:
        ids = [checked_id(each) for each in data.executions]
        for each in ids:
            await reads.check(each)
    if not ids:
        raise NotFound("no execution of this path has ended")
    return await _trials(context).what_if(WhatIfSpec(data.text, tuple(ids), data.on_miss), reads)


_ENDED: Final = ("ok", "error", "cancelled")
_OPEN_MAX: Final = 50  # executions that may run meanwhile


class _CallerReads:
    """Implements RecordReads: the logs that the caller may read, and only the texts and results that they name."""

    def __init__(self, context: AppContext, caller: Caller) -> None:
        self._context, self._caller = context, caller
        self._executions: dict[str, None] = {}  # whose logs were read
        self._digests: set[str] = set()

    async def check(self, execution_id: str) -> None:
        """Raises NotFound, or Rejected: the server reads a log as a whole."""
        head = await self._context.services.listing.head(checked_id(execution_id))
        if not self._caller.may("read", head.path):
            raise NotFound(f"no execution {execution_id}")
        if head.seq > FACTS_MAX:
            more = f"{execution_id} has {head.seq:,} events, and a server compares at most {FACTS_MAX:,}"
            raise Rejected("too-large", f"{more}: use `noetl what-if`")

    async def rows(self, execution_id: str) -> Sequence[LogRow]:
        await self.check(execution_id)
        rows = await self._context.services.store.read(execution_id)
        self._executions[execution_id] = None
        requests = (fact for row in rows[:1] for fact in row.facts if isinstance(fact, Requested))
        self._digests.update(each.digest for each in requests)
        return rows

    async def text(self, digest: str) -> PlaybookText:
        if digest not in self._digests:
            raise NotFound(f"no playbook with the digest {digest[:64]}")
        # Files beside the file from which it was registered are not for this caller.
        return (await self._context.services.catalog.get(digest))._replace(origin=None)

    async def result(self, ref: dict[str, JSON]) -> bytes:
        match ref:
            case {"meta": {"sha256": str(digest)}}:
                for execution_id in self._executions:
                    with suppress(NotFound):
                        known = await self._context.result_index.find(execution_id, digest)
                        return await self._context.services.results.get(known)
        raise NotFound("no log of these executions names the result")


ROUTES: Final = [test_playbook, what_if]
