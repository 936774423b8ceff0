"""Large values as rows: shapes, columns with types, a search, cut cells and CSV."""

from __future__ import annotations

from noetl.output import JSON
from noetl.views.rows import CELL_CHARS_MAX, Column, ResultRows


def test_a_list_of_maps_is_a_table_with_typed_columns() -> None:
    rows = ResultRows([{"id": 1, "price": 2}, {"id": 2, "price": 2.5, "name": "pen"}, None])
    assert (rows.shape, rows.columns) == (
        "table",
        (
            Column(name="id", type="integer", nullable=True),
            Column(name="price", type="number", nullable=True),
            Column(name="name", type="string", nullable=True),
        ),
    )
    page = rows.page(1, 5)
    assert (page.rows, page.places, page.total, page.found) == (((2, 2.5, "pen"), (None, None, None)), (1, 2), 3, 3)


def test_other_values_have_one_or_two_columns() -> None:
    shapes: list[tuple[JSON, str, tuple[tuple[JSON, ...], ...]]] = [
        ([1, "two"], "list", ((1,), ("two",))),
        ({"a": [1], "b": None}, "map", (("a", [1]), ("b", None))),
        ("text", "value", (("text",),)),
        ([], "list", ()),
    ]
    for value, shape, rows in shapes:
        found = ResultRows(value)
        assert (found.shape, found.page(0, 10).rows) == (shape, rows)
    assert ResultRows([1, "two"]).columns == (Column(name="value", type="integer | string"),)


def test_a_search_ignores_case_and_keeps_the_places() -> None:
    rows = ResultRows([{"city": name} for name in ("Oslo", "Rome", "oslo north")])
    page = rows.page(1, 10, "OSLO")
    assert (page.rows, page.places, page.total, page.found) == ((("oslo north",),), (2,), 3, 2)


def test_long_cells_are_cut_in_pages_but_not_in_csv() -> None:
    long = "x" * (CELL_CHARS_MAX + 1)
    rows = ResultRows([{"text": long, "list": [long]}])
    ((text, listed),) = rows.page(0, 1).rows
    assert (len(text), len(listed)) == (CELL_CHARS_MAX + 1, CELL_CHARS_MAX + 1)
    assert long in rows.csv().decode()


def test_csv_quotes_and_writes_lists_as_json() -> None:
    rows = ResultRows([{"a": 'say "hi", you', "b": [1], "c": True}, {"a": None, "b": {}, "c": 1.5}])
    assert rows.csv().decode() == 'a,b,c\r\n"say ""hi"", you",[1],true\r\n,{},1.5\r\n'
