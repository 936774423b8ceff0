"""Filters for JSON, base64, URLs and hashes.

Input is checked and limited: text that cannot be decoded is an error with a clear message.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode as _b64decode
from base64 import b64encode as _b64encode

import msgspec

from noetl.template.limits import JSON_DEPTH_MAX, Meter, json_text, limit_exceeded
from noetl.template.registry import BuiltinTable, register, wrong
from noetl.template.values import JSON, TemplateError, to_json

ENCODING_FILTERS: BuiltinTable = {}
_decode = msgspec.json.Decoder().decode
_INDENT_MAX = 8


@register(
    ENCODING_FILTERS,
    "any|tojson(indent: int? = null)",
    "Converts the value to JSON; compact, or with `indent` spaces for each level",
    ("{{ {'a': [1, 'x']}|tojson }}", '"{\\"a\\":[1,\\"x\\"]}"'),
)
def tojson(meter: Meter, value: JSON, indent: int | None) -> str:
    chars, parts = meter.measure(value)
    meter.text(chars)
    text = meter.keep(to_json(value))
    if indent is None:
        return text
    if not 0 <= indent <= _INDENT_MAX:
        raise TemplateError(f"tojson needs an indent from 0 to {_INDENT_MAX}")
    if indent == 0:
        return text
    meter.charge(2 * parts)
    meter.text(len(text) + parts * (2 + indent * depth_of(value)))
    return meter.keep(msgspec.json.format(text, indent=indent))


@register(ENCODING_FILTERS, "text|fromjson", "Parses JSON", ("{{ '[1, null]'|fromjson }}", "[1,null]"))
def fromjson(meter: Meter, text: str) -> JSON:
    meter.text(len(text))
    meter.charge(40 + (len(text) >> 1))
    # The memory that Python needs at most for a map, a list, an item and a key.
    meter.allocate(240 * text.count("{") + 72 * text.count("[") + 40 * text.count(",") + 60 * text.count(":"))
    meter.allocate(2 * len(text))
    try:
        value = _decode(text)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError:
        raise TemplateError("the text is not JSON: it contains half a surrogate pair") from None
    except msgspec.DecodeError as error:
        raise TemplateError(f"the text is not JSON: {_reason(error)}") from None
    if depth_of(value) > JSON_DEPTH_MAX:
        raise _too_deep()
    return value


def _reason(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ").lower()


def _too_deep() -> TemplateError:
    return limit_exceeded("JSON_DEPTH_MAX", "the JSON is nested too deeply")


def depth_of(value: JSON) -> int:
    """How deep lists and maps are nested, computed without recursion."""
    deepest = 0
    stack = [iter((value,))]
    while stack:
        for item in stack[-1]:
            if type(item) is dict:
                stack.append(iter(item.values()))
                break
            if type(item) is list:
                stack.append(iter(item))
                break
        else:
            stack.pop()
        deepest = max(deepest, len(stack) - 1)
    return deepest


@register(ENCODING_FILTERS, "text|b64encode", "Encodes the text as base64", ("{{ 'hi'|b64encode }}", '"aGk="'))
def b64encode(meter: Meter, text: str) -> str:
    meter.text(2 * len(text))
    return meter.keep(_b64encode(_bytes(meter, text)).decode())


@register(ENCODING_FILTERS, "text|b64decode", "Decodes base64 to text", ("{{ 'aGk='|b64decode }}", '"hi"'))
def b64decode(meter: Meter, text: str) -> str:
    meter.text(len(text))
    try:
        data = _b64decode(_bytes(meter, text), validate=True)
        return meter.keep(data.decode())
    except UnicodeDecodeError:
        raise TemplateError("the decoded base64 is not UTF-8 text") from None
    except ValueError:
        raise TemplateError("the text is not base64") from None


@register(
    ENCODING_FILTERS,
    "text|sha256",
    "Returns the SHA-256 hash of the text in hexadecimal",
    ("{{ ('a'|sha256)[:8] }}", '"ca978112"'),
)
def sha256(meter: Meter, text: str) -> str:
    meter.text(len(text))
    meter.charge(len(text) >> 3)
    return hashlib.sha256(_bytes(meter, text)).hexdigest()


@register(
    ENCODING_FILTERS,
    "any|urlencode",
    "Encodes text for the path of a URL; encodes a map or a list of pairs for its query",
    ("{{ {'q': 'a b', 'n': 1}|urlencode }}", '"q=a+b&n=1"'),
)
def urlencode(meter: Meter, value: JSON) -> str:
    if type(value) is not dict and type(value) is not list:
        return _quoted(meter, json_text(value, meter), query=False)
    pairs = list(value.items()) if type(value) is dict else value
    meter.items(len(pairs))
    meter.charge(20 * len(pairs))
    parts = []
    size = 0
    for pair in pairs:
        if type(pair) is list and len(pair) != 2:
            raise TemplateError("urlencode needs a map, or a list of pairs")
        if type(pair) is not list and type(pair) is not tuple:
            raise wrong(pair, "an item", "a pair")
        part = "=".join([_quoted(meter, json_text(half, meter), query=True) for half in pair])
        size += len(part) + 1
        meter.text(size)
        parts.append(part)
    return meter.keep("&".join(parts))


def _quoted(meter: Meter, text: str, *, query: bool) -> str:
    meter.text(len(text))
    data = _bytes(meter, text)
    meter.charge(2 * len(data))
    meter.allocate(8 * len(data))
    from urllib.parse import quote_from_bytes

    quoted = quote_from_bytes(data, safe=b"" if query else b"/")
    return meter.keep(quoted.replace("%20", "+") if query else quoted)


def _bytes(meter: Meter, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise TemplateError("the text contains half a surrogate pair") from None
    meter.allocate(len(data))
    return data
