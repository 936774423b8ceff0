"""YAML text → a tree in which every value and every key knows its line and column.

It composes PyYAML's event stream itself, lazily, so that hostile text is refused before it costs anything:
YAML 1.2 core values, no tags, no merge keys, limits on size, depth, values and aliases.
It knows nothing of playbooks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import yaml
from msgspec import Struct

from noetl.errors import Mark, Problem, Related
from noetl.output import JSON
from noetl.playbook.problems import problem
from noetl.playbook.slips import key_slip, slip

TEXT_BYTES_MAX = 1 << 20
DEPTH_MAX = 64
VALUES_MAX = 200_000
ALIASED_MAX = 10_000  # values that aliases stand for, in all

Path: TypeAlias = tuple[str | int, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_RADIX = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_NUMBER_START = frozenset("0123456789+-.")


class Scalar(Struct, frozen=True, gc=False):
    """A value without parts: null, boolean, number or text."""

    value: bool | int | float | str | None
    line: int
    column: int
    start: int  # offsets into the text, for pointing at a word inside
    end: int


class Sequence(Struct, frozen=True, gc=False):
    items: list[Tree]
    line: int
    column: int


class Mapping(Struct, frozen=True, gc=False):
    entries: dict[str, Tree]
    keys: dict[str, Scalar]  # where each key stands
    line: int
    column: int


Tree: TypeAlias = Scalar | Sequence | Mapping


class Document(NamedTuple):
    """One text, read. `root` is None when it holds no value or could not be read to its end."""

    file: str
    text: str
    root: Tree | None

    def find(self, path: Path) -> Tree | None:
        """The value at `path`, or None."""
        tree = self.root
        for part in path:
            match tree:
                case Mapping() if isinstance(part, str):
                    tree = tree.entries.get(part)
                case Sequence() if isinstance(part, int) and part < len(tree.items):
                    tree = tree.items[part]
                case _:
                    return None
        return tree

    def at(self, path: Path) -> Mark:
        """Where the value at `path` begins; the nearest value around it when there is none."""
        for length in range(len(path), -1, -1):
            tree = self.find(path[:length])
            if tree is not None:
                return Mark(self.file, tree.line, tree.column)
        return Mark(self.file, 1, 1)

    def key_at(self, path: Path) -> Mark:
        """Where the key that `path` ends in stands."""
        around = self.find(path[:-1])
        key = path[-1] if path else None
        if isinstance(around, Mapping) and isinstance(key, str) and key in around.keys:
            return Mark(self.file, around.keys[key].line, around.keys[key].column)
        return self.at(path)

    def locate(self, path: Path, word: str | None) -> Mark:
        """Where `word` stands inside the text at `path`; where that text begins when it is not found."""
        tree = self.find(path)
        if not word or not isinstance(tree, Scalar):
            return self.at(path)
        found = re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", self.text[tree.start : tree.end])
        if found is None:
            return self.at(path)
        index = tree.start + found.start()
        line = tree.line + self.text.count("\n", tree.start, index)
        return Mark(self.file, line, index - self.text.rfind("\n", 0, index))


class Parsed(NamedTuple):
    document: Document
    problems: list[Problem]


def parse(text: str | bytes, file: str = "<playbook>") -> Parsed:
    """Read one YAML document. All problems of one reading are told, unless one of them ends it."""
    if isinstance(text, bytes):
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            at = Mark(file, text.count(b"\n", 0, error.start) + 1, 1)
            told = problem("yaml-encoding", at, f"the text is not UTF-8 (byte {error.start})")
            return Parsed(Document(file, "", None), [told])
    else:
        decoded = text
    text = decoded.removeprefix("\ufeff")
    composer = _Composer(text, file)
    try:
        root = composer.document()
    except _Stop as stop:
        return Parsed(Document(file, text, None), [*composer.problems, stop.problem])
    return Parsed(Document(file, text, root), composer.problems)


def plain(tree: Tree | None) -> JSON:
    """The value alone, without positions."""
    match tree:
        case None:
            return None
        case Scalar(value):
            return value
        case Sequence(items):
            return [plain(item) for item in items]
        case Mapping(entries):
            return {key: plain(value) for key, value in entries.items()}


def resolve(text: str) -> bool | int | float | str | None:
    """What an unquoted YAML 1.2 scalar means. Raises ValueError for a number that JSON can not hold."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in _NUMBER_START:
        return text
    base = 10 if _INT.match(text) else 0 if _RADIX.match(text) else None
    if base is not None:
        if len(text) > 30 or not -(2**63) <= (whole := int(text, base)) < 2**63:
            raise ValueError("a whole number must fit 64 bits")
        return whole
    if _FLOAT.match(text):
        if not math.isfinite(number := float(text)):
            raise ValueError("a number must be finite")
        return number
    if _NOT_JSON.match(text):
        raise ValueError("a number must be finite")
    return text


