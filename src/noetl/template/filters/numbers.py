"""Filters that return numbers, or format them.

As in Jinja2, text that is not a number gives the default. A number outside the limits is an error.
"""

from __future__ import annotations

from math import ceil, floor, isfinite

from noetl.template.limits import Meter
from noetl.template.operators import bounded, too_large
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON, TemplateError, kind_of

NUMBER_FILTERS: BuiltinTable = {}
_DIGITS_MAX = 4_300  # the limit of Python for decimal text; longer text is not a number
_PRECISION_MAX = 30
_ROUNDINGS = {"ceil": ceil, "floor": floor}


@register(NUMBER_FILTERS, "number|abs", "Returns the absolute value", ("{{ -3|abs }}", "3"))
def absolute(_: Meter, number: JSON) -> JSON:
    return bounded(abs(number))


@register(
    NUMBER_FILTERS,
    "any|int(default: any = 0, base: int = 10)",
    "Converts to a whole number; returns `default` if that is not possible",
    ("{{ ['42', '4.9', 'x']|map('int')|list }}", "[42,4,0]"),
)
def whole(meter: Meter, value: JSON, default: JSON, base: int) -> JSON:
    kind = type(value)
    if kind is int:
        return bounded(value)
    if kind is bool or kind is float:
        return bounded(int(value))
    if kind is not str or len(value) > _DIGITS_MAX:
        return default
    meter.charge(len(value) >> 4)
    if base != 0 and not 2 <= base <= 36:
        raise TemplateError("int needs a base from 2 to 36, or 0")
    try:
        return bounded(int(value, base))
    except ValueError:
        pass
    try:
        return bounded(int(float(value)))
    except (ValueError, OverflowError):
        return default


@register(
    NUMBER_FILTERS,
    "any|float(default: any = 0.0)",
    "Converts to a number with a decimal point; returns `default` if that is not possible",
    ("{{ '2.5'|float }}", "2.5"),
)
def floating(meter: Meter, value: JSON, default: JSON) -> JSON:
    if type(value) not in (bool, int, float, str) or (type(value) is str and len(value) > _DIGITS_MAX):
        return default
    if type(value) is str:
        meter.charge(len(value) >> 4)
    try:
        number = float(value)
    except ValueError:
        return default
    except OverflowError:
        raise too_large() from None
    return number if isfinite(number) else default


@register(
    NUMBER_FILTERS,
    'number|round(precision: int = 0, method: text = "common")',
    "Rounds the number to `precision` decimal places; `method` is common, ceil or floor",
    ("{{ 42.55|round(1, 'floor') }}", "42.5"),
)
def rounded(_: Meter, number: JSON, precision: int, method: str) -> JSON:
    if abs(precision) > _PRECISION_MAX:
        raise TemplateError(f"round needs a precision from -{_PRECISION_MAX} to {_PRECISION_MAX}")
    bounded(number)
    if method == "common":
        return bounded(round(number, precision))
    if method not in _ROUNDINGS:
        raise TemplateError('round needs the method "common", "ceil" or "floor"')
    scale = 10.0**precision
    try:
        return bounded(_ROUNDINGS[method](number * scale) / scale)
    except OverflowError:
        raise too_large() from None


@register(
    NUMBER_FILTERS,
    "any|filesizeformat(binary: bool = false)",
    "Formats a number of bytes, for example as `13.0 kB`",
    ("{{ 13000|filesizeformat }}", '"13.0 kB"'),
)
def filesizeformat(meter: Meter, value: JSON, binary: bool) -> str:
    size = floating(meter, value, None)
    if size is None or type(value) is bool:
        raise TemplateError(f"filesizeformat needs a number, not {kind_of(value)}")
    if size == 1:
        return "1 Byte"
    step = 1024 if binary else 1000
    if size < step:
        return f"{int(size)} Bytes"
    letters = "KMGTPEZY" if binary else "kMGTPEZY"
    place = 0
    while size >= step ** (place + 2) and place < len(letters) - 1:
        place += 1
    return f"{size / step ** (place + 1):.1f} {letters[place]}{'iB' if binary else 'B'}"
