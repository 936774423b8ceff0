"""Calculation with numbers that stay small, and the joining of texts and lists.

`*` and `%` never repeat or format, a boolean is no number, and whole numbers keep to 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TypeAlias

from noetl.net.limits import INT_MAX, Meter
from noetl.net.values import JSON, NUMBERS, TemplateError, Undefined, kind_of, undefined

Calculate: TypeAlias = Callable[[Meter, JSON, JSON], JSON]


def add(meter: Meter, left: JSON, right: JSON) -> JSON:
    """Numbers are added; text and text, list and list are joined."""
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
    return within(left + right)


def subtract(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("-", left, right)
    return within(left - right)


def multiply(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("*", left, right)
    return within(left * right)


def divide(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("/", left, right, divisor=True)
    return within(left / right)


def divide_down(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("//", left, right, divisor=True)
    return within(left // right)


def remainder(_: Meter, left: JSON, right: JSON) -> JSON:
    _check("%", left, right, divisor=True)
    return within(left % right)


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
        raise TemplateError("a negative number has no broken power")
    try:
        return within(left**right)
    except OverflowError:
        raise too_large() from None


def negative(_: Meter, value: JSON) -> JSON:
    if type(value) in NUMBERS:
        return within(-value)
    raise _no_number("-", value)


def positive(_: Meter, value: JSON) -> JSON:
    if type(value) in NUMBERS:
        return value
    raise _no_number("+", value)


def within(number: JSON) -> JSON:
    """The number, if it is one that we keep: 64 bits, or finite."""
    if type(number) is int:
        if -INT_MAX <= number <= INT_MAX:
            return number
    elif isfinite(number):
        return number
    raise too_large()


def too_large() -> TemplateError:
    return TemplateError(f"the number is too large (limit INT_MAX: {INT_MAX}, and finite)")


def _check(sign: str, left: JSON, right: JSON, *, divisor: bool = False, hint: str = "") -> None:
    if type(left) not in NUMBERS or type(right) not in NUMBERS:
        raise _no_numbers(sign, left, right, hint)
    # Numbers that come from outside may be of any size.
    within(left)
    within(right)
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
    "FloorDiv": divide_down,
    "Mod": remainder,
    "Pow": power,
}
SIGNS: dict[str, Callable[[Meter, JSON], JSON]] = {"Neg": negative, "Pos": positive}
