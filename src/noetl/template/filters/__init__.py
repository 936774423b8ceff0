"""All filters of the template language, and the names of Jinja2 that are left out, each with a reason."""

from __future__ import annotations

from noetl.template.filters.dates import DATE_FILTERS
from noetl.template.filters.encoding import ENCODING_FILTERS
from noetl.template.filters.lists import LIST_FILTERS
from noetl.template.filters.numbers import NUMBER_FILTERS
from noetl.template.filters.shell import SHELL_FILTERS
from noetl.template.filters.sql import SQL_FILTERS
from noetl.template.filters.text import TEXT_FILTERS
from noetl.template.limits import Meter
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON

# Filters that the compiler builds itself, because they take names of filters or evaluate arguments lazily.
_HIGHER_ORDER: BuiltinTable = {}


def _not_called(_: Meter, *_values: JSON) -> JSON:
    raise AssertionError("the compiler builds this filter itself")


for _signature, _doc, _example, _names in (
    (
        'any|default(default_value: any = "", boolean: bool = false)',
        "Returns `default_value` if the value is undefined; with `boolean` also if it is false",
        ("{{ ctx.missing|default(3) }}", "3"),
        ("d",),
    ),
    (
        "list|map(name: text, attribute: key? = null, default: any = null)",
        "Applies a filter, given by its name and arguments, to each item; or reads `attribute` of each item",
        ("{{ ['a', 'b']|map('upper') }}", '["A","B"]'),
        (),
    ),
    (
        "list|select(test: text? = null)",
        "Keeps the items that pass a test, given by its name and arguments; without a test, the true items",
        ("{{ [1, 2, 3]|select('odd') }}", "[1,3]"),
        (),
    ),
    (
        "list|reject(test: text? = null)",
        "Drops the items that pass a test; without a test, the true items",
        ("{{ [1, 2, 3]|reject('odd') }}", "[2]"),
        (),
    ),
    (
        "list|selectattr(attribute: key, test: text? = null)",
        "Keeps the items whose attribute passes a test; without a test, those whose attribute is true",
        ("{{ [{'n': 1}, {'n': 2}]|selectattr('n', '>', 1) }}", '[{"n":2}]'),
        (),
    ),
    (
        "list|rejectattr(attribute: key, test: text? = null)",
        "Drops the items whose attribute passes a test; without a test, those whose attribute is true",
        ("{{ [{'n': 1}, {'n': 2}]|rejectattr('n', '>', 1) }}", '[{"n":1}]'),
        (),
    ),
):
    register(_HIGHER_ORDER, _signature, _doc, _example, names=_names)(_not_called)

_PLAIN = TEXT_FILTERS | NUMBER_FILTERS | LIST_FILTERS | DATE_FILTERS | ENCODING_FILTERS
_ALL = _PLAIN | SQL_FILTERS | SHELL_FILTERS | _HIGHER_ORDER
FILTERS: BuiltinTable = dict(sorted(_ALL.items()))

OMITTED: dict[str, str] = {
    "attr": "attributes of objects are never read; write value.name or value['name']",
    "callable": "only the listed functions and methods can be called",
    "cycler": "templates keep no state between iterations; use loop.index",
    "dict": "write {'key': value}",
    "escaped": "text is never marked as escaped",
    "filter": "the names of filters are checked when the template is compiled",
    "forceescape": "nothing is escaped automatically; use escape",
    "format": "a short format string can request a huge width; concatenate with ~ and use round",
    "joiner": "templates keep no state between iterations; use join or loop.first",
    "lipsum": "its result is random, so a replay would differ",
    "namespace": "templates have no variables",
    "pprint": "it writes Python, not JSON; use tojson(indent=2)",
    "random": "its result is random, so a replay would differ",
    "safe": "nothing is escaped automatically",
    "sameas": "JSON values have no identity; use ==",
    "test": "the names of tests are checked when the template is compiled",
    "urlize": "templates create data, not web pages",
    "xmlattr": "templates create data, not web pages",
}
