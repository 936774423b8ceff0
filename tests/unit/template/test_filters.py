"""All filters: every example is run, every filter of Jinja2 is present or omitted with a reason, and the results agree."""

from __future__ import annotations

from collections.abc import Iterable

import jinja2
import jinja2.filters
import jinja2.tests
import msgspec
import pytest

from noetl.template.compile import Moment, compile_template
from noetl.template.filters import FILTERS, OMITTED
from noetl.template.functions import FUNCTIONS, METHODS
from noetl.template.registry import Builtin
from noetl.template.tests import TESTS

MOMENT = Moment("2026-01-31T12:00:00Z", "e/fetch#1/1")
SCOPE: dict[str, object] = {
    "n": -42.55,
    "i": 7,
    "s": "the quick-brown (fox) jumps",
    "lines": "one\ntwo\n\nthree four five",
    "html": "<p>a <b>&amp; b</b><!-- c --></p>",
    "l": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "m": {"b": 2, "a": 3, "C": 1},
    "rows": [
        {"id": 2, "name": "Bob", "city": {"zip": "x"}, "on": True},
        {"id": 1, "name": "ada", "city": {"zip": "y"}, "on": False},
        {"id": 3, "name": "Cyd", "city": {"zip": "x"}, "on": True},
    ],
    "e": [],
}


ENTRIES = [entry for table in (FILTERS, TESTS, FUNCTIONS, METHODS) for entry in table.values()]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.signature)
def test_every_example_returns_the_documented_result(entry: Builtin) -> None:
    source, answer = entry.example
    assert msgspec.json.encode(compile_template(source)({"ctx": {}}, MOMENT)).decode() == answer


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.signature)
def test_every_entry_is_documented_in_one_line(entry: Builtin) -> None:
    assert 5 <= len(entry.doc) <= 110
    assert "\n" not in entry.doc + entry.signature
    assert entry.name in entry.signature or entry.signature in {one.signature for one in ENTRIES}


def test_every_filter_and_test_of_jinja_is_there_or_left_out_for_a_reason() -> None:
    assert set(jinja2.filters.FILTERS) - set(FILTERS) - set(OMITTED) == set()
    assert set(jinja2.tests.TESTS) - set(TESTS) - set(OMITTED) == set()
    assert set(OMITTED) & (set(FILTERS) | set(TESTS) | set(FUNCTIONS)) == set()


def plain(value: object) -> object:
    """The result of Jinja2 as JSON: tuples and generators become lists, and markup becomes text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    return value


@pytest.mark.parametrize(
    "words",
    [
        "n|abs",
        "l|batch(2)",
        "l|batch(2, 0)",
        "e|batch(2, 0)",
        "s|capitalize",
        "s|center(40)",
        "s|count",
        "missing|d('x')",
        "''|default('x')",
        "''|default('x', true)",
        "none|default('x')",
        "m|dictsort",
        "m|dictsort(true)",
        "m|dictsort(by='value')",
        "m|dictsort(reverse=true)",
        "html|e",
        "1|filesizeformat",
        "999|filesizeformat",
        "1000|filesizeformat",
        "1234567|filesizeformat",
        "1234567|filesizeformat(true)",
        "1e30|filesizeformat",
        "l|first",
        "s|first",
        "m|first",
        "'1.5'|float",
        "'x'|float",
        "'x'|float(2.5)",
        "i|float",
        "lines|indent",
        "lines|indent(2, true)",
        "lines|indent(2, blank=true)",
        "lines|indent('> ')",
        "'42'|int",
        "'42.9'|int",
        "'x'|int",
        "'x'|int(3)",
        "'ff'|int(0, 16)",
        "'0b11'|int(base=0)",
        "n|int",
        "true|int",
        "none|int",
        "'  12 '|int",
        "m|items",
        "l|join",
        "words|join(', ')",
        "rows|join('+', attribute='name')",
        "s|join('.')",
        "l|last",
        "m|last",
        "m|length",
        "s|list",
        "m|list",
        "s|upper|lower",
        "rows|map(attribute='city.zip')",
        "rows|map(attribute='nope', default='-')",
        "words|map('upper')",
        "words|map('replace', 'a', 'z')",
        "l|max",
        "words|max",
        "words|max(case_sensitive=true)",
        "rows|max(attribute='id')",
        "l|min",
        "words|min",
        "l|reject('odd')",
        "l|reject",
        "rows|rejectattr('on')",
        "rows|rejectattr('id', 'gt', 1)",
        "s|replace('o', '0')",
        "s|replace('o', '0', 1)",
        "s|replace('', '-')",
        "l|reverse",
        "s|reverse",
        "n|round",
        "n|round(1)",
        "n|round(1, 'floor')",
        "n|round(1, 'ceil')",
        "i|round(-1)",
        "2.5|round",
        "l|select('odd')",
        "l|select('divisibleby', 3)",
        "l|select('in', [1, 3])",
        "words|select('lower')",
        "l|select",
        "rows|selectattr('on')",
        "rows|selectattr('city.zip', 'equalto', 'x')",
        "rows|selectattr('nope', 'defined')",
        "l|slice(2)",
        "l|slice(2, 0)",
        "l|slice(5)",
        "l|sort",
        "l|sort(reverse=true)",
        "words|sort",
        "words|sort(case_sensitive=true)",
        "rows|sort(attribute='name')",
        "rows|sort(attribute='city.zip,id')",
        "rows|sort(true, attribute='city.zip,id')",
        "i|string",
        "html|striptags",
        "'<a<b>c'|striptags",
        "'a < b'|striptags",
        "l|sum",
        "l|sum(start=10)",
        "rows|sum(attribute='id')",
        "e|sum",
        "s|title",
        '"it\'s a [new] day"|title',
        "'  x '|trim",
        "'xxaxx'|trim('x')",
        "s|truncate(10)",
        "s|truncate(10, true)",
        "s|truncate(10, false, '…', 0)",
        "s|truncate(100)",
        "words|unique",
        "words|unique(true)",
        "rows|unique(attribute='city.zip')",
        "s|upper",
        "'a b/c?d=é'|urlencode",
        "{'a b': 'c&d', 'e': 1}|urlencode",
        "[['a', 'b c'], ['d', 'e']]|urlencode",
        "i|urlencode",
        "lines|wordcount",
        "s|wordwrap(10)",
        "lines|wordwrap(8)",
        "s|wordwrap(5, true)",
        "s|wordwrap(5, false)",
        "s|wordwrap(12, wrapstring='|')",
        "s|wordwrap(10, break_on_hyphens=false)",
        "'abcdefghijkl mn'|wordwrap(5)",
        "'ab cdefghijkl mn'|wordwrap(5)",
        "'a  b   c'|wordwrap(3)",
        "'3-4 well-known'|wordwrap(6)",
    ],
)
def test_a_filter_answers_as_jinja_does(words: str) -> None:
    theirs = jinja2.Environment().compile_expression(words, undefined_to_none=False)(**SCOPE)
    assert compile_template("{{ " + words + " }}")(SCOPE) == plain(theirs)


def test_groups_can_be_read_as_maps_and_are_those_of_jinja() -> None:
    words = "rows|groupby('city.zip')"
    theirs = jinja2.Environment().compile_expression(words)(**SCOPE)
    assert theirs is not None
    ours = compile_template("{{ " + words + " }}")(SCOPE)
    assert ours == [{"grouper": group.grouper, "list": group.list} for group in theirs]
