"""`noetl tools`: the kinds that are installed as a table, or one of them with all its fields."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import msgspec

from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK
from noetl.cli.looking import screen_for
from noetl.cli.screen import Screen
from noetl.errors import NotFound
from noetl.output import JSON
from noetl.tool import Tools
from noetl.views.styled_text import Styled, folded, table
from noetl.views.tool_kinds import FieldDocument, KindDocument, as_text, kind_document, unfolded


def run_tools(kind: str | None, form: FormatChoice) -> int:
    """Raises NotFound."""
    tools = Tools.installed()
    if kind is None:
        _list(tools, form)
    else:
        _show(_found(tools, kind), form)
    return OK


def _list(tools: Tools, form: FormatChoice) -> None:
    found = {name: unfolded(kind.doc) for name, kind in tools.kinds().items()}
    if form == "json":
        sys.stdout.write(as_document([{"kind": name, "doc": doc} for name, doc in found.items()]))
        return
    screen = screen_for(form)
    rows = [[Styled(name, "kind"), Styled(_first_sentence(doc))] for name, doc in found.items()]
    screen.lines(table(rows, indent=""))


def _first_sentence(doc: str) -> str:
    return doc.partition("\n\n")[0].partition(". ")[0].removesuffix(".")


def _found(tools: Tools, name: str) -> KindDocument:
    kinds = tools.kinds()
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(kinds)}"
        raise NotFound(f'no tool of kind "{name}" is installed; {hint}')
    return kind_document(kinds[name], str(getattr(tools.make(name), "example", "")))


def _show(kind: KindDocument, form: FormatChoice) -> None:
    if form == "json":
        sys.stdout.write(as_document(msgspec.to_builtins(kind)))
        return
    screen = screen_for(form)
    screen.line(Styled(kind.kind, "kind"))
    for paragraph in kind.doc.split("\n\n"):
        screen.line()
        screen.lines(folded([Styled(paragraph)], screen.columns))
    for title, fields in (("Fields", kind.fields), ("Knobs under `spec`", kind.knobs)):
        if fields:
            _titled(screen, title)
            screen.lines(_field_lines(fields, screen.columns))
    _titled(screen, "Notes")
    for note in kind.notes:
        for place, line in enumerate(folded([Styled(note)], screen.columns - 4)):
            screen.line("    " if place else "  - ", *line)
    if kind.example:
        _titled(screen, "Example")
        for text in kind.example.rstrip("\n").split("\n"):
            screen.line(f"  {text}")


def _titled(screen: Screen, title: str) -> None:
    screen.line()
    screen.line(Styled(title, "strong"))


def _quoted(default: JSON) -> str:
    return f"`{default}`" if isinstance(default, str) else as_text(default)


def _field_lines(fields: Sequence[FieldDocument], columns: int) -> Iterator[list[Styled]]:
    """The name and what may stand there; below it what it means."""
    for field in fields:
        required = " (required)" if field.required else ""
        default = "" if field.default is None else f", {_quoted(field.default)} without it"
        words = [Styled(field.name, "name"), Styled(f"{required}  {field.value}{default}", "faint")]
        for place, line in enumerate(folded(words, columns - 4)):
            yield [Styled("    " if place else "  "), *line]
        example = "" if field.example is None else f", for example {field.example}"
        for line in folded([Styled(f"{field.meaning}{example}")], columns - 6):
            yield [Styled("      "), *line]
