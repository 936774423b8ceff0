"""Detects the dialect of a document from markers in it.

A document must not mix dialects (D1). If it has markers of two of them, the caller rejects it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.layout.scalars import Finder
from noetl.playbook.dialects.layout.tree import Layout, Leaf, List, Map
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.rules import names_of
from noetl.playbook.dialects.templates import SCOPES, compared_strings

Dialect: TypeAlias = Literal["v2", "v10", "canonical"]
# old: valid in v2 and v10 · late: valid in v10 and the canonical form · weak: typical of old documents, but
# not a proof · repair: wrong in every dialect, and repaired
Age: TypeAlias = Literal["v2", "old", "late", "canonical", "weak", "repair"]

_V2_SETS = frozenset({"set_vars", "set_shared", "set_prev"})
_ROOTS: dict[str, Age] = {
    "outcome": "old", "args": "old", "result_ref": "old", "vars": "v2",
    "output": "canonical", "input": "canonical",
}  # fmt: skip


class DialectMarker(NamedTuple):
    """A construct that indicates the dialect."""

    age: Age
    what: str  # as the author wrote it: `eval`
    at: int  # offset in the text


class DetectedDialect(NamedTuple):
    dialect: Dialect
    markers: tuple[DialectMarker, ...]
    mixed: tuple[DialectMarker, DialectMarker] | None = None  # an older and a newer marker that exclude each other

    def has(self, age: Age) -> bool:
        return any(marker.age == age for marker in self.markers)


def detect(layout: Layout) -> DetectedDialect:
    """The dialect of a document. A document without any marker is canonical."""
    markers = tuple(_markers(layout)) if isinstance(layout.root, Map) else ()
    first: dict[str, DialectMarker] = {}
    for marker in markers:
        first.setdefault(marker.age, marker)
    old = first.get("v2") or first.get("old")
    new = first.get("canonical") or (first.get("late") if "v2" in first else None)
    if old and new:
        return DetectedDialect("v2" if "v2" in first else "v10", markers, (old, new))
    if "v2" in first or ("old" in first and "late" not in first and _looks_like_v2(layout, markers)):
        return DetectedDialect("v2", markers)
    if "old" in first or ("weak" in first and "canonical" not in first):
        return DetectedDialect("v10", markers)
    return DetectedDialect("canonical", markers)


def _markers(layout: Layout) -> Iterator[DialectMarker]:
    assert isinstance(layout.root, Map)
    root = layout.root
    for key in ("apiVersion", "kind"):
        value = root.text(key)
        if value is None or (key == "apiVersion" and value.startswith("noetl.io/") and value != "noetl.io/v2"):
            yield DialectMarker("weak", key, max(root.start, 0))
    bare = set(parts.workload_keys(root)) - SCOPES
    for step in parts.steps(root):
        yield from _in_step(step)
        yield from _in_templates(step, bare)


def _in_step(step: StepPart) -> Iterator[DialectMarker]:
    body = step.body
    yield from _key(body, "when", "step", "v2")
    yield from _key(body, "args", "step", "old")
    yield from _key(body, "input", "step", "canonical")
    spec = body.map("spec")
    if spec is not None:
        yield from _key(spec, "next_mode", "step.spec", "v2")
    if (admit := parts.admit(body)) is not None:
        yield DialectMarker("late", "step.spec.policy.admit", admit.start)
    for holder in parts.holders(body):
        yield from _sets(holder)
    yield from _in_next(body)
    for task in parts.all_tasks(body):
        if task.label is not None:
            yield DialectMarker("old", f"- {task.label.name}: {{…}}", task.label.start)
        yield from _key(task.body, "args", "task", "old")
        yield from _in_policy(task.body)


def _sets(holder: Map) -> Iterator[DialectMarker]:
    for entry in holder.entries:
        if entry.name == "set":
            yield DialectMarker("canonical", "set", entry.start)
        elif entry.name in parts.SETS:
            yield DialectMarker("v2" if entry.name in _V2_SETS else "old", entry.name, entry.start)


def _in_next(body: Map) -> Iterator[DialectMarker]:
    entry = body.entry("next")
    if entry is None or parts.is_null(entry.value):
        return
    if isinstance(entry.value, List):
        yield DialectMarker("old", "next as a list", entry.start)
    elif isinstance(entry.value, Leaf):
        if entry.value.style != "*":
            yield DialectMarker("old", "next as a name", entry.start)
    elif (arcs := entry.value.entry("arcs")) is not None:
        yield DialectMarker("late", "next.arcs", arcs.start)
    elif entry.value.get("step") is not None:
        yield DialectMarker("old", "next as an arc", entry.start)
    for arc in parts.arcs(body):
        yield from _key(arc, "args", "arc", "old")


def _in_policy(task: Map) -> Iterator[DialectMarker]:
    policy = parts.policy(task)
    if policy is None:
        return
    is_eval = policy.entry.name == "eval"
    yield DialectMarker("v2" if is_eval else "late", "eval" if is_eval else "spec.policy.rules", policy.entry.start)
    for rule in policy.rules:
        yield from _key(rule, "expr", "rule", "v2")
        if not is_eval and needs_repair(rule):
            yield DialectMarker("repair", "else", rule.start)


def needs_repair(rule: Map) -> bool:
    """`else: {do: …}` (D11), or a null `else` beside `then` (D89)."""
    entry = rule.entry("else")
    if entry is None:
        return False
    if isinstance(entry.value, Map):
        return entry.value.get("then") is None and entry.value.get("do") is not None
    return parts.is_null(entry.value) and len(rule.entries) > 1 and rule.entry("when") is None


def _key(body: Map, key: str, where: str, age: Age) -> Iterator[DialectMarker]:
    entry = body.entry(key)
    if entry is not None:
        yield DialectMarker(age, f"{where}.{key}", entry.start)


def _in_templates(step: StepPart, bare: set[str]) -> Iterator[DialectMarker]:
    labels = set(names_of(step.body))
    inside = (bare | set(step.iterators)) - SCOPES
    for entry, leaf in parts.texts(step.body):
        names = bare if entry.name == "loop" else inside
        finder = Finder(leaf)
        for reading in template_tokens.free_reads(leaf.text):
            age = "old" if reading.path[:2] == ("token", "args") else _ROOTS.get(reading.root)
            if reading.root in labels:
                continue
            if age is not None:
                yield DialectMarker(age, f"{reading.root} in a template", finder.offset(reading.start))
            elif reading.root in names:
                yield DialectMarker("weak", f"{reading.root} without its scope", finder.offset(reading.start))


def _looks_like_v2(layout: Layout, markers: tuple[DialectMarker, ...]) -> bool:
    """Does it have labelled tasks and a list under `next`, or compare a status with 'success' (v10: 'ok')?"""
    words = {marker.what for marker in markers}
    if "next as a list" in words and any(word.startswith("- ") for word in words):
        return True
    assert isinstance(layout.root, Map)
    return any(_says_success(leaf.text) for step in parts.steps(layout.root) for _, leaf in parts.texts(step.body))


def _says_success(text: str) -> bool:
    parsed = template_tokens.parse(text) if template_tokens.is_template(text) else None
    if parsed is None:
        return False
    statuses = [reading for reading in parsed.readings if reading.path == ("outcome", "status")]
    strings = [token for reading in statuses for token in compared_strings(parsed.tokens, reading)]
    return any(template_tokens.string_value(token) == "success" for token in strings)
