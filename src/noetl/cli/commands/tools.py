"""`noetl tools`: the installed kinds of tools, or one of them with all its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.options import Format, app, finish

if TYPE_CHECKING:
    from noetl.cli.execute import Reporter


@app.command()
def tools(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="One kind: its complete description.")
    ] = None,
    *,
    format: Format = "auto",
) -> None:
    """List the installed kinds of tools; or describe one: fields, knobs, output, an example.

    JSON is an array of `{kind, doc}`, or one `{kind, doc, fields, knobs, notes, example}`.

    \b
    Examples:
      noetl tools
      noetl tools http
      noetl tools duckdb --format json
    """
    finish(format, lambda reporter: show_tools(reporter, kind))


def show_tools(reporter: Reporter, kind: str | None) -> int:
    """Raises NotFound."""
    import msgspec

    from noetl.cli.execute import OK
    from noetl.cli.output.tool_kinds import find_kind, first_sentence, print_kind
    from noetl.tool import Tools
    from noetl.views.styled_text import Styled, table
    from noetl.views.tool_kinds import unfolded

    installed = Tools.installed()
    if kind is None:
        found = {name: unfolded(each.doc) for name, each in installed.kinds().items()}
        rows = [[Styled(name, "kind"), Styled(first_sentence(doc))] for name, doc in found.items()]
        documents = [{"kind": name, "doc": doc} for name, doc in found.items()]
        return reporter.show(documents, table(rows, indent=""))
    described = find_kind(installed, kind)
    reporter.document(msgspec.to_builtins(described))
    if not reporter.json:
        print_kind(described, reporter.screen)
    return OK
