"""Findings collect each note and problem once, with its position in the original text."""

from __future__ import annotations

from noetl.errors import Mark
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.notes import NOTES, Findings, Note


def findings() -> Findings:
    layout = read("a: 1\nb: 2\n", "t.yaml")
    assert layout is not None
    return Findings(layout)


def test_a_note_is_one_line_and_is_kept_once() -> None:
    found = findings()
    found.note(5, "dropped", "a\n  b")
    found.note(5, "dropped", "a b")
    assert list(found.notes) == [Note(Mark("t.yaml", 2, 1), "a b", "dropped")]


def test_a_refusal_is_kept_once() -> None:
    found = findings()
    found.refuse(8, "no", fix="yes")
    found.refuse(8, "no", fix="yes")
    assert [(str(each), each.fix) for each in found.problems] == [("t.yaml:2:4: old-dialect: no", "yes")]


def test_every_kind_of_note_is_explained_in_a_sentence() -> None:
    assert [text for text in NOTES.values() if not text.endswith(".")] == []
