"""The results of tests as data: what `noetl test --format json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import to_builtins

from noetl.errors import Problem
from noetl.output import JSON
from noetl.replay.coverage import KINDS, PlaybookCoverage
from noetl.views.problems import problem_document
from noetl.views.test_results import CaseResult, CoverageDocument, MissedPart, PartCount


def suite_document(
    results: Sequence[CaseResult], problems: Iterable[Problem], coverage: Iterable[PlaybookCoverage] | None = None
) -> dict[str, JSON]:
    """`problems`: of files that cannot be run. `coverage` None: it is not part of the document."""
    failed = sum(not each.passed for each in results)
    document: dict[str, JSON] = {
        "passed": len(results) - failed,
        "failed": failed,
        "tests": results,
        "problems": [problem_document(each) for each in problems],
    }
    if coverage is not None:
        document["coverage"] = [to_builtins(coverage_document(each)) for each in coverage]
    return document


def coverage_document(found: PlaybookCoverage) -> CoverageDocument:
    steps, arcs, rules, failure_arcs = (PartCount(ran=ran, of=of) for ran, of in map(found.count, KINDS))
    missed = tuple(MissedPart(kind=part.kind, name=part.name, line=found.line(part)) for part in found.missed())
    return CoverageDocument(
        file=found.file, steps=steps, arcs=arcs, rules=rules, failure_arcs=failure_arcs, missed=missed
    )
