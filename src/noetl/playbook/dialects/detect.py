"""Which dialect a document is written in, and the signs that show it.

The dialects never mix (D1): signs of two of them in one document are for the caller to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.layout.scalars import Finder
from noetl.playbook.dialects.layout.tree import Layout, Leaf, List, Map
from noetl.playbook.dialects.parts import StepPart
from noetl.playbook.dialects.task_names import names_of
from noetl.playbook.dialects.templates import SCOPES, compared

Dialect: TypeAlias = Literal["v2", "v10", "canonical"]
# old: of v2 and v10 alike · late: of v10 and the canonical form alike · weak: an old habit that proves little
# · repair: wrong in every dialect, and mended
Age: TypeAlias = Literal["v2", "old", "late", "canonical", "weak", "repair"]

_V2_SETS = frozenset({"set_vars", "set_shared", "set_prev"})
_ROOTS: dict[str, Age] = {
    "outcome": "old", "args": "old", "result_ref": "old", "vars": "v2",
    "output": "canonical", "input": "canonical",
}  # fmt: skip


class Sign(NamedTuple):
    """A place that tells the dialect."""

    age: Age
    what: str  # in the author's words: `eval`
    at: int  # offset in the text


class Detected(NamedTuple):
    dialect: Dialect
    signs: tuple[Sign, ...]
    mixed: tuple[Sign, Sign] | None = None  # an older sign and a newer one that can not stand together

    def has(self, age: Age) -> bool:
        return any(sign.age == age for sign in self.signs)


def detect(layout: Layout) -> Detected:
    """The dialect of a document; a document without any sign is canonical."""
    signs = tuple(_signs(layout)) if isinstance(layout.root, Map) else ()
    first: dict[str, Sign] = {}
    for sign in signs:
        first.setdefault(sign.age, sign)
    old = first.get("v2") or first.get("old")
    new = first.get("canonical") or (first.get("late") if "v2" in first else None)
    if old and new:
        return Detected("v2" if "v2" in first else "v10", signs, (old, new))
    if "v2" in first or ("old" in first and "late" not in first and _looks_like_v2(layout, signs)):
        return Detected("v2", signs)
    if "old" in first or ("weak" in first and "canonical" not in first):
        return Detected("v10", signs)
    return Detected("canonical", signs)


def _signs(layout: Layout) -> Iterator[Sign]:
    assert isinstance(layout.root, Map)
    root = layout.root
    for key in ("apiVersion", "kind"):
        value = root.text(key)
        if value is None or (
            key == "apiVersion" and value.startswith("noetl.io/") and value != "noetl.io/v2"
        ):
            yield Sign("weak", key, max(root.start, 0))
    bare = set(parts.workload_keys(root)) - SCOPES
    for step in parts.steps(root):
        yield from _in_step(step)
        yield from _in_templates(step, bare)


def _in_step(step: StepPart) -> Iterator[Sign]:
    body = step.body
    yield from _key(body, "when", "step", "v2")
    yield from _key(body, "args", "step", "old")
    yield from _key(body, "input", "step", "canonical")
    spec = body.map("spec")
    if spec is not None:
        yield from _key(spec, "next_mode", "step.spec", "v2")
    if (admit := parts.admit(body)) is not None:
        yield Sign("late", "step.spec.policy.admit", admit.start)
    for holder in parts.holders(body):
        yield from _sets(holder)
    yield from _in_next(body)
    for task in parts.tasks(body):
        if task.label is not None:
            yield Sign("old", f"- {task.label.name}: {{…}}", task.label.start)
        yield from _key(task.body, "args", "task", "old")
        yield from _in_policy(task.body)


def _sets(holder: Map) -> Iterator[Sign]:
    for entry in holder.entries:
        if entry.name == "set":
            yield Sign("canonical", "set", entry.start)
        elif entry.name in parts.SETS:
            yield Sign("v2" if entry.name in _V2_SETS else "old", entry.name, entry.start)


def _in_next(body: Map) -> Iterator[Sign]:
    entry = body.entry("next")
    if entry is None or parts.is_null(entry.value):
        return
    if isinstance(entry.value, List):
        yield Sign("old", "next as a list", entry.start)
    elif isinstance(entry.value, Leaf):
        if entry.value.style != "*":
            yield Sign("old", "next as a name", entry.start)
    elif (arcs := entry.value.entry("arcs")) is not None:
        yield Sign("late", "next.arcs", arcs.start)
    elif entry.value.get("step") is not None:
        yield Sign("old", "next as an arc", entry.start)
    for arc in parts.arcs(body):
        yield from _key(arc, "args", "arc", "old")


def _in_policy(task: Map) -> Iterator[Sign]:
    policy = parts.policy(task)
    if policy is None:
        return
    is_eval = policy.entry.name == "eval"
    yield Sign("v2" if is_eval else "late", "eval" if is_eval else "spec.policy.rules", policy.entry.start)
    for rule in policy.rules:
        yield from _key(rule, "expr", "rule", "v2")
        if not is_eval and needs_repair(rule):
            yield Sign("repair", "else", rule.start)


def needs_repair(rule: Map) -> bool:
    """`else: {do: …}` (D11), or a null `else` beside `then` (D89)."""
    entry = rule.entry("else")
    if entry is None:
        return False
    if isinstance(entry.value, Map):
        return entry.value.get("then") is None and entry.value.get("do") is not None
    return parts.is_null(entry.value) and len(rule.entries) > 1 and rule.entry("when") is None


def _key(body: Map, key: str, where: str, age: Age) -> Iterator[Sign]:
    entry = body.entry(key)
    if entry is not None:
        yield Sign(age, f"{where}.{key}", entry.start)


def _in_templates(step: StepPart, bare: set[str]) -> Iterator[Sign]:
    labels = set(names_of(step.body))
    inside = (bare | set(step.iterators)) - SCOPES
    for entry, leaf in parts.texts(step.body):
        names = bare if entry.name == "loop" else inside
        finder = Finder(leaf)
        for reading in template_tokens.free_readings(leaf.text):
            age = "old" if reading.path[:2] == ("token", "args") else _ROOTS.get(reading.root)
            if reading.root in labels:
                continue
            if age is not None:
                yield Sign(age, f"{reading.root} in a template", finder.offset(reading.start))
            elif reading.root in names:
                yield Sign("weak", f"{reading.root} without its scope", finder.offset(reading.start))


def _looks_like_v2(layout: Layout, signs: tuple[Sign, ...]) -> bool:
    """Labelled tasks with a list under `next`, or a status compared with 'success', which v10 calls 'ok'."""
    words = {sign.what for sign in signs}
    if "next as a list" in words and any(word.startswith("- ") for word in words):
        return True
    assert isinstance(layout.root, Map)
    return any(
        _says_success(leaf.text) for step in parts.steps(layout.root) for _, leaf in parts.texts(step.body)
    )


def _says_success(text: str) -> bool:
    parsed = template_tokens.parse(text) if template_tokens.is_template(text) else None
    if parsed is None:
        return False
    statuses = [reading for reading in parsed.readings if reading.path == ("outcome", "status")]
    found = [token for reading in statuses for token in compared(parsed.tokens, reading)]
    return any(template_tokens.string_value(token) == "success" for token in found)
