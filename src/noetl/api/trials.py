"""Bodies of the routes that try a playbook without effects: its tests, and what it would do with recorded calls."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from noetl.views.documents import ProblemDocument
from noetl.views.test_results import CaseResult, CoverageDocument
from noetl.views.what_if import WhatIfReport

EXECUTIONS_MAX: Final = 50  # of one what-if


class TestsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A playbook and its tests: the content of a file `*.test.yaml`, without cassettes and live calls."""

    __test__ = False  # it is not a test of pytest

    text: str
    tests: str
    only: str | None = None  # only tests whose name contains this text
    coverage: bool = False


class TestsResponse(Struct, frozen=True, kw_only=True):
    __test__ = False

    passed: int
    failed: int
    tests: tuple[CaseResult, ...]
    problems: tuple[ProblemDocument, ...]  # of the tests or of the playbook: then no test has run
    problems_of: Literal["playbook", "tests"] | None = None
    coverage: tuple[CoverageDocument, ...] = ()


class WhatIfRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edited playbook, and the executions whose recorded calls answer it: named, or the last ones of a path."""

    text: str
    executions: Annotated[tuple[str, ...], Meta(max_length=EXECUTIONS_MAX)] = ()
    path: str | None = None
    last: Annotated[int, Meta(ge=1, le=EXECUTIONS_MAX)] = 10
    on_miss: Literal["fail", "null"] = "fail"  # a call that was not recorded fails, or returns null


class WhatIfItem(Struct, frozen=True, kw_only=True):
    """One execution: the report, or why there is none."""

    execution_id: str
    report: WhatIfReport | None = None
    error: str | None = None


class WhatIfResponse(Struct, frozen=True, kw_only=True):
    differs: bool
    items: tuple[WhatIfItem, ...]
    left: int = 0  # executions for which the time was too short
    problems: tuple[ProblemDocument, ...] = ()  # of the playbook: then nothing was compared
