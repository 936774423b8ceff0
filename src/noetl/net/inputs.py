"""Typed inputs (D104): the compiled declarations under `input`, and how the values of a request fit them.

Messages name types and limits but never a value, which may be a secret that was given under a wrong name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

from msgspec import UNSET, UnsetType, ValidationError, convert
from msgspec.structs import replace

from noetl.errors import InputProblem
from noetl.escape import one_line, shorten
from noetl.net import describe
from noetl.net.output_schema import has_format
from noetl.net.program import SECRET_INPUT
from noetl.output import JSON
from noetl.playbook.model import Credential, InputField, InputType, Playbook
from noetl.playbook.source import Path
from noetl.playbook.spec import merge
from noetl.secret import SECRET_BYTES_MAX, SECRET_CHARS_MIN
from noetl.template.limits import Meter
from noetl.template.regex import Pattern
from noetl.template.values import TemplateError

NAMES_MAX = 20  # declared names that a message lists
PROBLEMS_MAX = 50  # of one request that are reported
_NAME_CHARS = 60
_TEXT_CHARS = 40  # of a number or a date as text
_INT_MAX = 2**64  # as for all JSON data
SECRETS_PREFIX = "secrets."  # of the names of secret inputs in problems
_SECRET_KEYS = ("enum", "default")  # of which the playbook would contain the value
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]{1,31}://")
_TEXTS: frozenset[InputType] = frozenset({"string", "file"})
_DATES: frozenset[InputType] = frozenset({"date", "datetime"})
_SIZED: frozenset[InputType] = frozenset({"string", "list", "map"})
_NUMBERS: frozenset[InputType] = frozenset({"integer", "number"})
WORDS: dict[InputType, str] = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-01-31",
    "datetime": "a time such as 2026-01-31T12:00:00Z",
    "list": "a list",
    "map": "a mapping",
    "file": "an absolute path or a URL",
}
_KEYS: dict[str, frozenset[InputType]] = {  # key → the types that it belongs to
    "enum": _TEXTS | _DATES | _NUMBERS,
    "pattern": frozenset({"string"}),
    "format": frozenset({"string"}),
    "items": frozenset({"list"}),
    "min": _SIZED | _DATES | _NUMBERS,
    "max": _SIZED | _DATES | _NUMBERS,
}


class ValueMismatch(Exception):
    """A value does not fit; the message says what is expected."""


class InputFault(NamedTuple):
    """A declaration that cannot be used."""

    code: str
    path: Path
    message: str
    fix: str | None = None
    key: bool = False  # point at the key


class CompiledInput(NamedTuple):
    """A declaration without faults."""

    field: InputField
    default: JSON | UnsetType
    pattern: Pattern | None
    items: CompiledInput | None

    @property
    def required(self) -> bool:
        return self.default is UNSET and self.field.required is not False

    @property
    def nullable(self) -> bool:
        return self.field.required is False or self.default is None

    @property
    def limited(self) -> bool:
        """Are there conditions beside the type?"""
        return any(getattr(self.field, key) is not None for key in _KEYS)

    def fit(self, value: JSON) -> JSON:
        """The value in its type: text from a command line or a form becomes a number. Raises ValueMismatch."""
        if value is None and self.nullable:
            return None
        value = _converted(self.field.type, value)
        self._check(value)
        if self.items is None or type(value) is not list:
            return value
        found = []
        for index, each in enumerate(value):
            try:
                found.append(self.items.fit(each))
            except ValueMismatch as misfit:
                raise ValueMismatch(f"item {index}: {misfit}") from None
        return found

    def _check(self, value: JSON) -> None:
        field = self.field
        if field.enum is not None and value not in field.enum:
            from difflib import get_close_matches

            near = get_close_matches(str(value)[:_NAME_CHARS], list(map(str, field.enum)), n=1)
            hint = f'; did you mean "{near[0]}"?' if near else ""
            raise ValueMismatch(f"expected one of {', '.join(map(describe.value, field.enum[:NAMES_MAX]))}{hint}")
        if self.pattern is not None and not _matches(self.pattern, value):
            raise ValueMismatch(f"expected text that matches {field.pattern}")
        if field.format is not None and not has_format(value, field.format):
            raise ValueMismatch(f"expected text of the format {field.format}")
        measured, unit = _measured(field.type, value), _unit(field.type)
        if field.min is not None and measured < _measured_bound(field.type, field.min):
            raise ValueMismatch(f"expected at least {field.min}{unit}")
        if field.max is not None and measured > _measured_bound(field.type, field.max):
            raise ValueMismatch(f"expected at most {field.max}{unit}")


def _matches(pattern: Pattern, text: str) -> bool:
    try:
        return pattern.search(Meter(), text) is not None
    except TemplateError as error:  # a limit
        raise ValueMismatch(error.message) from None


def _unit(type: InputType) -> str:
    if type not in _SIZED:
        return ""
    return " characters" if type == "string" else " items" if type == "list" else " keys"


def _measured(type: InputType, value: JSON) -> JSON:
    """What `min` and `max` compare."""
    if type in _SIZED:
        return len(value)
    return _instant(value) if type in _DATES else value


def _measured_bound(type: InputType, bound: JSON) -> JSON:
    return _instant(bound) if type in _DATES else bound


def _instant(text: JSON) -> datetime:
    """Raises ValueError."""
    if not isinstance(text, str) or len(text) > _TEXT_CHARS:
        raise ValueError
    at = datetime.fromisoformat(text.strip())
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError from None


def _wrong(type: InputType, value: JSON) -> ValueMismatch:
    got = describe.type_of(value)
    return ValueMismatch(
        f"expected {WORDS[type]}" + ("" if got == "text" and type in _TEXTS | _DATES else f", got {got}")
    )


def _converted(type: InputType, value: JSON) -> JSON:
    """The value in the form that the log keeps. Raises ValueMismatch."""
    converted = _CONVERTERS[type](value)
    if converted is UNSET:
        raise _wrong(type, value)
    return converted


def _integer(value: JSON) -> JSON:
    if type(value) is str and len(value) <= _TEXT_CHARS and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if type(value) is float and math.isfinite(value) and value.is_integer():
        value = int(value)
    return value if type(value) is int and -_INT_MAX < value < _INT_MAX else UNSET


def _number(value: JSON) -> JSON:
    whole = _integer(value) if type(value) is not float else UNSET
    if whole is not UNSET:
        return whole
    if type(value) is str and len(value) <= _TEXT_CHARS and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    return value if type(value) is float and math.isfinite(value) else UNSET


def _boolean(value: JSON) -> JSON:
    if type(value) is str:
        return {"true": True, "false": False}.get(value.strip().lower(), UNSET)
    return value if type(value) is bool else UNSET


def _date(value: JSON) -> JSON:
    try:
        return date.fromisoformat(value.strip()).isoformat() if type(value) is str else UNSET
    except ValueError:
        return UNSET


def _datetime(value: JSON) -> JSON:
    try:
        return _instant(value).isoformat().replace("+00:00", "Z")
    except ValueError:
        return UNSET


def _file(value: JSON) -> JSON:
    return value if type(value) is str and _ABSOLUTE.match(value) else UNSET


_CONVERTERS: dict[InputType, Callable[[JSON], JSON]] = {
    "string": lambda value: value if type(value) is str else UNSET,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
    "list": lambda value: value if type(value) is list else UNSET,
    "map": lambda value: value if type(value) is dict else UNSET,
    "file": _file,
}


class FittedInputs(NamedTuple):
    """The workload of an execution, or why the request cannot run."""

    workload: dict[str, JSON]
    problems: tuple[InputProblem, ...]


class Inputs:
    """The declared inputs of a playbook."""

    def __init__(self, fields: Mapping[str, CompiledInput]) -> None:
        self.fields = fields
        self.secrets: tuple[Credential, ...] = tuple(_credential(each) for each in fields.values() if each.field.secret)
        self.defaults: dict[str, JSON] = {
            name: each.default for name, each in fields.items() if each.default is not UNSET
        }

    def fit(
        self, given: Mapping[str, JSON], is_stored: Callable[[JSON], bool], folder: str | None = None
    ) -> FittedInputs:
        """The defaults and the request, merged and converted; and all problems at once.

        `is_stored`: the value is in the result store, so only its type can be right. `folder`: of the playbook;
        a file that a default names is there.
        """
        problems = [InputProblem(_name(name), self._unknown(name)) for name in given if name not in self.fields]
        workload: dict[str, JSON] = {}
        for name, each in self.fields.items():
            if each.field.secret:
                if name in given:
                    problems.append(InputProblem(name, f"it is secret: {_give(name)}, not in the workload"))
                continue
            try:
                workload[name] = self._value(each, given.get(name, UNSET), is_stored, folder)
            except ValueMismatch as misfit:
                problems.append(InputProblem(name, str(misfit)))
        return FittedInputs(workload, tuple(problems[:PROBLEMS_MAX]))

    def fit_secrets(self, given: Mapping[str, JSON]) -> tuple[InputProblem, ...]:
        """Why the values of secret inputs do not fit; all problems at once."""
        others = [name for name in given if not self._is_secret(name)]
        problems = [InputProblem(f"{SECRETS_PREFIX}{_name(name)}", self._not_secret(name)) for name in others]
        for name, each in self.fields.items():
            if not each.field.secret:
                continue
            try:
                if name not in given and each.required:
                    raise ValueMismatch(f"missing: it is required{_described(each.field)}; {_give(name)}")
                value = self._value(each, given.get(name, UNSET), lambda _: False, None)
                if value is not None:
                    _check_secret(value)
            except ValueMismatch as misfit:
                problems.append(InputProblem(f"{SECRETS_PREFIX}{name}", str(misfit)))
        return tuple(problems[:PROBLEMS_MAX])

    def _is_secret(self, name: str) -> bool:
        return name in self.fields and self.fields[name].field.secret

    def _not_secret(self, name: str) -> str:
        return "it is not secret: give it in the workload" if name in self.fields else self._unknown(name)

    def _value(self, each: CompiledInput, value: JSON, is_stored: Callable[[JSON], bool], folder: str | None) -> JSON:
        field, default = each.field, each.default
        if value is UNSET:
            if each.required:
                raise ValueMismatch(f"missing: it is required{_described(field)}")
            return None if default is UNSET else _placed(field, default, folder)
        if is_stored(value):
            if field.type not in ("string", "list", "map") or each.limited:
                raise ValueMismatch(f"expected {WORDS[field.type]}, got a large value that cannot be checked")
            return value
        return each.fit(value if default is UNSET else merge(default, value))

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name[:_NAME_CHARS], self.fields, n=1, cutoff=0.6)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        names = [*self.fields][:NAMES_MAX]
        more = ", …" if len(self.fields) > NAMES_MAX else ""
        known = f"the inputs are {', '.join(names)}{more}" if names else "the playbook declares no inputs"
        return f"there is no such input{hint} ({known})" if near else f"there is no such input; {known}"


def _give(name: str) -> str:
    return f"give it under `secrets`, or on the command line with --secret {name}"


def _check_secret(value: str) -> None:
    """Raises ValueMismatch."""
    if len(value) < SECRET_CHARS_MIN:
        raise ValueMismatch(f"expected at least {SECRET_CHARS_MIN} characters: a shorter value cannot be masked")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # its text would show the value
        raise ValueMismatch("expected Unicode text") from None
    if size > SECRET_BYTES_MAX:
        raise ValueMismatch(f"expected at most {SECRET_BYTES_MAX:,} bytes (SECRET_BYTES_MAX)")


def _credential(each: CompiledInput) -> Credential:
    """The keychain entry of a secret input; `Program.keychain_of` binds it to an execution."""
    field = each.field
    return Credential(name=field.name, kind=SECRET_INPUT, fields={"required": each.required}, at=field.at)


def _name(name: str) -> str:
    return shorten(one_line(name), _NAME_CHARS)


def _described(field: InputField) -> str:
    desc = f": {shorten(one_line(field.desc), _NAME_CHARS)}" if field.desc else ""
    return f" ({field.type}{desc})"


def _placed(field: InputField, default: JSON, folder: str | None) -> JSON:
    """A file that a default names relative to the playbook's own."""
    if field.type != "file" or folder is None or type(default) is not str or _ABSOLUTE.match(default):
        return default
    return f"{folder.rstrip('/')}/{default}"


