"""Every problem code has an example that shows it, and nothing else that is an error."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from noetl.checks.checker import check
from noetl.errors import PlaybookError, Problem
from noetl.playbook.migrate import migrate
from noetl.playbook.problems import CODES
from noetl.playbook.source import TEXT_BYTES_MAX, VALUES_MAX
from tests.playbooks import HEAD, kinds

FOLDER = Path(__file__).parents[2] / "fixtures/problems"
EXPECT = re.compile(r"# expect: (?P<code>[a-z-]+) (?P<line>\d+):(?P<column>\d+)")
MINIMAL = "workflow: [{step: start, tool: {kind: noop}}]\n"


class Case(NamedTuple):
    text: str | bytes
    code: str
    line: int
    column: int


# Cases that a small file cannot show: too large, or not text.
MADE = {
    "yaml-encoding": Case((HEAD + MINIMAL).encode() + b"# caf\xe9\n", "yaml-encoding", 5, 1),
    "yaml-too-large": Case(HEAD + MINIMAL + "#" * TEXT_BYTES_MAX, "yaml-too-large", 1, 1),
    "yaml-too-many-values": Case(
        f"{HEAD}workload:\n  many: [\n" + " 1,\n" * VALUES_MAX, "yaml-too-many-values", VALUES_MAX - 9, 2
    ),
}
# `noetl check` reads the canonical form only and calls these `old-dialect`; `noetl migrate` refuses them.
OF_THE_MIGRATION = frozenset({"mixed-dialects"})


def case(file: Path) -> Case:
    text = file.read_text(encoding="utf-8")
    found = EXPECT.match(text)
    assert found is not None, f"{file.name} does not begin with `# expect: <code> <line>:<column>`"
    return Case(text, found["code"], int(found["line"]), int(found["column"]))


CASES = MADE | {file.stem: case(file) for file in sorted(FOLDER.glob("*.yaml"))}


def test_every_code_has_one_example_and_every_example_a_code() -> None:
    assert sorted(CASES) == sorted(CODES)
    assert {name: each.code for name, each in CASES.items()} == {name: name for name in CODES}


def problems_of(name: str) -> tuple[Problem, ...]:
    text = CASES[name].text
    if name not in OF_THE_MIGRATION:
        return check(text, kinds(), f"{name}.yaml").problems
    assert isinstance(text, str)
    with pytest.raises(PlaybookError) as refused:
        migrate(text, f"{name}.yaml")
    return refused.value.problems


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_example_has_its_problem_where_it_says(name: str) -> None:
    _, code, line, column = CASES[name]
    problems = problems_of(name)
    wanted = (code, CODES[code].severity, f"{name}.yaml", line, column)
    errors = [(each.code, each.severity, *each.at) for each in problems if each.severity == "error"]
    found = [(each.code, each.severity, *each.at) for each in problems if each.code == code]
    told = "\n".join(map(str, problems)) or "nothing is wrong"
    assert found == [wanted], told
    assert errors in ([], [wanted]), told


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_message_says_what_and_has_no_full_stop(name: str) -> None:
    messages = [each.message for each in problems_of(name)]
    assert messages
    assert [each for each in messages if each.endswith(".") or len(each) < 15 or len(each) > 200] == []


def test_every_mistake_in_sql_is_reported_on_its_own_line() -> None:
    text = HEAD + dedent(
        """\
        keychain: [{name: pg, kind: stored}]
        workload: {t: a}
        workflow:
        - step: start
          tool:
            kind: postgres
            auth: pg
            command: |
              SELECT * FROM {{ workload.t }};
              SELECT * FROM {{ workload.t }};
        """
    )
    found = [problem for problem in check(text, kinds()).errors if problem.code == "sql-not-a-value"]
    first = text.splitlines().index("      SELECT * FROM {{ workload.t }};") + 1
    assert [problem.at.line for problem in found] == [first, first + 1]
