"""Problems in the formats of CI systems: annotations of GitHub, SARIF 2.1.0, and JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from noetl import __version__
from noetl.cli.output.problems import tally
from noetl.errors import Mark, Problem, Severity
from noetl.output import JSON
from noetl.playbook.problems import CODES

if TYPE_CHECKING:
    from noetl.views.test_results import CaseResult

_COMMANDS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "notice"}
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def github(found: Sequence[Problem]) -> str:
    """One workflow command for each problem: GitHub shows them at the lines of a pull request."""
    lines = []
    for each in found:
        place = f"file={_property(each.at.file)},line={each.at.line},col={each.at.column},title={_property(each.code)}"
        lines.append(f"::{_COMMANDS[each.severity]} {place}::{_data(_text(each))}")
    return "\n".join(lines)


def _text(problem: Problem) -> str:
    return problem.message if problem.fix is None else f"{problem.message}\nfix: {problem.fix}"


def _data(text: str) -> str:
    """A line break would begin another workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(found: Sequence[Problem]) -> str:
    """For code scanning and editors."""
    codes = sorted({each.code for each in found})
    rules: list[JSON] = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].meaning},
            "help": {"text": CODES[code].fix},
            "defaultConfiguration": {"level": _LEVELS[CODES[code].severity]},
        }
        for code in codes
    ]
    results: list[JSON] = [
        {
            "ruleId": each.code,
            "ruleIndex": codes.index(each.code),
            "level": _LEVELS[each.severity],
            "message": {"text": _text(each)},
            "locations": [_location(each.at)],
            "relatedLocations": [{**_location(other.at), "message": {"text": other.note}} for other in each.related],
        }
        for each in found
    ]
    driver = {"name": "noetl check", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _location(at: Mark) -> dict[str, JSON]:
    region = {"startLine": max(1, at.line), "startColumn": max(1, at.column)}
    return {"physicalLocation": {"artifactLocation": {"uri": quote(at.file, errors="replace")}, "region": region}}


def junit(checked: Sequence[tuple[str, Sequence[Problem]]], counted: frozenset[Severity]) -> str:
    """A test case for each playbook. It fails for problems with a severity in `counted`; others are its output."""
    cases, failed = [], 0
    for name, found in checked:
        wrong = [each for each in found if each.severity in counted]
        failed += bool(wrong)
        cases.append(f"    <testcase classname={_attribute('noetl check')} name={_attribute(name)}>")
        if wrong:
            summary = "".join(each.text for each in tally(wrong))
            cases.append(f"      <failure message={_attribute(summary)}>{_content(wrong)}</failure>")
        if others := [each for each in found if each.severity not in counted]:
            cases.append(f"      <system-out>{_content(others)}</system-out>")
        cases.append("    </testcase>")
    counts = f'tests="{len(checked)}" failures="{failed}" errors="0"'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n  <testsuite name="noetl check" {counts}>\n'
    return head + "".join(f"{each}\n" for each in cases) + "  </testsuite>\n</testsuites>"


def junit_of_tests(results: Sequence[CaseResult], unreadable: Sequence[tuple[str, Sequence[Problem]]]) -> str:
    """A test case for each test, and an error for each file that cannot be run."""
    cases = []
    for each in results:
        name = (
            f"classname={_attribute(each.file)} name={_attribute(each.name)} time={_attribute(f'{each.seconds:.3f}')}"
        )
        failure = ""
        if not each.passed:
            lines = "\n".join(map(str, each.mismatches))
            text = escape(_NOT_XML.sub("\ufffd", f"{each.file}:{each.line}\n{lines}"))
            failure = f"<failure message={_attribute(str(each.mismatches[0]))}>{text}</failure>"
        cases.append(f"    <testcase {name}>{failure}</testcase>")
    for file, problems in unreadable:
        error = f"<error message={_attribute('the file cannot be run')}>{_content(problems)}</error>"
        cases.append(f"    <testcase classname={_attribute(file)} name={_attribute(file)}>{error}</testcase>")
    failed = sum(not each.passed for each in results)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{len(unreadable)}"'
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n  <testsuite name="noetl test" {counts}>\n'
    return head + "".join(f"{each}\n" for each in cases) + "  </testsuite>\n</testsuites>\n"


def _content(found: Sequence[Problem]) -> str:
    lines = [f"{each.at}: {each.severity}: {each.code}: {_text(each)}" for each in found]
    return escape(_NOT_XML.sub("�", "\n".join(lines)))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("�", text))
