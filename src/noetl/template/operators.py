"""Calculation and comparison, and the cost of each operation.

Whole numbers are limited to 64 bits, and a boolean is not a number. `*` and `%` never repeat or format text.
Only two numbers or two texts have an order; any other pair is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from operator import ge, gt, le, lt
from typing import TypeAlias

from noetl.template.limits import INT_MAX, TEXT_CHARS_MAX, Meter
from noetl.template.values import JSON, NUMBERS, TemplateError, Undefined, kind_of, undefined

Calculate: TypeAlias = Callable[[Meter, JSON, JSON], JSON]


def add(meter: Meter, left: JSON, right: JSON) -> JSON:
    """Add two numbers, or concatenate two texts or two lists."""
    kind = type(left)
    if kind is int and type(right) is int:
        total = left + right
        if -INT_MAX <= total <= INT_MAX:
            return total
        raise too_large()
    if kind is str and type(right) is str:
        meter.text(len(left) + len(right))
        return meter.keep(left + right)
    if kind is list and type(right) is list:
        meter.items(len(left) + len(right))
        return left + right
    _check("+", left, right, hint=" (~ joins values as text)")
    return bounded(left + right)


def subtract(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("-", left, right)
    return bounded(left - right)


def multiply(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("*", left, right)
    return bounded(left * right)


def divide(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("/", left, right, divisor=True)
    return bounded(left / right)


def floor_divide(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("//", left, right, divisor=True)
    return bounded(left // right)


def remainder(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("%", left, right, divisor=True)
    return bounded(left % right)


def power(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("**", left, right)
    if type(left) is int and type(right) is int:
        if abs(left) > 1 and right * (abs(left).bit_length() - 1) > 63:
            raise too_large()
        if left == 0 and right < 0:
            raise TemplateError("0 has no negative power")
    elif left == 0 and right < 0:
        raise TemplateError("0 has no negative power")
    elif left < 0 and right != int(right):
        raise TemplateError("a negative number has no fractional power")
    try:
        return bounded(left**right)
    except OverflowError:
        raise too_large() from None


def negative(_: Meter, value: JSON) -> JSON:
    if type(value) in NUMBERS:
        return bounded(-value)
    raise _no_number("-", value)


def positive(_: Meter, value: JSON) -> JSON:
    if type(value) in NUMBERS:
        return value
    raise _no_number("+", value)


def bounded(number: JSON) -> JSON:
    """The number, if it is within the limits: whole numbers in 64 bits, others finite."""
    if type(number) is int:
        if -INT_MAX <= number <= INT_MAX:
            return number
    elif isfinite(number):
        return number
    raise too_large()


def too_large() -> TemplateError:
    return TemplateError(f"the number is too large or not finite (limit INT_MAX: {INT_MAX})")


def _check(sign: str, left: JSON, right: JSON, *, divisor: bool = False, hint: str = "") -> None:
    if type(left) not in NUMBERS or type(right) not in NUMBERS:
        raise _no_numbers(sign, left, right, hint)
    # Numbers in the data may have any size.
    bounded(left)
    bounded(right)
    if divisor and right == 0:
        raise TemplateError("division by zero")


def _no_numbers(sign: str, left: JSON, right: JSON, hint: str) -> TemplateError:
    for value in (left, right):
        if type(value) is Undefined:
            return undefined(value)
    return TemplateError(f'"{sign}" does not work with {kind_of(left)} and {kind_of(right)}{hint}')


def _no_number(sign: str, value: JSON) -> TemplateError:
    if type(value) is Undefined:
        return undefined(value)
    return TemplateError(f'"{sign}" needs a number, not {kind_of(value)}')


CALCULATIONS: dict[str, Calculate] = {
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide,
    "FloorDiv": floor_divide,
    "Mod": remainder,
    "Pow": power,
}
SIGNS: dict[str, Callable[[Meter, JSON], JSON]] = {"Neg": negative, "Pos": positive}


Compare: TypeAlias = Callable[[Meter, JSON, JSON], bool]


def equal(meter: Meter, left: JSON, right: JSON) -> bool:
    kind = type(left)
    if kind is str:
        if type(right) is not str or len(left) != len(right):
            return False
        meter.charge(len(left) >> 8)
    elif kind is list or kind is dict:
        if type(right) is not kind or len(left) != len(right):
            return False
        meter.measure(left, TEXT_CHARS_MAX * 4)
    return bool(left == right)


def not_equal(meter: Meter, left: JSON, right: JSON) -> bool:
    return not equal(meter, left, right)


def contains(meter: Meter, item: JSON, container: JSON) -> bool:
    """`item in container`: an item of a list, a key of a map, or a part of a text."""
    kind = type(container)
    if kind is list:
        if type(item) is Undefined:
            return False
        price = 1 + (len(item) >> 8) if type(item) is str else 1
        if type(item) is list or type(item) is dict:
            price = 2 * meter.measure(item).parts
        meter.charge(price * len(container))
        return item in container
    if kind is dict:
        return type(item) is str and item in container
    if kind is str:
        if type(item) is str:
            meter.search(container, item)
            return item in container
        if type(item) is Undefined:
            raise undefined(item)
        raise TemplateError(f"only text can be contained in text, not {kind_of(item)}")
    if kind is Undefined:
        raise undefined(container)
    raise TemplateError(f'"in" needs a list, a map or text, not {kind_of(container)}')


def not_contains(meter: Meter, item: JSON, container: JSON) -> bool:
    return not contains(meter, item, container)


def _ordered(holds: Callable[[JSON, JSON], bool]) -> Compare:
    def compare(meter: Meter, left: JSON, right: JSON) -> bool:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return holds(left, right)
        if type(left) is str and type(right) is str:
            meter.charge(min(len(left), len(right)) >> 8)
            return holds(left, right)
        raise unordered(left, right)

    return compare


def unordered(left: JSON, right: JSON) -> TemplateError:
    for value in (left, right):
        if type(value) is Undefined:
            return undefined(value)
    return TemplateError(f"{kind_of(left)} and {kind_of(right)} have no order; compare two numbers or two texts")


COMPARISONS: dict[str, Compare] = {
    "eq": equal,
    "ne": not_equal,
    "lt": _ordered(lt),
    "lteq": _ordered(le),
    "gt": _ordered(gt),
    "gteq": _ordered(ge),
    "in": contains,
    "notin": not_contains,
}


def sort_keys(meter: Meter, values: Sequence[JSON], *, case_sensitive: bool) -> list[JSON]:
    """Keys to sort by, which are all numbers, all texts or all booleans. Charges for the sorting."""
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
    # For text outside ASCII, Python temporarily uses twelve bytes per character.
    meter.text(2 * chars)
    meter.charge(chars >> 2)
    meter.allocate(chars + 52 * count)
    return [value.lower() for value in values]
