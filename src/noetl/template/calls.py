"""Compiles filters, tests, functions and methods into closures.

Arguments are checked against the signature when the template is compiled: constants completely, other
expressions again at each evaluation. Only entries of the tables can be called, never a value of the scope.
Filters that take other filters or tests by name (`map`, `select`, …) are built here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from noetl.template import nodes
from noetl.template.context import CompileContext, Expr, Run, Scope
from noetl.template.filters import FILTERS, OMITTED
from noetl.template.filters.dates import check_format, check_step, check_unit
from noetl.template.filters.lists import column, getter
from noetl.template.functions import FUNCTIONS, METHODS
from noetl.template.limits import FUEL_MAX, Meter, limit_exceeded
from noetl.template.regex import Pattern, Replacement, compile_cost
from noetl.template.registry import TAKES, Builtin, Parameter, take_any, take_items, take_lenient, wrong
from noetl.template.tests import TESTS
from noetl.template.values import JSON, MISSING, RECORDED, TemplateError, Undefined, kind_of, truth, undefined

Called: TypeAlias = "nodes.FilterNode | nodes.TestNode | nodes.CallNode"


class Arguments(NamedTuple):
    """The arguments of a call as the author wrote them."""

    positional: list[Expr]
    named: dict[str, Expr]
    line: int
    depth: int = 0  # how many filters that name other filters are around it


class Bound(NamedTuple):
    """The arguments in the order of the signature."""

    runs: tuple[Run, ...]
    values: tuple[JSON, ...] | None  # if all of them are constants; None: at least one is not
    cost: int


def arguments(tree: Called, context: CompileContext) -> Arguments:
    if tree.dyn_args is not None or tree.dyn_kwargs is not None:
        context.fault("not-allowed", "write the arguments one by one; * and ** are not supported", tree.lineno, "*")
    named: dict[str, Expr] = {}
    for keyword in tree.kwargs:
        key, value = (keyword.key, keyword.value) if isinstance(keyword, nodes.KeywordNode) else ("", None)
        if value is None:
            continue
        if key in named:
            context.fault("bad-arguments", f'"{key}" is given twice', tree.lineno, key)
        named[key] = context.expression(value)
    return Arguments(context.expressions(tree.args), named, tree.lineno)


def bind(entry: Builtin, name: str, args: Arguments, context: CompileContext) -> Bound | None:
    """Put arguments into the order of the signature; None after a fault, which is recorded."""
    slots: list[Expr | None] = [*args.positional[: len(entry.parameters)]]
    slots += [None] * (len(entry.parameters) - len(slots))
    problem = _misfit(entry, args, slots)
    runs: list[Run] = []
    values: list[JSON] = []
    for parameter, slot in zip(entry.parameters, slots, strict=True):
        if slot is None:
            value = parameter.default
        elif slot.constant:
            value = slot.value
            if not parameter.accepts(value) and problem is None:
                problem = f"{parameter.name} is {kind_of(value)}, not {parameter.expected}"
            elif problem is None:
                value, problem = _prepared(parameter, value, values, context)
        else:
            runs.append(_checked(slot.run, parameter, name))
            continue
        runs.append(_known(value))
        values.append(value)
    if problem is not None:
        context.fault("bad-arguments", f'"{name}": {problem}', args.line, name, f"write {entry.signature}")
        return None
    known = tuple(values) if len(values) == len(runs) else None
    return Bound(tuple(runs), known, sum(slot.cost for slot in slots if slot) + 2 * len(runs))


def _misfit(entry: Builtin, args: Arguments, slots: list[Expr | None]) -> str | None:
    """Put the named arguments into their slots, and describe the first mismatch; None if all fit."""
    problem = None
    count = len(entry.parameters)
    if len(args.positional) > count:
        problem = f"takes {count or 'no'} argument{'' if count == 1 else 's'}, not {len(args.positional)}"
    places = {parameter.name: index for index, parameter in enumerate(entry.parameters)}
    for key, value in args.named.items():
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


_CHECKS = {"format": check_format, "unit": check_unit, "step": check_step}


def _prepared(
    parameter: Parameter, value: JSON, before: list[JSON], context: CompileContext
) -> tuple[JSON, str | None]:
    """A constant as the entry needs it, and the problem with it, if any. Regular expressions are compiled."""
    try:
        if parameter.kind == "pattern":
            context.pattern_work += compile_cost(value)
            if context.pattern_work > FUEL_MAX:
                raise limit_exceeded("FUEL_MAX", "the template has too many regular expressions")
            return Pattern(value), None
        if parameter.kind in _CHECKS:
            _CHECKS[parameter.kind](value)
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
        if not parameter.accepts(value):
            raise TemplateError(f'"{name}": {parameter.name} is {kind_of(value)}, not {parameter.expected}')
        return value

    return checked


ItemFunction: TypeAlias = Callable[[JSON], JSON]
Prepare: TypeAlias = Callable[[Scope, Meter], ItemFunction]  # evaluates the arguments, gives what is done to each item
_ITEM_COST = 6
_NESTING_MAX = 8  # of map('map', 'map', …)


def find_filter(name: str, line: int, context: CompileContext) -> Builtin | None:
    entry = FILTERS.get(name)
    if entry is None:
        context.unknown("unknown-filter", "filter", name, line, context.suggestion(name, FILTERS, OMITTED))
    return entry


def find_test(name: str, line: int, context: CompileContext) -> Builtin | None:
    entry = TESTS.get(name)
    if entry is None:
        context.unknown("unknown-test", "test", name, line, context.suggestion(name, TESTS, OMITTED))
    return entry


def prepared(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    """The filter of a name, as a function for each item; None after a fault, which is recorded."""
    entry = find_filter(name, args.line, context)
    if entry is None:
        return None
    compile_special = HIGHER_ORDER.get(name)
    if compile_special is None:
        return _plain(entry, args, context)
    if args.depth >= _NESTING_MAX:
        context.fault("bad-arguments", f'"{name}" is nested in too many other filters', args.line, name)
        return None
    return compile_special(name, args._replace(depth=args.depth + 1), context)


def input_reader(entry: Builtin) -> Callable[[Meter, JSON, str], JSON]:
    return take_lenient if entry.lenient else TAKES[entry.input]


def _plain(entry: Builtin, args: Arguments, context: CompileContext) -> Prepare | None:
    bound = bind(entry, entry.name, args, context)
    if bound is None:
        return None
    apply, take, runs = entry.apply, input_reader(entry), bound.runs

    def prepare(scope: Scope, meter: Meter) -> ItemFunction:
        values = [run(scope, meter) for run in runs]
        return lambda item: apply(meter, take(meter, item, "the value"), *values)

    return prepare


def _default(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    bound = bind(FILTERS[name], name, args, context)
    if bound is None:
        return None
    fallback = _fallback(args)
    boolean = bound.runs[1]

    def prepare(scope: Scope, meter: Meter) -> ItemFunction:
        def each(item: JSON) -> JSON:
            if type(item) is Undefined or (boolean(scope, meter) and not truth(item)):
                return fallback.run(scope, meter)
            return item

        return each

    return prepare


def _fallback(args: Arguments) -> Expr:
    if args.positional:
        return args.positional[0]
    return args.named.get("default_value") or Expr(lambda _scope, _meter: "", constant=True, value="")


def _map(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    if not args.positional and "attribute" in args.named:
        return _map_attribute(name, args, context)
    inner = _named(args, 0, "filter", name, context)
    if inner is None:
        return None
    each = prepared(inner, args._replace(positional=args.positional[1:]), context)
    if each is None:
        return None
    ready = each

    def prepare(scope: Scope, meter: Meter) -> ItemFunction:
        change = ready(scope, meter)

        def over_items(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            meter.items(len(items))
            meter.charge(_ITEM_COST * len(items))
            return [take_any(meter, change(item), "the value") for item in items]

        return over_items

    return prepare


def _map_attribute(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    bound = bind(FILTERS[name], name, args._replace(positional=[_NOTHING]), context)
    if bound is None:
        return None
    _, attribute, default = bound.runs
    # As in Jinja, a default of null is none.

    def prepare(scope: Scope, meter: Meter) -> ItemFunction:
        path, fallback = attribute(scope, meter), default(scope, meter)

        def over_items(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            return column(meter, items, path, MISSING if fallback is None else fallback)

        return over_items

    return prepare


_NOTHING = Expr(lambda _scope, _meter: "", constant=True, value="")


def _select(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    """select, reject, selectattr and rejectattr: apply a test to each item or to an attribute of it."""
    by_attribute = name.endswith("attr")
    keep = not name.startswith("reject")
    attribute = _attribute(name, args, context) if by_attribute else None
    test = _test(name, args._replace(positional=args.positional[1:] if by_attribute else args.positional), context)
    if test is None or (by_attribute and attribute is None):
        return None
    ready = test

    def prepare(scope: Scope, meter: Meter) -> ItemFunction:
        holds = ready(scope, meter)
        get = None if attribute is None else _get(attribute.runs[0](scope, meter))

        def over_items(value: JSON) -> JSON:
            items = take_items(meter, value, "the value")
            meter.items(len(items))
            meter.charge(_ITEM_COST * len(items))
            if get is None:
                return [item for item in items if holds(item) is keep]
            return [item for item in items if holds(get(item)) is keep]

        return over_items

    return prepare


def _get(attribute: str | int) -> ItemFunction:
    """A function that returns an attribute of an item; a missing one is undefined and has a name."""
    find = getter(attribute)
    missing = Undefined(f'"{attribute}" of an item')

    def get(item: JSON) -> JSON:
        value = find(item)
        return missing if value is MISSING else value

    return get


def _attribute(name: str, args: Arguments, context: CompileContext) -> Bound | None:
    return bind(FILTERS[name], name, Arguments(args.positional[:1], {}, args.line), context)


def _test(name: str, args: Arguments, context: CompileContext) -> Prepare | None:
    if not args.positional and not args.named:
        return lambda _scope, _meter: truth
    inner = _named(args, 0, "test", name, context)
    entry = None if inner is None else find_test(inner, args.line, context)
    if entry is None:
        return None
    return _plain(entry, args._replace(positional=args.positional[1:]), context)


def _named(args: Arguments, index: int, what: str, name: str, context: CompileContext) -> str | None:
    """The name of a filter or test, which must be a constant; None after a fault, which is recorded."""
    named = args.positional[index] if len(args.positional) > index else None
    if named is not None and named.constant and type(named.value) is str:
        return named.value
    message = f'"{name}" needs the name of a {what} as a constant text'
    context.fault("bad-arguments", message, args.line, name, f"write {FILTERS[name].signature}")
    return None


HIGHER_ORDER: dict[str, Callable[[str, Arguments, CompileContext], Prepare | None]] = {
    "default": _default,
    "d": _default,
    "map": _map,
    "select": _select,
    "reject": _select,
    "selectattr": _select,
    "rejectattr": _select,
}


_RECEIVERS = {"text": (str, "text"), "map": (dict, "a map"), "list": (list, "a list")}


def compile_filter(tree: nodes.FilterNode, context: CompileContext) -> Expr:
    assert tree.node is not None, "filter blocks are rejected earlier"
    optional = tree.name in ("default", "d")
    source = context.expression(tree.node, optional=optional)
    args = arguments(tree, context)
    entry = find_filter(tree.name, tree.lineno, context)
    if entry is None:
        return source
    compile_special = HIGHER_ORDER.get(tree.name)
    if compile_special is None:
        return _applied(entry, source, bind(entry, tree.name, args, context))
    ready = compile_special(tree.name, args, context)
    if ready is None:
        return source
    prepare, run = ready, source.run
    cost = sum(part.cost for part in (source, *args.positional, *args.named.values()))
    return Expr(lambda scope, meter: prepare(scope, meter)(run(scope, meter)), cost=entry.cost + cost + 6)


def compile_test(tree: nodes.TestNode, context: CompileContext) -> Expr:
    optional = tree.name in ("defined", "undefined")
    source = context.expression(tree.node, optional=optional)
    args = arguments(tree, context)
    entry = find_test(tree.name, tree.lineno, context)
    if entry is None:
        return source
    return replace(_applied(entry, source, bind(entry, tree.name, args, context)), boolean=True)


def _applied(entry: Builtin, source: Expr, bound: Bound | None) -> Expr:
    """Call an entry with the value before the bar, converted as the entry needs it, and the arguments."""
    if bound is None:
        return source
    apply, take, label, run = entry.apply, input_reader(entry), source.label, source.run
    runs, values = bound.runs, bound.values
    cost = entry.cost + source.cost + bound.cost

    def plain(scope: Scope, meter: Meter) -> JSON:
        return apply(meter, take(meter, run(scope, meter), label))

    def known(scope: Scope, meter: Meter) -> JSON:
        return apply(meter, take(meter, run(scope, meter), label), *values or ())

    def computed(scope: Scope, meter: Meter) -> JSON:
        value = take(meter, run(scope, meter), label)
        return apply(meter, value, *[run(scope, meter) for run in runs])

    if values is None:
        return Expr(computed, cost=cost)
    return Expr(known if values else plain, cost=cost)


def compile_call(tree: nodes.CallNode, context: CompileContext) -> Expr:
    called = tree.node
    if isinstance(called, nodes.NameNode):
        return _function(called.name, tree, context)
    if isinstance(called, nodes.GetattrNode):
        return _method(called, tree, context)
    context.expression(called)
    arguments(tree, context)
    return context.fault("not-allowed", "a value cannot be called", tree.lineno)


def _function(name: str, tree: nodes.CallNode, context: CompileContext) -> Expr:
    args = arguments(tree, context)
    entry = FUNCTIONS.get(name)
    if entry is None:
        fix = context.suggestion(name, FUNCTIONS, OMITTED) or f"there are {', '.join(FUNCTIONS)}"
        return context.unknown("not-allowed", "function", name, tree.lineno, fix)
    if name in RECORDED:
        context.calls.add(name)
    context.omits = context.omits or name == "omit"
    bound = bind(entry, name, args, context)
    if bound is None:
        return Expr(_nothing)
    apply, runs = entry.apply, bound.runs
    return Expr(lambda scope, meter: apply(meter, *[run(scope, meter) for run in runs]), cost=entry.cost + bound.cost)


def _nothing(_scope: Scope, _meter: Meter) -> JSON:
    return None


def _method(called: nodes.GetattrNode, tree: nodes.CallNode, context: CompileContext) -> Expr:
    receiver = context.expression(called.node)
    args = arguments(tree, context)
    name = called.attr
    entry = METHODS.get(name)
    if entry is None:
        fix = context.suggestion(name, METHODS, {}) or "there are " + ", ".join(METHODS)
        return context.unknown("not-allowed", "method", name, tree.lineno, fix)
    bound = bind(entry, name, args, context)
    if bound is None:
        return receiver
    return Expr(_on(entry, receiver, bound.runs), cost=entry.cost + receiver.cost + bound.cost)


def _on(entry: Builtin, receiver: Expr, runs: tuple[Run, ...]) -> Run:
    apply, run, label = entry.apply, receiver.run, receiver.label
    kind, expected = _RECEIVERS.get(entry.input, (None, ""))

    def on(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        if kind is not None and type(value) is not kind:
            raise wrong(value, label, f'{expected}, which ".{entry.name}()" needs')
        return apply(meter, value, *[run(scope, meter) for run in runs])

    return on
