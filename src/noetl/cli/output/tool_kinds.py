"""`noetl tools` for people: the installed kinds, or one kind with all its fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from noetl.cli.output.screen import Screen
from noetl.errors import NotFound
from noetl.output import JSON
from noetl.tool import Tools
from noetl.views.styled_text import Styled, folded
from noetl.views.tool_kinds import FieldTold, KindTold, as_text, told


def first_sentence(doc: str) -> str:
    return doc.partition("\n\n")[0].partition(". ")[0].removesuffix(".")


def find_kind(tools: Tools, name: str) -> KindTold:
    kinds = tools.kinds()
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"installed kinds: {', '.join(kinds)}"
        raise NotFound(f'no tool of kind "{name}" is installed; {hint}')
    return told(kinds[name], str(getattr(tools.make(name), "example", "")))


def print_kind(kind: KindTold, screen: Screen) -> None:
    screen.line(Styled(kind.kind, "kind"))
    for paragraph in kind.doc.split("\n\n"):
        screen.line()
        screen.lines(folded([Styled(paragraph)], screen.columns))
    for title, fields in (("Fields", kind.fields), ("Knobs under `spec`", kind.knobs)):
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
    return f"`{default}`" if isinstance(default, str) else as_text(default)


def _field_lines(fields: Sequence[FieldTold], columns: int) -> Iterator[list[Styled]]:
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
