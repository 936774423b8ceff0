"""`noetl explain`: a playbook as a person would describe it, or why a step of an execution ran or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from noetl.cli.arguments import DialectChoice, FormatChoice, GraphChoice
from noetl.cli.completion import complete_file_or_execution, complete_step
from noetl.cli.execute import OK, WRONG, Reporter
from noetl.cli.options import Db, Dialect, Out, Server, app, finish, on_execution
from noetl.cli.output.screen import Screen
from noetl.session.errors import UsageError
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.net.program import Program
    from noetl.playbook.kinds import Kinds
    from noetl.session.execution import Execution

_ID = re.compile(r"last|[0-9a-fA-F][0-9a-fA-F-]{0,35}")


class ExplainOptions(NamedTuple):
    """Options that apply to playbooks only."""

    graph: GraphChoice | None = None
    task: str | None = None
    output: str | None = None
    dialect: DialectChoice = "canonical"


@app.command()
def explain(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|ID",
            help="A playbook file, `-` for standard input, or the id of an execution.",
            autocompletion=complete_file_or_execution,
        ),
    ],
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="[STEP]",
            help="With an execution: why this step ran, waited or did not run.",
            autocompletion=complete_step,
        ),
    ] = None,
    *,
    graph: Annotated[GraphChoice | None, typer.Option(help="Draw the net instead of describing the playbook.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="STEP.TASK", help="One task: its effective spec, fields, rules and reads.")
    ] = None,
    output: Out = None,
    dialect: Dialect = "canonical",
    format: Annotated[FormatChoice, typer.Option(help="With an execution: the output format.")] = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Describe or draw a playbook; or explain why a step of an execution did what it did.

    For an execution: the guards that were evaluated, their results, and the values that they read.

    \b
    Examples:
      noetl explain hello.yaml --graph svg -o hello.svg
      noetl explain pagination.yaml --task fetch_all_endpoints.fetch_page
      noetl explain last fetch
    """
    options = ExplainOptions(graph, task, output, dialect)
    if not names_execution(file, step):
        finish("auto", lambda reporter: explain_playbook(reporter, file, options))

    def before(_reporter: Reporter) -> None:
        if graph or task or output:
            raise UsageError("--graph, --task and --output apply to playbooks, and this is an execution")

    async def work(reporter: Reporter, execution: Execution) -> int:
        return await _explain_step(reporter, execution, step)

    on_execution(format, file, db, server, work, before=before)


def names_execution(name: str, step: str | None) -> bool:
    """With a step always; alone when it is an id or a prefix of one, and there is no such file."""
    return step is not None or (_ID.fullmatch(name) is not None and not os.path.exists(name))


# A playbook


def explain_playbook(reporter: Reporter, file: str, options: ExplainOptions) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.cli.output.documents import put
    from noetl.cli.output.problems import print_notes, print_problems
    from noetl.net.describe import count
    from noetl.session.sources import load, read_source

    if options.graph is not None and options.task is not None:
        raise UsageError("--graph and --task exclude each other")
    kinds, errors = installed_kinds(), reporter.errors
    loaded = load(read_source(file), options.dialect, kinds)
    print_notes(loaded.notes, errors)
    checked = loaded.checked
    if checked is None or checked.program is None:
        print_problems(loaded.problems, loaded.text, errors)
        return WRONG
    if options.graph is not None:
        put(_draw(checked.program, options.graph).encode("utf-8", "replace"), options.output)
    else:
        _describe(checked.program, options, kinds, reporter)
    if checked.errors:
        text = f"{count(len(checked.errors), 'error')}: the explanation is incomplete; see noetl check"
        errors.line(Styled(checked.document.file, "strong"), ": ", Styled(text, "warning"))
    return OK


def _draw(program: Program, graph: GraphChoice) -> str:
    from noetl.drawing.chart import chart

    if graph == "svg":
        from noetl.drawing.svg import DrawingTooLarge, svg

        try:
            return svg(chart(program))
        except DrawingTooLarge as error:
            raise UsageError(f"too large to draw ({error}); draw the output of --graph dot with Graphviz") from error
    from noetl.drawing.text import dot, mermaid

    return {"mermaid": mermaid, "dot": dot}[graph](chart(program))


def _describe(program: Program, options: ExplainOptions, kinds: Kinds, reporter: Reporter) -> None:
    import io

    from noetl.cli.output.documents import put
    from noetl.session.sources import STDIN

    if options.output in (None, STDIN):
        reporter.screen.lines(_lines(program, options.task, kinds, reporter.screen.columns))
        return
    page = io.StringIO()
    screen = Screen(page)
    screen.lines(_lines(program, options.task, kinds, screen.columns))
    put(page.getvalue().encode("utf-8", "replace"), options.output)


def _lines(program: Program, task: str | None, kinds: Kinds, columns: int) -> Iterator[list[Styled]]:
    from noetl.views.explain import explanation_lines, task_lines

    if task is None:
        from noetl.views.explain import explain as explained

        return explanation_lines(explained(program, kinds), columns)
    from noetl.views.explain import NoSuchTask, find_task, task_details

    try:
        owner, found = find_task(program, task)
    except NoSuchTask as error:
        raise UsageError(str(error)) from error
    return task_lines(task_details(program, kinds, owner, found), columns)


# An execution


async def _explain_step(reporter: Reporter, execution: Execution, step: str | None) -> int:
    from noetl.cli.checker import installed_kinds
    from noetl.session.analysis import explain_step
    from noetl.views.why_text import why_lines

    found = await explain_step(execution, step, installed_kinds())
    lines = (
        [Styled(line, "" if line.startswith(" ") else "name" if number else "strong")]
        for number, line in enumerate(why_lines(found))
    )
    return reporter.show(found, lines)