def compile_inputs(playbook: Playbook) -> tuple[Inputs, list[InputFault]]:
    """The declarations, ready for use; and the faults, with which the playbook cannot run."""
    faults: list[InputFault] = []
    fields: dict[str, CompiledInput] = {}
    for field in playbook.inputs or ():
        default = playbook.workload.get(field.name, field.default)
        faults += _conflicts(field, playbook)
        compiled = _compiled(field, default, faults) if field.whole else None
        if compiled is not None:
            if default is not UNSET:
                compiled = compiled._replace(default=_checked_default(compiled, playbook, faults))
            fields[field.name] = compiled
    known = [field.name for field in playbook.inputs or ()]
    for name in playbook.workload:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            message = f'"input" does not declare "{name}"' + (f'; did you mean "{near[0]}"?' if near else "")
            faults.append(InputFault("unknown-input", ("workload", name), message, f"{name}: {{type: …}}", key=True))
    return Inputs(fields), faults


FORM_FIELDS_MAX = 50
DECISION_KEYS = ("approved", "comment")  # an answer may have them beside the fields of its form
_FORM_KEYS = {"type", "desc", "default", "required", "enum", "pattern", "min", "max", "format"}


def form_inputs(form: Mapping[str, JSON]) -> Inputs:
    """The fields that a task asks a person for, declared like inputs. Raises ValueMismatch."""
    if type(form) is not dict or len(form) > FORM_FIELDS_MAX:
        raise ValueMismatch(f"expected a mapping of at most {FORM_FIELDS_MAX} fields")
    fields: dict[str, CompiledInput] = {}
    for name, written in form.items():
        if type(written) is not dict or not written.keys() <= _FORM_KEYS:
            raise ValueMismatch(f'"{name}": expected a mapping with {", ".join(sorted(_FORM_KEYS))}')
        if name in DECISION_KEYS:
            raise ValueMismatch(f'"{name}" is part of every answer: choose another name')
        faults: list[InputFault] = []
        try:
            field = convert({"type": "string", **written, "name": name, "at": ()}, InputField)
            compiled = _compiled(field, field.default, faults)
            if compiled is not None and compiled.default is not UNSET:
                compiled = compiled._replace(default=compiled.fit(compiled.default))
        except (ValidationError, ValueMismatch) as error:
            raise ValueMismatch(f'"{name}": {error}') from None
        if compiled is None:
            raise ValueMismatch(f'"{name}": {faults[0].message}')
        fields[name] = compiled
    return Inputs(fields)


