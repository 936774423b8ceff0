"""Problems of playbooks: with the source line and a caret, coloured or plain, or as one JSON array."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from noetl.cli.output.screen import Screen
from noetl.errors import Mark, Problem, Severity
from noetl.escape import head, visible, width
from noetl.net.describe import count
from noetl.session.sources import MigrationNote
from noetl.views.problems import problem_document
from noetl.views.styled_text import Styled

SOURCE_COLUMNS_MAX = 160
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_BREAK = "\r\n|[\n\r\x85\u2028\u2029]"  # what YAML counts as the end of a line
_FORGING = "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"


class Excerpts:
    """Source lines with a caret below, from the text that was checked."""

    def __init__(self, text: str, columns: int = SOURCE_COLUMNS_MAX) -> None:
        self.lines = re.split(_BREAK, text)
        self.columns = min(columns, SOURCE_COLUMNS_MAX)

    def at(self, mark: Mark) -> tuple[str, str] | None:
        """The line and the caret; None: there is no such line."""
        if not 0 < mark.line <= len(self.lines) or not self.lines[mark.line - 1].strip():
            return None
        return clipped(self.lines[mark.line - 1], mark.column, self.columns)


def clipped(line: str, column: int, columns: int) -> tuple[str, str]:
    """At most `columns` of the line around the column, and a caret under it."""
    # A line may be a megabyte long; only `columns` around the caret are examined.
    before, after = visible(line[: column - 1][-columns - 1 :]), visible(line[column - 1 :][: columns + 1])
    if width(before) + width(after) > columns and width(before) > columns // 2:
        before = "…" + head(before[::-1], columns // 2)[::-1]
    room = columns - width(before)
    if width(after) > room:
        after = head(after, room - 1) + "…"
    return (before + after).rstrip(), " " * width(before) + "^"


def plain(problem: Problem, excerpts: Excerpts) -> Iterator[list[Styled]]:
    """`file:line:column: severity: code: message`, then the line and the caret."""
    yield [Styled(f"{problem.at}: {problem.severity}: {problem.code}: {problem.message}")]
    if excerpt := excerpts.at(problem.at):
        yield [Styled(f"  {excerpt[0]}")]
        yield [Styled(f"  {excerpt[1]}")]
    yield from _advice(problem, "  ")


def rich(problem: Problem, excerpts: Excerpts) -> Iterator[list[Styled]]:
    """With colours, the position on its own line, and the line number."""
    yield [
        Styled(problem.severity, problem.severity),
        Styled(f" {problem.code}", "strong"),
        Styled(f"  {problem.at}", "faint"),
    ]
    yield [Styled(f"  {problem.message}")]
    if excerpt := excerpts.at(problem.at):
        number = f"{problem.at.line:>6} │ "
        yield [Styled(number, "faint"), Styled(excerpt[0])]
        yield [Styled(" " * 6 + " │ ", "faint"), Styled(excerpt[1], problem.severity)]
    yield from _advice(problem, "  ")
    yield []


def _advice(problem: Problem, indent: str) -> Iterator[list[Styled]]:
    if problem.fix is not None:
        first, *rest = problem.fix.split("\n")
        yield [Styled(f"{indent}fix: ", "good"), Styled(first)]
        for line in rest:
            yield [Styled(f"{indent}     {line}")]
    for related in problem.related:
        yield [Styled(f"{indent}see ", "faint"), Styled(f"{related.at}: {related.note}")]


def tally(problems: Sequence[Problem]) -> list[Styled]:
    """`1 error, 2 warnings`, or `no problems`."""
    pieces: list[Styled] = []
    for severity in SEVERITIES:
        number = sum(problem.severity == severity for problem in problems)
        if number:
            pieces += [Styled(", ")] if pieces else []
            pieces.append(Styled(count(number, severity), severity))
    return pieces or [Styled("no problems", "good")]


def as_json(problems: Iterable[Problem]) -> str:
    """One array. Characters that could forge text on a terminal are escaped."""
    import json

    text = json.dumps([problem_document(problem) for problem in problems], ensure_ascii=False, indent=2)
    return re.sub(_FORGING, lambda found: f"\\u{ord(found[0]):04x}", text)


def print_problems(found: Sequence[Problem], text: str, screen: Screen, *, coloured: bool | None = None) -> None:
    """`text`: that the problems are about. `coloured` None: as the screen."""
    coloured = screen.colour if coloured is None else coloured
    excerpts = Excerpts(text, screen.columns if coloured else SOURCE_COLUMNS_MAX)
    for problem in found:
        screen.lines((rich if coloured else plain)(problem, excerpts))


def print_notes(notes: Sequence[MigrationNote], screen: Screen) -> None:
    for note in notes:
        screen.line(f"{note.at}: ", Styled("note", "info"), f": {note.code}: {note.message}")
