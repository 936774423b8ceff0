"""The tests of a template, `value is …`, by Jinja2's names, over plain JSON values.

Kinds are asked of anything, undefined too, which has none; numbers and order only of what has them.
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


_kind("defined", "Is there such a value?", "ctx", lambda value: type(value) is not Undefined)
_kind("undefined", "Is there no such value?", "ctx.missing", lambda value: type(value) is Undefined)
_kind("none", "Is it null?", "none", lambda value: value is None)
_kind("boolean", "Is it true or false?", "false", lambda value: type(value) is bool)
_kind("true", "Is it true itself?", "true", lambda value: value is True)
_kind("false", "Is it false itself?", "false", lambda value: value is False)
_kind("integer", "Is it a whole number?", "1", lambda value: type(value) is int)
_kind("float", "Is it a number with a point?", "1.5", lambda value: type(value) is float)
_kind("number", "Is it a number? A boolean is none.", "1", lambda value: type(value) in NUMBERS)
_kind("string", "Is it text?", "'a'", lambda value: type(value) is str)
_kind("mapping", "Is it a map?", "{'a': 1}", lambda value: type(value) is dict)
_kind(
    "sequence", "Has it a length: a list, a map, text?", "[1]", lambda value: type(value) in (list, dict, str)
)
_kind(
    "iterable",
    "Can it be gone through: a list, a map, text?",
    "[1]",
    lambda value: type(value) in (list, dict, str),
)


@register(TESTS, "any is odd", "Is the number odd?", ("{{ 3 is odd }}", "true"))
def odd(_: Meter, value: JSON) -> bool:
    return _whole(value) % 2 == 1


@register(TESTS, "any is even", "Is the number even?", ("{{ 4 is even }}", "true"))
def even(_: Meter, value: JSON) -> bool:
    return _whole(value) % 2 == 0


@register(
    TESTS,
    "any is divisibleby(num: int)",
    "Does the division leave nothing?",
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


@register(TESTS, "text is lower", "Are all its letters small?", ("{{ 'ab' is lower }}", "true"))
def lower(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.islower()


@register(TESTS, "text is upper", "Are all its letters large?", ("{{ 'AB' is upper }}", "true"))
def upper(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.isupper()


for _signature, _ask, _doc, _example, _names in (
    ("any is eq(other: any)", "eq", "Are both equal?", "1 is eq(1)", ("==", "equalto")),
    ("any is ne(other: any)", "ne", "Are they different?", "1 is ne(2)", ("!=",)),
    ("any is lt(other: any)", "lt", "Is it less?", "1 is lt(2)", ("<", "lessthan")),
    ("any is le(other: any)", "lteq", "Is it less or equal?", "1 is le(1)", ("<=",)),
    ("any is gt(other: any)", "gt", "Is it more?", "2 is gt(1)", (">", "greaterthan")),
    ("any is ge(other: any)", "gteq", "Is it more or equal?", "1 is ge(1)", (">=",)),
    ("any is in(seq: any)", "in", "Is it in the list, the map's keys, the text?", "1 is in([1])", ()),
):
    register(TESTS, _signature, _doc, (f"{{{{ {_example} }}}}", "true"), names=_names, lenient=True)(
        COMPARISONS[_ask]
    )
