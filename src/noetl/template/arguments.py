"""The arguments of a filter, test, function or method, checked against its signature before anything runs.

Constants are checked for good, the rest each time; a pattern that is known now is compiled now.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from jinja2 import nodes

from noetl.template.builtins import Builtin, Parameter
from noetl.template.compilation import Compilation, Expr, Run, Scope
from noetl.template.limits import FUEL_MAX, Meter, over
from noetl.template.regex import Pattern, Replacement, compiling
from noetl.template.values import JSON, TemplateError, Undefined, kind_of, undefined

Called: TypeAlias = "nodes.Filter | nodes.Test | nodes.Call"


class Arguments(NamedTuple):
    """What the author wrote between the brackets."""

    positional: list[Expr]
    named: dict[str, Expr]
    line: int
    depth: int = 0  # how many filters name each other around it


class Bound(NamedTuple):
    """The arguments in the order of the signature."""

    runs: tuple[Run, ...]
    values: tuple[JSON, ...] | None  # all of them are known; None: some are not
    cost: int


def arguments(tree: Called, notes: Compilation) -> Arguments:
    if tree.dyn_args is not None or tree.dyn_kwargs is not None:
        notes.fault("not-allowed", "arguments are written one by one, not with * or **", tree.lineno, "*")
    named: dict[str, Expr] = {}
    for keyword in tree.kwargs:
        key, value = (keyword.key, keyword.value) if isinstance(keyword, nodes.Keyword) else ("", None)
        if value is None:
            continue
        if key in named:
            notes.fault("bad-arguments", f'"{key}" is given twice', tree.lineno, key)
        named[key] = notes.expression(value)
    return Arguments(notes.expressions(tree.args), named, tree.lineno)


def bind(entry: Builtin, name: str, given: Arguments, notes: Compilation) -> Bound | None:
    """Put arguments into the order of the signature; None: there is a fault, and it is noted."""
    slots: list[Expr | None] = [*given.positional[: len(entry.parameters)]]
    slots += [None] * (len(entry.parameters) - len(slots))
    problem = _misfit(entry, given, slots)
    runs: list[Run] = []
    values: list[JSON] = []
    for parameter, slot in zip(entry.parameters, slots, strict=True):
        if slot is None:
            value = parameter.default
        elif slot.constant:
            value = slot.value
            if not parameter.takes(value) and problem is None:
                problem = f"{parameter.name} is {kind_of(value)}, not {parameter.words}"
            elif problem is None:
                value, problem = _prepared(parameter, value, values, notes)
        else:
            runs.append(_checked(slot.run, parameter, name))
            continue
        runs.append(_known(value))
        values.append(value)
    if problem is not None:
        notes.fault("bad-arguments", f'"{name}": {problem}', given.line, name, f"write {entry.signature}")
        return None
    known = tuple(values) if len(values) == len(runs) else None
    return Bound(tuple(runs), known, sum(slot.cost for slot in slots if slot) + 2 * len(runs))


def _misfit(entry: Builtin, given: Arguments, slots: list[Expr | None]) -> str | None:
    """Put the named arguments into their slots and say what does not fit."""
    problem = None
    count = len(entry.parameters)
    if len(given.positional) > count:
        problem = f"takes {count or 'no'} argument{'' if count == 1 else 's'}, not {len(given.positional)}"
    places = {parameter.name: place for place, parameter in enumerate(entry.parameters)}
    for key, value in given.named.items():
        if key not in places:
            problem = problem or f'has no argument "{key}"'
        elif slots[places[key]] is not None:
            problem = problem or f'"{key}" is given twice'
        else:
            slots[places[key]] = value
    for parameter, slot in zip(entry.parameters, slots, strict=True):
        if slot is None and parameter.required:
            problem = problem or f'needs the argument "{parameter.name}"'
    return problem


def _prepared(
    parameter: Parameter, value: JSON, before: list[JSON], notes: Compilation
) -> tuple[JSON, str | None]:
    """A constant as the entry wants it, and what is wrong with it: patterns are compiled now."""
    try:
        if parameter.kind == "pattern":
            notes.pattern_work += compiling(value)
            if notes.pattern_work > FUEL_MAX:
                raise over("FUEL_MAX", FUEL_MAX, "the template has too many patterns")
            return Pattern(value), None
        if parameter.kind == "replacement" and before and isinstance(before[-1], Pattern):
            return Replacement(value, before[-1]), None
    except TemplateError as error:
        return value, error.message
    return value, None


def _known(value: JSON) -> Run:
    return lambda _scope, _meter: value


def _checked(run: Run, parameter: Parameter, name: str) -> Run:
    def checked(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        if type(value) is Undefined:
            raise undefined(value)
        if not parameter.takes(value):
            raise TemplateError(f'"{name}": {parameter.name} is {kind_of(value)}, not {parameter.words}')
        return value

    return checked
