"""Run the tests of test files, and tell how each ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from noetl.clock import Clock, SystemClock
from noetl.engine.commands import Start
from noetl.errors import Damaged, PlaybookError
from noetl.output import JSON
from noetl.playbook.source import TEXT_BYTES_MAX
from noetl.replay.adapter import AnsweredCall, AnswerSource, ReplayAdapter
from noetl.replay.cassette import read_cassette
from noetl.replay.coverage import PlaybookCoverage
from noetl.replay.execution import TIMEOUT_S, Replay, installed_tools, virtual_clock
from noetl.replay.expectations import mismatches, route_of
from noetl.replay.programs import CompiledText, ReplayPrograms
from noetl.replay.recording import BodyReader, RecordedExecution, Recordings
from noetl.replay.stubs import StubSource
from noetl.replay.suite import SuiteCase, SuiteFile, check_names, read_suite
from noetl.runtime.memory import MemoryState
from noetl.views.test_results import CallLine, CaseResult, Mismatch

EXECUTION_ID: Final = "00000000-0000-7000-8000-000000000001"  # of every test: `execution_id` is always the same


class SuiteRunner:
    """Runs tests one after the other. Playbooks are compiled once."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.coverage: dict[str, PlaybookCoverage] = {}  # by digest
        self._clock = clock or SystemClock()
        self._programs = ReplayPrograms(installed_tools().kinds())
        self._files: dict[Path, CompiledText] = {}
        self._cassettes: dict[Path, tuple[RecordedExecution, BodyReader]] = {}

    def load(self, file: Path) -> SuiteFile:
        """Read a test file and its playbook. Raises PlaybookError or OSError."""
        with file.open("rb") as stream:
            suite = read_suite(file, stream.read(TEXT_BYTES_MAX + 1))
        if not suite.playbook.is_file():
            message = f'there is no file "{suite.playbook}": the path starts at the folder of the test file'
            suite.report.add("bad-value", ("playbook",), message)
            raise PlaybookError(suite.report.problems)
        compiled = self._programs.add_file(suite.playbook)
        for place, case in enumerate(suite.cases):
            if case.cassette is not None and not case.cassette.is_file():
                suite.report.add("bad-value", ("tests", place, "cassette"), f'there is no file "{case.cassette}"')
            elif case.cassette is not None:
                try:
                    self._cassette(case.cassette)
                except Damaged as error:
                    suite.report.add("bad-value", ("tests", place, "cassette"), str(error))
        return self._add(suite, compiled)

    def load_texts(self, playbook: str, tests: str) -> SuiteFile:
        """Tests of a text, which name no other files and make no calls. Raises PlaybookError."""
        suite = read_suite(Path("tests"), tests)
        for place, case in enumerate(suite.cases):
            if case.cassette is not None:
                message = "a cassette is a file, and there are no files here: write its answers as `stubs`"
                suite.report.add("bad-value", ("tests", place, "cassette"), message)
            if case.on_miss == "live" or any(each.live for each in case.stubs):
                message = "no calls are made here: answer them with `output` or `fail`"
                suite.report.add("bad-value", ("tests", place), message)
        return self._add(suite, self._programs.add(playbook, "playbook"))

    def _add(self, suite: SuiteFile, compiled: CompiledText) -> SuiteFile:
        if problems := [*suite.report.problems, *check_names(suite, compiled.program)]:
            raise PlaybookError(problems)
        self._files[suite.playbook] = compiled
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
        recorded = None if case.cassette is None else self._cassette(case.cassette)[0]
        adapter, replay = self._replay(case)
        start = Start(workload=case.workload)
        if recorded is not None:
            start = Start(workload={**recorded.workload, **case.workload}, ctx=recorded.ctx)
        try:
            execution_id = EXECUTION_ID if recorded is None else recorded.id
            replayed = await replay.run(execution_id, compiled.program.digest, start)
        except TimeoutError:
            slow = f"it does not end within {TIMEOUT_S:g} s of real time"
            return replace(result, mismatches=(Mismatch(what="execution", expected="an end", actual=slow),))
        self._cover(compiled).add(replayed)
        found = mismatches(case.expect, replayed, adapter)
        if case.kill_after is not None and not adapter.restarts:
            point = case.kill_after
            actual = f"there are fewer than {point.number:,} calls of it"
            found.append(Mismatch(what="kill_after", expected=f"call {point.number:,} of {point.name}", actual=actual))
        return replace(
            result, mismatches=tuple(found), route=tuple(route_of(replayed)), calls=tuple(map(_line, adapter.calls))
        )

    def _replay(self, case: SuiteCase) -> tuple[ReplayAdapter, Replay]:
        sources: list[AnswerSource] = [StubSource(case.stubs)]
        recordings: Recordings | None = None
        if case.cassette is None:
            memory = MemoryState(virtual_clock(case.now))
        else:
            recorded, bodies = self._cassette(case.cassette)
            memory = MemoryState(virtual_clock(case.now or recorded.started_at))
            memory.save(recorded.path, recorded.saved)
            recordings = Recordings(recorded, recorded.id, bodies, memory)
            sources.append(recordings)

        def signal(execution_id: str, name: str) -> tuple[JSON] | None:
            if name in case.signals:
                return (case.signals[name],)
            return None if recordings is None else recordings.signal(execution_id, name)

        adapter = ReplayAdapter(self._programs, sources, case.on_miss, case.kill_after)
        return adapter, Replay(self._programs, adapter, memory, signal, recordings)

    def _cassette(self, file: Path) -> tuple[RecordedExecution, BodyReader]:
        if file not in self._cassettes:
            self._cassettes[file] = read_cassette(file)
        return self._cassettes[file]

    def _cover(self, compiled: CompiledText) -> PlaybookCoverage:
        digest = compiled.program.digest
        if digest not in self.coverage:
            self.coverage[digest] = PlaybookCoverage(compiled)
        return self.coverage[digest]


def _line(answered: AnsweredCall) -> CallLine:
    call = answered.call
    return CallLine(
        call=call.name, frame=call.frame, attempt=call.attempt, answer=answered.origin, status=answered.output.status
    )
