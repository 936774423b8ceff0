"""Names for SQL are always quoted, or rejected."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.template.compile import TemplateError, compile_template


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("users", '"users"'),
        ("sales.Order", '"sales"."Order"'),
        (["odd.name"], '"odd.name"'),
        (["a", "b"], '"a"."b"'),
        ('a"b', '"a""b"'),
        ('"; DROP TABLE x; --', '"""; DROP TABLE x; --"'),
        ("größe x", '"größe x"'),
    ],
)
def test_a_name_is_put_in_quotes(value: JSON, name: str) -> None:
    assert compile_template("{{ name|sql_ident }}")({"name": value}) == name


@pytest.mark.parametrize(
    "value",
    ["", ".", "a.", ".a", "a..b", " ", "a\0b", "a\nb", "a]b", "a[b", "a`b", "\ud800", "x" * 64, "ü" * 32,
     "a.b.c.d.e", 5, None, True, {}, [], [5], [""], ["a", None]],
)  # fmt: skip
def test_an_invalid_name_is_rejected(value: JSON) -> None:
    with pytest.raises(TemplateError, match="sql_ident"):
        compile_template("{{ name|sql_ident }}")({"name": value})


@pytest.mark.parametrize("value", ["text", 5, None, {"a": 1}])
def test_only_a_list_is_a_list(value: JSON) -> None:
    with pytest.raises(TemplateError, match="sql_list"):
        compile_template("IN ({{ xs|sql_list }})", sql=True)({"xs": value})
