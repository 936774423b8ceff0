"""The workload of a request, from `--workload FILE` and `--set key=value`: YAML, merged deep (D77); and its secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from noetl.errors import Rejected
from noetl.labels import parse_labels
from noetl.output import JSON
from noetl.playbook.source import DEPTH_MAX, Mapping, parse, plain
from noetl.playbook.spec import merge
from noetl.session.declared import DeclaredWorkload
from noetl.session.errors import UsageError
from noetl.session.sources import read_source

UNDECLARED_MAX: Final = 5  # undeclared keys of the workload that are named
_TEXT_TYPES: Final = ("string", "date", "datetime", "file")
SHOWN_MAX = 40  # characters of a key in an error; a value may be a secret


class GivenCtx(NamedTuple):
    """What `--ctx` gives, before the playbook is known."""

    values: dict[str, JSON]

    def values_for(self, declared: DeclaredWorkload, *, allow_extra: bool = False) -> dict[str, JSON]:
        """Raises UsageError for a name that the playbook neither reads nor writes."""
        names = None if allow_extra or not self.values or not declared.text else declared.ctx_names()
        unknown = [] if names is None else [name for name in self.values if name not in names]
        if names is not None and unknown:
            from difflib import get_close_matches

            near = get_close_matches(unknown[0], names, n=1)
            hint = f'did you mean "{near[0]}"?' if near else "correct the key, or add --allow-extra"
            raise UsageError(f'--ctx: the playbook does not use "ctx.{_cut(unknown[0])}"; {hint}')
        return self.values


def read_ctx(given: Sequence[str]) -> GivenCtx:
    """`--ctx key=value`, a later one overrides an earlier one. Raises UsageError."""
    values: dict[str, JSON] = {}
    for each in given:
        values = merge(values, _from_option(each, "--ctx"))
    return GivenCtx(values)


def read_labels(given: Sequence[str]) -> dict[str, str]:
    """`--label key=value`. Raises UsageError."""
    try:
        return parse_labels(given)
    except Rejected as error:
        raise UsageError(f"--{str(error).removeprefix('bad-label: ')}") from error


def read_secrets(given: Sequence[str]) -> dict[str, str]:
    """`--secret name`, `name=@file` or `name=env:VARIABLE`; a value itself is refused. Raises UsageError."""
    from noetl.cli.secret_values import from_environment, from_file, from_person

    found: dict[str, str] = {}
    for each in given:
        name, equals, source = each.partition("=")
        if not name or not name.isprintable():
            raise UsageError("--secret: write it as NAME, NAME=@FILE or NAME=env:VARIABLE")
        option = f"--secret {_cut(name)}"
        if name in found:
            raise UsageError(f"{option}: it is given twice")
        if not equals:
            found[name] = from_person(name, option)
        elif source.startswith("@"):
            found[name] = from_file(source[1:], option)
        elif source.startswith("env:"):
            found[name] = from_environment(source.removeprefix("env:"), option)
        else:
            advice = f"leave it out to be asked for it, or write {_cut(name)}=@FILE or {_cut(name)}=env:VARIABLE"
            raise UsageError(
                f"{option}: other users and your shell's history see a value on the command line; {advice}"
            )
    return found


class GivenWorkload(NamedTuple):
    """What the command line gives, before the playbook is known."""

    values: dict[str, JSON]  # all of it, merged
    sets: dict[str, JSON] = {}  # the part that `--set` gives
    texts: dict[str, str] = {}  # as written, of each `--set` whose key has no dot

    def values_for(self, declared: DeclaredWorkload, *, allow_extra: bool = False) -> dict[str, JSON]:
        """The values of the request. Raises UsageError for a `--set` that the playbook does not know (D104)."""
        if declared.types is not None:
            return {**self.values, **dict(self._typed_texts(declared.types))}
        unknown = (
            []
            if allow_extra or declared.reads_all
            else list(undeclared(declared.defaults, self.sets, reads=declared.reads))
        )
        if unknown:
            advice = "correct the key, declare it under `workload`, or add --allow-extra"
            raise UsageError(f"--set: {'; '.join(unknown[:UNDECLARED_MAX])} ({advice})")
        return self.values

    def _typed_texts(self, types: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
        """`--set zip=01234` of a text input is that text, also where YAML would read a number."""
        for name, text in self.texts.items():
            value = self.values[name]
            is_scalar = not isinstance(value, str | list | dict)
            if is_scalar and types.get(name) in _TEXT_TYPES and (value is not None or not text.strip()):
                yield name, text.strip()


def read_workload(file: str | None, sets: Sequence[str]) -> GivenWorkload:
    """`--set` overrides `--workload`, a later `--set` an earlier one. Raises UsageError."""
    given: dict[str, JSON] = {}
    texts: dict[str, str] = {}
    for each in sets:
        given = merge(given, _from_option(each))
        key, _, text = each.partition("=")
        if "." in key:
            texts.pop(key.partition(".")[0], None)
        else:
            texts[key] = text
    return GivenWorkload(merge(_from_file(file) if file is not None else {}, given), given, texts)


def _from_file(file: str) -> dict[str, JSON]:
    source = read_source(file)
    document, problems = parse(source.data, source.name)
    if problems:
        raise UsageError(f"--workload {problems[0]}")
    if not isinstance(document.root, Mapping):
        raise UsageError(f"--workload {source.name}: it must contain a mapping, such as `key: value`")
    workload: dict[str, JSON] = plain(document.root)
    return workload


def _from_option(given: str, option: str = "--set") -> dict[str, JSON]:
    key, equals, text = given.partition("=")
    if not equals:
        raise UsageError(f'{option} "{_cut(given)}": write it as key=value')
    parts = key.split(".")
    if not all(parts) or not key.isprintable():
        raise UsageError(f'{option}: "{_cut(key)}" is not a key; write it as name or name.inner')
    if len(parts) > DEPTH_MAX:
        raise UsageError(f'{option}: the key "{_cut(key)}" is more than {DEPTH_MAX} levels deep')
    value = parse_value(text, f"{option} {_cut(key)}")
    for part in reversed(parts):
        value = {part: value}
    workload: dict[str, JSON] = value
    return workload


def parse_value(text: str, option: str) -> JSON:
    """A value on the command line, as YAML. Raises UsageError."""
    document, problems = parse(text, option)
    if problems:
        message = problems[0].message
        raise UsageError(f"{option}: {message}; values are YAML, so quotes inside the quotes make a string")
    return plain(document.root)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def undeclared(
    declared: dict[str, JSON], given: dict[str, JSON], path: str = "", *, reads: frozenset[str] = frozenset()
) -> Iterator[str]:
    """A sentence for each key that the playbook does not declare; an empty mapping allows any key.

    `reads`: keys that its templates read, and that count as declared.
    """
    for key, value in given.items():
        name = f"{path}{key}"
        if key not in declared:
            if name in reads:
                continue
            from difflib import get_close_matches

            near = get_close_matches(key, declared, n=1)
            hint = f'; did you mean "{path}{near[0]}"?' if near else ""
            yield f'the playbook\'s workload has no "{name}"{hint}'
        elif isinstance(value, dict) and isinstance(declared[key], dict) and declared[key]:
            yield from undeclared(declared[key], value, f"{name}.", reads=reads)
