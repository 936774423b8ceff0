"""`transfer` between SQLite, DuckDB and files: the same rows arrive, all of them or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pytest
from msgspec import convert

from noetl.output import JSON, Output
from noetl.tools.transfer.tool import TransferInput, TransferTool
from tests.unit.tools.calls import call

ROWS: list[dict[str, JSON]] = [
    {"id": 1, "name": 'Ann, "x"', "amount": 1.5, "note": None},
    {"id": 2, "name": "ü\nline", "amount": None, "note": ""},
    {"id": 3, "name": "'; DROP TABLE t", "amount": -3, "note": "null"},
]
COLUMNS = "id INTEGER PRIMARY KEY, name VARCHAR, amount DOUBLE, note VARCHAR"


class Place:
    """A folder with one table or file of each kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with closing(apsw.Connection(str(folder / "a.db"))) as connection:
            connection.execute(f"CREATE TABLE t ({COLUMNS})")
        with duckdb.connect(str(folder / "a.duckdb")) as made:
            made.execute(f"CREATE TABLE t ({COLUMNS})")

    def side(self, kind: str) -> dict[str, JSON]:
        match kind:
            case "sqlite":
                return {"kind": "sqlite", "path": "a.db", "table": "t"}
            case "duckdb":
                return {"kind": "duckdb", "path": "a.duckdb", "table": "t"}
        return {"kind": "object", "url": f"rows.{kind}"}

    def run(self, source: JSON, target: JSON, **fields: Any) -> Output:
        async def work() -> Output:
            tool = TransferTool()
            try:
                input = convert({"source": source, "target": target, **fields}, TransferInput)
                return await tool.run(input, call(folder=str(self.folder)))
            finally:
                await tool.close()

        return asyncio.run(work())

    def write(self, rows: list[Any], name: str = "in.ndjson") -> dict[str, JSON]:
        (self.folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        return {"kind": "object", "url": name}

    def sqlite(self, query: str = "SELECT * FROM t ORDER BY id") -> list[tuple[Any, ...]]:
        with closing(apsw.Connection(str(self.folder / "a.db"))) as connection:
            return list(connection.execute(query))

    def duckdb(self, query: str = "SELECT * FROM t ORDER BY id") -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "a.duckdb")) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield Place(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".wal", "-journal")) == []


def message_of(output: Output, side: str | None) -> str:
    assert output.error is not None, output
    assert output.own.get("transfer", {}).get("side") == side
    return output.error.message


@pytest.mark.parametrize("target", ["sqlite", "duckdb", "csv", "ndjson", "parquet"])
@pytest.mark.parametrize("source", ["sqlite", "duckdb", "csv", "ndjson", "json", "parquet"])
def test_rows_pass_from_each_kind_to_each_other_d110(place: Place, source: str, target: str) -> None:
    if source == "json":
        (place.folder / "rows.json").write_text(json.dumps(ROWS), "utf-8")
    else:
        assert place.run(place.write(ROWS), place.side(source)).error is None
    if source == target:
        return
    output = place.run(place.side(source), place.side(target))
    assert output.error is None, output.error
    assert (output.data, output.own["transfer"]["rows"]) == ({"rows": 3}, 3)
    assert output.own["transfer"]["columns"] == ["id", "name", "amount", "note"]
    back = place.run(place.side(target), {"kind": "object", "url": "back.ndjson"})
    assert back.error is None, back.error
    found = [json.loads(line) for line in (place.folder / "back.ndjson").read_text("utf-8").splitlines()]
    if "csv" in (source, target) and target not in ("sqlite", "duckdb"):
        # CSV has no types: numbers are text.
        numbers = [{**row, "id": int(row["id"]), "amount": row["amount"] and float(row["amount"])} for row in found]
        assert numbers == ROWS
    else:
        assert found == ROWS


