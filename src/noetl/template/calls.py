"""Calls: XX"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from jinja2 import nodes

from noetl.template.context import Compilation, Expr, Run, Scope
from noetl.template.filters import FILTERS, OMITTED
from noetl.template.filters.lists import column, getter
from noetl.template.functions import FUNCTIONS, METHODS
from noetl.template.limits import FUEL_MAX, Meter, over
from noetl.template.regex import Pattern, Replacement, compiling
from noetl.template.registry import TAKES, Builtin, Parameter, take_any, take_items, take_lenient, wrong
from noetl.template.tests import PREDICATES
from noetl.template.values import JSON, MISSING, TemplateError, Undefined, kind_of, truth, undefined

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


Each: TypeAlias = Callable[[JSON], JSON]
Prepare: TypeAlias = Callable[
    [Scope, Meter], Each
]  # evaluates the arguments, gives what is done to each item
_ITEM_COST = 6
_WOVEN_DEPTH_MAX = 8  # of map('map', 'map', …)


def find_filter(name: str, line: int, notes: Compilation) -> Builtin | None:
    entry = FILTERS.get(name)
    if entry is None:
        notes.unknown("unknown-filter", "filter", name, line, notes.meant(name, FILTERS, OMITTED))
    return entry


def find_test(name: str, line: int, notes: Compilation) -> Builtin | None:
    entry = PREDICATES.get(name)
    if entry is None:
        notes.unknown("unknown-test", "test", name, line, notes.meant(name, PREDICATES, OMITTED))
    return entry


def prepared(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    """A filter, by its name, as what is done to each item; None: there is a fault, and it is noted."""
    entry = find_filter(name, given.line, notes)
    if entry is None:
        return None
    weaver = WEAVERS.get(name)
    if weaver is None:
        return _plain(entry, given, notes)
    if given.depth >= _WOVEN_DEPTH_MAX:
        notes.fault("bad-arguments", f'"{name}" is named within too many others', given.line, name)
        return None
    return weaver(name, given._replace(depth=given.depth + 1), notes)


def take_of(entry: Builtin) -> Callable[[Meter, JSON, str], JSON]:
    return take_lenient if entry.lenient else TAKES[entry.input]


def _plain(entry: Builtin, given: Arguments, notes: Compilation) -> Prepare | None:
    bound = bind(entry, entry.name, given, notes)
    if bound is None:
        return None
    apply, take, runs = entry.apply, take_of(entry), bound.runs

    def prepare(scope: Scope, meter: Meter) -> Each:
        values = [run(scope, meter) for run in runs]
        return lambda item: apply(meter, take(meter, item, "the value"), *values)

    return prepare


def _default(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    bound = bind(FILTERS[name], name, given, notes)
    if bound is None:
        return None
    fallback = _fallback(given)
    boolean = bound.runs[1]

    def prepare(scope: Scope, meter: Meter) -> Each:
        def each(item: JSON) -> JSON:
            if type(item) is Undefined or (boolean(scope, meter) and not truth(item)):
                return fallback.run(scope, meter)
            return item

        return each

    return prepare


def _fallback(given: Arguments) -> Expr:
    if given.positional:
        return given.positional[0]
    return given.named.get("default_value") or Expr(lambda _scope, _meter: "", constant=True, value="")


def _map(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    if not given.positional and "attribute" in given.named:
        return _map_attribute(name, given, notes)
    inner = _named(given, 0, "filter", name, notes)
    if inner is None:
        return None
    each = prepared(inner, given._replace(positional=given.positional[1:]), notes)
    if each is None:
        return None
    ready = each

    def prepare(scope: Scope, meter: Meter) -> Each:
        change = ready(scope, meter)

        def over(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            meter.items(len(items))
            meter.charge(_ITEM_COST * len(items))
            return [take_any(meter, change(item), "the value") for item in items]

        return over

    return prepare


def _map_attribute(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    bound = bind(FILTERS[name], name, given._replace(positional=[_NOTHING]), notes)
    if bound is None:
        return None
    _, attribute, default = bound.runs
    # As in Jinja, a default of null is none.

    def prepare(scope: Scope, meter: Meter) -> Each:
        path, fallback = attribute(scope, meter), default(scope, meter)

        def over(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            return column(meter, items, path, MISSING if fallback is None else fallback)

        return over

    return prepare


_NOTHING = Expr(lambda _scope, _meter: "", constant=True, value="")


def _select(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    """select, reject, selectattr and rejectattr: the items, or an attribute of each, are put to a test."""
    by_attribute = name.endswith("attr")
    wanted = not name.startswith("reject")
    attribute = _attribute(name, given, notes) if by_attribute else None
    test = _test(
        name, given._replace(positional=given.positional[1:] if by_attribute else given.positional), notes
    )
    if test is None or (by_attribute and attribute is None):
        return None
    ready = test

    def prepare(scope: Scope, meter: Meter) -> Each:
        holds = ready(scope, meter)
        get = None if attribute is None else _get(attribute.runs[0](scope, meter))

        def over(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            meter.items(len(items))
            meter.charge(_ITEM_COST * len(items))
            if get is None:
                return [item for item in items if holds(item) is wanted]
            return [item for item in items if holds(get(item)) is wanted]

        return over

    return prepare


def _get(attribute: str | int) -> Each:
    """What finds an attribute, and calls it by its name if it is missing."""
    find = getter(attribute)
    missing = Undefined(f'"{attribute}" of an item')

    def get(item: JSON) -> JSON:
        value = find(item)
        return missing if value is MISSING else value

    return get


def _attribute(name: str, given: Arguments, notes: Compilation) -> Bound | None:
    return bind(FILTERS[name], name, Arguments(given.positional[:1], {}, given.line), notes)


def _test(name: str, given: Arguments, notes: Compilation) -> Prepare | None:
    if not given.positional and not given.named:
        return lambda _scope, _meter: truth
    inner = _named(given, 0, "test", name, notes)
    entry = None if inner is None else find_test(inner, given.line, notes)
    if entry is None:
        return None
    return _plain(entry, given._replace(positional=given.positional[1:]), notes)


def _named(given: Arguments, place: int, what: str, name: str, notes: Compilation) -> str | None:
    """The name of a filter or test, which must be a constant; None: there is a fault, and it is noted."""
    named = given.positional[place] if len(given.positional) > place else None
    if named is not None and named.constant and type(named.value) is str:
        return named.value
    message = f'"{name}" needs the name of a {what}, as a text that is known now'
    notes.fault("bad-arguments", message, given.line, name, f"write {FILTERS[name].signature}")
    return None


WEAVERS: dict[str, Callable[[str, Arguments, Compilation], Prepare | None]] = {
    "default": _default,
    "d": _default,
    "map": _map,
    "select": _select,
    "reject": _select,
    "selectattr": _select,
    "rejectattr": _select,
}


_RECEIVERS = {"text": (str, "text"), "map": (dict, "a map"), "list": (list, "a list")}


def filtered(tree: nodes.Filter, notes: Compilation) -> Expr:
    assert tree.node is not None, "filter blocks are refused before"
    optional = tree.name in ("default", "d")
    source = notes.expression(tree.node, optional=optional)
    given = arguments(tree, notes)
    entry = find_filter(tree.name, tree.lineno, notes)
    if entry is None:
        return source
    weaver = WEAVERS.get(tree.name)
    if weaver is None:
        return _applied(entry, source, bind(entry, tree.name, given, notes))
    ready = weaver(tree.name, given, notes)
    if ready is None:
        return source
    prepare, run = ready, source.run
    cost = sum(part.cost for part in (source, *given.positional, *given.named.values()))
    return Expr(lambda scope, meter: prepare(scope, meter)(run(scope, meter)), cost=entry.cost + cost + 6)


def tested(tree: nodes.Test, notes: Compilation) -> Expr:
    optional = tree.name in ("defined", "undefined")
    source = notes.expression(tree.node, optional=optional)
    given = arguments(tree, notes)
    entry = find_test(tree.name, tree.lineno, notes)
    if entry is None:
        return source
    return _applied(entry, source, bind(entry, tree.name, given, notes))._replace(boolean=True)


def _applied(entry: Builtin, source: Expr, bound: Bound | None) -> Expr:
    """The value before the bar, taken as the entry wants it, and the arguments, given to the entry."""
    if bound is None:
        return source
    apply, take, label, run = entry.apply, take_of(entry), source.label, source.run
    runs, values = bound.runs, bound.values
    cost = entry.cost + source.cost + bound.cost

    def plain(scope: Scope, meter: Meter) -> JSON:
        return apply(meter, take(meter, run(scope, meter), label))

    def known(scope: Scope, meter: Meter) -> JSON:
        return apply(meter, take(meter, run(scope, meter), label), *values or ())

    def computed(scope: Scope, meter: Meter) -> JSON:
        value = take(meter, run(scope, meter), label)
        return apply(meter, value, *[one(scope, meter) for one in runs])

    if values is None:
        return Expr(computed, cost=cost)
    return Expr(known if values else plain, cost=cost)


def call(tree: nodes.Call, notes: Compilation) -> Expr:
    called = tree.node
    if isinstance(called, nodes.Name):
        return _function(called.name, tree, notes)
    if isinstance(called, nodes.Getattr):
        return _method(called, tree, notes)
    notes.expression(called)
    arguments(tree, notes)
    return notes.fault("not-allowed", "a value can not be called", tree.lineno)


def _function(name: str, tree: nodes.Call, notes: Compilation) -> Expr:
    given = arguments(tree, notes)
    entry = FUNCTIONS.get(name)
    if entry is None:
        fix = notes.meant(name, FUNCTIONS, OMITTED) or f"there are {', '.join(FUNCTIONS)}"
        return notes.unknown("not-allowed", "function", name, tree.lineno, fix)
    if name in ("now", "uuid"):
        notes.calls.add(name)
    bound = bind(entry, name, given, notes)
    if bound is None:
        return Expr(_nothing)
    apply, runs = entry.apply, bound.runs
    return Expr(
        lambda scope, meter: apply(meter, *[one(scope, meter) for one in runs]), cost=entry.cost + bound.cost
    )


def _nothing(_scope: Scope, _meter: Meter) -> JSON:
    return None


def _method(called: nodes.Getattr, tree: nodes.Call, notes: Compilation) -> Expr:
    receiver = notes.expression(called.node)
    given = arguments(tree, notes)
    name = called.attr
    entry = METHODS.get(name)
    if entry is None:
        fix = notes.meant(name, METHODS, {}) or "there are " + ", ".join(METHODS)
        return notes.unknown("not-allowed", "method", name, tree.lineno, fix)
    bound = bind(entry, name, given, notes)
    if bound is None:
        return receiver
    return Expr(_on(entry, receiver, bound.runs), cost=entry.cost + receiver.cost + bound.cost)


def _on(entry: Builtin, receiver: Expr, runs: tuple[Run, ...]) -> Run:
    apply, run, label = entry.apply, receiver.run, receiver.label
    kind, words = _RECEIVERS.get(entry.input, (None, ""))

    def on(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        if kind is not None and type(value) is not kind:
            raise wrong(value, label, f'{words}, which ".{entry.name}()" is for')
        return apply(meter, value, *[one(scope, meter) for one in runs])

    return on
