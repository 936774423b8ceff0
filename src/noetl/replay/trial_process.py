"""The process of one trial: it runs tests or a what-if in memory, and asks its parent for what it reads.

It has no credentials, no database and no network address, makes no calls, and its memory and CPU time are limited:
the texts are those of any caller.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from noetl.api.trials import TestsRequest, TestsResponse, WhatIfItem, WhatIfResponse
from noetl.clock import SystemClock
from noetl.errors import Damaged, NoetlError, NotFound, PlaybookError
from noetl.output import JSON
from noetl.ports import LogRow, PlaybookText
from noetl.replay.cases import SuiteRunner
from noetl.replay.report import coverage_document
from noetl.replay.what_if import WhatIfReplay
from noetl.server.child_process import limit_resources, read_message, write_message
from noetl.views.documents import problem_document

CPU_S: Final = 60
COMPARE_S: Final = 45.0  # no further execution is compared after this time


class WhatIfTrial(Struct, frozen=True, kw_only=True, tag="what-if"):
    text: str
    executions: tuple[str, ...]
    on_miss: Literal["fail", "null"]


class TestsTrial(Struct, frozen=True, kw_only=True, tag="tests"):
    __test__ = False

    request: TestsRequest


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """A question of the process: a log, a text, or a stored result."""

    kind: Literal["rows", "text", "result"]
    name: str = ""
    ref: dict[str, JSON] = {}


class ReadReply(Struct, frozen=True, kw_only=True, tag="reply"):
    """The answer of the parent."""

    body: bytes = b""
    missing: str | None = None  # why there is none


class Done(Struct, frozen=True, kw_only=True, tag="done"):
    """The response, as JSON."""

    body: bytes


class _ParentRecords:
    """Implements RecordReader: the parent decides what may be read."""

    async def rows(self, execution_id: str) -> Sequence[LogRow]:
        return msgspec.msgpack.decode(self._ask(Ask(kind="rows", name=execution_id)), type=list[LogRow])

    async def text(self, digest: str) -> PlaybookText:
        return msgspec.msgpack.decode(self._ask(Ask(kind="text", name=digest)), type=PlaybookText)

    async def result(self, ref: dict[str, JSON]) -> bytes:
        return self._ask(Ask(kind="result", ref=ref))

    def _ask(self, ask: Ask) -> bytes:
        write_message(sys.stdout.buffer, ask)
        reply = msgspec.msgpack.decode(read_message(sys.stdin.buffer), type=ReadReply)
        if reply.missing is not None:
            raise NotFound(reply.missing)
        return reply.body


async def run_tests(request: TestsRequest) -> TestsResponse:
    """Here, without a process of its own."""
    runner = SuiteRunner()
    try:
        suite = runner.load_texts(request.text, request.tests)
    except PlaybookError as error:
        problems = tuple(map(problem_document, error.problems))
        of: Literal["playbook", "tests"] = "playbook" if error.problems[0].at.file == "playbook" else "tests"
        return TestsResponse(passed=0, failed=0, tests=(), problems=problems, problems_of=of)
    names = [each.name for each in suite.cases if request.only is None or request.only in each.name]
    results = tuple([each async for each in runner.run(suite, names)])
    passed = sum(each.passed for each in results)
    coverage = tuple(map(coverage_document, runner.coverage.values())) if request.coverage else ()
    return TestsResponse(passed=passed, failed=len(results) - passed, tests=results, problems=(), coverage=coverage)


async def _what_if(trial: WhatIfTrial) -> WhatIfResponse:
    clock = SystemClock()
    begun = clock.monotonic()
    try:
        # The server has no files of the author: the code in them is not compared.
        what_if = WhatIfReplay(_ParentRecords(), trial.text, on_miss=trial.on_miss, files=False)
    except PlaybookError as error:
        return WhatIfResponse(differs=False, items=(), problems=tuple(map(problem_document, error.problems)))
    items: list[WhatIfItem] = []
    for id in trial.executions:
        if items and clock.monotonic() - begun > COMPARE_S:
            break
        try:
            items.append(WhatIfItem(execution_id=id, report=await what_if.compare(id)))
        except TimeoutError:
            items.append(WhatIfItem(execution_id=id, error="the replay does not end in time"))
        except (Damaged, NoetlError) as error:
            items.append(WhatIfItem(execution_id=id, error=str(error)))
    differs = any(each.report is not None and each.report.differs for each in items)
    return WhatIfResponse(differs=differs, items=tuple(items), left=len(trial.executions) - len(items))


def main() -> None:
    limit_resources(cpu_s=CPU_S)
    trial = msgspec.msgpack.decode(read_message(sys.stdin.buffer), type=TestsTrial | WhatIfTrial)
    response = asyncio.run(run_tests(trial.request) if isinstance(trial, TestsTrial) else _what_if(trial))
    write_message(sys.stdout.buffer, Done(body=msgspec.json.encode(response)))


if __name__ == "__main__":
    main()
