"""`set_ctx`, `set_iter`, `set_vars`, `set_shared`, `set_prev`, an arc's `args` → one `set` (004 §6, D72)."""

from __future__ import annotations

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    Map,
    Node,
    append_comment,
    comments,
    detach,
    drop,
    name_leaf,
    pair,
    plain,
    prefix_key,
    rename,
    set_value,
    to_block,
)
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.templates import OLD_REF
from noetl.playbook.language import REDUCERS

_PREFIXES = {"set_ctx": "ctx.", "set_iter": "iter.", "set_vars": "step.", "set_shared": "ctx."}
_STORES = {"postgres": "relational", "duckdb": "relational", "sqlite": "relational", "nats": "nats", "blob": "blob"}
_NEW_NAMES = {"checksum": "sha256", "size": "bytes"}


class SetRewriter:
    """Converts the older forms in one holder (a step, a task, an arc, a `then`) to `set`."""

    def __init__(self, findings: Findings, loop: Map | None) -> None:
        self.findings = findings
        self.loop = loop  # the loop of the step; reducers are declared there (D47)
        self.reduced: set[str] = set()  # targets that have a reducer

    def gather(self, holder: Map, inbox: str | None = None, *, whole: bool = False) -> None:
        """Convert all older forms of a holder. `inbox` is the target of `args`; None if it is not an arc.

        `whole`: the payload replaces all of the inbox, so that no key of an earlier token remains.
        """
        names = {*parts.SETS, "args"} if inbox else set(parts.SETS)
        existing = holder.entry("set")
        target = existing if existing is not None and isinstance(existing.value, Map) else None
        for entry in [each for each in holder.entries if each.name in names]:
            if whole and entry.name == "args" and inbox is not None and isinstance(entry.value, Map):
                for each in entry.value.entries:
                    _map_reference(each, self.findings)
                converted: LayoutEntry | None = self._single(entry, inbox)
            else:
                converted = self._converted(entry, inbox)
            if converted is None:
                drop(holder, entry)
            elif target is None:
                target = converted
            else:
                self._join(target, converted)
                detach(holder, entry)
        if target is not None and target is not existing and isinstance(target.value, Map):
            self._check_reference_names(target.value)
            if not target.value.entries:
                drop(holder, target)

    def _join(self, target: LayoutEntry, other: LayoutEntry) -> None:
        """Append the writes of `other` to those of `target`, each with its comments."""
        assert isinstance(target.value, Map)
        assert isinstance(other.value, Map)
        for entry in (target, other):
            if entry.tail.strip() and isinstance(entry.value, Map) and entry.value.entries:
                append_comment(entry.value.entries[-1], entry.tail)
                entry.tail = ""
        above = [line.strip() for line in other.lead if line.strip()] + comments(other.gap)
        if above and other.value.entries:
            first = other.value.entries[0]
            to_block(first)
            first.lead = [" " * (first.base or 0) + line for line in above] + first.lead
        names = {entry.name for entry in target.value.entries}
        for entry in other.value.entries:
            if entry.name in names:
                message = f'"{entry.name}" would be written twice in one `set`'
                self.findings.refuse(entry.start, message, fix="rename one of the two")
        target.value.entries += other.value.entries

    def _converted(self, entry: LayoutEntry, inbox: str | None) -> LayoutEntry | None:
        """The entry as `set`; None if it is empty or rejected."""
        value, name = entry.value, entry.name
        if name == "set_prev":
            message = "`_prev` is read-only; the value is written to `step.prev`, so read it there"
            self.findings.note(entry.start, "set-prev", message)
            return self._single(entry, "step.prev")
        if parts.is_null(value):
            return None
        if isinstance(value, Map):
            rename(entry, "set")
            for each in value.entries:
                _map_reference(each, self.findings)
                if name == "set_shared":
                    self._reducer(each)
                prefix_key(each, f"{inbox}." if name == "args" else _PREFIXES[name])
            return entry
        if name == "args" and inbox and isinstance(value, Leaf) and value.style != "*":
            message = "`args` is a single value; the keys that the target step reads are bound"
            self.findings.note(entry.start, "payload-whole", message)
            return self._single(entry, inbox)
        message = f'"{name}" is not a mapping, so its targets are unknown'
        self.findings.refuse(entry.start, message, fix=f"write the keys out: {name}: {{key: value}}")
        return None

    def _single(self, entry: LayoutEntry, path: str) -> LayoutEntry:
        inner = LayoutEntry(key=plain(path), value=entry.value, gap=entry.gap, tail=entry.tail, base=entry.base)
        if entry.flow:
            inner.gap = ": "
        inner.start = entry.start
        entry.tail = ""
        rename(entry, "set")
        set_value(entry, Map(entries=[inner]))
        return entry

    def _reducer(self, entry: LayoutEntry) -> None:
        """Declare the reducer of `{total: {sum: …}}` or `{total: {op: sum, value: …}}`, or add a note."""
        reducer, value = _reduced(entry.value)
        name = entry.name
        if reducer is None or value is None:
            message = (
                f"`{name}` is written to `ctx.{name}`; the step fails if parallel iterations write different"
                " values, unless `loop.spec.policy.reduce` names a reducer"
            )
            self.findings.note(entry.start, "set-shared", message)
            return
        set_value(entry, value)
        reduce = self._declared()
        message = f"`{name}` is written to `ctx.{name}` with the reducer `{reducer}`"
        if reduce is None:
            message = f"`{name}` is written to `ctx.{name}`; there is no single loop for the reducer `{reducer}`"
        self.findings.note(entry.start, "set-shared", message)
        if reduce is not None and f"ctx.{name}" not in self.reduced:
            self.reduced.add(f"ctx.{name}")
            reduce.entries.append(pair(f"ctx.{name}", plain(reducer)))

    def _declared(self) -> Map | None:
        """`loop.spec.policy.reduce`, created if necessary."""
        reduce = self.loop
        for key in ("spec", "policy", "reduce"):
            reduce = None if reduce is None else ensure_map(reduce, key)
        if reduce is not None and not self.reduced:
            self.reduced = {entry.name for entry in reduce.entries}
        return reduce

    def _check_reference_names(self, target: Map) -> None:
        for entry in target.entries:
            if isinstance(entry.value, Map):
                self._check_reference_names(entry.value)
            elif isinstance(entry.value, Leaf) and is_reference(entry.value.text) and not entry.name.endswith("_ref"):
                message = f'"{entry.name}" receives a reference, so its name must end in "_ref" wherever it is used'
                self.findings.note(entry.start, "reference-name", message)


