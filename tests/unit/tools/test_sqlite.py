"""The tool `sqlite` on real files: rows, commands, limits, forbidden SQL and cancellation."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from noetl.output import JSON, Output
from noetl.tools.sqlite import session
from noetl.tools.sqlite.tool import SqliteInput, SqliteTool
from tests.unit.tools.calls import call
from tests.unit.tools.databases import sql
from tests.unit.tools.test_postgres_injection import HOSTILE

FOREVER = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


class SqliteOn:
    """The tool on one file."""

    def __init__(self, folder: Path) -> None:
        self.tool = SqliteTool()
        self.folder = folder

    def command(self, source: str, /, *, params: JSON = None, spec: JSON = None, **scope: JSON) -> Output:
        return asyncio.run(self.started(source, params=params, spec=spec, **scope))

    async def started(self, source: str, /, *, params: JSON = None, spec: JSON = None, **scope: JSON) -> Output:
        input = SqliteInput(path="a.db", command=sql(source, scope), params=params)
        return await self.tool.run(input, call(spec=spec, folder=str(self.folder)))

    def rows(self, source: str, /, **named: JSON) -> JSON:
        output = self.command(source, **named)
        assert output.error is None, output.error
        return output.data


@pytest.fixture
def db(tmp_path: Path) -> SqliteOn:
    return SqliteOn(tmp_path)


def test_values_are_bound_and_returned(db: SqliteOn) -> None:
    values: list[JSON] = [1, 2**63 - 1, 0.5, "it's", "", None, {"base64": "AP8="}]
    db.rows("CREATE TABLE a (n INTEGER PRIMARY KEY, x)")
    for value in values:
        db.rows("INSERT INTO a (x) VALUES ({{ value }})", value=value)
    assert db.rows("SELECT x FROM a ORDER BY n") == [{"x": value} for value in values]


@pytest.mark.parametrize(("value", "back"), [(True, 1), (False, 0), ([1, "a"], '[1,"a"]'), ({"a": None}, '{"a":null}')])
def test_types_that_sqlite_does_not_have_are_stored_as_json(db: SqliteOn, value: JSON, back: JSON) -> None:
    assert db.rows("SELECT {{ value }} AS x, 9e999 AS far", value=value) == [{"x": back, "far": "Infinity"}]


def test_two_hundred_payloads_stay_data(db: SqliteOn) -> None:
    db.rows("CREATE TABLE victims (name TEXT)")
    loop = "{% for e in all %}({{ e }}){% if not loop.last %},{% endif %}{% endfor %}"
    db.rows(f"INSERT INTO victims VALUES {loop}", all=HOSTILE)
    found = db.rows("SELECT name FROM victims WHERE name IN ({{ all|sql_list }})", all=HOSTILE)
    assert [row["name"] for row in found] == HOSTILE


def test_a_command_is_one_transaction(db: SqliteOn) -> None:
    made = db.command("CREATE TABLE a (n); INSERT INTO a VALUES (1), (2); SELECT * FROM a; UPDATE a SET n = n + 1")
    assert made.data == [{"n": 1}, {"n": 2}]
    assert made.own == {"sqlite": {"code": None, "message": None, "rowcount": 2}}
    broken = db.command("DELETE FROM a; SELECT * FROM nowhere")
    assert broken.error is not None
    assert broken.error.message == "no such table: nowhere"
    assert db.rows("SELECT n FROM a") == [{"n": 2}, {"n": 3}]


def test_a_trigger_is_one_statement(db: SqliteOn) -> None:
    db.rows("CREATE TABLE a (n); CREATE TABLE log (n)")
    db.rows("CREATE TRIGGER t AFTER INSERT ON a BEGIN INSERT INTO log VALUES (new.n); SELECT 1; END")
    db.rows("INSERT INTO a VALUES (?); INSERT INTO a VALUES (?)", params=[1, 2])
    assert db.rows("SELECT n, n FROM log WHERE n > :least", params={"least": 1}) == [{"n": 2, "n_2": 2}]


def test_an_error_names_the_constraint_and_contains_no_value(db: SqliteOn) -> None:
    db.rows("CREATE TABLE a (token TEXT UNIQUE)")
    db.rows("INSERT INTO a VALUES ({{ s }})", s="canary")
    output = db.command("INSERT INTO a VALUES ({{ s }})", s="canary")
    assert output.error is not None
    assert (output.error.message, output.error.retryable) == ("UNIQUE constraint failed: a.token", False)
    assert output.own["sqlite"]["code"] == "SQLITE_CONSTRAINT_UNIQUE"
    assert output.own["sqlite"]["message"] == output.error.message
    assert "canary" not in str(output)


@pytest.mark.parametrize(
    "source",
    ["ATTACH 'other.db' AS o", "VACUUM INTO 'other.db'", "SELECT load_extension('x')", "SELECT 1; COMMIT", "",
     "SELECT {{ huge }}", "SELECT {{ {'base64': '!'} }}", "SELECT ?", "nonsense"],
)  # fmt: skip
def test_forbidden_sql_is_an_error_and_creates_no_file(db: SqliteOn, source: str) -> None:
    output = db.command(source, huge=2**63)
    assert output.error is not None
    assert output.error.retryable is False
    assert set(output.own) <= {"sqlite"}
    assert [path.name for path in db.folder.iterdir() if path.name != "a.db"] == []


def test_attach_can_be_allowed(db: SqliteOn) -> None:
    other = str(db.folder / "other.db")
    output = db.command("ATTACH {{ other }} AS o", other=other, spec={"attach": True})
    assert output.error is None


@pytest.mark.parametrize("attach", [True, False])
def test_no_pragma_affects_the_rest_of_the_process(db: SqliteOn, attach: bool) -> None:
    """Of all pragmas that SQLite knows, with values that would do harm."""
    with closing(apsw.Connection(":memory:")) as other:
        known = [str(row[0]) for row in other.execute("PRAGMA pragma_list")]
        assert {"hard_heap_limit", "soft_heap_limit", "temp_store_directory", "mmap_size"} <= set(known)
        for name in known:
            for value in ("1", "-1", "'/nowhere'", "9999999999", "MEMORY", "ON"):
                for form in (f"PRAGMA {name} = {value}", f"PRAGMA main.{name}({value})"):
                    db.command(form, spec={"attach": attach})
            assert (apsw.hard_heap_limit(-1), apsw.soft_heap_limit(-1)) == (0, 0), name
        rows = other.execute(
            "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 9) SELECT * FROM c"
        )
        assert len(list(rows)) == 9
        assert not other.execute("PRAGMA temp_store_directory").fetchall()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("PRAGMA hard_heap_limit = 1", "not authorized: SQL may not use PRAGMA hard_heap_limit"),
        ("SELECT 1; PRAGMA SOFT_HEAP_LIMIT(1)", "not authorized: SQL may not use PRAGMA soft_heap_limit"),
        ("PRAGMA temp_store = MEMORY", "not authorized: SQL may read PRAGMA temp_store, but not change it"),
        ("PRAGMA cache_size = -99999999", "not authorized: the highest value of PRAGMA cache_size is 16384"),
        ("ATTACH 'other.db' AS o", "not authorized: SQL may not open other files; spec.attach allows it"),
        ("SELECT load_extension('x')", "not authorized to use function: load_extension"),
    ],
)
def test_a_refused_statement_names_the_reason(db: SqliteOn, source: str, message: str) -> None:
    output = db.command(source)
    assert output.error is not None
    assert (output.error.kind, output.error.message) == ("sqlite", message)


@pytest.mark.parametrize(
    "source",
    ["PRAGMA foreign_keys = ON", "PRAGMA journal_mode = WAL", "PRAGMA user_version = 3", "PRAGMA table_info(a)",
     "PRAGMA busy_timeout = 5000", "PRAGMA cache_size = -2000", "PRAGMA temp_store", "SELECT * FROM pragma_page_count"],
)  # fmt: skip
def test_pragmas_of_the_file_and_the_connection_are_allowed(db: SqliteOn, source: str) -> None:
    assert db.command(source).error is None


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("SELECT length(zeroblob(900000000))", "sqlite", "string or blob too big"),
        ("SELECT length(printf('%.*c', 900000000, 'x'))", "sqlite", "string or blob too big"),
        (f"SELECT zeroblob(1000000) FROM ({FOREVER.replace('count(*)', 'n')})", "payload-too-large", "the rows are too"),
        (f"CREATE TABLE a AS SELECT zeroblob(1000000) FROM ({FOREVER.replace('count(*)', 'n')})", "sqlite",
         "database or disk is full"),
    ],
    ids=["value", "format", "rows", "database"],
)  # fmt: skip
def test_a_statement_cannot_use_all_memory(tmp_path: Path, source: str, kind: str, message: str) -> None:
    input = SqliteInput(path=":memory:", command=sql(source))
    output = asyncio.run(SqliteTool().run(input, call(folder=str(tmp_path))))
    assert output.error is not None
    assert output.error.kind == kind
    assert output.error.message.startswith(message)


BIG_ROWS = f"SELECT zeroblob({{}}) FROM ({FOREVER.replace('count(*)', 'n')})"


@pytest.mark.parametrize(
    "source",
    [f"CREATE TABLE m.a AS {BIG_ROWS.format(10_000)}",
     "CREATE TABLE m.a (b);" + "INSERT INTO m.a VALUES (zeroblob(4000000));" * 20],
    ids=["a long statement", "short statements"],
)  # fmt: skip
def test_statements_stop_when_sqlite_has_allocated_too_much(
    db: SqliteOn, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    most = apsw.memory_used() + 32 * 1024 * 1024
    monkeypatch.setattr(session, "PROCESS_BYTES_MAX", most)
    apsw.memory_high_water(True)
    output = db.command(f"ATTACH ':memory:' AS m; {source}", spec={"attach": True})
    assert output.error is not None
    assert output.error.message == f"SQLite has used more than {most:,} bytes of memory (limit PROCESS_BYTES_MAX)"
    assert most < apsw.memory_high_water() < 2 * most
    assert apsw.memory_used() < most


@pytest.mark.parametrize("size", [1_000_000, 60_000_000])
def test_attached_databases_cannot_use_all_memory(db: SqliteOn, size: int) -> None:
    """A few instructions of SQLite write large values, so the limit of the process alone comes too late."""
    apsw.memory_high_water(True)
    attached = "ATTACH ':memory:' AS m; ATTACH {{ name }} AS [n \"]; PRAGMA m.page_size = 65536;"
    output = db.command(attached, name=":memory:", spec={"attach": True})
    assert output.error is not None
    assert output.error.message == "not authorized: SQL may read PRAGMA page_size, but not change it"
    attached = "ATTACH ':memory:' AS m; ATTACH {{ name }} AS [n \"]; CREATE TABLE [n \"].a AS "
    output = db.command(attached + BIG_ROWS.format(size), name=":memory:", spec={"attach": True})
    assert output.error is not None
    assert output.error.message == "database or disk is full"
    assert apsw.memory_high_water() < 400 * 1024 * 1024


def test_vacuum_is_allowed(db: SqliteOn) -> None:
    assert db.command("VACUUM").error is None


def test_more_rows_than_max_rows_are_an_error(db: SqliteOn) -> None:
    three = "VALUES (1), (2), (3)"
    assert len(db.rows(three, spec={"max_rows": 3})) == 3
    output = db.command(three, spec={"max_rows": 2})
    assert output.error is not None
    assert output.error.kind == "payload-too-large"


def test_a_cancelled_query_is_stopped_and_rolled_back(db: SqliteOn) -> None:
    async def work() -> None:
        running = asyncio.create_task(db.started(f"CREATE TABLE a (n); {FOREVER}"))
        while not (db.folder / "a.db-journal").exists():
            await asyncio.to_thread(os.stat, db.folder)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with closing(apsw.Connection(str(db.folder / "a.db"))) as file:
        file.execute("CREATE TABLE first (n)")
    asyncio.run(work())
    assert db.rows("SELECT name FROM sqlite_schema") == [{"name": "first"}]


def test_a_writer_waits_for_another_and_can_be_cancelled(db: SqliteOn) -> None:
    async def work() -> None:
        with closing(apsw.Connection(str(db.folder / "a.db"))) as other:
            other.set_busy_timeout(10_000)  # a COMMIT waits while another connection checks whether it may write
            other.execute("CREATE TABLE a (n); BEGIN IMMEDIATE")
            stopped = asyncio.create_task(db.started("INSERT INTO a VALUES (1)"))
            going = asyncio.create_task(db.started("INSERT INTO a VALUES (2)"))
            await asyncio.to_thread(os.stat, db.folder)  # both have begun
            stopped.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopped
            other.execute("COMMIT")
            assert (await going).error is None

    asyncio.run(work())
    assert db.rows("SELECT * FROM a") == [{"n": 2}]


@pytest.mark.parametrize("path", ["../a.db", "", "a\0b", "nowhere/a.db"])
def test_an_invalid_path_is_an_error(db: SqliteOn, path: str) -> None:
    asked = call(folder=str(db.folder))
    output = asyncio.run(db.tool.run(SqliteInput(path=path, query=sql("SELECT 1")), asked))
    assert output.error is not None
    assert output.error.kind in ("input", "sqlite")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no/such/a.db", 'the directory "no/such" does not exist; create it first'),
        ("folder", "Is a directory"),
        ("file/a.db", "Not a directory"),
        ("/proc/a.db", "its directory is not writable"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_opened_is_named_with_the_reason(db: SqliteOn, path: str, why: str) -> None:
    (db.folder / "folder").mkdir()
    (db.folder / "file").touch()
    input = SqliteInput(path=path, query=sql("SELECT 1", {}))
    output = asyncio.run(db.tool.run(input, call(folder=str(db.folder))))
    assert output.error is not None
    assert (output.error.kind, output.error.retryable) == ("sqlite", False)
    assert output.error.message == f'"{path}" cannot be opened: {why}'
    assert output.error.details == {"code": "SQLITE_CANTOPEN"}


def test_a_path_is_relative_to_the_playbook_or_absolute(db: SqliteOn, tmp_path: Path) -> None:
    async def kind(path: str, folder: str | None) -> str | None:
        output = await db.tool.run(SqliteInput(path=path, query=sql("SELECT 1")), call(folder=folder))
        return output.error.kind if output.error else None

    assert asyncio.run(kind("a.db", None)) == "input"
    assert asyncio.run(kind(str(tmp_path / "b.db"), None)) is None
    assert asyncio.run(kind(":memory:", None)) is None
    asyncio.run(db.tool.close())