class _Stop(Exception):
    """Reading can not go on."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Extent(NamedTuple):
    values: int
    height: int


_LEAF = _Extent(1, 1)


class _Composer:
    """Events → Tree, with every limit checked before the value is made."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.problems: list[Problem] = []
        self.values = 0
        self.aliased = 0
        self.numbers: dict[str, int | float] = {}  # in a text with very many, most are there more than once
        self.anchors: dict[str, tuple[Tree, _Extent] | None] = {}  # None: not closed yet

    def document(self) -> Tree | None:
        size = len(self.text.encode("utf-8", "surrogatepass"))
        if size > TEXT_BYTES_MAX:
            raise _Stop(
                problem(
                    "yaml-too-large",
                    Mark(self.file, 1, 1),
                    f"{size:,} bytes; the limit is {TEXT_BYTES_MAX:,}",
                )
            )
        try:
            # Events are drawn one by one, never drained: what is refused costs nothing behind it.
            return self._document(iter(_LOADER(self.text).get_event, None))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = Mark(self.file, mark.line + 1, mark.column + 1) if mark else Mark(self.file, 1, 1)
            told = slip(self.text, error)
            raise _Stop(problem("yaml-syntax", at, told.message, fix=told.fix)) from error
        except (yaml.YAMLError, UnicodeEncodeError) as error:
            raise _Stop(self._unreadable()) from error

    def _document(self, events: Iterator[yaml.Event]) -> Tree | None:
        root: Tree | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Stop(problem("yaml-documents", self._at(event), "a second document begins here"))
            elif isinstance(event, yaml.NodeEvent):
                root, _ = self._tree(event, events, 1)
        return root

    def _tree(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> tuple[Tree, _Extent]:
        self.values += 1
        if self.values > VALUES_MAX:
            raise _Stop(problem("yaml-too-many-values", self._at(event), f"more than {VALUES_MAX:,} values"))
        if depth > DEPTH_MAX:
            raise _Stop(problem("yaml-too-deep", self._at(event), f"nested deeper than {DEPTH_MAX} levels"))
        # What nearly all values are comes first: a hostile text has very many of them.
        if type(event) is yaml.ScalarEvent and event.anchor is None and event.tag is None:
            return self._scalar(event), _LEAF
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = None
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            self._tell("yaml-tag", event, f'tag "{self._tag(event)}" is not allowed')
        if isinstance(event, yaml.ScalarEvent):
            made: tuple[Tree, _Extent] = (self._scalar(event), _LEAF)
        elif isinstance(event, yaml.SequenceStartEvent):
            made = self._sequence(event, events, depth)
        else:
            made = self._mapping(event, events, depth)
        if anchor is not None:
            self.anchors[anchor] = made
        return made

    def _tag(self, event: yaml.Event) -> str:
        """The tag in the author's own words."""
        mark = event.start_mark
        assert mark is not None
        words = [word for word in self.text[mark.index : mark.index + 200].split() if word.startswith("!")]
        return words[0] if words else "!"

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        value: bool | int | float | str | None = event.value
        if not event.style and event.implicit[0]:
            value = self.numbers.get(event.value)
            if value is None:
                value = self._resolved(event)
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        return Scalar(value, start.line + 1, start.column + 1, start.index, end.index)

    def _resolved(self, event: yaml.ScalarEvent) -> bool | int | float | str | None:
        try:
            value = resolve(event.value)
        except ValueError as error:
            self._tell("bad-number", event, f'"{event.value[:40]}": {error}', fix="put it in quotes")
            return event.value
        if isinstance(value, int | float):
            self.numbers[event.value] = value
        return value

    def _sequence(self, start: yaml.Event, events: Iterator[yaml.Event], depth: int) -> tuple[Tree, _Extent]:
        items: list[Tree] = []
        values, height, depth = 1, 0, depth + 1
        for event in events:
            if type(event) is yaml.SequenceEndEvent:
                break
            item, (inside, tall) = self._tree(event, events, depth)
            items.append(item)
            values += inside
            if tall > height:
                height = tall
        at = start.start_mark
        assert at is not None
        return Sequence(items, at.line + 1, at.column + 1), _Extent(values, height + 1)

    def _mapping(self, start: yaml.Event, events: Iterator[yaml.Event], depth: int) -> tuple[Tree, _Extent]:
        entries: dict[str, Tree] = {}
        keys: dict[str, Scalar] = {}
        values, height, depth = 1, 0, depth + 1
        for event in events:
            if type(event) is yaml.MappingEndEvent:
                break
            key, _ = self._tree(event, events, depth)
            tree, (inside, tall) = self._tree(next(events), events, depth)
            values += inside + 1
            if tall > height:
                height = tall
            if (name := self._key(key, event)) is None:
                continue
            assert isinstance(key, Scalar)
            if name in keys:
                first = Mark(self.file, keys[name].line, keys[name].column)
                related = (Related(first, "it stands here first"),)
                self._tell("duplicate-key", event, f'key "{name}" stands here twice', related=related)
                continue
            entries[name], keys[name] = tree, key
        at = start.start_mark
        assert at is not None
        return Mapping(entries, keys, at.line + 1, at.column + 1), _Extent(values, height + 1)

    def _key(self, key: Tree, event: yaml.Event) -> str | None:
        if not isinstance(key, Scalar):
            assert event.start_mark is not None
            told = key_slip(self.text, event.start_mark.index)
            self._tell("yaml-key", event, told.message, fix=told.fix)
            return None
        if not isinstance(key.value, str):
            written = self.text[key.start : key.end]
            self._tell("yaml-key", event, f"key {written} is not text", fix=f'"{written}":')
            return None
        if key.value == self.text[key.start : key.end] == "<<":  # quoted it is a key like any other
            self._tell("yaml-merge", event, 'the merge key "<<" is not part of YAML 1.2')
            return None
        return key.value

    def _alias(self, event: yaml.AliasEvent, depth: int) -> tuple[Tree, _Extent]:
        if event.anchor not in self.anchors:
            raise _Stop(problem("yaml-syntax", self._at(event), f'alias "*{event.anchor}" names no anchor'))
        known = self.anchors[event.anchor]
        if known is None:
            raise _Stop(problem("yaml-alias-cycle", self._at(event), f'"*{event.anchor}" contains itself'))
        _, extent = known
        self.aliased += extent.values
        if self.aliased > ALIASED_MAX:
            words = f"aliases stand for more than {ALIASED_MAX:,} values"
            raise _Stop(problem("yaml-alias-limit", self._at(event), words))
        if depth + extent.height - 1 > DEPTH_MAX:
            raise _Stop(problem("yaml-too-deep", self._at(event), f"nested deeper than {DEPTH_MAX} levels"))
        return known

    def _unreadable(self) -> Problem:
        """PyYAML says only that some character is not allowed: find the first one ourselves."""
        for index, char in enumerate(self.text):
            if not (char.isprintable() or char in "\t\n\r\x85\xa0\ufeff" or "\ue000" <= char <= "\ufffd"):
                line, column = self.text.count("\n", 0, index) + 1, index - self.text.rfind("\n", 0, index)
                return problem(
                    "yaml-encoding",
                    Mark(self.file, line, column),
                    f"character U+{ord(char):04X} is not allowed",
                )
        return problem(
            "yaml-encoding", Mark(self.file, 1, 1), "the text holds characters that YAML does not allow"
        )

    def _at(self, event: yaml.Event) -> Mark:
        mark = event.start_mark
        assert mark is not None
        return Mark(self.file, mark.line + 1, mark.column + 1)

    def _tell(
        self,
        code: str,
        event: yaml.Event,
        message: str,
        *,
        fix: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.problems.append(problem(code, self._at(event), message, fix=fix, related=related))
