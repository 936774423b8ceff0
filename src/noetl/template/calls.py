"""Filters, tests, functions and methods in a tree → closures.

What the tables do not have can not be called; a value of the scope never can.
"""

from __future__ import annotations

from jinja2 import nodes

from noetl.template.arguments import Bound, arguments, bind
from noetl.template.builtins import Builtin, wrong
from noetl.template.compilation import Compilation, Expr, Run, Scope
from noetl.template.filters import OMITTED
from noetl.template.functions import FUNCTIONS
from noetl.template.higher_order import WEAVERS, find_filter, find_test, take_of
from noetl.template.limits import Meter
from noetl.template.methods import METHODS
from noetl.template.values import JSON

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
