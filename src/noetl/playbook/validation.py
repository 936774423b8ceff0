"""Validation of a document against the language table; every problem is reported with its position."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from noetl.errors import Mark, Problem, Related, Severity
from noetl.output import JSON
from noetl.playbook import source
from noetl.playbook.problems import problem
from noetl.playbook.shapes import (
    NAME_PATTERN,
    AnyShape,
    BooleanShape,
    ChoiceShape,
    GuardShape,
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    NullShape,
    NumberShape,
    RecordShape,
    ReservedShape,
    Shape,
    TemplateShape,
    TextShape,
    UnionShape,
    describe,
)
from noetl.playbook.source import Document, Path, Scalar, Tree, is_null, plain
from noetl.template.values import is_template

NAMES_COMPARED_MAX = 10_000  # names compared for suggestions, per document: about 0.2 s
_WORD_CHARS_MAX = 100


class ProblemReport:
    """Collects the problems of one document, with their positions."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self._compared = 0
        self._matches: dict[tuple[str, ...], str | None] = {}  # a word and the known names → the most similar one

    def add(
        self,
        code: str,
        path: Path,
        message: str,
        *,
        key: bool = False,  # point at the key, not at its value
        word: str | None = None,  # point at this word inside the value
        line: int = 1,  # of the value, on which the word is
        fix: str | None = None,
        related: tuple[Related, ...] = (),
        severity: Severity | None = None,
    ) -> None:
        at = self.document.key_at(path) if key else self.document.locate(path, word, line)
        self.problems.append(problem(code, at, message, fix=fix, related=related, severity=severity))

    def at(self, path: Path) -> Mark:
        return self.document.at(path)

    def similar(self, word: str, known: Iterable[str]) -> str | None:
        """The known name most similar to `word`; None if none is similar.

        Comparing is slow, so a document with thousands of mistakes gets no more suggestions.
        """
        if self._compared > NAMES_COMPARED_MAX:
            return None  # not even sorted: with thousands of names and mistakes, that takes most of the time
        names = sorted(known)
        self._compared += len(names)
        if self._compared > NAMES_COMPARED_MAX:
            return None
        key = (word, *names)
        if key not in self._matches:
            from difflib import get_close_matches

            # The letters of a very short word occur in many unrelated longer words.
            cutoff = 0.6 if len(word) > 2 else 0.75
            matches = get_close_matches(word[:_WORD_CHARS_MAX], names, n=1, cutoff=cutoff)
            longer = [name for name in names if name.startswith(word)] if len(word) > 2 else []
            self._matches[key] = matches[0] if matches else longer[0] if len(longer) == 1 else None
        return self._matches[key]


NAME = re.compile(rf"{NAME_PATTERN}\Z")


