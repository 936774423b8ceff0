"""`noetl doctor` for people: one line per check, with the fix below it."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.cli.output.screen import Screen
from noetl.net.describe import count
from noetl.runtime.doctor.checks import Diagnosis, Grade
from noetl.views.styled_text import Style, Styled, folded

SIGNS: dict[Grade, Styled] = {
    "ok": Styled("ok       ", "good"),
    "info": Styled("note     ", "info"),
    "warning": Styled("warning  ", "warning"),
    "error": Styled("wrong    ", "error"),
}


def print_diagnoses(found: Sequence[Diagnosis], screen: Screen) -> None:
    indent = len(SIGNS["ok"].text)
    for each in found:
        styled: Style = "" if each.grade != "ok" else "faint"
        words = [Styled(f"{each.check}: ", "name"), Styled(each.words, styled)]
        for place, line in enumerate(folded(words, screen.columns - indent)):
            screen.line(Styled(" " * indent) if place else SIGNS[each.grade], *line)
        if each.cure is not None:
            for place, line in enumerate(folded([Styled(each.cure)], screen.columns - indent - 2)):
                screen.line(" " * indent, "  " if place else "→ ", *line)
    wrong = sum(each.grade == "error" for each in found)
    doubtful = sum(each.grade == "warning" for each in found)
    screen.line()
    if not wrong and not doubtful:
        screen.line(Styled(f"{count(len(found), 'check')} passed", "good"))
        return
    screen.line(f"{count(len(found), 'check')}: {count(wrong, 'error')}, {count(doubtful, 'warning')}")
