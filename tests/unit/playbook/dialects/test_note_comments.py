"""Notes are written as comments above the part that they describe."""

from __future__ import annotations

from noetl.errors import Mark
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.writer import write
from noetl.playbook.dialects.notes import Note, annotate


def annotated(text: str, *places: tuple[int, str]) -> str:
    layout = read(text, "t.yaml")
    assert layout is not None
    annotate(layout, [Note(Mark("t.yaml", line, 1), message, "dropped") for line, message in places])
    return write(layout)


def test_a_note_is_written_above_the_entry_of_its_line() -> None:
    text = "a:\n  - b: 1\n    c:\n      d: |\n        x\n        y\n"
    assert annotated(text, (2, "two"), (6, "six"), (1, "one")) == (
        "# migrate: one\na:\n  # migrate: two\n  - b: 1\n"
        "    c:\n      # migrate: six\n      d: |\n        x\n        y\n"
    )


def test_a_note_inside_flow_style_is_written_above_its_line() -> None:
    assert annotated("a:\n  b: {c: 1,\n      d: 2}\n", (3, "x")) == "a:\n  # migrate: x\n  b: {c: 1,\n      d: 2}\n"


def test_a_note_that_is_there_already_is_not_written_again() -> None:
    text = "a: 1\n# migrate: x\nb: 2\n"
    assert annotated(text, (3, "x"), (3, "y")) == "a: 1\n# migrate: x\n# migrate: y\nb: 2\n"


def test_a_document_in_braces_has_no_place_for_comments() -> None:
    assert annotated("{a: 1}\n", (1, "x")) == "{a: 1}\n"
