"""Short ways to write playbooks in tests: the parts that every document needs are added here."""

from __future__ import annotations

from functools import cache
from textwrap import dedent, indent

from noetl.checks.checker import Checked, check
from noetl.errors import Problem
from noetl.playbook.kinds import Kinds
from noetl.playbook.reader import ReadResult, read
from noetl.tool import Tools

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"  # three lines


@cache
def kinds() -> Kinds:
    return Tools.built_in().kinds()


def reading(body: str) -> ReadResult:
    """Read HEAD + body: the first line of the body is line 4."""
    return read(HEAD + dedent(body), kinds(), "t.yaml")


def checked(body: str) -> Checked:
    """Check HEAD + body: the first line of the body is line 4."""
    return check(HEAD + dedent(body), kinds(), "t.yaml")


def task(body: str) -> str:
    """A workflow of one step `start` with this task; the task's first line is line 7, its keys in column 7."""
    return "workflow:\n- step: start\n  tool:\n    - " + indent(dedent(body).strip(), "      ").lstrip() + "\n"


def problem_places(problems: list[Problem] | tuple[Problem, ...]) -> list[tuple[str, int, int]]:
    return [(each.code, each.at.line, each.at.column) for each in problems]


def problem_codes(problems: list[Problem] | tuple[Problem, ...]) -> set[str]:
    return {each.code for each in problems}
