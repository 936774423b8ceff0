"""The results of tests of a playbook as data: each test with what it does not meet, and what the tests have run."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# Where the answer to a call comes from.
Origin: TypeAlias = Literal["stub", "same", "changed", "live", "missing", "pure"]


class Mismatch(Struct, frozen=True, kw_only=True):
    """One expectation that is not met."""

    what: str  # "output.rows"
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, got {self.actual}"


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


class PartCount(Struct, frozen=True, kw_only=True):
    """How many parts ran, of how many."""

    ran: int
    of: int


class MissedPart(Struct, frozen=True, kw_only=True):
    """A part of a playbook that no test has run."""

    kind: Literal["step", "arc", "failure arc", "rule"]
    name: str  # "fetch", "fetch → store", "fetch.get_page rule 2"
    line: int


class CoverageDocument(Struct, frozen=True, kw_only=True):
    """What the tests of one playbook have run."""

    file: str
    steps: PartCount
    arcs: PartCount
    rules: PartCount
    failure_arcs: PartCount
    missed: tuple[MissedPart, ...]
