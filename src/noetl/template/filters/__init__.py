"""All filters that a template may use, and what Jinja2 has that we leave out, each with its reason."""

from __future__ import annotations

from noetl.template.filters.encoding import ENCODING_FILTERS
from noetl.template.filters.lists import LIST_FILTERS
from noetl.template.filters.numbers import NUMBER_FILTERS
from noetl.template.filters.sql import SQL_FILTERS
from noetl.template.filters.text import TEXT_FILTERS
from noetl.template.limits import Meter
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON

# Filters that the compiler builds itself: their arguments are names, or are not always evaluated.
_HIGHER_ORDER: BuiltinTable = {}


def _not_called(_: Meter, *_values: JSON) -> JSON:
    raise AssertionError("the compiler builds this filter itself")


for _signature, _doc, _example, _names in (
    (
        'any|default(default_value: any = "", boolean: bool = false)',
        "Another value where this one is undefined, or false if `boolean`",
        ("{{ ctx.missing|default(3) }}", "3"),
        ("d",),
    ),
    (
        "list|map(name: text, attribute: key? = null, default: any = null)",
        "A filter, named with its arguments, over each item; or an attribute of each",
        ("{{ ['a', 'b']|map('upper') }}", '["A","B"]'),
        (),
    ),
    (
        "list|select(test: text? = null)",
        "The items for which a test, named with its arguments, holds; or which are true",
        ("{{ [1, 2, 3]|select('odd') }}", "[1,3]"),
        (),
    ),
    (
        "list|reject(test: text? = null)",
        "The items for which a test does not hold; or which are false",
        ("{{ [1, 2, 3]|reject('odd') }}", "[2]"),
        (),
    ),
    (
        "list|selectattr(attribute: key, test: text? = null)",
        "The items for whose attribute a test holds; or whose attribute is true",
        ("{{ [{'n': 1}, {'n': 2}]|selectattr('n', '>', 1) }}", '[{"n":2}]'),
        (),
    ),
    (
        "list|rejectattr(attribute: key, test: text? = null)",
        "The items for whose attribute a test does not hold; or whose attribute is false",
        ("{{ [{'n': 1}, {'n': 2}]|rejectattr('n', '>', 1) }}", '[{"n":1}]'),
        (),
    ),
):
    register(_HIGHER_ORDER, _signature, _doc, _example, names=_names)(_not_called)

_ALL = TEXT_FILTERS | NUMBER_FILTERS | LIST_FILTERS | ENCODING_FILTERS | SQL_FILTERS | _HIGHER_ORDER
FILTERS: BuiltinTable = dict(sorted(_ALL.items()))

OMITTED: dict[str, str] = {
    "attr": "attributes of objects are never looked up; write value.name or value['name']",
    "callable": "nothing in a template can be called but its filters and functions",
    "cycler": "it would keep a state from one turn to the next; use loop.index",
    "dict": "write {'key': value}",
    "escaped": "text is never marked as escaped",
    "filter": "filters are known when a playbook is checked",
    "forceescape": "nothing is escaped on its own, so escape always does it",
    "format": "a width of a thousand million is one short text; join with ~ and use round",
    "joiner": "it would keep a state from one turn to the next; use join or loop.first",
    "lipsum": "it is chance, and a replay would differ",
    "namespace": "templates set no variables",
    "pprint": "it writes Python, not JSON; use tojson(indent=2)",
    "random": "it is chance, and a replay would differ",
    "safe": "nothing is escaped on its own",
    "sameas": "JSON values have no identity; use ==",
    "test": "tests are known when a playbook is checked",
    "urlize": "links are for web pages, and templates make data",
    "xmlattr": "attributes are for web pages, and templates make data",
}
