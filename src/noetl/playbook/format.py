"""The canonical layout of a playbook's text: indentation, blank lines, spaces (`noetl fmt`).

Order, comments, quotes and line breaks inside values stay as the author wrote them. The result is parsed again
and compared, so that a layout never changes the meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from noetl.errors import PlaybookError
from noetl.playbook import source
from noetl.playbook.dialects.layout.reader import read
from noetl.playbook.dialects.layout.scalars import TextEdit, replace
from noetl.playbook.dialects.layout.tree import Layout, LayoutEntry, Leaf, List, Map, Node
from noetl.playbook.dialects.layout.writer import is_block, shift, write
from noetl.playbook.dialects.template_tokens import parse
from noetl.playbook.source import Path

INDENT: Final = 2
# A blank line is written before these keys of the root, and between the entries of these two.
_SECTIONS: Final = frozenset({"keychain", "executor", "workload", "input", "triggers", "workflow", "workbook", "libs"})
_SEPARATED: Final = frozenset({"workflow", "workbook"})
_HEADER: Final = re.compile(r"(?:&\S+[ ]+)?[|>]([-+0-9]*)[ \t]*(?:#[^\n]*)?\n")
_COMMENT: Final = re.compile(r"(?:^|\s)(#.*)\Z", re.DOTALL)
_SPACES: Final = re.compile(r"(\{[{%][-+]?)[ \t]*|[ \t]*([-+]?[%}]\})")


class FormattedText(NamedTuple):
    """The text in the canonical layout."""

    text: str
    supported: bool = True  # False: the text is unchanged, because it uses `? key`, lone carriage returns or similar


def format_text(text: str, file: str = "<playbook>", templates: Collection[Path] = ()) -> FormattedText:
    """Lay out a text. `templates` are the paths of the texts in which `{{x}}` becomes `{{ x }}`.

    Raises PlaybookError if the text is not valid YAML.
    """
    document, problems = source.parse(text, file)
    if any(each.severity == "error" for each in problems):
        raise PlaybookError(problems)
    if document.root is None:
        return FormattedText(text)
    bare = document.text
    newline = "\r\n" if "\r\n" in bare and bare.count("\r\n") == bare.count("\n") else "\n"
    layout = read(bare.replace("\r\n", "\n"), file)
    if layout is None or write(layout) != layout.text:
        return FormattedText(text, supported=False)
    _spaced_templates(layout.root, (), frozenset(templates))
    if isinstance(layout.root, Leaf) or not is_block(layout.root):
        if isinstance(layout.root, Map | List):
            _braces(layout.root)
        layout.epilogue = "\n".join(_collapsed(layout.epilogue.split("\n"))).rstrip() + "\n"
    else:
        _Arranger(layout).arrange()
    made = write(layout)
    again, problems = source.parse(made, file)
    if problems or not _same(document.root, again.root, (), frozenset(templates)):
        return FormattedText(text, supported=False)
    return FormattedText(("\ufeff" if text.startswith("\ufeff") else "") + made.replace("\n", newline))


def _same(one: source.Tree | None, other: source.Tree | None, path: Path, templates: frozenset[Path]) -> bool:
    """Whether two documents have the same content and order; the spaces at the braces of templates do not count."""
    match one, other:
        case source.Mapping(left), source.Mapping(right):
            return list(left) == list(right) and all(
                _same(value, right[key], (*path, key), templates) for key, value in left.items()
            )
        case source.Sequence(left_items), source.Sequence(right_items):
            return len(left_items) == len(right_items) and all(
                _same(value, right_items[index], (*path, index), templates) for index, value in enumerate(left_items)
            )
        case source.Scalar(left_value), source.Scalar(right_value):
            if isinstance(left_value, str) and isinstance(right_value, str) and left_value != right_value:
                return path in templates and _SPACES.sub(r"\1\2", left_value) == _SPACES.sub(r"\1\2", right_value)
            return left_value == right_value and type(left_value) is type(right_value)
    return False


class _Arranger:
    """Gives every entry its column, and every line between entries its place."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def arrange(self) -> None:
        root = self.layout.root
        assert isinstance(root, Map | List)
        chain = _chain(root, 0)
        self._group(root, 0)
        for before, entry in pairwise(root.entries):
            if entry.name in _SECTIONS:
                _separate(before, entry)
        for name in _SEPARATED:
            inside = root.get(name) if isinstance(root, Map) else None
            if isinstance(inside, Map | List) and is_block(inside):
                for before, entry in pairwise(inside.entries):
                    if _line_count(before.value) > 1 or _line_count(entry.value) > 1:
                        _separate(before, entry)
        above = [line.strip() if line.lstrip().startswith("#") else line.rstrip() for line in self._prologue()]
        self.layout.prologue = "".join(f"{line}\n" for line in _without_first_blank(_collapsed(above)))
        first, *below = self.layout.epilogue.split("\n")
        lines = _collapsed([_replaced(line, chain) for line in below])
        while lines and not lines[-1]:
            lines.pop()
        self.layout.epilogue = "\n".join([first, *lines]).rstrip(" ") + "\n"

    def _prologue(self) -> list[str]:
        """The lines before the root, without its indentation."""
        return self.layout.prologue.split("\n")[:-1]

    def _group(self, group: Map | List, column: int) -> None:
        group.base = column
        for position, entry in enumerate(group.entries):
            chain = [(entry.base or 0, column), *_chain(entry.value, column + INDENT)]
            entry.after = _collapsed([_replaced(line, chain) for line in entry.after])
            entry.lead = _collapsed([_indented(line, column) for line in entry.lead])
            if position == 0:
                entry.lead = _without_first_blank(entry.lead)
            entry.tail = _comment(entry.tail)
            self._value(entry, column)
            entry.base = column

    def _value(self, entry: LayoutEntry, column: int) -> None:
        value = entry.value
        if isinstance(value, Leaf) or not is_block(value):
            entry.gap = _gap(entry, column)
            if isinstance(value, Leaf):
                _block_scalar(value, column)
            else:
                _braces(value)
            return
        sign = ":" if entry.key is not None else ""
        words = entry.gap.removeprefix(sign).strip()
        if entry.key is None:
            entry.inline = not words and not any(line.strip() for line in value.entries[0].lead)
            entry.gap = f" {_spaced(words)}" if words else " " if entry.inline else ""
        else:
            entry.gap = f":{' ' + _spaced(words) if words else ''}"
        value.rel = INDENT
        self._group(value, column + INDENT)


