"""Labels of executions: short texts by which people find them. They have no effect on a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from noetl.errors import Rejected

LABELS_MAX: Final = 50  # of one execution
KEY_CHARS_MAX: Final = 100
VALUE_CHARS_MAX: Final = 200
FORK_LABEL: Final = "fork-of"  # of a fork: the id of the execution whose work it keeps


def declared_labels(metadata: Mapping[str, object]) -> dict[str, str]:
    """The labels of a playbook as texts: `true` and `1` are texts, too."""
    given = metadata.get("labels")
    found = [(_text(key), _text(value)) for key, value in given.items()] if isinstance(given, dict) else []
    return {key[:KEY_CHARS_MAX]: value[:VALUE_CHARS_MAX] for key, value in found[:LABELS_MAX]}


def _text(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises Rejected for labels of a request that no list could find."""
    if len(labels) > LABELS_MAX:
        raise Rejected("bad-label", f"an execution has at most {LABELS_MAX} labels, not {len(labels)}")
    for key, value in labels.items():
        if not (0 < len(key) <= KEY_CHARS_MAX and key.isprintable() and "=" not in key):
            raise Rejected(
                "bad-label", f'label "{key[:40]}": a name has 1 to {KEY_CHARS_MAX} printable characters, without ='
            )
        if len(value) > VALUE_CHARS_MAX or not value.isprintable():
            raise Rejected("bad-label", f'label "{key}": a value has at most {VALUE_CHARS_MAX} printable characters')


def changed_labels(labels: Mapping[str, str], change: Mapping[str, str | None]) -> dict[str, str]:
    """The labels after a change; None removes a label. Raises Rejected."""
    if not change:
        raise Rejected("bad-label", "name at least one label to add or to remove")
    if FORK_LABEL in change:
        raise Rejected("bad-label", f'label "{FORK_LABEL}": NoETL sets it, and it cannot be changed')
    check_labels({key: value or "" for key, value in change.items()})
    merged = {**labels, **change}
    found = {key: value for key, value in merged.items() if value is not None}
    check_labels(found)
    return found


def label_texts(change: Mapping[str, str | None]) -> str:
    """A change in one line: `team=data, without env`."""
    return ", ".join(f"without {key}" if value is None else f"{key}={value}" for key, value in change.items())


def parse_labels(given: Iterable[str]) -> dict[str, str]:
    """`key=value`, a later one overrides an earlier one. Raises Rejected."""
    labels: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise Rejected("bad-label", f'label "{each[:40]}": write it as KEY=VALUE, such as team=data')
        labels[key.strip()] = value.strip()
    check_labels(labels)
    return labels
