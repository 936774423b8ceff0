"""Values of `ctx`, `step`, `iter` and `input` that are too large for the log (D91).

Facts and the state hold a mark, `{"$stored": <Ref>}`; the result store holds the value. Workers replace marks by
values. A decision of control that reads through a mark, or makes a large value, raises NeedsValues: a worker
makes it (`engine/delegation.py`). Data may look like a mark, so its reader checks whose result the Ref names (D99).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from noetl.engine.scopes import is_foreign, is_ref
from noetl.net.program import CompiledPipeline, CompiledRule, Program, Write
from noetl.output import JSON, STORED, Failure
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.template.compile import Template, Value
from noetl.template.projection import PROJECTED

ROOTS = ("ctx", "step", "iter", "input", "workload")  # the scopes whose values may be stored
_STORED_KEY = b'"$stored"'
_CHAR_BYTES_MAX = 6  # of one character, escaped
_encoded = msgspec.json.Encoder().encode

ScopePath: TypeAlias = tuple[str | int, ...]


class NeedsValues(Exception):
    """Control cannot decide: the decision reads or makes a value that belongs in the result store."""


def decision_id(subject: str, kind: str) -> str:
    """The name of such a decision: "fetch#2!route"."""
    return f"{subject}!{kind}"


def mark(ref: dict[str, JSON]) -> dict[str, JSON]:
    return {STORED: ref}


def ref_of(value: JSON) -> dict[str, JSON] | None:
    """The Ref of a mark; None: the value is not a mark."""
    if type(value) is dict and len(value) == 1:
        ref: dict[str, JSON] = value.get(STORED, {})
        if is_ref(ref) and not is_foreign(ref):
            return ref
    return None


def has_marks(value: JSON, path: ScopePath = (), *, below: bool = True) -> bool:
    """Is there a mark on the way to the path, or, with `below`, at its end or below it?"""
    return next(marks_on(value, path, below=below), None) is not None


def stored_bytes(value: JSON) -> int:
    """The size of a value that must be stored; 0: it may be in the log."""
    kind = type(value)
    if kind is not dict and kind is not list and (kind is not str or len(value) * _CHAR_BYTES_MAX < INLINE_BYTES_MAX):
        return 0
    body = _encoded(value)
    return len(body) if len(body) > INLINE_BYTES_MAX or _STORED_KEY in body else 0


def stored_key_in(value: JSON) -> bool:
    """Does the value contain the key of a mark?"""
    return bool(value) and _STORED_KEY in _encoded(value)


class ValueTooLarge(Exception):
    """A value is larger than limits.value_bytes."""

    def __init__(self, target: str, size: int, limit: int) -> None:
        message = f'"{target}" has {size:,} bytes, and limits.value_bytes is {limit:,}: keep a reference instead'
        self.failure = Failure(kind="payload-too-large", message=message)


ITEMS_LIMIT = "items_bytes"  # a key of `limits`; it is set only where there is a result store


def is_stored(program: Program, target: str, value: JSON) -> bool:
    """Does the value belong in the result store, or does it contain marks?

    Raises ValueTooLarge, or NeedsValues where control makes a value that a worker must store.
    """
    size = stored_bytes(value)
    if size > (limit := program.limits["value_bytes"]):
        raise ValueTooLarge(target, size, limit)
    if size > INLINE_BYTES_MAX and not program.has_values and ITEMS_LIMIT in program.limits:
        raise NeedsValues
    return size > 0


def ensure_readable(value: Value | Template, scope: Mapping[str, JSON]) -> None:
    """Raises NeedsValues if the value cannot be evaluated with marks in place of values.

    A template that is a single path passes a mark on.
    """
    for template in value.templates if isinstance(value, Value) else (value,):
        alone = template.sole_path is not None
        if any(has_marks(scope, read.path, below=not alone) for read in template.reads):
            raise NeedsValues
        picked = scope.get(PROJECTED)
        if not alone and picked and any(has_marks(picked.get(part.key)) for part in template.parts):
            raise NeedsValues


def marks_on(value: JSON, path: ScopePath, *, below: bool = True) -> Iterator[dict[str, JSON]]:
    """The Refs of the marks on the way, and, with `below`, at the end of the path and below it."""
    for part in path:
        if (ref := ref_of(value)) is not None:
            yield ref
            return
        if type(value) is not dict:
            break
        if part not in value:
            return
        value = value[part]
    rest = [value] if below else []
    while rest:
        each = rest.pop()
        if (ref := ref_of(each)) is not None:
            yield ref
        elif type(each) is dict:
            rest.extend(each.values())
        elif isinstance(each, list | tuple):
            rest.extend(each)


def key_of(ref: dict[str, JSON]) -> str:
    """The identity of a stored value."""
    return str(ref.get("locator"))


def filled(value: JSON, values: Mapping[str, JSON]) -> JSON:
    """The value with these stored values, by the key of their Ref, in place of their marks.

    The same object if it contains none of these marks.
    """
    if (ref := ref_of(value)) is not None:
        return values.get(key_of(ref), value)
    if type(value) is dict:
        made = {key: filled(each, values) for key, each in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if isinstance(value, list | tuple):
        items = [filled(each, values) for each in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def described(value: JSON) -> JSON:
    """The value for people, with the size of each stored value in place of its mark."""
    sizes = {
        key_of(ref): f"({(ref.get('meta') or {}).get('bytes', 0):,} bytes, in the result store)"
        for ref in marks_on(value, ())
    }
    return filled(value, sizes)


@lru_cache(maxsize=256)
def paths_read(pipeline: CompiledPipeline) -> tuple[tuple[ScopePath, bool], ...]:
    """The paths that the tasks of a frame read, and whether everything below them is read.

    A path that is only written is read as far as the mapping that contains it. It is the same for all frames of a
    pipeline, and found once: a long loop asks for each item.
    """
    return tuple(dict.fromkeys(_paths_read(pipeline)))


def _paths_read(pipeline: CompiledPipeline) -> Iterator[tuple[ScopePath, bool]]:
    for task in pipeline.tasks:
        for value in (task.fields, task.input):
            yield from _read_by(value)
        yield from _read_by_writes(task.set)
        for rule in (*task.skips, *task.rules):
            yield from _read_by_rule(rule)


def _read_by_rule(rule: CompiledRule) -> Iterator[tuple[ScopePath, bool]]:
    for value in (rule.when, rule.attempts, rule.delay, rule.max_delay, rule.message, rule.details):
        if isinstance(value, Template | Value):
            yield from _read_by(value)
    yield from _read_by_writes(rule.set)


def _read_by_writes(writes: tuple[Write, ...]) -> Iterator[tuple[ScopePath, bool]]:
    for write in writes:
        yield from _read_by(write.value)
        yield (write.scope, *write.path), False


def _read_by(value: Value | Template) -> Iterator[tuple[ScopePath, bool]]:
    return ((read.path, True) for read in value.reads if read.path[0] in ROOTS)
