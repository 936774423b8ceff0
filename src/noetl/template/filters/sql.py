"""The filters for SQL: `sql_ident` inserts a quoted name, `sql_list` binds each item of a list.

The SQL compiler recognizes them at the end of a `{{ }}`. Elsewhere they are ordinary filters.
"""

from __future__ import annotations

import re

from noetl.template.limits import Meter
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON, TemplateError, kind_of

SQL_FILTERS: BuiltinTable = {}
NAME_BYTES_MAX = 63  # PostgreSQL truncates longer names without an error
PARTS_MAX = 4
# Names do not need control characters, and the brackets and ` are quotes in some databases (SQLite's [name]).
_REFUSED = r"[\x00-\x1f\x7f\[\]`]|[\ud800-\udfff]"


@register(
    SQL_FILTERS,
    "any|sql_ident",
    "Quotes the name of a table or column; quotes each part of `a.b`; a list contains the parts",
    ("{{ 'sales.Order'|sql_ident }}", '"\\"sales\\".\\"Order\\""'),
)
def sql_ident(meter: Meter, value: JSON) -> str:
    parts = value.split(".") if type(value) is str else value
    if type(parts) is not list or not 0 < len(parts) <= PARTS_MAX:
        raise TemplateError(f"sql_ident needs a name with up to {PARTS_MAX} parts, not {kind_of(value)}")
    return meter.keep(".".join(map(_quoted, parts)))


def _quoted(part: JSON) -> str:
    if type(part) is not str or not part.strip():
        what = "empty" if type(part) is str else kind_of(part)
        raise TemplateError(f"each part of a name for sql_ident must be text, but one is {what}")
    if re.search(_REFUSED, part):
        raise TemplateError("a name for sql_ident must not contain a control character, a bracket [ ] or a `")
    if len(part.encode()) > NAME_BYTES_MAX:
        raise TemplateError(f"a name for sql_ident is too long (limit NAME_BYTES_MAX: {NAME_BYTES_MAX})")
    return '"' + part.replace('"', '""') + '"'


@register(
    SQL_FILTERS,
    "any|sql_list",
    "Binds each item of a list, for `IN (…)`; an empty list becomes NULL",
    ("{{ [1, 2]|sql_list }}", "[1,2]"),
)
def sql_list(_: Meter, items: JSON) -> list[JSON]:
    # Text is not a list of characters here, because that would be a mistake of the author.
    if type(items) is not list:
        raise TemplateError(f"sql_list needs a list, not {kind_of(items)}")
    return items
