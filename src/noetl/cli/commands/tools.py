"""`noetl tools`: the installed kinds of tools, or one of them with all its fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.completion import complete_kind
from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Format, app, finish
from noetl.cli.output.screen import Screen
from noetl.errors import NotFound
from noetl.views.styled_text import Styled, folded, table

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.tool import Tools
    from noetl.views.tool_kinds import FieldDocument, KindDocument


@app.command()
def tools(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="One kind: its complete description.", autocompletion=complete_kind),
    ] = None,
    *,
    format: Format = "auto",
) -> None:
    """List the installed kinds of tools; or describe one: fields, options, output, an example.

    JSON is an array of `{kind, doc}`, or one `{kind, doc, fields, knobs, output, notes, example}`.

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

    from noetl.tool import Tools
    from noetl.views.tool_kinds import summary_of, unfolded

    installed = Tools.installed()
    if kind is None:
        found = {name: unfolded(each.doc) for name, each in installed.kinds().items()}
        rows = [[Styled(name, "kind"), Styled(summary_of(doc))] for name, doc in found.items()]
        documents = [{"kind": name, "doc": doc} for name, doc in found.items()]
        return reporter.show(documents, table(rows, indent=""))
    described = _find(installed, kind)
    reporter.document(msgspec.to_builtins(described))
    if not reporter.json:
        _print_kind(described, reporter.screen)
    return OK


def _find(tools: Tools, name: str) -> KindDocument:
    from difflib import get_close_matches

    from noetl.views.tool_kinds import kind_document

    kinds = tools.kinds()
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"installed kinds: {', '.join(kinds)}"
        raise NotFound(f'no tool of kind "{name}" is installed; {hint}')
    return kind_document(kinds[name], str(getattr(tools.make(name), "example", "")))


def _print_kind(kind: KindDocument, screen: Screen) -> None:
    screen.line(Styled(kind.kind, "kind"))
    for paragraph in kind.doc.split("\n\n"):
        screen.line()
        screen.lines(folded([Styled(paragraph)], screen.columns))
    for title, fields in (
        ("Fields", kind.fields),
        ("Options under `spec`", kind.knobs),
        ("Its own part of the output", kind.output),
    ):
        if fields:
            _print_title(screen, title)
            screen.lines(_field_lines(fields, screen.columns))
    _print_title(screen, "Notes")
    for note in kind.notes:
        for place, line in enumerate(folded([Styled(note)], screen.columns - 4)):
            screen.line("    " if place else "  - ", *line)
    if kind.example:
        _print_title(screen, "Example")
        for text in kind.example.rstrip("\n").split("\n"):
            screen.line(f"  {text}")


def _print_title(screen: Screen, title: str) -> None:
    screen.line()
    screen.line(Styled(title, "strong"))


def _quoted(default: JSON) -> str:
    from noetl.views.tool_kinds import as_text

    return f"`{default}`" if isinstance(default, str) else as_text(default)


def _field_lines(fields: Sequence[FieldDocument], columns: int) -> Iterator[list[Styled]]:
    """The name and its type; below it the meaning."""
    for field in fields:
        required = " (required)" if field.required else ""
        default = "" if field.default is None else f", {_quoted(field.default)} by default"
        words = [Styled(field.name, "name"), Styled(f"{required}  {field.value}{default}", "faint")]
        for place, line in enumerate(folded(words, columns - 4)):
            yield [Styled("    " if place else "  "), *line]
        example = "" if field.example is None else f", for example {field.example}"
        for line in folded([Styled(f"{field.meaning}{example}")], columns - 6):
            yield [Styled("      "), *line]
