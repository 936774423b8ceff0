"""`spec.validate`: a JSON Schema (draft 2020-12) for the data of an output.

Unlike libraries for JSON Schema, it refuses keywords that it does not know, searches patterns in linear time, never
fetches a schema from another place, and names only places of the data, not values, which may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from noetl.output import JSON, Failure, Output
from noetl.playbook.source import Path
from noetl.template.limits import Meter
from noetl.template.regex import Pattern
from noetl.template.values import TemplateError

PROBLEMS_MAX = 10  # of one output that are reported
CHECKS_MAX = 1_000_000  # of values against schemas, for one output
_SHOWN = 60  # characters of a name or a constant in a message

Where: TypeAlias = "tuple[Where, str | int] | None"  # None: the data itself
Schema: TypeAlias = dict[str, JSON]

_TYPES: dict[str, tuple[str, Callable[[JSON], bool]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("a boolean", lambda value: type(value) is bool),
    "string": ("text", lambda value: type(value) is str),
    "integer": ("an integer", lambda value: type(value) is int or (type(value) is float and value.is_integer())),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "array": ("a list", lambda value: type(value) is list),
    "object": ("a mapping", lambda value: type(value) is dict),
}
_DATE, _TIME = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
_ZONE = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
FORMATS = {
    "date": _DATE,
    "time": _TIME + _ZONE,
    "date-time": f"{_DATE}[T ]{_TIME}{_ZONE}",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "email": r"[^@\s]{1,64}@[^@\s]{1,255}",
    "uri": r"[a-z][a-z0-9+.-]{0,31}:[^\s<>\"{}|\\^`]+",
    "ipv4": r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(?!$)|$)){4}",
}
_NOTES = frozenset(
    {"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)


def has_format(text: str, name: str) -> bool:
    return re.fullmatch(FORMATS[name], text, re.IGNORECASE) is not None


class SchemaFault(NamedTuple):
    """A part of a schema that cannot be used."""

    path: Path  # inside the schema
    message: str
    fix: str | None = None


class OutputSchema:
    """A schema without faults."""

    def __init__(self, schema: JSON, patterns: dict[str, Pattern], targets: dict[str, JSON]) -> None:
        self.schema = schema
        self.patterns = patterns
        self.targets = targets  # by their $ref
        self._plans: dict[tuple[int, type], tuple[tuple[RuleCheck, JSON], ...]] = {}

    def plan(self, schema: Schema, kind: type) -> tuple[tuple[RuleCheck, JSON], ...]:
        """The checks of a schema for values of one type, with the arguments of their keywords."""
        key = (id(schema), kind)
        plan = self._plans.get(key)
        if plan is None:
            rules = ((_RULES[name], name, argument) for name, argument in schema.items() if name in _RULES)
            plan = self._plans[key] = tuple(
                (rule.check, argument)
                for rule, name, argument in rules
                if (not rule.applies or kind in rule.applies) and not (name == "type" and _always(argument, kind))
            )
        return plan

    def problems(self, data: JSON) -> list[str]:
        """Why the data does not fit; empty: it fits."""
        run = _Run(self, PROBLEMS_MAX)
        try:
            run.check(self.schema, data, None)
        except _Full:
            pass
        except RecursionError:
            return ["the schema refers to itself without end"]
        except TemplateError as error:  # a limit of a pattern
            return [error.message]
        return [f"{_path_text(where)}: {message}" for where, message in run.found]

    def applied(self, output: Output) -> Output:
        """The output, or an error of kind `validation` that keeps its data."""
        if output.status != "ok" or not (problems := self.problems(output.data)):
            return output
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        stored = "; the result is stored as a file, so there is no data" if output.data is None and output.ref else ""
        message = f"the output does not fit spec.validate: {problems[0]}{more}{stored}"
        failure = Failure(kind="validation", message=message, details={"problems": problems})
        return Output(status="error", data=output.data, ref=output.ref, error=failure, meta=output.meta, own=output.own)


class _Full(Exception):
    """Enough problems were found. This is not an error."""


class _Run:
    """One check of data: the problems so far, and the number of checks."""

    def __init__(self, of: OutputSchema, most: int, count: list[int] | None = None) -> None:
        self.of = of
        self.found: list[tuple[Where, str]] = []
        self._most = most
        self._count = count if count is not None else [0]

    def check(self, schema: JSON, value: JSON, where: Where) -> None:
        if self._count[0] >= CHECKS_MAX:
            self.found = [(where, f"there is too much data to check (limit CHECKS_MAX: {CHECKS_MAX:,})")]
            raise _Full
        self._count[0] += 1
        if schema is False:
            self.add(where, "the schema does not allow it")
        elif schema is not True:
            for check, argument in self.of.plan(schema, type(value)):
                check(self, argument, value, where, schema)

    def add(self, where: Where, message: str) -> None:
        self.found.append((where, message))
        if len(self.found) >= self._most:
            raise _Full

    def fits(self, schema: JSON, value: JSON, where: Where) -> bool:
        """Does the value fit? The problems are not kept."""
        inner = _Run(self.of, 1, self._count)
        try:
            inner.check(schema, value, where)
        except _Full:
            if self._count[0] >= CHECKS_MAX:
                self.check(True, value, where)
            return False
        return True

    def matches(self, pattern: str, text: str) -> bool:
        return self.of.patterns[pattern].search(Meter(), text) is not None


def _path_text(where: Where) -> str:
    parts: list[str] = []
    while where is not None:
        where, part = where
        parts.append(f"[{part}]" if type(part) is int else f".{str(part)[:_SHOWN]}")
    return "output.data" + "".join(reversed(parts))


def _identity(value: JSON) -> JSON:
    """A hashable value that is equal for equal JSON: 1 and 1.0 are equal, 1 and true are not."""
    if type(value) is dict:
        return "map", frozenset((key, _identity(each)) for key, each in value.items())
    if type(value) is list:
        return "list", tuple(map(_identity, value))
    return ("bool" if type(value) is bool else "scalar"), value


def _short(values: list[JSON]) -> str:
    import json

    return ", ".join(json.dumps(value, ensure_ascii=False)[:_SHOWN] for value in values[:10])


RuleCheck: TypeAlias = Callable[[_Run, Any, Any, Where, Schema], None]


class KeywordRule(NamedTuple):
    argument: str  # what the keyword takes, as in _ARGUMENTS
    applies: tuple[type, ...]  # the types of values that it checks; empty: all
    check: RuleCheck


_RULES: dict[str, KeywordRule] = {}


def _rule(keyword: str, argument: str, *applies: type) -> Callable[[RuleCheck], RuleCheck]:
    def register(check: RuleCheck) -> RuleCheck:
        _RULES[keyword] = KeywordRule(argument, applies, check)
        return check

    return register


@_rule("$ref", "ref")
def _ref(run: _Run, target: str, value: JSON, where: Where, _schema: Schema) -> None:
    run.check(run.of.targets[target], value, where)


@_rule("type", "types")
def _type(run: _Run, names: JSON, value: JSON, where: Where, _schema: Schema) -> None:
    names = names if type(names) is list else [names]
    if not any(_TYPES[name][1](value) for name in names):
        got = next(words for words, test in _TYPES.values() if test(value))
        run.add(where, f"expected {' or '.join(_TYPES[name][0] for name in names)}, got {got}")


def _always(names: JSON, kind: type) -> bool:
    """Do all values of a Python type have one of the types?"""
    samples: dict[type, JSON] = {type(None): None, bool: True, str: "", int: 0, float: 0.5, list: [], dict: {}}
    return kind in samples and any(
        _TYPES[each][1](samples[kind]) for each in (names if type(names) is list else [names])
    )


@_rule("enum", "values")
def _enum(run: _Run, allowed: list[JSON], value: JSON, where: Where, _schema: Schema) -> None:
    if value not in allowed or _identity(value) not in map(_identity, allowed):
        run.add(where, f"it is not one of {_short(allowed)}")


@_rule("const", "any")
def _const(run: _Run, wanted: JSON, value: JSON, where: Where, _schema: Schema) -> None:
    if _identity(value) != _identity(wanted):
        run.add(where, f"it is not {_short([wanted])}")


def _bound(keyword: str, test: Callable[[float, float], bool], words: str) -> None:
    @_rule(keyword, "number", int, float)
    def check(run: _Run, bound: float, value: float, where: Where, _schema: Schema) -> None:
        if not test(value, bound):
            run.add(where, f"it is not {words} {bound}")


def _is_multiple(value: float, of: float) -> bool:
    if type(value) is int and type(of) is int:
        return value % of == 0
    try:
        return float(value / of).is_integer()
    except (OverflowError, ZeroDivisionError):
        return False


_bound("minimum", lambda value, bound: value >= bound, "at least")
_bound("maximum", lambda value, bound: value <= bound, "at most")
_bound("exclusiveMinimum", lambda value, bound: value > bound, "greater than")
_bound("exclusiveMaximum", lambda value, bound: value < bound, "less than")
_bound("multipleOf", _is_multiple, "a multiple of")


def _size(suffix: str, kind: type, words: str) -> None:
    @_rule(f"min{suffix}", "count", kind)
    def least(run: _Run, bound: int, value: Any, where: Where, _schema: Schema) -> None:
        if len(value) < bound:
            run.add(where, f"it has {len(value):,} {words}, and at least {bound:,} are required")

    @_rule(f"max{suffix}", "count", kind)
    def most(run: _Run, bound: int, value: Any, where: Where, _schema: Schema) -> None:
        if len(value) > bound:
            run.add(where, f"it has {len(value):,} {words}, and at most {bound:,} are allowed")


_size("Length", str, "characters")
_size("Items", list, "items")
_size("Properties", dict, "names")


@_rule("pattern", "pattern", str)
def _pattern(run: _Run, pattern: str, value: str, where: Where, _schema: Schema) -> None:
    if not run.matches(pattern, value):
        run.add(where, "it does not match the pattern")


@_rule("format", "format", str)
def _format(run: _Run, name: str, value: str, where: Where, _schema: Schema) -> None:
    if not has_format(value, name):
        run.add(where, f"it is not of the format {name}")


@_rule("properties", "named schemas", dict)
def _properties(run: _Run, named: Schema, value: Schema, where: Where, _schema: Schema) -> None:
    for name, schema in named.items():
        if name in value:
            run.check(schema, value[name], (where, name))


@_rule("patternProperties", "pattern schemas", dict)
def _pattern_properties(run: _Run, named: Schema, value: Schema, where: Where, _schema: Schema) -> None:
    for name, each in value.items():
        for pattern, schema in named.items():
            if run.matches(pattern, name):
                run.check(schema, each, (where, name))


@_rule("additionalProperties", "schema", dict)
def _additional(run: _Run, rest: JSON, value: Schema, where: Where, schema: Schema) -> None:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", ())
    for name, each in value.items():
        if name not in known and not any(run.matches(pattern, name) for pattern in patterns):
            run.check(rest, each, (where, name))


@_rule("propertyNames", "schema", dict)
def _property_names(run: _Run, schema: JSON, value: Schema, where: Where, _schema: Schema) -> None:
    for name in value:
        run.check(schema, name, (where, name))


@_rule("required", "names", dict)
def _required(run: _Run, names: list[str], value: Schema, where: Where, _schema: Schema) -> None:
    for name in names:
        if name not in value:
            run.add((where, name), "it is missing")


@_rule("dependentRequired", "named names", dict)
def _dependent_required(run: _Run, named: dict[str, list[str]], value: Schema, where: Where, schema: Schema) -> None:
    for name, names in named.items():
        if name in value:
            _required(run, names, value, where, schema)


@_rule("dependentSchemas", "named schemas", dict)
def _dependent_schemas(run: _Run, named: Schema, value: Schema, where: Where, _schema: Schema) -> None:
    for name, schema in named.items():
        if name in value:
            run.check(schema, value, where)


@_rule("prefixItems", "schemas", list)
def _prefix_items(run: _Run, schemas: list[JSON], value: list[JSON], where: Where, _schema: Schema) -> None:
    for index, (schema, each) in enumerate(zip(schemas, value, strict=False)):
        run.check(schema, each, (where, index))


@_rule("items", "schema", list)
def _items(run: _Run, rest: JSON, value: list[JSON], where: Where, schema: Schema) -> None:
    for index in range(len(schema.get("prefixItems", ())), len(value)):
        run.check(rest, value[index], (where, index))


@_rule("contains", "schema", list)
def _contains(run: _Run, wanted: JSON, value: list[JSON], where: Where, schema: Schema) -> None:
    count = sum(run.fits(wanted, each, (where, index)) for index, each in enumerate(value))
    least, most = schema.get("minContains", 1), schema.get("maxContains", count)
    if not least <= count <= most:
        run.add(
            where, f'{count:,} items fit the schema of "contains", which is too {"few" if count < least else "many"}'
        )


@_rule("uniqueItems", "boolean", list)
def _unique(run: _Run, unique: bool, value: list[JSON], where: Where, _schema: Schema) -> None:
    seen: dict[JSON, int] = {}
    for index, each in enumerate(value if unique else ()):
        before = seen.setdefault(_identity(each), index)
        if before != index:
            run.add((where, index), f"it is equal to the item [{before}], and items must differ")


@_rule("allOf", "schemas")
def _all_of(run: _Run, schemas: list[JSON], value: JSON, where: Where, _schema: Schema) -> None:
    for schema in schemas:
        run.check(schema, value, where)


@_rule("anyOf", "schemas")
def _any_of(run: _Run, schemas: list[JSON], value: JSON, where: Where, _schema: Schema) -> None:
    if not any(run.fits(schema, value, where) for schema in schemas):
        run.add(where, 'it fits no schema of "anyOf"')


@_rule("oneOf", "schemas")
def _one_of(run: _Run, schemas: list[JSON], value: JSON, where: Where, _schema: Schema) -> None:
    count = sum(run.fits(schema, value, where) for schema in schemas)
    if count != 1:
        run.add(where, f'it fits {count} schemas of "oneOf", and must fit exactly one')


@_rule("not", "schema")
def _not(run: _Run, schema: JSON, value: JSON, where: Where, _schema: Schema) -> None:
    if run.fits(schema, value, where):
        run.add(where, 'it fits the schema of "not"')


@_rule("if", "schema")
def _if(run: _Run, test: JSON, value: JSON, where: Where, schema: Schema) -> None:
    run.check(schema.get("then" if run.fits(test, value, where) else "else", True), value, where)


def _by_another(_run: _Run, _argument: JSON, _value: JSON, _where: Where, _schema: Schema) -> None:
    """Another keyword reads the argument."""


for _keyword, _argument in (("minContains", "count"), ("maxContains", "count"), ("then", "schema"), ("else", "schema"),
                            ("$defs", "named schemas"), ("definitions", "named schemas")):  # fmt: skip
    _rule(_keyword, _argument)(_by_another)
KEYWORDS = (*_RULES, *sorted(_NOTES))

_NEEDS = {"minContains": "contains", "maxContains": "contains", "then": "if", "else": "if"}
_NUMBERS = (int, float)
# What a keyword takes: the words for it, and the test.
_ARGUMENTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "any": ("a value", lambda _value: True),
    "boolean": ("true or false", lambda value: type(value) is bool),
    "number": ("a number", lambda value: type(value) in _NUMBERS),
    "count": ("a count", lambda value: type(value) in _NUMBERS and value >= 0 and value == int(value)),
    "values": ("a list of values", lambda value: type(value) is list and len(value) > 0),
    "names": ("a list of names", lambda value: type(value) is list and all(type(each) is str for each in value)),
    "types": (
        f"one of {', '.join(_TYPES)}, or a list of them",
        lambda value: all(type(each) is str and each in _TYPES for each in (value if type(value) is list else [value])),
    ),
    "format": (f"one of {', '.join(FORMATS)}; for others use pattern", lambda value: value in list(FORMATS)),
    "pattern": ("text", lambda value: type(value) is str),
    "ref": ("a part of this schema, for example #/$defs/item", lambda value: type(value) is str),
    "schema": ("a schema", lambda value: type(value) in (dict, bool)),
    "schemas": ("a list of schemas", lambda value: type(value) is list and len(value) > 0),
    "named schemas": ("a mapping of names to schemas", lambda value: type(value) is dict),
    "pattern schemas": ("a mapping of patterns to schemas", lambda value: type(value) is dict),
    "named names": (
        "a mapping of names to lists of names",
        lambda value: type(value) is dict and all(_ARGUMENTS["names"][1](each) for each in value.values()),
    ),
}


def compile_schema(schema: JSON) -> tuple[OutputSchema | None, list[SchemaFault]]:
    """The schema, ready for use; None: it has faults."""
    reader = _Reader(schema)
    reader.read(schema, ())
    made = None if reader.faults else OutputSchema(schema, reader.patterns, reader.targets)
    return made, list(dict.fromkeys(reader.faults))


class _Reader:
    """Reads a schema once: its faults, patterns and references."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self.faults: list[SchemaFault] = []
        self.patterns: dict[str, Pattern] = {}
        self.targets: dict[str, JSON] = {}

    def read(self, schema: JSON, at: Path) -> None:
        if type(schema) is bool:
            return
        if type(schema) is not dict:
            self.faults.append(SchemaFault(at, "a schema is a mapping, true or false"))
            return
        for key, argument in schema.items():
            here: Path = (*at, str(key))
            rule = _RULES.get(key)
            if rule is not None:
                self._argument(rule.argument, argument, here)
                needed = _NEEDS.get(key)
                if needed is not None and needed not in schema:
                    self.faults.append(SchemaFault(here, f'"{key}" has no effect without "{needed}"'))
            elif key not in _NOTES:
                self._unknown(str(key), here)

    def _unknown(self, key: str, at: Path) -> None:
        from difflib import get_close_matches

        near = next(iter(get_close_matches(key, KEYWORDS, n=1)), None)
        hint = f'; did you mean "{near}"?' if near else ""
        self.faults.append(
            SchemaFault(at, f'"{key}" is not a keyword of JSON Schema that can be used here{hint}', near)
        )

    def _argument(self, kind: str, value: JSON, at: Path) -> None:
        words, test = _ARGUMENTS[kind]
        if not test(value) or (kind == "ref" and not self._refer(value)):
            self.faults.append(SchemaFault(at, f'"{at[-1]}" is {words}'))
        elif kind == "schema":
            self.read(value, at)
        elif kind == "schemas":
            for index, each in enumerate(value):
                self.read(each, (*at, index))
        elif kind in ("named schemas", "pattern schemas"):
            for name, each in value.items():
                self.read(each, (*at, str(name)))
                if kind == "pattern schemas":
                    self._pattern(str(name), (*at, str(name)))
        elif kind == "pattern":
            self._pattern(value, at)

    def _pattern(self, text: str, at: Path) -> None:
        try:
            self.patterns[text] = Pattern(text)
        except TemplateError as error:
            self.faults.append(SchemaFault(at, error.message))

    def _refer(self, target: str) -> bool:
        if target != "#" and not target.startswith("#/"):
            return False
        part, names = self.root, [step.replace("~1", "/").replace("~0", "~") for step in target.split("/")[1:]]
        for name in names:
            if not isinstance(part, dict) or name not in part:
                return False
            part = part[name]
        if target not in self.targets:
            self.targets[target] = part
            self.read(part, tuple(names))
        return True
