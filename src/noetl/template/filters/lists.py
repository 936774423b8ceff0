"""Filters for lists and maps. The lists that they return are bounded.

An attribute is a path into maps and lists ("address.city", 0), never an attribute of a Python object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from noetl.template.limits import TEXT_CHARS_MAX, Meter, json_text
from noetl.template.operators import add, sort_keys
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, MISSING, TemplateError, Undefined, kind_of, lookup, to_json

LIST_FILTERS: BuiltinTable = {}
Getter: TypeAlias = Callable[[JSON], JSON]
_NO_FIRST, _NO_LAST, _NO_SMALLEST, _NO_LARGEST = (
    Undefined(f"the {which} item of an empty list") for which in ("first", "last", "smallest", "largest")
)


def getter(attribute: str | int) -> Getter:
    """A function that returns the value at an attribute path of an item, or MISSING."""
    if type(attribute) is int:
        return lambda item: lookup(item, attribute)
    steps = [int(step) if step.isdecimal() and len(step) < 10 else step for step in str(attribute).split(".")]

    def get(item: JSON) -> JSON:
        for step in steps:
            item = lookup(item, step)
        return item

    return get


def column(meter: Meter, items: list[JSON], attribute: str | int | None, default: JSON = MISSING) -> list[JSON]:
    """The attribute of every item, or the items themselves. A missing one is `default`, or an error."""
    if attribute is None:
        return items
    meter.items(len(items))
    get = getter(attribute)
    meter.charge(len(items) * (4 + 2 * str(attribute).count(".")))
    values = []
    for index, item in enumerate(items):
        value = get(item)
        if value is MISSING:
            if default is MISSING:
                raise TemplateError(f'item {index} of the list has no "{attribute}"')
            value = default
        values.append(value)
    return values


@register(
    LIST_FILTERS,
    "any|length",
    "Returns the number of items, keys or characters",
    ("{{ [1, 2]|length }}", "2"),
    names=("count",),
)
def length(_: Meter, value: JSON) -> int:
    if type(value) not in (str, list, dict):
        raise TemplateError(f"{kind_of(value)} has no length")
    return len(value)


@register(
    LIST_FILTERS,
    "list|list",
    "Converts to a list: the items of a list, the keys of a map, the characters of a text",
    ("{{ 'ab'|list }}", '["a","b"]'),
)
def as_list(_: Meter, items: list[JSON]) -> list[JSON]:
    return items


@register(LIST_FILTERS, "any|first", "Returns the first item; undefined if there is none", ("{{ [7, 8]|first }}", "7"))
def first(_: Meter, value: JSON) -> JSON:
    if type(value) not in (str, list, dict):
        raise wrong(value, "the value", "a list")
    return next(iter(value), _NO_FIRST)


@register(LIST_FILTERS, "any|last", "Returns the last item; undefined if there is none", ("{{ [7, 8]|last }}", "8"))
def last(_: Meter, value: JSON) -> JSON:
    if type(value) not in (str, list, dict):
        raise wrong(value, "the value", "a list")
    return next(iter(reversed(value)), _NO_LAST)


@register(LIST_FILTERS, "any|reverse", "Reverses the order of the items or characters", ("{{ 'ab'|reverse }}", '"ba"'))
def reverse(meter: Meter, value: JSON) -> JSON:
    if type(value) is str:
        meter.text(len(value))
        meter.charge(len(value) >> 4)
        return meter.keep(value[::-1])
    if type(value) is list or type(value) is dict:
        meter.items(len(value))
        return list(reversed(value))
    raise wrong(value, "the value", "a list")


@register(
    LIST_FILTERS,
    'list|join(d: text = "", attribute: key? = null)',
    "Joins the items, or an attribute of each, into one text with `d` between them",
    ("{{ [1, 2]|join('-') }}", '"1-2"'),
)
def join(meter: Meter, items: list[JSON], d: str, attribute: str | int | None) -> str:
    values = column(meter, items, attribute)
    meter.items(len(values))
    meter.charge(4 * len(values))
    pieces = []
    size = 0
    for value in values:
        piece = value if type(value) is str else json_text(value, meter)
        size += len(piece) + len(d)
        if size > TEXT_CHARS_MAX + len(d):
            meter.text(size)
        pieces.append(piece)
    meter.allocate(52 * len(pieces))
    return meter.keep(d.join(pieces))


@register(LIST_FILTERS, "map|items", "Returns the pairs of key and value", ("{{ {'a': 1}|items }}", '[["a",1]]'))
def items(meter: Meter, mapping: dict[str, JSON]) -> list[JSON]:
    meter.items(len(mapping))
    meter.charge(3 * len(mapping))
    meter.allocate(72 * len(mapping))
    return [[key, value] for key, value in mapping.items()]


@register(
    LIST_FILTERS,
    'map|dictsort(case_sensitive: bool = false, by: text = "key", reverse: bool = false)',
    'Returns the pairs of key and value, sorted by "key" or "value"',
    ("{{ {'b': 1, 'a': 2}|dictsort }}", '[["a",2],["b",1]]'),
)
def dictsort(meter: Meter, mapping: dict[str, JSON], case_sensitive: bool, by: str, reverse: bool) -> list[JSON]:
    if by not in ("key", "value"):
        raise TemplateError('dictsort sorts by "key" or "value"')
    pairs = items(meter, mapping)
    keys = sort_keys(meter, [pair[by == "value"] for pair in pairs], case_sensitive=case_sensitive)
    return [pairs[index] for index in sorted(range(len(pairs)), key=keys.__getitem__, reverse=reverse)]


@register(
    LIST_FILTERS,
    "list|sort(reverse: bool = false, case_sensitive: bool = false, attribute: key? = null)",
    'Sorts the items by value, by an attribute, or by several attributes ("age,name")',
    ("{{ [3, 1]|sort }}", "[1,3]"),
)
def sort(
    meter: Meter, items: list[JSON], reverse: bool, case_sensitive: bool, attribute: str | int | None
) -> list[JSON]:
    attributes = attribute.split(",") if isinstance(attribute, str) else [attribute]
    order = list(range(len(items)))
    # A stable sort by the last attribute first gives the order by all of them.
    for one in reversed(attributes):
        keys = sort_keys(meter, column(meter, items, one), case_sensitive=case_sensitive)
        order.sort(key=keys.__getitem__, reverse=reverse)
    meter.items(len(items))
    return [items[index] for index in order]


def _best(meter: Meter, items: list[JSON], case_sensitive: bool, attribute: str | int | None, pick: JSON) -> JSON:
    keys = sort_keys(meter, column(meter, items, attribute), case_sensitive=case_sensitive)
    return items[pick(range(len(items)), key=keys.__getitem__)]


@register(
    LIST_FILTERS,
    "list|min(case_sensitive: bool = false, attribute: key? = null)",
    "Returns the smallest item, or the item with the smallest attribute; undefined if the list is empty",
    ("{{ [3, 1]|min }}", "1"),
)
def smallest(meter: Meter, items: list[JSON], case_sensitive: bool, attribute: str | int | None) -> JSON:
    if not items:
        return _NO_SMALLEST
    return _best(meter, items, case_sensitive, attribute, min)


@register(
    LIST_FILTERS,
    "list|max(case_sensitive: bool = false, attribute: key? = null)",
    "Returns the largest item, or the item with the largest attribute; undefined if the list is empty",
    ("{{ [3, 1]|max }}", "3"),
)
def largest(meter: Meter, items: list[JSON], case_sensitive: bool, attribute: str | int | None) -> JSON:
    if not items:
        return _NO_LARGEST
    return _best(meter, items, case_sensitive, attribute, max)


def _identity(meter: Meter, value: JSON, *, case_sensitive: bool) -> JSON:
    """A hashable key that is equal for equal values."""
    if type(value) is str:
        if case_sensitive:
            return value
        meter.text(2 * len(value))
        meter.charge(len(value) >> 2)
        meter.allocate(len(value) + 52)
        return value.lower()
    if type(value) is list or type(value) is dict:
        meter.text(meter.measure(value).chars)
        return (meter.keep(to_json(value)),)
    return value


@register(
    LIST_FILTERS,
    "list|unique(case_sensitive: bool = false, attribute: key? = null)",
    "Drops items that are equal to an earlier item, or have an equal attribute",
    ("{{ ['a', 'b', 'A']|unique }}", '["a","b"]'),
)
def unique(meter: Meter, items: list[JSON], case_sensitive: bool, attribute: str | int | None) -> list[JSON]:
    meter.items(len(items))
    meter.charge(6 * len(items))
    meter.allocate(64 * len(items))
    seen: dict[JSON, JSON] = {}
    for item, value in zip(items, column(meter, items, attribute), strict=True):
        seen.setdefault(_identity(meter, value, case_sensitive=case_sensitive), item)
    return list(seen.values())


@register(
    LIST_FILTERS,
    "list|groupby(attribute: key, default: any = null, case_sensitive: bool = false)",
    "Groups the items by an attribute, in its order; each group is a map of `grouper` and `list`",
    ("{{ [{'c': 'x'}]|groupby('c') }}", '[{"grouper":"x","list":[{"c":"x"}]}]'),
)
def groupby(meter: Meter, items: list[JSON], attribute: str | int, default: JSON, case_sensitive: bool) -> list[JSON]:
    # As in Jinja2, a default of null means that there is no default.
    values = column(meter, items, attribute, MISSING if default is None else default)
    keys = sort_keys(meter, values, case_sensitive=case_sensitive)
    meter.charge(8 * len(items))
    groups: dict[JSON, JSON] = {}
    for index in sorted(range(len(items)), key=keys.__getitem__):
        group = groups.get(keys[index])
        if group is None:
            meter.allocate(320)
            groups[keys[index]] = group = {"grouper": values[index], "list": []}
        group["list"].append(items[index])
    return list(groups.values())


@register(
    LIST_FILTERS,
    "list|sum(attribute: key? = null, start: any = 0)",
    "Adds the numbers, or an attribute of each item, to `start`; concatenates lists if `start` is a list",
    ("{{ [1, 2]|sum }}", "3"),
)
def total(meter: Meter, items: list[JSON], attribute: str | int | None, start: JSON) -> JSON:
    values = column(meter, items, attribute)
    meter.charge(4 * len(values))
    if type(start) is list:
        joined = list(start)
        for value in values:
            if type(value) is not list:
                raise wrong(value, "an item", "a list")
            meter.items(len(joined) + len(value))
            joined += value
        return joined
    if type(start) is str:
        raise TemplateError("sum adds numbers; use join for text")
    for value in values:
        if type(value) is str:
            raise TemplateError("sum adds numbers; use join for text")
        start = add(meter, start, value)
    return start


@register(
    LIST_FILTERS,
    "list|batch(linecount: int, fill_with: any = null)",
    "Splits the list into lists of `linecount` items; fills up the last one with `fill_with`",
    ("{{ [1, 2, 3]|batch(2, 0) }}", "[[1,2],[3,0]]"),
)
def batch(meter: Meter, items: list[JSON], linecount: int, fill_with: JSON) -> list[JSON]:
    if linecount < 1:
        raise TemplateError("batch needs a linecount of at least 1")
    _pay_for_parts(meter, len(items), -(-len(items) // linecount))
    parts = [items[index : index + linecount] for index in range(0, len(items), linecount)]
    if parts and fill_with is not None and (short := linecount - len(parts[-1])):
        meter.items(linecount)
        parts[-1] += [fill_with] * short
    return parts


@register(
    LIST_FILTERS,
    "list|slice(slices: int, fill_with: any = null)",
    "Splits the list into `slices` lists of about equal length; fills up shorter ones with `fill_with`",
    ("{{ [1, 2, 3]|slice(2) }}", "[[1,2],[3]]"),
)
def slices(meter: Meter, items: list[JSON], slices: int, fill_with: JSON) -> list[JSON]:
    if slices < 1:
        raise TemplateError("slice needs at least 1 slice")
    _pay_for_parts(meter, len(items), slices)
    each, longer = divmod(len(items), slices)
    parts = []
    start = 0
    for number in range(slices):
        end = start + each + (number < longer)
        part = items[start:end]
        if fill_with is not None and number >= longer:
            part.append(fill_with)
        parts.append(part)
        start = end
    return parts


@register(
    LIST_FILTERS,
    "list|zip(other: list, strict: bool = true)",
    "Pairs the items of two lists of the same length; with `strict=false` stops at the end of the shorter one",
    ("{{ ['a', 'b']|zip([1, 2]) }}", '[["a",1],["b",2]]'),
)
def pairs(meter: Meter, items: list[JSON], other: list[JSON], strict: bool) -> list[JSON]:
    if strict and len(items) != len(other):
        raise TemplateError(
            f"zip: the lists have {len(items):,} and {len(other):,} items; strict=false stops at the shorter one"
        )
    count = min(len(items), len(other))
    _pay_for_parts(meter, count, count)
    return [list(pair) for pair in zip(items, other, strict=False)]


@register(
    LIST_FILTERS,
    "list|enumerate(start: int = 0)",
    "Pairs each item with its number, from `start`",
    ("{{ ['a', 'b']|enumerate(1) }}", '[[1,"a"],[2,"b"]]'),
)
def numbered(meter: Meter, items: list[JSON], start: int) -> list[JSON]:
    _pay_for_parts(meter, len(items), len(items))
    return [[number, item] for number, item in enumerate(items, start)]


def _pay_for_parts(meter: Meter, count: int, parts: int) -> None:
    meter.items(parts)
    meter.items(count)
    meter.charge(8 * parts)
    meter.allocate(72 * parts)