def validate(tree: Tree, shape: Shape, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    """Whether the tree matches the shape, and its valid data. A mismatch has been reported."""
    if isinstance(tree, Scalar):
        return _scalar(tree, shape, path, report)
    if isinstance(tree, source.Mapping):
        if isinstance(shape, RecordShape):
            return True, validate_record(tree, shape, path, report)
        if isinstance(shape, MapShape):
            each = {key: validate(value, shape.of, (*path, key), report) for key, value in tree.entries.items()}
            return True, {key: value for key, (fits, value) in each.items() if fits}
        if isinstance(shape, KindShape):
            return _by_kind(tree, shape, path, report)
    elif isinstance(shape, ListShape):
        return True, _items(tree, shape.of, path, report)
    if isinstance(shape, AnyShape):
        return True, plain(tree)
    if isinstance(shape, UnionShape):
        fitting = next((each for each in shape.shapes if _kind_fits(tree, each)), None)
        if fitting is None:
            return _wrong(shape, tree, path, report)
        return validate(tree, fitting, path, report)
    if isinstance(shape, ReservedShape):
        return _reserved(shape, path, report)
    return _wrong(shape, tree, path, report)


def _items(tree: source.Sequence, of: Shape, path: Path, report: ProblemReport) -> list[JSON]:
    """The valid items of a list. Records keep their index: an invalid one is replaced by None."""
    parts = [validate(item, of, (*path, index), report) for index, item in enumerate(tree.items)]
    if isinstance(of, RecordShape | KindShape):
        return [value if fits else None for fits, value in parts]
    return [value for fits, value in parts if fits]


def _by_kind(tree: source.Mapping, shape: KindShape, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    if "kind" not in tree.entries:
        if (other := _other(tree, shape)) is not None:
            kept = validate_record(tree, shape.others[other], path, report)
            return other in kept, kept
        labelled = list(tree.entries.values())
        if len(labelled) == 1 and isinstance(labelled[0], source.Mapping) and "kind" in labelled[0].entries:
            label = next(iter(tree.entries))
            message = f'"{label}: {{…}}" is a labelled task of an older dialect; `noetl migrate` rewrites it'
            report.add("old-dialect", (*path, label), message, key=True, fix=f"- name: {label}")
            fits, inner = _by_kind(labelled[0], shape, (*path, label), report)
            return fits, {**inner, "name": label} if fits else None
        validate_record(tree, shape.unknown, path, report)
        return False, None
    kind = tree.entries["kind"]
    if not (isinstance(kind, Scalar) and isinstance(kind.value, str)):
        return _wrong(TextShape(), kind, (*path, "kind"), report)
    record = shape.kinds.get(kind.value)
    if record is None:
        advice = shape.advice.get(kind.value)
        suggestion = None if advice else report.similar(kind.value, shape.kinds)
        hint = "" if advice else f"; known kinds: {_list(sorted(shape.kinds))}"
        if suggestion:
            hint = f'; did you mean "{suggestion}"?'
        message = f'there is no {shape.title} of kind "{kind.value}"{hint}'
        report.add("unknown-kind", (*path, "kind"), message, fix=advice or suggestion)
        record = shape.unknown
    return True, validate_record(tree, record, path, report)


def _other(tree: source.Mapping, shape: KindShape) -> str | None:
    """The key that replaces `kind`. A labelled task of an older dialect may have such a label."""
    for name, value in tree.entries.items():
        if name in shape.others and not (isinstance(value, source.Mapping) and "kind" in value.entries):
            return name
    return None


def validate_record(tree: source.Mapping, record: RecordShape, path: Path, report: ProblemReport) -> dict[str, JSON]:
    """The known keys with valid values. A key with null counts as left out."""
    kept: dict[str, JSON] = {}
    for name, value in tree.entries.items():
        key = record.keys.get(name)
        if key is not None:
            shape = key.shape
        elif record.extra is not None and name not in record.retired:
            shape = record.extra
        else:
            report_unknown_key(name, record, (*path, name), report)
            continue
        if is_null(value) and not _takes_null(shape):
            if key is not None and key.required:
                report.add("missing-key", (*path, name), f'"{name}" has no value', key=True)
            continue
        fits, value_left = validate(value, shape, (*path, name), report)
        if fits:
            kept[name] = value_left
    for name, key in record.keys.items():
        if key.required and name not in tree.entries:
            message = f'{record.title} needs "{name}": {key.doc}'
            report.add("missing-key", path, message, key=True, fix=_example(name, key))
    return kept


def report_unknown_key(name: str, record: RecordShape, path: Path, report: ProblemReport) -> None:
    if name in record.retired:
        code, message, fix = record.retired[name]
        report.add(code, path, message, key=True, fix=fix)
        return
    suggestion = report.similar(name, record.keys)
    message = f'{record.title} has no key "{name}"'
    if suggestion:
        message += f'; did you mean "{suggestion}"?'
    else:
        message += f"; its keys are {_list(record.keys)}"
    report.add("unknown-key", path, message, key=True, fix=suggestion)


def _scalar(tree: Scalar, shape: Shape, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    value = tree.value
    if isinstance(shape, UnionShape):
        fitting = next((each for each in shape.shapes if _kind_fits(tree, each)), None)
        if fitting is None:
            return _wrong(shape, tree, path, report)
        return _scalar(tree, fitting, path, report)
    if isinstance(shape, ReservedShape):
        return _reserved(shape, path, report)
    if isinstance(shape, AnyShape) or _templated(value, shape):
        return True, value
    if not _kind_fits(tree, shape):
        return _wrong(shape, tree, path, report)
    return _value(value, shape, path, report)


def _value(value: JSON, shape: Shape, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    """Validate a value that has the right type."""
    match shape:
        case ChoiceShape(values) if value not in values:
            suggestion = report.similar(value, values)
            hint = f'; did you mean "{suggestion}"?' if suggestion else ""
            report.add("bad-value", path, f'"{value}" is not one of {_list(values)}{hint}', fix=suggestion)
            return False, None
        case NumberShape(minimum) if minimum is not None and value < minimum:
            report.add("bad-value", path, f"{value} is too small; expected {describe(shape)}")
            return False, None
        case TextShape(templated=False, name=False) | TextShape(templated=True):
            return True, value
        case TextShape() if is_template(value):
            report.add("not-a-template", path, f'"{value}": a name cannot be a template')
            return False, None
        case TextShape() if not NAME.match(value):
            report.add("bad-name", path, f'"{value}" is not a valid name; use letters, digits, "_" and "-"')
            return False, None
    return True, value


def _templated(value: JSON, shape: Shape) -> bool:
    return isinstance(value, str) and getattr(shape, "templated", False) and is_template(value)


_TYPES: dict[type, Callable[[JSON], bool]] = {
    TextShape: lambda value: isinstance(value, str),
    ChoiceShape: lambda value: isinstance(value, str),
    BooleanShape: lambda value: isinstance(value, bool),
    GuardShape: lambda value: isinstance(value, str | bool),
    TemplateShape: lambda value: isinstance(value, str) and is_template(value),
    NullShape: lambda value: value is None,
}


def _kind_fits(tree: Tree, shape: Shape) -> bool:
    """Does the value have the type that the shape describes?"""
    if isinstance(shape, AnyShape | ReservedShape):
        return True
    if isinstance(shape, UnionShape):
        return any(_kind_fits(tree, each) for each in shape.shapes)
    if isinstance(tree, source.Mapping):
        return isinstance(shape, RecordShape | MapShape | KindShape)
    if isinstance(tree, source.Sequence):
        return isinstance(shape, ListShape)
    if _templated(tree.value, shape):
        return True
    if isinstance(shape, NumberShape):
        numeric = int if shape.whole else (int, float)
        return isinstance(tree.value, numeric) and not isinstance(tree.value, bool)
    fits = _TYPES.get(type(shape))
    return fits is not None and fits(tree.value)


def _takes_null(shape: Shape) -> bool:
    return isinstance(shape, AnyShape | NullShape | ReservedShape) or (
        isinstance(shape, UnionShape) and any(_takes_null(each) for each in shape.shapes)
    )


def _reserved(shape: ReservedShape, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    hint = "" if shape.instead is None else f"; use {shape.instead}"
    message = f'"{path[-1]}" is reserved for a later version and has no effect{hint}'
    report.add("reserved", path, message, key=True)
    return False, None


def _wrong(shape: Shape, tree: Tree, path: Path, report: ProblemReport) -> tuple[bool, JSON]:
    if isinstance(shape, RecordShape) and (retired := shape.wrong_types.get(tree_kind(tree))):
        report.add(retired.code, path, retired.message, key=True, fix=retired.fix)
        return False, None
    where = f'"{path[-1]}"' if path and isinstance(path[-1], str) else "this"
    message = f"{where} is {tree_kind(tree)}; expected {describe(shape)}"
    report.add("wrong-type", path, message, key=not isinstance(tree, Scalar))
    return False, None


def tree_kind(tree: Tree) -> str:
    """The type of a YAML value, for messages."""
    match tree:
        case source.Mapping():
            return "a mapping"
        case source.Sequence():
            return "a list"
        case Scalar(None):
            return "empty"
        case Scalar(value) if isinstance(value, bool):
            return "a boolean"
        case Scalar(value) if isinstance(value, str):
            return "text"
        case _:
            return "a number"


def _example(name: str, key: KeyShape) -> str | None:
    return None if key.example is None else f"{name}: {key.example}"


def _list(message: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in message)