def _chain(value: Node, column: int) -> list[tuple[int, int]]:
    """The old and the new columns of the groups that end where `value` ends, from the outermost to the innermost."""
    found: list[tuple[int, int]] = []
    while isinstance(value, Map | List) and is_block(value):
        found.append((value.base or 0, column))
        value, column = value.entries[-1].value, column + INDENT
    return found


def _replaced(line: str, chain: list[tuple[int, int]]) -> str:
    """A comment after a group, in the column of the group that it was written under."""
    old = len(line) - len(line.lstrip())
    fitting = [new for column, new in chain if column <= old]
    return _indented(line, fitting[-1] if fitting else chain[0][1])


def _indented(line: str, column: int) -> str:
    return " " * column + line.strip() if line.strip() else ""


def _collapsed(lines: list[str]) -> list[str]:
    """The lines with at most one blank line in succession."""
    return [line for position, line in enumerate(lines) if line.strip() or not position or lines[position - 1].strip()]


def _without_first_blank(lines: list[str]) -> list[str]:
    return lines[1:] if lines and not lines[0] else lines


def _separate(before: LayoutEntry, entry: LayoutEntry) -> None:
    """Put a blank line between two entries, unless it would be a part of the text before it."""
    if not _ends_in_kept_text(before.value) and (not entry.lead or entry.lead[0]):
        entry.lead = ["", *entry.lead]


def _ends_in_kept_text(value: Node) -> bool:
    while isinstance(value, Map | List):
        if not value.entries or not is_block(value):
            return False
        value = value.entries[-1].value
    header = _HEADER.match(value.raw + "\n") if value.style in ("|", ">") else None
    return header is not None and "+" in header[1]


