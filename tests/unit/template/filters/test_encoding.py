"""JSON, base64, URLs and hashes."""

from __future__ import annotations

import hashlib

import pytest

from noetl.template.compile import TemplateError, compile_template
from noetl.template.filters.encoding import depth_of

SCOPE: dict[str, object] = {
    "data": {"b": [1, 2.5, None, True], "a": "ä\n"},
    "half": "\ud800",
    "deep": "[" * 65 + "]" * 65,
}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("data|tojson", '{"b":[1,2.5,null,true],"a":"ä\\n"}'),
        ("'text'|tojson", '"text"'),
        ("[1, {'a': 2}]|tojson(2)", '[\n  1,\n  {\n    "a": 2\n  }\n]'),
        ("[1]|tojson(0)", "[1]"),
        ("data|tojson|fromjson == data", True),
        ("' [1, 2] '|fromjson", [1, 2]),
        ("'1.0'|fromjson", 1.0),
        ("'ä'|b64encode", "w6Q="),
        ("'w6Q='|b64decode", "ä"),
        ("data|b64encode|b64decode|fromjson == data", True),
        ("'ä'|sha256", hashlib.sha256("ä".encode()).hexdigest()),
        ("['a b', 'c&d']|map('urlencode')", ["a%20b", "c%26d"]),
        ("{'a': [1, 2], 'b': none}|urlencode", "a=%5B1%2C2%5D&b=null"),
    ],
)
def test_a_value_is_written_and_read(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("'{'|fromjson", "the text is not JSON: input data was truncated"),
        ("'[1,]'|fromjson", "the text is not JSON: trailing comma in array (byte 3)"),
        ("'NaN'|fromjson", "the text is not JSON: invalid character (byte 0)"),
        ("'1e999'|fromjson", "the text is not JSON: number out of range"),
        ("half|fromjson", "the text is not JSON: it contains half a surrogate pair"),
        ("deep|fromjson", "the JSON is nested too deeply (limit JSON_DEPTH_MAX: 64)"),
        ("[1]|tojson(99)", "tojson needs an indent from 0 to 8"),
        ("half|tojson", "the text contains half a surrogate pair, which JSON cannot represent"),
        ("'?'|b64decode", "the text is not base64"),
        ("'/w=='|b64decode", "the decoded base64 is not UTF-8 text"),
        ("half|sha256", "the text contains half a surrogate pair"),
        ("[1]|urlencode", "an item is a number, not a pair"),
        ("[[1, 2, 3]]|urlencode", "urlencode needs a map, or a list of pairs"),
    ],
)
def test_values_that_cannot_be_encoded_or_decoded_are_errors(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'


def test_depth_is_found_without_recursion() -> None:
    nested: list[object] = []
    for _ in range(5_000):
        nested = [nested]
    assert [depth_of(value) for value in (1, [], [[1], {"a": [2]}], nested)] == [0, 1, 3, 5_001]
