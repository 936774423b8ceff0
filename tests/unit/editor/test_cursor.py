"""The path at the cursor, also in a text that is not valid YAML."""

from __future__ import annotations

import pytest

from noetl.editor.cursor import cursor_at
from noetl.playbook.source import Path

STEP: Path = ("workflow", 0)


@pytest.mark.parametrize(
    ("text", "place", "path", "word"),
    [
        ("kind: Playbook\nworkf", "key", (), "workf"),
        ("workflow:\n  - step: a\n  - st", "key", STEP, "st"),
        ("workflow:\n- step: a\n  tool:\n  - kind: no", "value", (*STEP, "tool", 0, "kind"), "no"),
        ("workflow:\n  - step: a\n    next: {arcs: [{ste", "key", (*STEP, "next", "arcs", 0), "ste"),
        (
            "workflow:\n  - step: a\n    next: {arcs: [{step: b, when: tr",
            "value",
            (*STEP, "next", "arcs", 0, "when"),
            "tr",
        ),
        (
            "workflow:\n  - step: a\n    next:\n      arcs:\n        - { step: b, when: true }\n        - { step: c",
            "value",
            (*STEP, "next", "arcs", 0, "step"),
            "c",
        ),
        (
            "workflow:\n  - step: a\n    next:\n      arcs:\n        - { step: b, wh",
            "key",
            (*STEP, "next", "arcs", 0),
            "wh",
        ),
        ("workflow:\n  - { step: a, to", "key", STEP, "to"),
        ("workflow:\n  - step: a\n    tool:\n      code: |\n        def ma", "text", (*STEP, "tool", "code"), "ma"),
        ("workflow:\n  - step: a\n    set:\n      ctx.x: '{{ ctx.y", "template", (*STEP, "set", "ctx.x"), "ctx.y"),
        ("workflow:\n  - step: a\n    # com", "text", STEP, "com"),
        ("workflow:\n  - step: [broken\n    tool:\n      ki", "key", (*STEP, "tool"), "ki"),
        ("metadata: { name: x, pa", "key", ("metadata",), "pa"),
    ],
)
def test_the_path_at_the_end_of_a_text(text: str, place: str, path: Path, word: str) -> None:
    found = cursor_at(text, len(text))
    assert (found.place, found.path, found.word) == (place, path, word)


def test_the_keys_before_the_cursor_in_the_braces_of_an_item_are_known() -> None:
    text = "workflow:\n  - step: a\n    tool:\n      - { name: b, kind: http, ur"
    found = cursor_at(text, len(text))
    assert found.keys_at(4) == {"name": "b", "kind": "http"}
    assert found.keys_at(2) == {"step": "a", "tool": ""}


def test_the_keys_around_the_cursor_are_known() -> None:
    text = "workflow:\n  - step: a\n    tool:\n      kind: http\n      ur\n      auth: x\n  - step: b\n"
    found = cursor_at(text, text.index("ur\n") + 2)
    assert found.keys_at(3) == {"kind": "http", "auth": "x"}
    assert found.keys_at(2) == {"step": "a", "tool": ""}


@pytest.mark.parametrize("text", ["", "\n", "- ", "a", ": ", "{", "{{", "'", "a:\n\t- b", "\u2028x: ", "[[[{{{"])
def test_any_position_of_any_text_has_a_cursor(text: str) -> None:
    for offset in range(len(text) + 1):
        assert cursor_at(text, offset).start <= offset
