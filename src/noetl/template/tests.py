"""The tests of the template language, `value is …`, with the names of Jinja2, over plain JSON values.

Tests of the type accept any value, also an undefined one. Tests of numbers and of order raise an error for
values of other types.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.template.limits import Meter
from noetl.template.operators import COMPARISONS
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, NUMBERS, TemplateError, Undefined

TESTS: BuiltinTable = {}


def _kind(name: str, doc: str, example: str, holds: Callable[[JSON], bool]) -> None:
    @register(TESTS, f"any is {name}", doc, (f"{{{{ {example} is {name} }}}}", "true"), lenient=True)
    def apply(_: Meter, value: JSON) -> bool:
        return holds(value)


_kind("defined", "True if the value exists", "ctx", lambda value: type(value) is not Undefined)
_kind("undefined", "True if the value does not exist", "ctx.missing", lambda value: type(value) is Undefined)
_kind("none", "True if the value is null", "none", lambda value: value is None)
_kind("boolean", "True if the value is a boolean", "false", lambda value: type(value) is bool)
_kind("true", "True if the value is the boolean true", "true", lambda value: value is True)
_kind("false", "True if the value is the boolean false", "false", lambda value: value is False)
_kind("integer", "True if the value is a whole number", "1", lambda value: type(value) is int)
_kind("float", "True if the value is a number with a decimal point", "1.5", lambda value: type(value) is float)
_kind("number", "True if the value is a number; a boolean is not a number", "1", lambda value: type(value) in NUMBERS)
_kind("string", "True if the value is text", "'a'", lambda value: type(value) is str)
_kind("mapping", "True if the value is a map", "{'a': 1}", lambda value: type(value) is dict)
_kind(
    "sequence",
    "True if the value has a length: a list, a map or text",
    "[1]",
    lambda value: type(value) in (list, dict, str),
)
_kind(
    "iterable",
    "True if a loop accepts the value: a list, a map or text",
    "[1]",
    lambda value: type(value) in (list, dict, str),
)


@register(TESTS, "any is odd", "True if the number is odd", ("{{ 3 is odd }}", "true"))
def odd(_: Meter, value: JSON) -> bool:
    return _whole(value) % 2 == 1


@register(TESTS, "any is even", "True if the number is even", ("{{ 4 is even }}", "true"))
def even(_: Meter, value: JSON) -> bool:
    return _whole(value) % 2 == 0


@register(
    TESTS,
    "any is divisibleby(num: int)",
    "True if the number is divisible by `num` without a remainder",
    ("{{ 9 is divisibleby(3) }}", "true"),
)
def divisibleby(_: Meter, value: JSON, num: int) -> bool:
    if num == 0:
        raise TemplateError("division by zero")
    return _whole(value) % num == 0


def _whole(value: JSON) -> int:
    if type(value) is not int:
        raise wrong(value, "the value", "a whole number")
    return int(value)


@register(TESTS, "text is lower", "True if all letters of the text are lower case", ("{{ 'ab' is lower }}", "true"))
def lower(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.islower()


@register(TESTS, "text is upper", "True if all letters of the text are upper case", ("{{ 'AB' is upper }}", "true"))
def upper(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.isupper()


for _signature, _ask, _doc, _example, _names in (
    ("any is eq(other: any)", "eq", "True if both values are equal", "1 is eq(1)", ("==", "equalto")),
    ("any is ne(other: any)", "ne", "True if the values are different", "1 is ne(2)", ("!=",)),
    ("any is lt(other: any)", "lt", "True if the value is less than `other`", "1 is lt(2)", ("<", "lessthan")),
    ("any is le(other: any)", "lteq", "True if the value is less than or equal to `other`", "1 is le(1)", ("<=",)),
    ("any is gt(other: any)", "gt", "True if the value is greater than `other`", "2 is gt(1)", (">", "greaterthan")),
    ("any is ge(other: any)", "gteq", "True if the value is greater than or equal to `other`", "1 is ge(1)", (">=",)),
    (
        "any is in(seq: any)",
        "in",
        "True if the value is an item of a list, a key of a map, or a part of a text",
        "1 is in([1])",
        (),
    ),
):
    register(TESTS, _signature, _doc, (f"{{{{ {_example} }}}}", "true"), names=_names, lenient=True)(COMPARISONS[_ask])
