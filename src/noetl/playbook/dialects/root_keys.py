"""The root of a document: adds `apiVersion` and `kind`, and declares credentials that tasks use (D81)."""

from __future__ import annotations

from noetl.playbook.dialects import parts, template_tokens
from noetl.playbook.dialects.layout.tree import (
    LayoutEntry,
    Leaf,
    List,
    Map,
    item,
    name_leaf,
    pair,
    plain,
    set_value,
    table,
)
from noetl.playbook.dialects.notes import Findings

_VERSION = "noetl.io/v2"


def write_version(root: Map, findings: Findings) -> None:
    entry = root.entry("apiVersion")
    if entry is None:
        root.entries.insert(0, _fresh(root, "apiVersion", _VERSION))
        findings.note(root.start, "api-version", f"`apiVersion: {_VERSION}` has been added")
    elif isinstance(entry.value, Leaf) and _is_old(entry.value):
        findings.note(entry.start, "api-version", f'"{entry.value.text}" has been changed to {_VERSION}')
        set_value(entry, plain(_VERSION))
    kind = root.entry("kind")
    if kind is None:
        position = root.index("apiVersion")
        root.entries.insert(0 if position is None else position + 1, _fresh(root, "kind", "Playbook"))
        findings.note(root.start, "api-version", "`kind: Playbook` has been added")
    elif parts.is_null(kind.value):
        set_value(kind, plain("Playbook"))
        findings.note(kind.start, "api-version", "`kind: Playbook` has been added")


def _is_old(version: Leaf) -> bool:
    return version.null or (version.text.startswith("noetl.io/") and version.text != _VERSION)


def _fresh(root: Map, key: str, value: str) -> LayoutEntry:
    """A new entry whose position is the start of the document."""
    made = pair(key, plain(value))
    made.start = root.start
    return made


def declare_credentials(root: Map, findings: Findings) -> None:
    keychain = root.entry("keychain")
    known = {each.text("name") for each in parts.maps(keychain.value if keychain else None)}
    used: dict[str, Leaf] = {}
    for step in parts.steps(root):
        for task in parts.all_tasks(step.body):
            for holder in (task.body, task.body.map("input")):
                auth = holder.get("auth") if holder is not None else None
                if (
                    isinstance(auth, Leaf)
                    and not auth.null
                    and auth.text
                    and not template_tokens.is_template(auth.text)
                ):
                    used.setdefault(auth.text, auth)
    fresh = {name: leaf for name, leaf in used.items() if name not in known}
    if not fresh:
        return
    made = [item(table(name=name_leaf(name), kind=plain("stored"))) for name in fresh]
    if keychain is None or parts.is_null(keychain.value):
        _put_keychain(root, keychain, made)
    elif isinstance(keychain.value, List):
        keychain.value.entries += made
    else:
        findings.refuse(keychain.start, '"keychain" is not a list, so credentials cannot be added to it')
        return
    for name, leaf in fresh.items():
        message = f'the undeclared credential "{name}" has been declared under `keychain` with kind `stored`'
        findings.note(leaf.start, "keychain-stored", message)


def _put_keychain(root: Map, old: LayoutEntry | None, items: list[LayoutEntry]) -> None:
    """Insert after `metadata`, with a blank line if the other sections have one."""
    if old is not None:
        root.entries.remove(old)
    position = root.index("executor", "workload", "workflow", "workbook")
    position = len(root.entries) if position is None else position
    above = root.index("metadata")
    position = position if above is None else above + 1
    following = root.entries[position] if position < len(root.entries) else None
    made = pair("keychain", List(entries=items))
    if following is not None and following.lead and not following.lead[0].strip():
        made.lead = [""]
    root.entries.insert(position, made)
