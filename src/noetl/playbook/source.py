"""YAML text → a tree in which every value and key has its line and column."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple, SupportsIndex, TypeAlias, overload

import yaml
from msgspec import Struct

from noetl.errors import Mark, Problem, Related
from noetl.output import JSON
from noetl.playbook.problems import problem

CONSTANTS: Final[dict[str, bool | int | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
NUMBER_START: Final = frozenset("0123456789+-.")
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_RADIX: Final = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_JSON: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")


def resolve(text: str) -> bool | int | float | str | None:
    """The value of an unquoted YAML 1.2 scalar. Raises ValueError for a number that JSON cannot represent."""
    if text.isdigit() and text.isascii() and text[0] != "0" and len(text) < 19:
        return int(text)  # a fast path for most numbers
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in NUMBER_START:
        return text
    base = 10 if _INT.match(text) else 0 if _RADIX.match(text) else None
    if base is not None:
        if len(text) > 30 or not -(2**63) <= (whole := int(text, base)) < 2**63:
            raise ValueError("a whole number must fit in 64 bits")
        return whole
    if _FLOAT.match(text):
        if not math.isfinite(number := float(text)):
            raise ValueError("a number must be finite")
        return number
    if _NOT_JSON.match(text):
        raise ValueError("a number must be finite")
    return text


TEXT_BYTES_MAX = 1 << 20
DEPTH_MAX = 64
VALUES_MAX = 200_000
ALIASED_MAX = 10_000  # values that all aliases together expand to
KNOWN_MAX = 1_000  # scalars whose value is cached

Path: TypeAlias = tuple[str | int, ...]

_SCALAR, _SEQUENCE_END, _MAPPING_END = yaml.ScalarEvent, yaml.SequenceEndEvent, yaml.MappingEndEvent
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Scalar(Struct, frozen=True, gc=False):
    """A value without parts: null, boolean, number or text."""

    value: bool | int | float | str | None
    start: int  # offsets into the text
    end: int


class Sequence(Struct, frozen=True, gc=False):
    items: list[Tree]
    start: int


class Mapping(Struct, frozen=True, gc=False):
    entries: dict[str, Tree]
    keys: dict[str, int]  # the offset of each key
    start: int


Tree: TypeAlias = Scalar | Sequence | Mapping


class ShiftedItems(list[Tree]):
    """Trees whose offsets are corrected when one of them is used: those of the steps after an edit."""

    def __init__(self, trees: list[Tree], deltas: list[int]) -> None:
        super().__init__(trees)
        self.deltas = deltas

    @overload
    def __getitem__(self, index: SupportsIndex) -> Tree: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tree]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Tree | list[Tree]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if self.deltas[place]:
            self[place] = shifted(super().__getitem__(place), self.deltas[place])
            self.deltas[place] = 0
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Tree]:
        return (self[place] for place in range(len(self)))

    def raw(self, place: int) -> Tree:
        """The tree with the offsets that it had."""
        return super().__getitem__(place)


def shifted(tree: Tree, delta: int) -> Tree:
    """The tree with all offsets moved."""
    match tree:
        case Scalar(value, start, end):
            return Scalar(value, start + delta, end + delta)
        case Sequence(items, start):
            return Sequence([shifted(each, delta) for each in items], start + delta)
        case Mapping(entries, keys, start):
            moved = {key: shifted(each, delta) for key, each in entries.items()}
            return Mapping(moved, {key: at + delta for key, at in keys.items()}, start + delta)


class _Lines:
    """The offsets of the lines of a text, computed when a position is first needed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        starts = self._offsets()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column; the end of the text if it has fewer lines."""
        starts = self._offsets()
        return min(starts[line - 1] + column - 1, len(self._text)) if line <= len(starts) else len(self._text)

    def _offsets(self) -> list[int]:
        if not self._starts:
            lines = f"{self._text}.".splitlines(keepends=True)  # so that the last line is not empty
            self._starts = [0, *accumulate(map(len, lines[:-1]))]
        return self._starts


class Document(NamedTuple):
    """A parsed text. `root` is None if the text has no value or could not be parsed completely."""

    file: str
    text: str
    root: Tree | None
    lines: _Lines
    values: int = 0  # in the text, keys included
    anchored: bool = False  # it has anchors, so a part may be the value of an alias elsewhere

    def mark(self, offset: int) -> Mark:
        return Mark(self.file, *self.lines.position(offset))

    def find(self, path: Path) -> Tree | None:
        """The value at `path`, or None."""
        tree, delta = self._find(path)
        return shifted(tree, delta) if delta and tree is not None else tree

    def _find(self, path: Path) -> tuple[Tree | None, int]:
        """The value at `path` with the offsets that it had, and how far it has moved since."""
        tree, delta = self.root, 0
        for part in path:
            if isinstance(tree, Mapping) and isinstance(part, str):
                tree = tree.entries.get(part)
            elif isinstance(tree, Sequence) and isinstance(part, int) and part < len(tree.items):
                items = tree.items
                if isinstance(items, ShiftedItems):
                    delta += items.deltas[part]
                    tree = items.raw(part)
                else:
                    tree = items[part]
            else:
                return None, 0
        return tree, delta

    def at(self, path: Path) -> Mark:
        """The start of the value at `path`, or of the innermost existing value around it."""
        for length in range(len(path), -1, -1):
            tree, delta = self._find(path[:length])
            if tree is not None:
                return self.mark(tree.start + delta)
        return Mark(self.file, 1, 1)

    def key_at(self, path: Path) -> Mark:
        """The position of the last key of `path`."""
        around, delta = self._find(path[:-1])
        key = path[-1] if path else None
        if isinstance(around, Mapping) and isinstance(key, str) and key in around.keys:
            return self.mark(around.keys[key] + delta)
        return self.at(path)

    def locate(self, path: Path, word: str | None, line: int = 1) -> Mark:
        """The position of `word` inside the text at `path`; the start of the text if it is not found.

        Of several occurrences it is the first one on `line` of the text, otherwise the first one.
        """
        tree = self.find(path)
        if not word or not isinstance(tree, Scalar):
            return self.at(path)
        raw = self.text[tree.start : tree.end]
        pattern = re.compile(rf"(?<![\w.]){re.escape(word)}(?!\w)")
        begin = 0
        for _ in range(line if raw.startswith(("|", ">")) else line - 1):  # a block begins on the line after its mark
            begin = raw.find("\n", begin) + 1
        end = raw.find("\n", begin)
        match = pattern.search(raw, begin, len(raw) if end < 0 else end) or pattern.search(raw)
        return self.at(path) if match is None else self.mark(tree.start + match.start())


class ParsedDocument(NamedTuple):
    document: Document
    problems: list[Problem]


def parse(
    text: str | bytes, file: str = "<playbook>", *, bytes_max: int = TEXT_BYTES_MAX, values_max: int = VALUES_MAX
) -> ParsedDocument:
    """Parse one YAML document, and report all problems up to one that prevents further parsing."""
    if isinstance(text, bytes):
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            at = Mark(file, text.count(b"\n", 0, error.start) + 1, 1)
            hint = problem("yaml-encoding", at, f"the text is not UTF-8 (byte {error.start})")
            return ParsedDocument(Document(file, "", None, _Lines("")), [hint])
    else:
        decoded = text
    text = decoded.removeprefix("\ufeff")
    composer = _Composer(text, file, bytes_max, values_max)
    try:
        root = composer.document()
    except _Stop as stop:
        return ParsedDocument(Document(file, text, None, composer.lines), [*composer.problems, stop.problem])
    document = Document(file, text, root, composer.lines, composer.values, bool(composer.anchors))
    return ParsedDocument(document, composer.problems)


def lines_of(text: str) -> _Lines:
    return _Lines(text)


def is_null(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.value is None


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


class _Stop(Exception):
    """A problem that prevents further parsing."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