def _line_count(value: Node) -> int:
    if isinstance(value, Leaf):
        return 1 + value.raw.count("\n")
    if not is_block(value):
        glue = [entry.glue + entry.gap for entry in value.entries]
        return 1 + "".join([*glue, value.close]).count("\n") + sum(_line_count(e.value) - 1 for e in value.entries)
    return sum(_line_count(entry.value) + (entry.key is not None and _is_below(entry)) for entry in value.entries)


def _is_below(entry: LayoutEntry) -> bool:
    return isinstance(entry.value, Map | List) and is_block(entry.value)


def _comment(tail: str) -> str:
    """What follows a value on its line: nothing, or a comment after one space."""
    found = _COMMENT.search(tail)
    return f" {found[1].rstrip()}" if found else ""


def _spaced(words: str) -> str:
    """An anchor and a comment after a key, with one space between them."""
    before, sign, comment = words.partition("#")
    return f"{before.strip()} {sign}{comment.rstrip()}".strip() if sign else before.strip()


def _gap(entry: LayoutEntry, column: int) -> str:
    """What is between a key or a dash and a value. A value below its key moves to the line of the key."""
    sign = ":" if entry.key is not None else ""
    if "#" not in entry.gap:
        return f"{sign} " if not isinstance(entry.value, Leaf) or entry.value.raw else sign
    first, *lines = entry.gap.split("\n")
    head = sign + _comment(first.removeprefix(sign))
    comments = [_indented(line, column + INDENT) for line in lines[:-1]]
    return "\n".join([head, *comments, " " * (column + INDENT)])


def _block_scalar(leaf: Leaf, column: int) -> None:
    """Indent the lines of a block by two more than its key, unless its header fixes the indentation."""
    if leaf.style not in ("|", ">"):
        return
    header = _HEADER.match(leaf.raw)
    lines = leaf.raw[header.end() :].split("\n") if header else []
    old = next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" ")), None)
    if header is None or old is None:
        return
    if any(char.isdigit() for char in header[1]):
        return  # the writer moves it with its key
    body = "".join(f"\n{line if len(line) > old else line.rstrip(' ')}" for line in lines)
    leaf.raw = leaf.raw[: header.end() - 1].rstrip() + shift(body, column + INDENT - old)
    leaf.base = column


def _braces(group: Map | List) -> None:
    """Spaces inside braces, none inside brackets, one after commas and colons. Line breaks stay."""
    pad = " " if isinstance(group, Map) else ""
    for position, entry in enumerate(group.entries):
        if "\n" not in entry.glue:
            entry.glue = "" if not group.open else pad if position == 0 else ", "
        else:
            entry.glue = _stripped_lines(entry.glue)
        value = entry.value
        if "\n" not in entry.gap:
            colon = entry.gap.strip()  # "" for an item of a list, and for a key without a value
            is_last = entry is group.entries[-1] and isinstance(value, Leaf) and not value.raw
            entry.gap = colon if not colon or (is_last and pad and "\n" not in group.close) else f"{colon} "
        if isinstance(value, Map | List):
            _braces(value)
    if not group.open:
        return
    sign = "}" if isinstance(group, Map) else "]"
    if "\n" in group.close:
        group.close = _stripped_lines(group.close)
    else:
        group.close = (pad if group.entries else "") + sign


def _stripped_lines(text: str) -> str:
    *lines, last = text.split("\n")
    return "\n".join([*(line.rstrip() for line in lines), last])


def _spaced_templates(value: Node, path: Path, templates: frozenset[Path]) -> None:
    if not templates or isinstance(value, Leaf):
        return
    for position, entry in enumerate(value.entries):
        inside: Path = (*path, position if isinstance(value, List) else entry.name or "")
        leaf = entry.value
        if not isinstance(leaf, Leaf):
            _spaced_templates(leaf, inside, templates)
        elif leaf.style != "*" and inside in templates and (edits := list(_missing_spaces(leaf.text))):
            entry.value = replace(leaf, edits)


def _missing_spaces(text: str) -> Iterator[TextEdit]:
    """The edits after which each brace of a template has one space inside."""
    parsed = parse(text)
    for token, following in pairwise(parsed.tokens if parsed else ()):
        between = text[token.end : following.start]
        opens, closes = token.type.endswith("_begin"), following.type.endswith("_end")
        if opens != closes and between != " " and not between.strip(" \t"):
            yield TextEdit(token.end, following.start, " ")
