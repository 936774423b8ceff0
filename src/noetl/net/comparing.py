"""Equal, ordered, contained: how values are compared, and what each comparison costs.

Ordering is for two numbers or two texts; everything else says so instead of guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import TypeAlias

from noetl.net.limits import TEXT_CHARS_MAX, Meter
from noetl.net.values import JSON, NUMBERS, TemplateError, Undefined, kind_of, undefined

Ask: TypeAlias = Callable[[Meter, JSON, JSON], bool]


def same(meter: Meter, left: JSON, right: JSON) -> bool:
    kind = type(left)
    if kind is str:
        if type(right) is not str or len(left) != len(right):
            return False
        meter.charge(len(left) >> 8)
    elif kind is list or kind is dict:
        if type(right) is not kind or len(left) != len(right):
            return False
        meter.weigh(left, TEXT_CHARS_MAX * 4)
    return bool(left == right)


def differs(meter: Meter, left: JSON, right: JSON) -> bool:
    return not same(meter, left, right)


def contains(meter: Meter, item: JSON, box: JSON) -> bool:
    """`item in box`: of a list, the keys of a map, or text within text."""
    kind = type(box)
    if kind is list:
        if type(item) is Undefined:
            return False
        price = 1 + (len(item) >> 8) if type(item) is str else 1
        if type(item) is list or type(item) is dict:
            price = 2 * meter.weigh(item).parts
        meter.charge(price * len(box))
        return item in box
    if kind is dict:
        return type(item) is str and item in box
    if kind is str:
        if type(item) is str:
            meter.search(box, item)
            return item in box
        if type(item) is Undefined:
            raise undefined(item)
        raise TemplateError(f"only text can be in text, not {kind_of(item)}")
    if kind is Undefined:
        raise undefined(box)
    raise TemplateError(f'nothing can be "in" {kind_of(box)}; a list, a map or text is needed')


def lacks(meter: Meter, item: JSON, box: JSON) -> bool:
    return not contains(meter, item, box)


def _ordered(compare: Callable[[JSON, JSON], bool]) -> Ask:
    def ask(meter: Meter, left: JSON, right: JSON) -> bool:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return compare(left, right)
        if type(left) is str and type(right) is str:
            meter.charge(min(len(left), len(right)) >> 8)
            return compare(left, right)
        raise unordered(left, right)

    return ask


def unordered(left: JSON, right: JSON) -> TemplateError:
    for value in (left, right):
        if type(value) is Undefined:
            return undefined(value)
    return TemplateError(
        f"{kind_of(left)} and {kind_of(right)} have no order; compare two numbers or two texts"
    )


ASKS: dict[str, Ask] = {
    "eq": same,
    "ne": differs,
    "lt": _ordered(lt),
    "lteq": _ordered(le),
    "gt": _ordered(gt),
    "gteq": _ordered(ge),
    "in": contains,
    "notin": lacks,
}


def sort_keys(meter: Meter, values: Sequence[JSON], *, case_sensitive: bool) -> list[JSON]:
    """Keys to sort by: all numbers, all texts or all booleans; pays for the sorting."""
    count = len(values)
    meter.items(count)
    meter.charge(count * (4 + count.bit_length() // 2))
    kinds = set(map(type, values))
    if not kinds or kinds <= NUMBERS or kinds == {bool}:
        return list(values)
    if kinds != {str}:
        first = values[0]
        raise unordered(first, next((one for one in values if kind_of(one) != kind_of(first)), first))
    chars = sum(map(len, values))
    meter.charge((chars >> 6) * count.bit_length())
    if case_sensitive:
        return list(values)
    # Beyond ASCII Python takes twelve bytes for each letter while it works.
    meter.text(2 * chars)
    meter.charge(chars >> 2)
    meter.hold(chars + 52 * count)
    return [value.lower() for value in values]