def _conflicts(field: InputField, playbook: Playbook) -> Iterator[InputFault]:
    at, name = field.at, field.name
    if field.secret:
        yield from _secret_faults(field, playbook)
    if field.default is not UNSET and name in playbook.workload and playbook.workload[name] != field.default:
        message = f'"{name}" has one default under "workload" and another one here'
        yield InputFault("conflicting-values", (*at, "default"), message, key=True)
    if field.required and (field.default is not UNSET or name in playbook.workload):
        message = f'"{name}" is required, so its default is never used'
        yield InputFault("conflicting-values", (*at, "required"), message, "required: false", key=True)


def _secret_faults(field: InputField, playbook: Playbook) -> Iterator[InputFault]:
    at, name = field.at, field.name
    if field.type != "string":
        message = f'"{name}" is secret, so its type is string: only text can be masked'
        yield InputFault("secret-input", (*at, "secret"), message, "type: string", key=True)
    for key in _SECRET_KEYS:
        if getattr(field, key) not in (None, UNSET):
            message = f'"{name}" is secret, so the playbook cannot contain its value under "{key}"'
            yield InputFault("secret-input", (*at, key), message, key=True)
    if name in playbook.workload:
        message = f'"{name}" is secret, so the playbook cannot contain its value under "workload"'
        yield InputFault("secret-input", ("workload", name), message, key=True)
    if any(entry.name == name for entry in playbook.keychain):
        message = f'"{name}" is a secret input and a keychain entry: templates read both as keychain.{name}'
        yield InputFault("secret-input", (*at, "secret"), message, "choose another name", key=True)


