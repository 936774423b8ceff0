"""The functions and methods that a template may call.

`now()` and `uuid()` are derived from the Moment of the caller (D17). A method is found by the exact type of
the value and its name in a table; attributes of Python objects are never read.
"""

from __future__ import annotations

import hashlib

from noetl.template.filters import lists as list_filters
from noetl.template.filters import text as text_filters
from noetl.template.limits import RANGE_MAX, Meter, limit_exceeded
from noetl.template.operators import contains
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, OMIT, Moment, TemplateError

FUNCTIONS: BuiltinTable = {}


@register(
    FUNCTIONS,
    "range(start: int, stop: int? = null, step: int = 1)",
    "Returns the whole numbers from `start` to `stop`, excluding `stop`; with one argument, from 0 to it",
    ("{{ range(1, 4) }}", "[1,2,3]"),
)
def numbers(meter: Meter, start: int, stop: int | None, step: int) -> list[int]:
    if step == 0:
        raise TemplateError("the step of range must not be 0")
    numbers_range = range(0, start, step) if stop is None else range(start, stop, step)
    # len() fails for a very long range, so check whether it has an item beyond the limit.
    if numbers_range[RANGE_MAX : RANGE_MAX + 1]:
        raise limit_exceeded(
            "RANGE_MAX", "range has too many numbers; for more items use a list in workload, or a reference from a task"
        )
    meter.items(len(numbers_range))
    meter.allocate(32 * len(numbers_range))
    return list(numbers_range)


@register(
    FUNCTIONS,
    "now()",
    "Returns the recorded time of the event as text in RFC 3339",
    ("{{ now() }}", '"2026-01-31T12:00:00Z"'),
)
def now(meter: Meter) -> str:
    return _moment(meter, "now()").at


@register(
    FUNCTIONS,
    "today()",
    "Returns the date of `now()`, in UTC",
    ("{{ today() }}", '"2026-01-31"'),
)
def today(meter: Meter) -> str:
    return _moment(meter, "today()").at[:10]


@register(
    FUNCTIONS,
    "omit()",
    'Leaves out the key of a mapping whose value it is: `input: {x: "{{ ctx.x | default(omit()) }}"}`',
    ("{{ 1|default(omit()) }}", "1"),
)
def omit(_: Meter) -> JSON:
    return OMIT


@register(
    FUNCTIONS,
    "uuid()",
    "Returns a UUID derived from the id of the call; each use in a template gives a different one",
    ("{{ uuid() }}", '"9d15a7b6-aefe-8d03-90e1-bf48ff4bebb4"'),
)
def uuid(meter: Meter) -> str:
    seed = _moment(meter, "uuid()").seed
    meter.charge(60 + (len(seed) >> 3))
    digest = hashlib.sha256(f"{seed}/{meter.uuids}".encode()).hexdigest()
    meter.uuids += 1
    # Version 8 with the RFC variant: a UUID with a custom derivation.
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def _moment(meter: Meter, call: str) -> Moment:
    if meter.moment is None:
        raise TemplateError(f"{call} is not available here, because no event is recorded at this point")
    return meter.moment


METHODS: BuiltinTable = {}


@register(
    METHODS,
    "map.get(key: text, default: any = null)",
    "Returns the value of a key, or `default` if the map does not have the key",
    ("{{ {'a': 1}.get('b', 2) }}", "2"),
)
def get(_: Meter, mapping: dict[str, JSON], key: str, default: JSON) -> JSON:
    return mapping.get(key, default)


register(METHODS, "map.items()", "Returns the pairs of key and value", ("{{ {'a': 1}.items() }}", '[["a",1]]'))(
    list_filters.items
)


@register(METHODS, "map.keys()", "Returns the keys", ("{{ {'a': 1}.keys() }}", '["a"]'))
def keys(meter: Meter, mapping: dict[str, JSON]) -> list[JSON]:
    meter.items(len(mapping))
    return list(mapping)


@register(METHODS, "map.values()", "Returns the values", ("{{ {'a': 1}.values() }}", "[1]"))
def values(meter: Meter, mapping: dict[str, JSON]) -> list[JSON]:
    meter.items(len(mapping))
    return list(mapping.values())