def test_columns_are_selected_and_renamed(place: Place) -> None:
    source = place.write([{"key": 7, "first": "Ann", "other": 1}])
    output = place.run(source, place.side("sqlite"), columns={"id": "key", "name": "first"})
    assert output.own["transfer"]["columns"] == ["id", "name"]
    assert place.sqlite() == [(7, "Ann", None, None)]
    assert output.ref is not None
    assert output.ref["locator"] == {
        "system": "sqlite", "path": str(place.folder / "a.db"), "table": "t", "columns": ["id", "name"],
    }  # fmt: skip
    listed = place.run(place.side("sqlite"), {"kind": "object", "url": "x.csv"}, columns=["name"])
    assert listed.error is None
    assert (place.folder / "x.csv").read_text() == '"name"\n"Ann"\n'
    assert listed.own["transfer"]["bytes"] == 13


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_append_replace_and_upsert(place: Place, kind: str) -> None:
    rows = place.sqlite if kind == "sqlite" else place.duckdb
    target = place.side(kind)
    assert place.run(place.write([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]), target).error is None
    again = [{"id": 2, "name": "B"}, {"id": 3, "name": "c"}, {"id": 3, "name": "C"}]
    output = place.run(place.write(again), target, mode="upsert", key=["id"])
    assert output.error is None, output.error
    assert output.data == {"rows": 3}
    assert [row[:2] for row in rows()] == [(1, "a"), (2, "B"), (3, "C")]
    refused = place.run(place.write([{"id": 9, "name": "x"}, {"id": 1, "name": "twice"}]), target)
    assert refused.error is not None
    assert refused.error.kind == kind
    assert [row[0] for row in rows()] == [1, 2, 3]  # nothing of a failed transfer stays
    assert place.run(place.write([{"id": 5, "name": "e"}]), target, mode="replace").error is None
    assert [row[:2] for row in rows()] == [(5, "e")]
    assert place.run(place.write([]), target, mode="replace", columns=["id"]).data == {"rows": 0}
    assert rows() == []


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "csv", "parquet"])
def test_an_error_in_the_middle_changes_nothing(place: Place, kind: str) -> None:
    assert place.run(place.write([{"id": 1, "name": "kept"}]), place.side(kind)).error is None
    before = {path.name: path.read_bytes() for path in place.folder.glob("rows.*")}
    broken = place.write([{"id": n, "name": "x"} for n in range(2, 30_000)], "broken.ndjson")
    with (place.folder / "broken.ndjson").open("a") as file:
        file.write("{not json\n")
    mode = {"mode": "replace"} if kind in ("sqlite", "duckdb") else {}
    output = place.run(broken, place.side(kind), **mode)
    assert "is not valid JSON" in message_of(output, "source")
    if kind in ("sqlite", "duckdb"):
        assert [row[:2] for row in (place.sqlite() if kind == "sqlite" else place.duckdb())] == [(1, "kept")]
    assert {path.name: path.read_bytes() for path in place.folder.glob("rows.*")} == before


def test_binary_data_json_and_lists_keep_their_form(place: Place) -> None:
    with duckdb.connect(str(place.folder / "a.duckdb")) as made:
        made.execute("CREATE TABLE u (b BLOB, j JSON, l INTEGER[], d DECIMAL(30, 5), w TIMESTAMPTZ)")
        made.execute("CREATE TABLE v AS SELECT * FROM u")
        made.execute(
            "INSERT INTO u VALUES ('\\x00\\xFF'::BLOB, '{\"a\":[1]}', [1, NULL], 12345678901234567890.12345, "
            "'2026-01-02 03:04:05+00'), (NULL, '\"text\"', [], NULL, NULL)"
        )
    with closing(apsw.Connection(str(place.folder / "a.db"))) as connection:
        connection.execute("CREATE TABLE u (b BLOB, j TEXT, l TEXT, d TEXT, w TEXT)")
    there: dict[str, JSON] = {"kind": "sqlite", "path": "a.db", "table": "u"}
    assert place.run({**place.side("duckdb"), "table": "u"}, there).error is None
    assert place.sqlite("SELECT * FROM u")[0] == (
        b"\x00\xff", '{"a":[1]}', "[1,null]", "12345678901234567890.12345", "2026-01-02T03:04:05Z",
    )  # fmt: skip
    back = place.run(there, {**place.side("duckdb"), "table": "v"})
    assert back.error is None, back.error
    columns = "b, j::VARCHAR, l, d, w"
    assert place.duckdb(f"SELECT {columns} FROM v") == place.duckdb(f"SELECT {columns} FROM u")