_Extent: TypeAlias = tuple[int, int]  # the number of values in a tree, and the number of levels
_SCALAR_EXTENT: _Extent = (1, 1)


class _Composer:
    """Builds a tree from events, and checks every limit before it creates a value."""

    def __init__(self, text: str, file: str, bytes_max: int, values_max: int) -> None:
        self.text = text
        self.file = file
        self.bytes_max = bytes_max
        self.values_max = values_max
        self.problems: list[Problem] = []
        self.values = 0
        self.aliased = 0
        self.lines = _Lines(text)
        self.known = CONSTANTS.copy()  # and numbers, because a text with many numbers usually repeats them
        self.anchors: dict[str, tuple[Tree, _Extent] | None] = {}  # None: the anchored value is not complete yet

    def document(self) -> Tree | None:
        size = len(self.text.encode("utf-8", "surrogatepass"))
        if size > self.bytes_max:
            raise _Stop(
                problem("yaml-too-large", Mark(self.file, 1, 1), f"{size:,} bytes; the limit is {self.bytes_max:,}")
            )
        try:
            # Events are read one by one, so that rejected text after this point costs nothing.
            self.next_event = _LOADER(self.text).get_event
            return self._document()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = Mark(self.file, mark.line + 1, mark.column + 1) if mark else Mark(self.file, 1, 1)
            hint = syntax_hint(self.text, error)
            raise _Stop(problem("yaml-syntax", at, hint.message, fix=hint.fix)) from error
        except (yaml.YAMLError, UnicodeEncodeError) as error:
            raise _Stop(self._unreadable()) from error

    def _document(self) -> Tree | None:
        root: Tree | None = None
        documents = 0
        while (event := self.next_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Stop(problem("yaml-documents", self._at(event), "a second document begins here"))
            elif isinstance(event, yaml.NodeEvent):
                root, _ = self._tree(event, 1)
        return root

    def _tree(self, event: yaml.Event, depth: int) -> tuple[Tree, _Extent]:
        if depth > DEPTH_MAX:
            raise _Stop(problem("yaml-too-deep", self._at(event), f"nested deeper than {DEPTH_MAX} levels"))
        if type(event) is _SCALAR and event.anchor is None and event.tag is None:
            return self._scalar(event), _SCALAR_EXTENT
        if isinstance(event, yaml.AliasEvent):
            self._count(event)
            return self._alias(event, depth)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = None
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            self._report(
                "yaml-tag",
                event,
                f'the tag "{self._tag(event)}" is not supported; remove it, or use quotes to make the value text',
            )
        if isinstance(event, yaml.ScalarEvent):
            made: tuple[Tree, _Extent] = (self._scalar(event), _SCALAR_EXTENT)
        elif isinstance(event, yaml.SequenceStartEvent):
            made = self._sequence(event, depth + 1)
        else:
            made = self._mapping(event, depth + 1)
        if anchor is not None:
            self.anchors[anchor] = made
        return made

    def _count(self, event: yaml.Event) -> None:
        self.values += 1
        if self.values > self.values_max:
            raise self._too_many(event)

    def _too_many(self, event: yaml.Event) -> _Stop:
        return _Stop(problem("yaml-too-many-values", self._at(event), f"more than {self.values_max:,} values"))

    def _tag(self, event: yaml.Event) -> str:
        """The tag as the author wrote it."""
        mark = event.start_mark
        assert mark is not None
        message = [word for word in self.text[mark.index : mark.index + 200].split() if word.startswith("!")]
        return message[0] if message else "!"

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        self.values += 1
        if self.values > self.values_max:
            raise self._too_many(event)
        text = event.value
        value: bool | int | float | str | None = text
        if not event.style and event.implicit[0]:
            if text in self.known:
                value = self.known[text]
            elif text[0] in NUMBER_START:
                value = self._number(event)
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        return Scalar(value, start.index, end.index)

    def _number(self, event: yaml.ScalarEvent) -> bool | int | float | str | None:
        try:
            value = resolve(event.value)
        except ValueError as error:
            self._report("bad-number", event, f'"{event.value[:40]}": {error}', fix="put it in quotes")
            return event.value
        if len(self.known) < KNOWN_MAX and not isinstance(value, str):
            self.known[event.value] = value
        return value

    def _sequence(self, start: yaml.Event, depth: int) -> tuple[Tree, _Extent]:
        self._count(start)
        items: list[Tree] = []
        more, height, next_event, scalar = 0, 0, self.next_event, self._scalar
        # The fast path for scalars comes first, because hostile text may contain very many of them.
        leaf = _SCALAR if depth <= DEPTH_MAX else None
        while True:
            event = next_event()
            kind = type(event)
            if kind is leaf and event.anchor is None and event.tag is None:
                items.append(scalar(event))
                continue
            if kind is _SEQUENCE_END:
                break
            item, (inside, tall) = self._tree(event, depth)
            items.append(item)
            more += inside - 1
            if tall > height:
                height = tall
        at = start.start_mark
        assert at is not None
        return Sequence(items, at.index), (1 + len(items) + more, 1 + max(height, len(items) > 0))

    def _mapping(self, start: yaml.Event, depth: int) -> tuple[Tree, _Extent]:
        self._count(start)
        entries: dict[str, Tree] = {}
        keys: dict[str, int] = {}
        values, height, next_event, scalar = 1, 0, self.next_event, self._scalar
        leaf = _SCALAR if depth <= DEPTH_MAX else None  # the fast path, as for sequences
        while (kind := type(event := next_event())) is not _MAPPING_END:
            if kind is leaf and event.anchor is None and event.tag is None:
                key: Tree = scalar(event)
            else:
                key, _ = self._tree(event, depth)
            below = next_event()
            if type(below) is leaf and below.anchor is None and below.tag is None:
                tree: Tree = scalar(below)
                inside = tall = 1
            else:
                tree, (inside, tall) = self._tree(below, depth)
            values += inside + 1
            if tall > height:
                height = tall
            if (name := self._key(key, event)) is None:
                continue
            if name in keys:
                first = Mark(self.file, *self.lines.position(keys[name]))
                related = (Related(first, "first occurrence"),)
                message = f'the key "{name}" occurs twice in this mapping'
                self._report("duplicate-key", event, message, fix="remove one of the two", related=related)
                continue
            entries[name], keys[name] = tree, key.start
        at = start.start_mark
        assert at is not None
        return Mapping(entries, keys, at.index), (values, height + 1)

    def _key(self, key: Tree, event: yaml.Event) -> str | None:
        if not isinstance(key, Scalar):
            assert event.start_mark is not None
            hint = key_hint(self.text, event.start_mark.index)
            self._report("yaml-key", event, hint.message, fix=hint.fix)
            return None
        if not isinstance(key.value, str):
            written = self.text[key.start : key.end]
            self._report("yaml-key", event, f"the key {written} is not text", fix=f'"{written}":')
            return None
        if key.value == "<<" == self.text[key.start : key.end]:  # in quotes it is an ordinary key
            self._report("yaml-merge", event, 'the merge key "<<" is not part of YAML 1.2')
            return None
        return key.value

    def _alias(self, event: yaml.AliasEvent, depth: int) -> tuple[Tree, _Extent]:
        if event.anchor not in self.anchors:
            raise _Stop(problem("yaml-syntax", self._at(event), f'the alias "*{event.anchor}" has no anchor'))
        known = self.anchors[event.anchor]
        if known is None:
            raise _Stop(problem("yaml-alias-cycle", self._at(event), f'"*{event.anchor}" contains itself'))
        _, (values, height) = known
        self.aliased += values
        if self.aliased > ALIASED_MAX:
            message = f"the aliases expand to more than {ALIASED_MAX:,} values"
            raise _Stop(problem("yaml-alias-limit", self._at(event), message))
        if depth + height - 1 > DEPTH_MAX:
            raise _Stop(problem("yaml-too-deep", self._at(event), f"nested deeper than {DEPTH_MAX} levels"))
        return known

    def _unreadable(self) -> Problem:
        """The first character that is not allowed. PyYAML does not report its position."""
        for index, char in enumerate(self.text):
            if not (char.isprintable() or char in "\t\n\r\x85\xa0\ufeff" or "\ue000" <= char <= "\ufffd"):
                line, column = self.text.count("\n", 0, index) + 1, index - self.text.rfind("\n", 0, index)
                return problem(
                    "yaml-encoding", Mark(self.file, line, column), f"the character U+{ord(char):04X} is not allowed"
                )
        return problem("yaml-encoding", Mark(self.file, 1, 1), "the text contains characters that YAML does not allow")

    def _at(self, event: yaml.Event) -> Mark:
        mark = event.start_mark
        assert mark is not None
        return Mark(self.file, mark.line + 1, mark.column + 1)

    def _report(
        self, code: str, event: yaml.Event, message: str, *, fix: str | None = None, related: tuple[Related, ...] = ()
    ) -> None:
        self.problems.append(problem(code, self._at(event), message, fix=fix, related=related))


_UNFIT: Final = ("did not find expected '-' indicator", "did not find expected key")
_TWO_COLONS: Final = "mapping values are not allowed in this context"


class YamlHint(NamedTuple):
    message: str
    fix: str | None = None


def syntax_hint(text: str, error: yaml.MarkedYAMLError) -> YamlHint:
    """Explain a syntax error; for unknown errors, return the message of PyYAML."""
    mark, reason = error.problem_mark, error.problem or ""
    before, char = (text[: mark.index], text[mark.index : mark.index + 1]) if mark else ("", "")
    if char == "\t":
        return YamlHint("a tab is not allowed here; YAML is indented with spaces", "indent with spaces")
    if reason.endswith("cannot start any token"):
        return YamlHint(f'a value cannot start with "{char}"', "put it in quotes")
    if reason in _UNFIT and not before.rpartition("\n")[2].strip():
        message = "this line does not match the lines above: its indentation differs, or it mixes a list with keys"
        return YamlHint(message, "indent it like the lines above that it belongs to")
    if reason == _TWO_COLONS:
        message = "`: ` inside a value: the value needs quotes, or its line is indented too far"
        return YamlHint(message, "put the value in quotes, or indent it like the line above")
    return YamlHint(" ".join(filter(None, (error.context, reason))))


def key_hint(text: str, index: int) -> YamlHint:
    """Explain a key that is a mapping or a list at `index`: usually it is a template without quotes."""
    if index and text[index - 1 : index + 1] == "{{":
        return YamlHint("put the template in quotes; without them YAML reads its braces as a mapping", '"{{ … }}"')
    return YamlHint("a key must be text, not a list or a mapping")