for _signature, _doc, _example, _apply in (
    ("text.lower()", "Converts the text to lower case", ("{{ 'AB'.lower() }}", '"ab"'), text_filters.lower),
    ("text.upper()", "Converts the text to upper case", ("{{ 'ab'.upper() }}", '"AB"'), text_filters.upper),
    (
        "text.capitalize()",
        "Converts the first character to upper case, and the rest to lower case",
        ("{{ 'ab'.capitalize() }}", '"Ab"'),
        text_filters.capitalize,
    ),
    (
        "text.title()",
        "Converts the first character of each word to upper case",
        ("{{ 'a b'.title() }}", '"A B"'),
        text_filters.title,
    ),
    (
        "text.split(sep: text? = null, maxsplit: int = -1)",
        "Splits the text at each separator, by default at white space",
        ("{{ 'a b'.split() }}", '["a","b"]'),
        text_filters.split,
    ),
    (
        "text.replace(old: text, new: text, count: int? = null)",
        "Replaces `old` with `new`, at most `count` times",
        ("{{ 'aba'.replace('a', 'c') }}", '"cbc"'),
        text_filters.replace,
    ),
    (
        "text.strip(chars: text? = null)",
        "Removes white space, or the characters in `chars`, from both ends",
        ("{{ ' a '.strip() }}", '"a"'),
        text_filters.trim,
    ),
):
    register(METHODS, _signature, _doc, _example)(_apply)


@register(
    METHODS,
    "text.lstrip(chars: text? = null)",
    "Removes white space, or the characters in `chars`, from the start",
    ("{{ ' a '.lstrip() }}", '"a "'),
)
def lstrip(meter: Meter, text: str, chars: str | None) -> str:
    return text_filters.stripped(meter, text, chars, text.lstrip)


@register(
    METHODS,
    "text.rstrip(chars: text? = null)",
    "Removes white space, or the characters in `chars`, from the end",
    ("{{ ' a '.rstrip() }}", '" a"'),
)
def rstrip(meter: Meter, text: str, chars: str | None) -> str:
    return text_filters.stripped(meter, text, chars, text.rstrip)


@register(
    METHODS,
    "text.startswith(prefix: text)",
    "True if the text starts with `prefix`",
    ("{{ 'abc'.startswith('ab') }}", "true"),
)
def startswith(meter: Meter, text: str, prefix: str) -> bool:
    meter.charge(len(prefix) >> 8)
    return text.startswith(prefix)


@register(
    METHODS,
    "text.endswith(suffix: text)",
    "True if the text ends with `suffix`",
    ("{{ 'abc'.endswith('bc') }}", "true"),
)
def endswith(meter: Meter, text: str, suffix: str) -> bool:
    meter.charge(len(suffix) >> 8)
    return text.endswith(suffix)


@register(
    METHODS,
    "text.join(items: list)",
    "Joins the items into one text, with this text between them",
    ("{{ '-'.join([1, 2]) }}", '"1-2"'),
)
def join(meter: Meter, text: str, items: list[JSON]) -> str:
    return list_filters.join(meter, items, text, None)


@register(
    METHODS,
    "text.find(part: text)",
    "Returns the position of `part` in the text, from 0; -1 if the text does not contain it",
    ("{{ 'abc'.find('c') }}", "2"),
)
def find(meter: Meter, text: str, part: str) -> int:
    meter.search(text, part)
    return text.find(part)


@register(METHODS, "text.isdigit()", "True if the text consists of digits", ("{{ '42'.isdigit() }}", "true"))
def isdigit(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.isdigit()


@register(
    METHODS,
    "any.count(part: any)",
    "Counts how often an item occurs in a list, or a part in a text",
    ("{{ [1, 2, 1].count(1) }}", "2"),
)
def count(meter: Meter, value: JSON, part: JSON) -> int:
    if type(value) is str and type(part) is str:
        meter.search(value, part)
        return value.count(part)
    return _list_with(meter, value, part).count(part)


@register(
    METHODS,
    "any.index(part: any)",
    "Returns the position of an item in a list, or of a part in a text, from 0; an error if there is none",
    ("{{ ['a', 'b'].index('b') }}", "1"),
)
def index(meter: Meter, value: JSON, part: JSON) -> int:
    position = -1
    if type(value) is str and type(part) is str:
        position = find(meter, value, part)
    elif part in _list_with(meter, value, part):
        position = value.index(part)
    if position < 0:
        raise TemplateError("index: the value is not in the list or text")
    return position


def _list_with(meter: Meter, value: JSON, part: JSON) -> list[JSON]:
    """The list, after charging for two passes over it."""
    if type(value) is not list:
        raise wrong(value, "the value", "a list, or text with a text as argument")
    contains(meter, part, value)
    contains(meter, part, value)
    whole: list[JSON] = value
    return whole