def ensure_map(holder: Map, key: str) -> Map | None:
    """The mapping under `key`, created if necessary; None if the key has a value of another type."""
    entry = holder.entry(key)
    if entry is None:
        converted = Map()
        holder.entries.append(pair(key, converted))
        return converted
    if parts.is_null(entry.value):
        converted = Map()
        set_value(entry, converted)
        return converted
    return entry.value if isinstance(entry.value, Map) else None


def is_reference(text: str) -> bool:
    """Is the template exactly `output.ref`?"""
    parsed = template_tokens.parse(text) if template_tokens.is_template(text) else None
    if parsed is None or not parsed.typed or len(parsed.readings) != 1:
        return False
    only = parsed.readings[0]
    return only.path == ("output", "ref") and only.after == len(parsed.tokens) - 1 and only.first == 1


def _reduced(value: Node) -> tuple[str | None, Node | None]:
    if not isinstance(value, Map):
        return None, None
    if len(value.entries) == 1 and value.entries[0].name in REDUCERS:
        return value.entries[0].name, value.entries[0].value
    named = next((name for key in ("op", "reduce", "reducer") if (name := value.text(key)) in REDUCERS), None)
    return (named, value.get("value")) if named and len(value.entries) == 2 else (None, None)


def _map_reference(entry: LayoutEntry, findings: Findings) -> None:
    """{store, key, checksum, size} → {type, locator, meta} (D53)."""
    value = entry.value
    if not isinstance(value, Map) or value.text("store") is None or value.get("key") is None:
        return
    names = {each.name for each in value.entries}
    if len(names) < 3 or not names <= set(OLD_REF):
        return
    locator = [each for each in value.entries if each.name not in _NEW_NAMES]
    meta = [each for each in value.entries if each.name in _NEW_NAMES]
    for each in meta:
        rename(each, _NEW_NAMES[each.name])
    store = (value.text("store") or "").split(".")[0].lower()
    kind = next((kind for name, kind in _STORES.items() if name in store), "object_store")
    value.entries = [pair("type", name_leaf(kind)), pair("locator", Map(entries=locator))]
    if meta:
        value.entries.append(pair("meta", Map(entries=meta)))
    message = f"the reference has the current form with type {kind}; check whether it needs `auth_reference`"
    findings.note(entry.start, "old-ref", message)
