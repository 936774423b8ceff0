"""`noetl explain`: the playbook as a person would draw it, or one task in full, or a drawing."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from noetl.check.checker import Checked
from noetl.cli import files
from noetl.cli.checking import show_notes, show_problems
from noetl.cli.choices import DialectChoice, GraphChoice
from noetl.cli.exits import OK, WRONG, Usage
from noetl.cli.loading import Refused, installed, load
from noetl.cli.screen import Screen
from noetl.errors import Problem
from noetl.net.describe import count
from noetl.net.program import Program
from noetl.playbook.kinds import Kinds
from noetl.views.explain.explain_text import explanation_lines, task_lines
from noetl.views.styled_text import Styled


def run_explain(
    file: str, graph: GraphChoice | None, task: str | None, out: str | None, dialect: DialectChoice
) -> int:
    if graph is not None and task is not None:
        raise Usage("--graph and --task exclude each other")
    kinds = installed()
    errors = Screen(sys.stderr)
    loaded = load(file, dialect, kinds)
    if isinstance(loaded, Refused):
        return _refuse(loaded.problems, loaded.text, errors)
    checked = loaded.checked
    show_notes(loaded.notes, errors)
    if checked.program is None:
        return _refuse(checked.problems, checked.document.text, errors)
    if graph is not None:
        files.put(_drawn(checked.program, graph).encode("utf-8", "replace"), out)
    else:
        _tell(checked.program, task, kinds, out)
    _warn(checked, errors)
    return OK


def _refuse(problems: tuple[Problem, ...], text: str, errors: Screen) -> int:
    show_problems(problems, text, errors, rich=errors.colour)
    return WRONG


def _warn(checked: Checked, errors: Screen) -> None:
    if checked.errors:
        words = f"{count(len(checked.errors), 'error')}: only what could be read is shown; see noetl check"
        errors.line(Styled(checked.document.file, "strong"), ": ", Styled(words, "warning"))


def _drawn(program: Program, graph: GraphChoice) -> str:
    from noetl.drawing.chart import chart

    if graph == "svg":
        from noetl.drawing.svg import DrawingTooLarge, svg

        try:
            return svg(chart(program))
        except DrawingTooLarge as error:
            raise Usage(f"too large to draw ({error}); --graph dot gives it to Graphviz") from error
    from noetl.drawing.dot import dot
    from noetl.drawing.mermaid import mermaid

    return {"mermaid": mermaid, "dot": dot}[graph](chart(program))


def _tell(program: Program, task: str | None, kinds: Kinds, out: str | None) -> None:
    page = io.StringIO()
    screen = Screen(sys.stdout) if out in (None, files.STDIN) else Screen(page)
    screen.lines(_lines(program, task, kinds, screen.columns))
    if page.tell() and out is not None:
        files.put(page.getvalue().encode("utf-8", "replace"), out)


def _lines(program: Program, task: str | None, kinds: Kinds, columns: int) -> Iterator[list[Styled]]:
    if task is None:
        from noetl.views.explain.playbook import explain

        return explanation_lines(explain(program, kinds), columns)
    from noetl.views.explain.task_details import NoSuchTask, find_task, task_details

    try:
        owner, found = find_task(program, task)
    except NoSuchTask as error:
        raise Usage(str(error)) from error
    return task_lines(task_details(program, kinds, owner, found), columns)
