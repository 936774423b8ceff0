"""Functions and methods: XX XX"""

from __future__ import annotations

import hashlib

from noetl.template.filters import lists as list_filters
from noetl.template.filters import text as text_filters
from noetl.template.limits import RANGE_MAX, Meter, limit_exceeded
from noetl.template.operators import contains
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, Moment, TemplateError

FUNCTIONS: BuiltinTable = {}


@register(
    FUNCTIONS,
    "range(start: int, stop: int? = null, step: int = 1)",
    "The whole numbers from `start` up to `stop`, without it; from 0 if there is one argument",
    ("{{ range(1, 4) }}", "[1,2,3]"),
)
def numbers(meter: Meter, start: int, stop: int | None, step: int) -> list[int]:
    if step == 0:
        raise TemplateError("range needs a step other than 0")
    wanted = range(0, start, step) if stop is None else range(start, stop, step)
    # The length of a range may not fit into what len() gives, so its last place is asked for instead.
    if wanted[RANGE_MAX : RANGE_MAX + 1]:
        raise limit_exceeded(
            "RANGE_MAX",
            RANGE_MAX,
            "range gives too many numbers: more items come as a list in workload, or from a task as a Ref",
        )
    meter.items(len(wanted))
    meter.allocate(32 * len(wanted))
    return list(wanted)


@register(
    FUNCTIONS,
    "now()",
    "The recorded time of the event, as text",
    ("{{ now() }}", '"2026-01-31T12:00:00Z"'),
)
def now(meter: Meter) -> str:
    return _moment(meter, "now()").at


@register(
    FUNCTIONS,
    "uuid()",
    "A UUID derived from the call's id; each one in a template is another",
    ("{{ uuid() }}", '"9d15a7b6-aefe-8d03-90e1-bf48ff4bebb4"'),
)
def uuid(meter: Meter) -> str:
    seed = _moment(meter, "uuid()").seed
    meter.charge(60 + (len(seed) >> 3))
    digest = hashlib.sha256(f"{seed}/{meter.uuids}".encode()).hexdigest()
    meter.uuids += 1
    # Version 8 and its variant: a UUID that someone derived in a way of their own.
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def _moment(meter: Meter, call: str) -> Moment:
    if meter.moment is None:
        raise TemplateError(f"{call} has no value here: nothing is recorded at this place")
    return meter.moment


METHODS: BuiltinTable = {}


@register(
    METHODS,
    "map.get(key: text, default: any = null)",
    "The value of a key, or the default",
    ("{{ {'a': 1}.get('b', 2) }}", "2"),
)
def get(_: Meter, mapping: dict[str, JSON], key: str, default: JSON) -> JSON:
    return mapping.get(key, default)


register(METHODS, "map.items()", "The keys and values as pairs", ("{{ {'a': 1}.items() }}", '[["a",1]]'))(
    list_filters.items
)


@register(METHODS, "map.keys()", "The keys", ("{{ {'a': 1}.keys() }}", '["a"]'))
def keys(meter: Meter, mapping: dict[str, JSON]) -> list[JSON]:
    meter.items(len(mapping))
    return list(mapping)


@register(METHODS, "map.values()", "The values", ("{{ {'a': 1}.values() }}", "[1]"))
def values(meter: Meter, mapping: dict[str, JSON]) -> list[JSON]:
    meter.items(len(mapping))
    return list(mapping.values())


for _signature, _doc, _example, _apply in (
    ("text.lower()", "All letters small", ("{{ 'AB'.lower() }}", '"ab"'), text_filters.lower),
    ("text.upper()", "All letters large", ("{{ 'ab'.upper() }}", '"AB"'), text_filters.upper),
    (
        "text.capitalize()",
        "The first letter large",
        ("{{ 'ab'.capitalize() }}", '"Ab"'),
        text_filters.capitalize,
    ),
    ("text.title()", "Each word with a large letter", ("{{ 'a b'.title() }}", '"A B"'), text_filters.title),
    (
        "text.split(sep: text? = null, maxsplit: int = -1)",
        "The pieces between the separators",
        ("{{ 'a b'.split() }}", '["a","b"]'),
        text_filters.split,
    ),
    (
        "text.replace(old: text, new: text, count: int? = null)",
        "Every occurrence of `old` as `new`",
        ("{{ 'aba'.replace('a', 'c') }}", '"cbc"'),
        text_filters.replace,
    ),
    (
        "text.strip(chars: text? = null)",
        "Without white space, or other characters, at both ends",
        ("{{ ' a '.strip() }}", '"a"'),
        text_filters.trim,
    ),
):
    register(METHODS, _signature, _doc, _example)(_apply)


@register(
    METHODS,
    "text.lstrip(chars: text? = null)",
    "Without white space, or other characters, at the start",
    ("{{ ' a '.lstrip() }}", '"a "'),
)
def lstrip(meter: Meter, text: str, chars: str | None) -> str:
    return text_filters.stripped(meter, text, chars, text.lstrip)


@register(
    METHODS,
    "text.rstrip(chars: text? = null)",
    "Without white space, or other characters, at the end",
    ("{{ ' a '.rstrip() }}", '" a"'),
)
def rstrip(meter: Meter, text: str, chars: str | None) -> str:
    return text_filters.stripped(meter, text, chars, text.rstrip)


@register(
    METHODS,
    "text.startswith(prefix: text)",
    "Does the text begin with it?",
    ("{{ 'abc'.startswith('ab') }}", "true"),
)
def startswith(meter: Meter, text: str, prefix: str) -> bool:
    meter.charge(len(prefix) >> 8)
    return text.startswith(prefix)


@register(
    METHODS,
    "text.endswith(suffix: text)",
    "Does the text end with it?",
    ("{{ 'abc'.endswith('bc') }}", "true"),
)
def endswith(meter: Meter, text: str, suffix: str) -> bool:
    meter.charge(len(suffix) >> 8)
    return text.endswith(suffix)


@register(
    METHODS,
    "text.join(items: list)",
    "The items as one text, with this one between them",
    ("{{ '-'.join([1, 2]) }}", '"1-2"'),
)
def join(meter: Meter, text: str, items: list[JSON]) -> str:
    return list_filters.join(meter, items, text, None)


@register(
    METHODS, "text.find(part: text)", "The place of a part, from 0; -1: none", ("{{ 'abc'.find('c') }}", "2")
)
def find(meter: Meter, text: str, part: str) -> int:
    meter.search(text, part)
    return text.find(part)


@register(METHODS, "text.isdigit()", "Are all its letters digits?", ("{{ '42'.isdigit() }}", "true"))
def isdigit(meter: Meter, text: str) -> bool:
    meter.charge(len(text) >> 3)
    return text.isdigit()


@register(
    METHODS,
    "any.count(part: any)",
    "How often an item is in a list, or a part in text",
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
    "The first place of an item in a list, or of a part in text, from 0; an error if there is none",
    ("{{ ['a', 'b'].index('b') }}", "1"),
)
def index(meter: Meter, value: JSON, part: JSON) -> int:
    position = -1
    if type(value) is str and type(part) is str:
        position = find(meter, value, part)
    elif part in _list_with(meter, value, part):
        position = value.index(part)
    if position < 0:
        raise TemplateError("index does not find the value")
    return position


def _list_with(meter: Meter, value: JSON, part: JSON) -> list[JSON]:
    """The list, after paying for going through it twice."""
    if type(value) is not list:
        raise wrong(value, "the value", "text with a text, or a list")
    contains(meter, part, value)
    contains(meter, part, value)
    whole: list[JSON] = value
    return whole
