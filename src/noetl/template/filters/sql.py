"""The two filters that make something else than one bound value of a `{{ }}` in SQL: a name, and a list.

At the end of a `{{ }}` in SQL the compiler knows them; anywhere else they are what their values are.
"""

from __future__ import annotations

import re

from noetl.template.limits import Meter
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON, TemplateError, kind_of

SQL_FILTERS: BuiltinTable = {}
NAME_BYTES_MAX = 63  # PostgreSQL cuts longer ones in silence
PARTS_MAX = 4
# Control characters are in no name that anyone wants, and the others are quotes elsewhere: SQLite's [name].
_REFUSED = re.compile(r"[\x00-\x1f\x7f\[\]`]|[\ud800-\udfff]")


@register(
    SQL_FILTERS,
    "any|sql_ident",
    "A name of a table or column in quotes, `a.b` by its parts; a list gives the parts themselves",
    ("{{ 'sales.Order'|sql_ident }}", '"\\"sales\\".\\"Order\\""'),
)
def sql_ident(meter: Meter, value: JSON) -> str:
    parts = value.split(".") if type(value) is str else value
    if type(parts) is not list or not 0 < len(parts) <= PARTS_MAX:
        raise TemplateError(f"sql_ident needs a name of up to {PARTS_MAX} parts, not {kind_of(value)}")
    return meter.keep(".".join(map(_quoted, parts)))


def _quoted(part: JSON) -> str:
    if type(part) is not str or not part.strip():
        what = "an empty one" if type(part) is str else kind_of(part)
        raise TemplateError(f"a part of a name for sql_ident is text, not {what}")
    if _REFUSED.search(part):
        raise TemplateError("a name for sql_ident holds a control character, a bracket [ ] or a `")
    if len(part.encode()) > NAME_BYTES_MAX:
        raise TemplateError(f"a name for sql_ident is too long (limit NAME_BYTES_MAX: {NAME_BYTES_MAX})")
    return '"' + part.replace('"', '""') + '"'


@register(
    SQL_FILTERS,
    "any|sql_list",
    "Each item bound, for `IN (…)`: a list of parameters; NULL for an empty one",
    ("{{ [1, 2]|sql_list }}", "[1,2]"),
)
def sql_list(_: Meter, items: JSON) -> list[JSON]:
    # Text is no list of letters here: that is never what was meant.
    if type(items) is not list:
        raise TemplateError(f"sql_list needs a list, not {kind_of(items)}")
    return items
