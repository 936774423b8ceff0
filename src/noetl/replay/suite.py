"""Test files: `*.test.yaml` → SuiteFile. Every problem is reported with its line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from os.path import normpath
from pathlib import Path as FilePath
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from noetl.errors import Mark, PlaybookError, Problem
from noetl.net.program import Program
from noetl.output import JSON
from noetl.playbook.model import END
from noetl.playbook.shapes import (
    AnyShape,
    BooleanShape,
    ChoiceShape,
    GuardShape,
    KeyShape,
    ListShape,
    MapShape,
    NullShape,
    NumberShape,
    RecordShape,
    TextShape,
    UnionShape,
)
from noetl.playbook.source import Mapping, Path, parse
from noetl.playbook.validation import ProblemReport, validate_record
from noetl.replay.adapter import KillPoint, OnMiss
from noetl.replay.stubs import FailureStub, Stub
from noetl.template import BadTemplate, Template, Value, compile_template, is_template
from noetl.template.compile import build_value

SUFFIXES: Final = (".test.yaml", ".test.yml")
STATUSES: Final = ("ok", "error", "cancelled", "waiting")
_STEPS: Final = ListShape(TextShape())
_COUNTS: Final = MapShape(NumberShape(0, whole=True))

FAIL: Final = RecordShape(
    "fail",
    "How the call fails.",
    {
        "kind": KeyShape(TextShape(), "kind of the failure; default: the kind of the task"),
        "message": KeyShape(TextShape(), "text of the failure"),
        "status": KeyShape(NumberShape(100, whole=True), "HTTP status of the response: `output.http.status`"),
        "retryable": KeyShape(
            BooleanShape(),
            "whether `spec.retry` repeats the call; default: as a response with this status, or a timeout",
        ),
        "details": KeyShape(MapShape(), "details of the failure"),
    },
)
STUB: Final = RecordShape(
    "stub",
    "An answer to calls of a task.",
    {
        "call": KeyShape(
            TextShape(), "the calls that it answers: `step` or `step.task`", required=True, example="fetch"
        ),
        "when": KeyShape(GuardShape(), "only calls for which this is true; it reads `input`, `call`, `iter`, `ctx`"),
        "output": KeyShape(AnyShape(), "`output.data` of the call; templates see the same as `when`"),
        "own": KeyShape(MapShape(), "the tool's own part of the output, such as `{http: {status: 201}}`"),
        "fail": KeyShape(FAIL, "the call fails"),
        "live": KeyShape(BooleanShape(), "make the call instead of answering it"),
    },
)
EXPECT: Final = RecordShape(
    "expect",
    "What must be true at the end. Keys that are left out are not tested.",
    {
        "status": KeyShape(ChoiceShape(STATUSES), "how it ends; `waiting`: for a signal that is not sent"),
        "error": KeyShape(MapShape(), "parts of the failure: `kind`, `message`, `details`"),
        "route": KeyShape(_STEPS, "all steps in the order of scheduling"),
        "route_contains": KeyShape(_STEPS, "steps that are scheduled in this order, with any others between them"),
        "output": KeyShape(AnyShape(), "parts of the output of the playbook"),
        "output_equals": KeyShape(AnyShape(), "the whole output of the playbook"),
        "ctx": KeyShape(MapShape(), "parts of `ctx` at the end"),
        "calls": KeyShape(_COUNTS, "number of calls by `step` or `step.task`"),
        "retries": KeyShape(_COUNTS, "number of repeated calls by `step` or `step.task`"),
        "duration_s": KeyShape(
            RecordShape(
                "duration_s",
                "Seconds of virtual time.",
                {"min": KeyShape(NumberShape(0), "at least"), "max": KeyShape(NumberShape(0), "at most")},
            ),
            "virtual time from start to end",
        ),
    },
)
KILL: Final = RecordShape(
    "kill_after",
    "The process dies after a call, before its result is recorded, and another one continues.",
    {
        "call": KeyShape(TextShape(), "`step` or `step.task`", required=True, example="fetch"),
        "number": KeyShape(NumberShape(1, whole=True), "the call with this number", default=1),
    },
)
TEST: Final = RecordShape(
    "test",
    "One execution of the playbook, and what is expected of it.",
    {
        "name": KeyShape(TextShape(), "what the test shows", required=True, example="a failed page is retried"),
        "workload": KeyShape(MapShape(), "values of the request"),
        "now": KeyShape(TextShape(), "the time at which it starts, such as 2026-11-16T06:00:00Z"),
        "cassette": KeyShape(TextShape(), "a file with recorded calls, made by `noetl record`"),
        "stubs": KeyShape(ListShape(STUB), "answers to calls; the first that fits counts"),
        "signals": KeyShape(MapShape(), "data of signals, by name; each is sent when a task waits for it"),
        "kill_after": KeyShape(KILL, "let the process die after a call"),
        "on_miss": KeyShape(
            UnionShape((ChoiceShape(("fail", "null", "live")), NullShape())),
            "a call without an answer fails the test, returns null, or is made",
            default="fail",
        ),
        "expect": KeyShape(EXPECT, "what must be true at the end; default: the status is `ok`"),
    },
)
SUITE: Final = RecordShape(
    "test file",
    "Tests of one playbook.",
    {
        "playbook": KeyShape(TextShape(), "the file of the playbook", required=True, example="orders.yaml"),
        "tests": KeyShape(ListShape(TEST), "the tests", required=True),
    },
)


class Expectation(Struct, frozen=True, kw_only=True):
    """What a test expects; UNSET or None: anything."""

    status: str | None = None
    error: dict[str, JSON] | None = None
    route: tuple[str, ...] | None = None
    route_contains: tuple[str, ...] | None = None
    output: JSON | UnsetType = UNSET
    output_equals: JSON | UnsetType = UNSET
    ctx: dict[str, JSON] | None = None
    calls: dict[str, int] = {}
    retries: dict[str, int] = {}
    min_s: float | None = None
    max_s: float | None = None


class SuiteCase(Struct, frozen=True, kw_only=True):
    """One test."""

    name: str
    at: Mark
    workload: dict[str, JSON] = {}
    now: datetime | None = None  # None: the time of the cassette, else a fixed time
    cassette: FilePath | None = None
    stubs: tuple[Stub, ...] = ()
    signals: dict[str, JSON] = {}
    kill_after: KillPoint | None = None
    on_miss: OnMiss = "fail"
    expect: Expectation = Expectation(status="ok")


class SuiteFile(NamedTuple):
    """The tests of one file."""

    file: FilePath
    text: str
    playbook: FilePath
    cases: tuple[SuiteCase, ...]
    report: ProblemReport  # to add problems that only the playbook shows


def read_suite(file: FilePath, text: str | bytes) -> SuiteFile:
    """Raises PlaybookError with all problems."""
    document, problems = parse(text, str(file))
    report = ProblemReport(document)
    report.problems = problems
    if not isinstance(document.root, Mapping):
        if not problems:
            report.add("wrong-type", (), "a test file is a mapping with `playbook` and `tests`")
        raise PlaybookError(report.problems)
    data = validate_record(document.root, SUITE, (), report)
    cases = tuple(
        _Reader(report, file, ("tests", place)).case(each)
        for place, each in enumerate(data.get("tests", []))
        if each is not None
    )
    if "tests" in data and not cases and not report.problems:
        report.add("missing-key", ("tests",), "a test file needs at least one test", key=True)
    _check_unique(cases, report)
    if report.problems:
        raise PlaybookError(sorted(report.problems, key=lambda each: (each.at.line, each.at.column)))
    playbook = FilePath(normpath(file.parent / data["playbook"]))
    return SuiteFile(file, document.text, playbook, cases, report)


def _check_unique(cases: Iterable[SuiteCase], report: ProblemReport) -> None:
    seen: set[str] = set()
    for place, case in enumerate(cases):
        if case.name in seen:
            report.add("bad-value", ("tests", place, "name"), f'two tests have the name "{case.name}"')
        seen.add(case.name)


class _Reader:
    """Reads one test from valid data."""

    def __init__(self, report: ProblemReport, file: FilePath, at: Path) -> None:
        self._report = report
        self._file = file
        self._at = at

    def case(self, data: dict[str, JSON]) -> SuiteCase:
        kill = data.get("kill_after")
        cassette = data.get("cassette")
        stubs = [
            self._stub(each, (*self._at, "stubs", place))
            for place, each in enumerate(data.get("stubs", []))
            if each is not None and "call" in each
        ]
        return SuiteCase(
            name=data.get("name", ""),
            at=self._report.at(self._at),
            workload=data.get("workload", {}),
            now=self._instant(data["now"]) if "now" in data else None,
            cassette=None if cassette is None else self._file.parent / cassette,
            stubs=tuple(stubs),
            signals=data.get("signals", {}),
            kill_after=KillPoint(kill["call"], kill.get("number", 1)) if kill and "call" in kill else None,
            on_miss=data.get("on_miss", "fail") or "null",
            expect=_expectation(data["expect"]) if "expect" in data else Expectation(status="ok"),
        )

    def _stub(self, data: dict[str, JSON], at: Path) -> Stub:
        if not data.keys() & {"output", "fail", "live", "own"}:
            message = "a stub needs an answer: `output`, `fail` or `live: true`"
            self._report.add("missing-key", at, message, fix="output: {}")
        if data.get("live") and data.keys() & {"output", "fail", "own"}:
            self._report.add("bad-value", (*at, "live"), "a call that is made has its own output: remove the other")
        when = data.get("when", True)
        return Stub(
            call=data["call"],
            when=when if isinstance(when, bool) else self._guard(when, (*at, "when")),
            output=self._compiled(_value, data["output"], (*at, "output")) if "output" in data else None,
            own=self._compiled(_value, data["own"], (*at, "own")) if "own" in data else None,
            fail=FailureStub(**data["fail"]) if "fail" in data else None,
            live=data.get("live", False),
        )

    def _guard(self, when: str, at: Path) -> JSON:
        template = self._compiled(_template, when, at)
        if template is not None and not template.typed:
            message = "`when` is one template: text around it would always be true"
            self._report.add("not-a-guard", at, message, fix='"{{ input.page == 2 }}"')
        return template or False

    def _compiled(self, compiler: Callable[[JSON], JSON], value: JSON, at: Path) -> JSON:
        try:
            return compiler(value)
        except BadTemplate as error:
            self._report.add("bad-template", at, str(error))
        return None

    def _instant(self, text: str) -> datetime | None:
        try:
            at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            message = f'"{text}" is not a time: write 2026-11-16T06:00:00Z'
            self._report.add("bad-value", (*self._at, "now"), message)
            return None
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)
def _template(text: str) -> Template:
    """Many tests have the same stubs."""
    return compile_template(text)


def _value(value: JSON) -> Value:
    return build_value(value, lambda text, _: _template(text) if is_template(text) else None)


def _expectation(data: dict[str, JSON]) -> Expectation:
    within = data.get("duration_s", {})
    return Expectation(
        status=data.get("status"),
        error=data.get("error"),
        route=tuple(data["route"]) if "route" in data else None,
        route_contains=tuple(data["route_contains"]) if "route_contains" in data else None,
        output=data.get("output", UNSET),
        output_equals=data.get("output_equals", UNSET),
        ctx=data.get("ctx"),
        calls=data.get("calls", {}),
        retries=data.get("retries", {}),
        min_s=within.get("min"),
        max_s=within.get("max"),
    )


def check_names(suite: SuiteFile, program: Program) -> list[Problem]:
    """The steps and tasks that a test names, but that the playbook does not have.

    A playbook that calls others is not checked: the names may be theirs.
    """
    if program.uses("playbook"):
        return []
    report = ProblemReport(suite.report.document)
    steps = [step.name for step in program.playbook.steps]
    known = {pipeline.name for pipeline in program.playbook.pipelines}
    known |= {f"{each.name}.{task.name}" for each in program.playbook.pipelines for task in each.tasks}
    for place in range(len(suite.cases)):
        at: Path = ("tests", place)
        for code, names, path, name, key in _names(suite, at):
            if name not in (known if names == "call" else steps):
                hint = report.similar(name, known if names == "call" else steps)
                suggestion = f'; did you mean "{hint}"?' if hint else ""
                report.add(code, path, f'the playbook has no {names} "{name}"{suggestion}', key=key, fix=hint)
    return report.problems


def _names(suite: SuiteFile, at: Path) -> Iterator[tuple[str, str, Path, str, bool]]:
    """Code, what it names, its place, the name, and whether it is a key."""
    case = suite.cases[int(at[1])]
    for place, stub in enumerate(case.stubs):
        yield "unknown-task", "call", (*at, "stubs", place, "call"), stub.call, False
    if case.kill_after is not None:
        yield "unknown-task", "call", (*at, "kill_after", "call"), case.kill_after.name, False
    for key in ("calls", "retries"):
        for name in getattr(case.expect, key):
            yield "unknown-task", "call", (*at, "expect", key, name), name, True
    for key in ("route", "route_contains"):
        for place, name in enumerate(getattr(case.expect, key) or ()):
            if name != END:
                yield "unknown-step", "step", (*at, "expect", key, place), name, False
