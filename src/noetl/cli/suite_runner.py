"""`noetl test`: find test files, run their tests, print what failed; once, or after each change of a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from noetl.cli.execute import FAILED, OK, WRONG, Reporter
from noetl.cli.output import problems
from noetl.clock import SystemClock
from noetl.errors import PlaybookError, Problem
from noetl.net.describe import count
from noetl.replay.cases import SuiteRunner
from noetl.replay.coverage import KINDS, PlaybookCoverage, covered
from noetl.replay.report import suite_document
from noetl.replay.suite import SUFFIXES, SuiteFile
from noetl.session.errors import UsageError
from noetl.session.sources import files_in, reason_of
from noetl.views.styled_text import Styled
from noetl.views.test_results import CaseResult

if TYPE_CHECKING:
    from noetl.output import JSON

Stamps: TypeAlias = dict[str, tuple[int, int]]

POLL_S: Final = 0.5
WATCHED: Final = (".yaml", ".yml", ".py", ".sh", ".sql")
MISSED_SHOWN_MAX: Final = 50


class SuiteOptions(NamedTuple):
    files: tuple[str, ...]
    only: str | None = None  # a part of the names of tests
    coverage: bool = False
    verbose: bool = False
    junit: str | None = None  # a file


class SuiteReport(NamedTuple):
    """All that was run."""

    results: list[CaseResult]
    unreadable: list[tuple[str, tuple[Problem, ...]]]  # files that cannot be run
    coverage: list[PlaybookCoverage]

    @property
    def code(self) -> int:
        if self.unreadable:
            return WRONG
        return OK if all(each.passed for each in self.results) else FAILED


def find_suites(names: Sequence[str]) -> list[Path]:
    """The test files: those that are named, and all in folders. Raises UsageError."""
    found: dict[Path, None] = {}
    for name in names:
        if os.path.isdir(name):
            found.update(dict.fromkeys(Path(each) for each in files_in(name) if each.lower().endswith(SUFFIXES)))
        elif os.path.isfile(name):
            found[Path(name)] = None
        else:
            raise UsageError(f"{name}: there is no such file or folder")
    if not found:
        raise UsageError(f"{', '.join(names)}: there are no test files; their names end in {SUFFIXES[0]}")
    return list(found)


async def run_suites(reporter: Reporter, options: SuiteOptions) -> SuiteReport:
    """Run all tests, and print each file when it is done."""
    runner = SuiteRunner()
    report = SuiteReport([], [], [])
    for file in find_suites(options.files):
        try:
            suite = runner.load(file)
        except PlaybookError as error:
            report.unreadable.append((str(file), tuple(error.problems)))
            _print_problems(reporter, error.problems)
            continue
        except OSError as error:
            raise UsageError(f"{file}: {reason_of(error)}") from error
        names = [each.name for each in suite.cases if options.only is None or options.only in each.name]
        results = [each async for each in runner.run(suite, names)]
        report.results.extend(results)
        if results and not reporter.json:
            reporter.screen.lines(_result_lines(suite, results, verbose=options.verbose))
    if options.only is not None and not report.results and not report.unreadable:
        raise UsageError(f'no name of a test contains "{options.only}"')
    report.coverage.extend(runner.coverage.values())
    return report


def run_once(reporter: Reporter, options: SuiteOptions) -> int:
    """Once; the exit code."""
    report = asyncio.run(run_suites(reporter, options))
    _finish(reporter, report, options)
    return report.code


def watch_files(reporter: Reporter, options: SuiteOptions) -> int:
    """Again after each change of a file in the folders of the tests, until it is interrupted."""

    async def watch() -> None:
        while True:
            before = stamps_of(options.files)
            try:
                _finish(reporter, await run_suites(reporter, options), options)
            except UsageError as error:
                reporter.warn(str(error))
            await until_changed(options.files, before)
            reporter.screen.line()

    asyncio.run(watch())
    return OK


async def until_changed(names: Sequence[str], before: Stamps, poll_s: float = POLL_S) -> None:
    """Return when a file beside the tests was changed, added or removed, also while the tests ran."""
    while stamps_of(names) == before:
        await SystemClock().sleep(poll_s)


def stamps_of(names: Sequence[str]) -> Stamps:
    """File → its time of change and its size: tests, playbooks, cassettes, scripts."""
    folders: set[str] = set()
    for name in names:
        folders.add(name if os.path.isdir(name) else os.path.dirname(name) or ".")
    # A suite may name a playbook in another folder.
    for name in list(folders):
        folders.update(os.path.dirname(each) for each in files_in(name))
        folders.add(os.path.join(name, os.pardir))
    stamps: Stamps = {}
    for folder in folders:
        for entry in os.scandir(folder) if os.path.isdir(folder) else ():
            if entry.name.endswith(WATCHED) and entry.is_file():
                found = entry.stat()
                stamps[entry.path] = found.st_mtime_ns, found.st_size
    return stamps


def _print_problems(reporter: Reporter, found: Iterable[Problem]) -> None:
    """With the line of the file that each is about: the test file or its playbook."""
    for problem in found:
        try:
            text = Path(problem.at.file).read_text("utf-8", "replace")
        except OSError:
            text = ""
        if problem.severity == "error" or not reporter.json:
            problems.print_problems([problem], text, reporter.errors)


def _finish(reporter: Reporter, report: SuiteReport, options: SuiteOptions) -> None:
    if options.junit is not None:
        from noetl.cli.output.documents import write_file
        from noetl.cli.output.reports import junit_of_tests

        write_file(options.junit, junit_of_tests(report.results, report.unreadable).encode())
    if reporter.json:
        unreadable = [each for _, found in report.unreadable for each in found]
        reporter.document(suite_document(report.results, unreadable, report.coverage if options.coverage else None))
        return
    if options.coverage:
        reporter.screen.lines(_coverage_lines(report.coverage))
    failed = sum(not each.passed for each in report.results)
    tally = [Styled(f"{len(report.results) - failed:,} passed", "good")]
    if failed:
        tally += [Styled(", "), Styled(f"{failed:,} failed", "error")]
    if report.unreadable:
        tally += [Styled(", "), Styled(f"{count(len(report.unreadable), 'file')} not run", "error")]
    reporter.screen.line(*tally)


def _result_lines(suite: SuiteFile, results: Sequence[CaseResult], *, verbose: bool) -> Iterator[list[Styled]]:
    yield [Styled(str(suite.file), "strong")]
    for each in results:
        if each.passed:
            yield [Styled("  ok    ", "good"), Styled(each.name)]
        else:
            yield [Styled("  FAIL  ", "error"), Styled(each.name), Styled(f"  {suite.file}:{each.line}", "faint")]
        for mismatch in each.mismatches:
            yield [Styled(f"        {mismatch.what}", "name"), Styled(f": expected {mismatch.expected}")]
            yield [Styled(f"        {' ' * len(mismatch.what)}       got {mismatch.actual}")]
        if verbose:
            yield from _verbose_lines(each)
        elif not each.passed:
            command = f"noetl test {quote(str(suite.file))} --only {quote(each.name)} --verbose"
            yield [Styled(f"        see its calls: {command}", "faint")]


def _verbose_lines(result: CaseResult) -> Iterator[list[Styled]]:
    yield [Styled("        route: ", "faint"), Styled(" → ".join(result.route))]
    for each in result.calls:
        attempt = f", attempt {each.attempt}" if each.attempt > 1 else ""
        yield [
            Styled(f"        {each.frame} ", "faint"),
            Styled(each.call, "name"),
            Styled(f": {each.answer}, {each.status}{attempt}"),
        ]


def _coverage_lines(found: Sequence[PlaybookCoverage]) -> Iterator[list[Styled]]:
    for each in found:
        yield [Styled(each.file, "strong"), Styled(f": {_counts({kind: each.count(kind) for kind in KINDS})}")]
        missed = each.missed()
        for part in missed[:MISSED_SHOWN_MAX]:
            yield [Styled(f"  {each.file}:{each.line(part)}: ", "faint"), Styled(f"{part.kind} {part.name} never ran")]
        if len(missed) > MISSED_SHOWN_MAX:
            yield [Styled(f"  … and {len(missed) - MISSED_SHOWN_MAX:,} more", "faint")]
    if len(found) > 1:
        yield [Styled("all", "strong"), Styled(f": {_counts(covered(found))}")]


def _counts(counts: dict[JSON, tuple[int, int]]) -> str:
    return ", ".join(f"{ran} of {count(total, kind)}" for kind, (ran, total) in counts.items() if total)
