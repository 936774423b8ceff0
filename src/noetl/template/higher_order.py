"""Filters and tests made ready to go over many items: `default`, `map`, `select` and their kin.

What they name is found and checked while the template compiles; arguments are evaluated once, not per item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from noetl.template.arguments import Arguments, Bound, bind
from noetl.template.builtins import TAKES, Builtin, take_any, take_items, take_lenient
from noetl.template.compilation import Compilation, Expr, Scope
from noetl.template.filters import FILTERS, OMITTED
from noetl.template.filters.lists import column, getter
from noetl.template.limits import Meter
from noetl.template.predicates import PREDICATES
from noetl.template.values import JSON, MISSING, Undefined, truth

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