def test_a_value_of_another_type_is_an_error(place: Place) -> None:
    said = message_of(place.run(place.write([{"id": 1}, {"id": "x"}]), place.side("duckdb")), "target")
    assert said == 'target: Invalid Input Error: Failed to cast value to numerical: "x"'
    assert place.duckdb() == []


@pytest.mark.parametrize(
    ("fields", "side", "message"),
    [
        ({"mode": "upsert"}, None, "`mode: upsert` needs `key`"),
        ({"key": ["id"]}, None, "`key` is for `mode: upsert`"),
        ({"columns": {"id": "idd"}}, "source", 'source: no row of the source has the column "idd"'),
        ({"columns": []}, "source", "source: `columns` is empty"),
        ({"columns": {"nope": "id"}}, "target", "target: table t has no column named nope"),
        ({"mode": "upsert", "key": ["name"]}, "target", "target: ON CONFLICT clause does not match any"),
        ({"mode": "upsert", "key": ["zip"]}, "source", 'source: `key` names the column "zip"'),
        ({"source": {"kind": "object"}}, "source", "source: `url` is required"),
        ({"source": {"kind": "object", "url": "in.xls"}}, "source", "source: the ending of `url`"),
        ({"source": {"kind": "object", "url": "gone.csv"}}, "source", "source: there is no object"),
        ({"source": {"kind": "object", "url": "in.csv", "table": "t"}}, "source", "source: `table` has no effect"),
        ({"source": {"kind": "sqlite", "path": "a.db"}}, "source", "source: a database needs exactly one of"),
        ({"source": {"kind": "sqlite", "path": "gone.db", "table": "t"}}, "source", 'source: "gone.db" cannot be opened'),
        ({"source": {"kind": "sqlite", "path": "a.db", "table": "t"}}, "target", "target: both sides are the same file"),
        ({"source": {"kind": "postgres", "table": "t"}}, "source", "source: PostgreSQL needs a keychain entry"),
        ({"target": {"kind": "sqlite", "path": "a.db"}}, "target", "target: `table` is required"),
        ({"target": {"kind": "sqlite", "path": "gone.db", "table": "t"}}, "target", 'target: "gone.db" cannot be opened'),
        ({"target": {"kind": "duckdb", "path": "gone.db", "table": "t"}}, "target", "target: there is no file"),
        ({"target": {"kind": "sqlite", "path": "a.db", "table": "x"}}, "target", "target: no such table: x"),
        ({"target": {"kind": "sqlite", "path": "a.db", "table": "t", "auth": "x"}}, "target", "target: `auth` has no"),
        ({"target": {"kind": "object", "url": "x.json"}}, "target", "target: a JSON list cannot be written"),
        ({"target": {"kind": "object", "url": "x.csv"}, "mode": "append"}, "target", "target: `mode: append` is for tables"),
        ({"target": {"kind": "object", "url": "../x.csv"}}, "target", "target: `url` \"../x.csv\" leads outside"),
    ],
)  # fmt: skip
def test_wrong_input_is_explained(place: Place, fields: dict[str, Any], side: str | None, message: str) -> None:
    given = {"source": place.write([{"id": 1, "name": "a"}]), "target": place.side("sqlite"), **fields}
    output = place.run(given.pop("source"), given.pop("target"), **given)
    assert message_of(output, side).startswith(message)
    assert place.sqlite() == []


def test_a_row_with_another_key_is_not_dropped(place: Place) -> None:
    rows = place.write([{"id": 1, "name": "a"}, {"id": 2, "nane": "b"}])
    said = message_of(place.run(rows, place.side("sqlite")), "source")
    assert said == 'source: row 2 has the key "nane", which the first row does not have; name all columns in `columns`'
    said = message_of(place.run(place.write([{"id": 1}, 7]), place.side("sqlite")), "source")
    assert said == "source: row 2 is not an object"
    null = place.write([{"id": 1, "name": "a"}, {"id": None, "name": "b"}])
    said = message_of(place.run(null, place.side("sqlite"), mode="upsert", key=["id"]), "source")
    assert said == 'source: row 2 has no value in the column "id" of the `key`'
    assert place.sqlite() == []
