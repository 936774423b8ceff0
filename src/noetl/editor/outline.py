"""The structure of a text: its sections, steps and tasks as a tree, and the lines that can be folded."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from noetl.editor.analysis import Analysis
from noetl.playbook.source import Mapping, Scalar, Sequence, Tree

SymbolKind: TypeAlias = Literal["section", "step", "task", "block", "credential", "value"]

_KEYS: Final = {"workflow": "step", "keychain": "name"}  # the key with the name of an item
_LISTED: Final[dict[str, SymbolKind]] = {"workflow": "step", "keychain": "credential"}
_CODE: Final = re.compile(r"\S")


class OutlineSymbol(NamedTuple):
    """A part of a playbook with a name."""

    name: str
    kind: SymbolKind
    start: int  # offsets of the whole part
    end: int
    at: int  # offset of its name
    children: tuple[OutlineSymbol, ...] = ()
    detail: str = ""


def outline(known: Analysis) -> tuple[OutlineSymbol, ...]:
    """The sections of the root, with steps, tasks, blocks and credentials inside."""
    root = known.document.root
    if not isinstance(root, Mapping):
        return ()
    starts = sorted(root.keys.values())
    found = []
    for name, at in root.keys.items():
        end = next((each for each in starts if each > at), len(known.text))
        found.append(OutlineSymbol(name, "section", at, end, at, _parts(name, root.entries[name], end)))
    return tuple(found)


def _parts(section: str, tree: Tree, end: int) -> tuple[OutlineSymbol, ...]:
    if isinstance(tree, Sequence) and section in _LISTED:
        ends = [*(item.start for item in tree.items[1:]), end]
        made = (
            _item(item, _KEYS[section], _LISTED[section], until) for item, until in zip(tree.items, ends, strict=True)
        )
        return tuple(each for each in made if each is not None)
    if isinstance(tree, Mapping) and section in ("workload", "input", "workbook"):
        kind: SymbolKind = "block" if section == "workbook" else "value"
        ends = [*sorted(tree.keys.values())[1:], end]
        return tuple(
            OutlineSymbol(name, kind, at, until, at, _tasks(tree.entries[name], until))
            for (name, at), until in zip(sorted(tree.keys.items(), key=lambda each: each[1]), ends, strict=True)
        )
    return ()


def _item(tree: Tree, key: str, kind: SymbolKind, end: int) -> OutlineSymbol | None:
    name = tree.entries.get(key) if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or not isinstance(name, Scalar) or not isinstance(name.value, str):
        return None
    detail = tree.entries.get("desc", tree.entries.get("kind"))
    words = str(detail.value) if isinstance(detail, Scalar) and detail.value else ""
    return OutlineSymbol(name.value, kind, tree.start, end, name.start, _tasks(tree, end), words)


def _tasks(tree: Tree, end: int) -> tuple[OutlineSymbol, ...]:
    """The named tasks of a step or block, also inside of `choose`, `while` and `until`."""
    tool = tree.entries.get("tool") if isinstance(tree, Mapping) else None
    if not isinstance(tool, Sequence):
        return ()
    ends = [*(item.start for item in tool.items[1:]), end]
    made = (_item(item, "name", "task", until) for item, until in zip(tool.items, ends, strict=True))
    return tuple(each for each in made if each is not None)


def folds(text: str) -> list[tuple[int, int]]:
    """The first and the last line of every part that is indented deeper than the line above it; lines from 0."""
    found: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []  # line and indentation
    last = 0
    for number, line in enumerate(text.split("\n")):
        content = _CODE.search(line)
        if content is None:
            continue
        indent = content.start()
        while opened and opened[-1][1] >= indent:
            begin, _ = opened.pop()
            if last > begin:
                found.append((begin, last))
        opened.append((number, indent))
        last = number
    found += [(begin, last) for begin, _ in opened if last > begin]
    return sorted(found)
