"""Run the tests of test files, and tell how each ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from noetl.clock import Clock, SystemClock
from noetl.engine.commands import Start
from noetl.errors import PlaybookError
from noetl.playbook.source import TEXT_BYTES_MAX
from noetl.replay.adapter import AnswerSource, Origin, ReplayAdapter
from noetl.replay.coverage import PlaybookCoverage
from noetl.replay.execution import TIMEOUT_S, Replay, installed_tools, virtual_clock
from noetl.replay.expectations import Mismatch, mismatches, route_of
from noetl.replay.programs import CompiledText, ReplayPrograms
from noetl.replay.stubs import StubSource
from noetl.replay.suite import SuiteCase, SuiteFile, check_names, read_suite

EXECUTION_ID: Final = "00000000-0000-7000-8000-000000000001"  # of every test: `execution_id` is always the same


class CallLine(Struct, frozen=True, kw_only=True):
    """A call of a test, for people who look for the reason of a failure."""

    call: str  # `step.task`
    frame: str
    attempt: int
    answer: Origin
    status: str


class CaseResult(Struct, frozen=True, kw_only=True):
    """How one test ended."""

    file: str
    name: str
    line: int  # in the file
    mismatches: tuple[Mismatch, ...] = ()  # none: it has passed
    seconds: float = 0.0  # of real time
    route: tuple[str, ...] = ()  # steps in the order of scheduling
    calls: tuple[CallLine, ...] = ()  # in the order of their ends

    @property
    def passed(self) -> bool:
        return not self.mismatches


class SuiteRunner:
    """Runs tests one after the other. Playbooks are compiled once."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.coverage: dict[str, PlaybookCoverage] = {}  # by digest
        self._clock = clock or SystemClock()
        self._programs = ReplayPrograms(installed_tools().kinds())
        self._files: dict[Path, CompiledText] = {}

    def load(self, file: Path) -> SuiteFile:
        """Read a test file and its playbook. Raises PlaybookError or OSError."""
        with file.open("rb") as stream:
            suite = read_suite(file, stream.read(TEXT_BYTES_MAX + 1))
        if not suite.playbook.is_file():
            message = f'there is no file "{suite.playbook}": the path starts at the folder of the test file'
            suite.report.add("bad-value", ("playbook",), message)
            raise PlaybookError(suite.report.problems)
        compiled = self._files[suite.playbook] = self._programs.add_file(suite.playbook)
        for place, case in enumerate(suite.cases):
            if case.cassette is not None and not case.cassette.is_file():
                suite.report.add("bad-value", ("tests", place, "cassette"), f'there is no file "{case.cassette}"')
        if problems := [*suite.report.problems, *check_names(suite, compiled.program)]:
            raise PlaybookError(problems)
        return suite

    async def run(self, suite: SuiteFile, names: Iterable[str] | None = None) -> AsyncIterator[CaseResult]:
        """`names`: only these tests."""
        wanted = None if names is None else frozenset(names)
        for case in suite.cases:
            if wanted is None or case.name in wanted:
                begun = self._clock.monotonic()
                found = await self._run(suite, case)
                yield replace(found, seconds=round(self._clock.monotonic() - begun, 3))

    async def _run(self, suite: SuiteFile, case: SuiteCase) -> CaseResult:
        compiled = self._files[suite.playbook]
        result = CaseResult(file=str(suite.file), name=case.name, line=case.at.line)
        sources: list[AnswerSource] = [StubSource(case.stubs)]
        adapter = ReplayAdapter(self._programs, sources, case.on_miss, case.kill_after)
        replay = Replay(self._programs, adapter, virtual_clock(case.now), case.signals)
        try:
            replayed = await replay.run(EXECUTION_ID, compiled.program.digest, Start(workload=case.workload))
        except TimeoutError:
            slow = f"it does not end within {TIMEOUT_S:g} s of real time"
            return replace(result, mismatches=(Mismatch(what="execution", expected="an end", actual=slow),))
        self._cover(compiled).add(replayed)
        found = mismatches(case.expect, replayed, adapter)
        if case.kill_after is not None and not adapter.restarts:
            point = case.kill_after
            actual = f"there are fewer than {point.number:,} calls of it"
            found.append(Mismatch(what="kill_after", expected=f"call {point.number:,} of {point.name}", actual=actual))
        calls = tuple(
            CallLine(
                call=each.call.name,
                frame=each.call.frame,
                attempt=each.call.attempt,
                answer=each.origin,
                status=each.output.status,
            )
            for each in adapter.calls
        )
        return replace(result, mismatches=tuple(found), route=tuple(route_of(replayed)), calls=calls)

    def _cover(self, compiled: CompiledText) -> PlaybookCoverage:
        digest = compiled.program.digest
        if digest not in self.coverage:
            self.coverage[digest] = PlaybookCoverage(compiled)
        return self.coverage[digest]
