"""Filters for text: differences from Jinja2, and limits."""

from __future__ import annotations

import pytest

from noetl.template.compile import TemplateError, compile_template

SCOPE: dict[str, object] = {"s": "Grüße, Jürgen", "l": [1, True, None], "p": r"(\w+)@(?P<host>\w+)"}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("l|upper", "[1,TRUE,NULL]"),
        ("true|string", "true"),
        ("1.0|string", "1.0"),
        ("'a b'|split", ["a", "b"]),
        ("'a,b,c'|split(',', 1)", ["a", "b,c"]),
        ("''|split", []),
        ("s|regex_search('[^,]+$')", " Jürgen"),
        ("s|regex_search('x')", None),
        ("'me@home'|regex_search(p)", "me@home"),
        ("'me@home'|regex_search(p, 1)", "me"),
        ("'me@home'|regex_search(p, 'host')", "home"),
        ("'ac'|regex_search('a(b)?c', 1)", None),
        (r"'me@home'|regex_replace(p, '\\g<host>/\\1')", "home/me"),
        (r"'a.b'|regex_replace('\\.', '\\\\')", "a\\b"),
        ("'aaa'|regex_replace('a', 'b', 2)", "bba"),
        ("s|regex_replace('ü', 'ue')", "Grueße, Juergen"),
        ("'äß'|regex_replace('', '-')", "-ä-ß-"),
        ("'AbC'|regex_replace('(?i)[a-c]', '.')", "..."),
        ("'<!-- a <b> -->c'|striptags", "c"),
        ("'a<!-- b'|striptags", "a<!-- b"),
    ],
)
def test_a_text_filter_returns_its_result(words: str, value: object) -> None:
    assert compile_template("{{ " + words + " }}")(SCOPE) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("'a'|split('')", "the separator of split must not be empty"),
        (
            "'a'|truncate(1)",
            "truncate needs a length of at least the length of `end`, and a leeway of at least 0",
        ),
        ("'a'|wordwrap(0)", "wordwrap needs a width of at least 1"),
        ("'a'|indent([])", "indent needs a number of spaces, or a text for the start of each line"),
        ("'a'|regex_search(p, 'missing')", 'the pattern has no group "missing"'),
        (
            "'a'|regex_search(s ~ '(')",
            'the pattern "Grüße, Jürgen(" is not valid: missing ): Grüße, Jürgen(',
        ),
        ("s|upper|center(l)", '"center": width is a list, not a whole number'),
    ],
)
def test_an_error_of_a_text_filter_has_a_reason(words: str, message: str) -> None:
    with pytest.raises(TemplateError) as error:
        compile_template("{{ " + words + " }}")(SCOPE)
    assert error.value.message == f'"{{{{ {words} }}}}": {message}'
