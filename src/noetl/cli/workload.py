"""The workload of a request, from `--workload FILE` and `--set key=value`: YAML, merged deep (D77)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from noetl.cli import files
from noetl.cli.exits import Usage
from noetl.output import JSON
from noetl.playbook.source import DEPTH_MAX, Mapping, parse, plain
from noetl.playbook.spec import merge

SHOWN_MAX = 40  # characters of a key that an error repeats; a value may be a secret


def given_workload(file: str | None, sets: Sequence[str]) -> dict[str, JSON]:
    """`--set` beats `--workload`, a later `--set` an earlier one. Raises Usage."""
    workload = _from_file(file) if file is not None else {}
    for each in sets:
        workload = merge(workload, _from_option(each))
    return workload


def _from_file(file: str) -> dict[str, JSON]:
    source = files.read(file)
    document, problems = parse(source.data, source.name)
    if problems:
        raise Usage(f"--workload {problems[0]}")
    if not isinstance(document.root, Mapping):
        raise Usage(f"--workload {source.name}: it must hold a mapping, such as `key: value`")
    workload: dict[str, JSON] = plain(document.root)
    return workload


def _from_option(given: str) -> dict[str, JSON]:
    key, equals, text = given.partition("=")
    if not equals:
        raise Usage(f'--set "{_shown(given)}": give it as key=value')
    parts = key.split(".")
    if not all(parts) or not key.isprintable():
        raise Usage(f'--set: "{_shown(key)}" is no key; write it as name or as name.inner')
    if len(parts) > DEPTH_MAX:
        raise Usage(f'--set: the key "{_shown(key)}" goes deeper than {DEPTH_MAX} levels')
    value = _value(text, f"--set {_shown(key)}")
    for part in reversed(parts):
        value = {part: value}
    workload: dict[str, JSON] = value
    return workload


def given_value(text: str, option: str) -> JSON:
    """A value on the command line, as YAML. Raises Usage."""
    return _value(text, option)


def _value(text: str, option: str) -> JSON:
    document, problems = parse(text, option)
    if problems:
        told = problems[0].message
        raise Usage(f"{option}: {told}; a value is read as YAML, quotes inside the quotes make it text")
    return plain(document.root)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def undeclared(declared: dict[str, JSON], given: dict[str, JSON], path: str = "") -> Iterator[str]:
    """Sentences on keys that the playbook does not know; below a mapping with keys only those count."""
    for key, value in given.items():
        name = f"{path}{key}"
        if key not in declared:
            near = get_close_matches(key, declared, n=1)
            hint = f'; did you mean "{path}{near[0]}"?' if near else ""
            yield f'the playbook\'s workload has no "{name}"{hint}'
        elif isinstance(value, dict) and isinstance(declared[key], dict) and declared[key]:
            yield from undeclared(declared[key], value, f"{name}.")
