"""Actions that an editor shows above lines: run, debug, test, and the last status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.editor.analysis import Analysis
from noetl.editor.history import NewestExecution, status_text
from noetl.playbook.source import Mapping, Scalar, Sequence, parse


class Lens(NamedTuple):
    """An action above a line. The editor runs the command."""

    start: int  # offset in the text
    title: str
    command: str
    arguments: tuple[str, ...]


def lenses(known: Analysis, uri: str, test: str | None, last: NewestExecution | None) -> Iterator[Lens]:
    """Of a playbook. `test`: the URI of its test file."""
    root = known.document.root
    if not isinstance(root, Mapping) or "workflow" not in root.keys:
        return
    top = min(root.keys.values())
    if not known.checked.errors:
        yield Lens(top, "▶ Run", "noetl.run", (uri,))
        yield Lens(top, "Debug", "noetl.debug", (uri,))
    if test is not None:
        yield Lens(top, "Test", "noetl.test", (test,))
    if last is None:
        return
    yield Lens(top, f"Last: {last.status}", "noetl.show", (last.id,))
    for each in known.occurrences:
        if each.defines and each.name.kind == "step" and each.name.text in last.steps:
            yield Lens(each.start, status_text(last.steps[each.name.text]), "noetl.show", (last.id,))


def suite_lenses(text: str, uri: str) -> Iterator[Lens]:
    """Of a test file: one for all tests, and one for each."""
    root = parse(text).document.root
    tests = root.entries.get("tests") if isinstance(root, Mapping) else None
    if not isinstance(root, Mapping) or not isinstance(tests, Sequence):
        return
    yield Lens(min(root.keys.values()), "▶ Run all tests", "noetl.test", (uri,))
    for each in tests.items:
        name = each.entries.get("name") if isinstance(each, Mapping) else None
        if isinstance(name, Scalar) and isinstance(name.value, str):
            yield Lens(each.start, "▶ Run this test", "noetl.test", (uri, name.value))