def _compiled(field: InputField, default: JSON, faults: list[InputFault]) -> CompiledInput | None:
    """None: it has faults."""
    before = len(faults)
    for key, types in _KEYS.items():
        if getattr(field, key) is not None and field.type not in types:
            known = " or ".join(sorted(types))
            message = f'"{key}" is not valid with type: {field.type}; it belongs to {known}'
            faults.append(InputFault("misplaced-key", (*field.at, key), message, key=True))
    if len(faults) > before:
        return None
    items = None if field.items is None else _compiled(field.items, UNSET, faults)
    pattern = None
    if field.pattern is not None:
        try:
            Pattern(field.pattern)  # for the message: the author did not write the anchors
            pattern = Pattern(rf"\A(?:{field.pattern})\z")
        except TemplateError as error:
            faults.append(InputFault("bad-value", (*field.at, "pattern"), error.message))
    faults += _bad_bounds(field)
    enum = _checked_enum(field, faults)
    if len(faults) > before:
        return None
    return CompiledInput(replace(field, enum=enum), default, pattern, items)


def _checked_enum(field: InputField, faults: list[InputFault]) -> tuple[JSON, ...] | None:
    if field.enum is None:
        return None
    if not field.enum:
        faults.append(InputFault("bad-value", (*field.at, "enum"), "no value is allowed: the list is empty", key=True))
    found = []
    for index, value in enumerate(field.enum):
        try:
            found.append(_converted(field.type, value))
        except ValueMismatch as misfit:
            faults.append(InputFault("bad-value", (*field.at, "enum", index), str(misfit)))
    return tuple(found)


def _bad_bounds(field: InputField) -> Iterator[InputFault]:
    bounds = []
    for key in ("min", "max"):
        bound = getattr(field, key)
        if bound is None:
            continue
        if field.type in _DATES:
            try:
                bounds.append(_instant(bound))
            except ValueError:
                yield InputFault("bad-value", (*field.at, key), f"expected {WORDS[field.type]}")
        elif isinstance(bound, str) or (field.type in _SIZED and (bound < 0 or bound != int(bound))):
            words = "a length: a whole number of at least 0" if field.type in _SIZED else "a number"
            yield InputFault("bad-value", (*field.at, key), f"expected {words}")
        else:
            bounds.append(bound)
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        message = f"no value fits: min ({field.min}) is greater than max ({field.max})"
        yield InputFault("conflicting-values", (*field.at, "min"), message, key=True)


def _checked_default(compiled: CompiledInput, playbook: Playbook, faults: list[InputFault]) -> JSON:
    field, default = compiled.field, compiled.default
    try:
        return _placeable(field, default) or compiled.fit(default)
    except ValueMismatch as misfit:
        under_workload = field.name in playbook.workload
        at: Path = ("workload", field.name) if under_workload else (*field.at, "default")
        faults.append(InputFault("bad-value", at, f'the default of "{field.name}" does not fit: {misfit}'))
        return default


def _placeable(field: InputField, default: JSON) -> JSON:
    """The default of a file may be relative to the playbook's folder."""
    return default if field.type == "file" and field.enum is None and type(default) is str and default else None
