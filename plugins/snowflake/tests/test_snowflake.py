"""`snowflake` fulfils the contract of all tools, and binds values, with a fake and with Snowflake's own driver."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.ids import trace_id
from noetl.output import JSON, Output
from noetl.playbook.kinds import Sql
from noetl.secret import Secret
from noetl.testing.contracts.tools import ToolContract, call_of
from noetl.tool import Auth, Call, Tool

sys.path.insert(0, str(Path(__file__).parent))
from fake_snowflake import FakeServer, FakeSnowflake
from noetl_snowflake.tool import SnowflakeInput, SnowflakeTool

LOADER: dict[str, str | int] = {"account": "acme-prod", "user": "loader", "password": "pa55"}


def auth_of(**fields: str | int) -> Auth:
    async def renew() -> Auth:
        raise AssertionError

    return Auth("warehouse", "stored", {"": Secret(json.dumps(fields))}, renew)


def call_as(**fields: str | int) -> Call:
    return call_of({"timeout": 60})._replace(auth=auth_of(**(fields or LOADER)))


def sql(*text: str, values: tuple[JSON, ...] = ()) -> Sql:
    return Sql(list(text), list(values))


@pytest.fixture
def account() -> Iterator[FakeSnowflake]:
    made = FakeSnowflake()
    yield made
    made.close()


def run(account: FakeSnowflake, call: Call | None = None, **fields: object) -> Output:
    async def work() -> Output:
        tool = SnowflakeTool(account.connect)
        try:
            return await tool.run(SnowflakeInput(**fields), call or call_as())  # type: ignore[arg-type]
        finally:
            await tool.close()

    return asyncio.run(work())


class TestSnowflake(ToolContract):
    needs = "Snowflake"
    reads_around = True

    @pytest.fixture(autouse=True)
    def fake(self, account: FakeSnowflake) -> None:
        self.account = account

    def make(self) -> Tool:
        return SnowflakeTool(self.account.connect)

    def call(self, spec: dict[str, JSON]) -> Call:
        return call_of(spec)._replace(auth=auth_of(**LOADER))

    def fields(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT 1 AS n"]}}

    def endless(self) -> dict[str, JSON]:
        return {"query": {"text": ["SELECT SYSTEM$WAIT(3600)"]}}


def test_values_are_bound_and_rows_are_objects(account: FakeSnowflake) -> None:
    name = "O'Brien; DROP TABLE t"
    output = run(account, query=sql("SELECT ", " AS id, ", " AS name, ", " AS meta", values=(1, name, {"a": [1]})))
    assert output.data == [{"ID": 1, "NAME": name, "META": {"a": [1]}}]
    assert account.statements == ["SELECT ? AS id, ? AS name, ? AS meta"]
    assert account.bound == [(1, name, '{"a":[1]}')]
    assert output.own["snowflake"]["rowcount"] == 1
    assert output.own["snowflake"]["query_id"] == "01-1"


def test_a_command_is_one_transaction(account: FakeSnowflake) -> None:
    run(account, command=sql("CREATE TABLE t (id INTEGER)"))
    output = run(account, command=sql("INSERT INTO t VALUES (1); INSERT INTO missing VALUES (2)"))
    assert output.error is not None
    own = output.own["snowflake"]
    assert (own["code"], own["sqlstate"]) == (2003, "42S02")
    assert output.error.message.startswith("SQL compilation error: Object 'MISSING' does not exist")
    assert run(account, query=sql("SELECT count(*) AS n FROM t")).data == [{"N": 0}]
    both = run(account, command=sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT sum(id) AS s FROM t"))
    assert (both.status, both.data) == ("ok", [{"S": 3}])


def test_a_command_without_a_reading_statement_has_no_rows(account: FakeSnowflake) -> None:
    run(account, command=sql("CREATE TABLE t (id INTEGER)"))
    output = run(account, command=sql("INSERT INTO t VALUES (1), (2)"))
    assert (output.data, output.own["snowflake"]["rowcount"]) == (None, 2)


def test_a_statement_runs_for_each_row(account: FakeSnowflake) -> None:
    run(account, command=sql("CREATE TABLE t (id INTEGER, name TEXT)"))
    rows = [{"a": 1, "b": "x"}, [2, "y"]]
    assert run(account, command=sql("INSERT INTO t VALUES (?, ?)"), rows=rows).own["snowflake"]["rowcount"] == 2
    lists = run(account, query=sql("SELECT id, name FROM t ORDER BY id"), row_format="lists")
    assert lists.data == [[1, "x"], [2, "y"]]
    wrong = run(account, command=sql("INSERT INTO t VALUES (?, ?)"), rows=[[1]])
    assert wrong.error is not None
    assert wrong.error.message == "row 0 has 1 values, and the statement has 2 `?`"


def test_parameters_paths_and_columns_of_files(account: FakeSnowflake) -> None:
    assert run(account, query=sql("SELECT ? AS a"), params=[3]).data == [{"A": 3}]
    assert run(account, query=sql("SELECT :n AS a, :n AS b"), params={"n": 3}).data == [{"A": 3, "B": 3}]
    run(account, query=sql("SELECT $1 FROM @stage"))
    assert account.statements[-1] == "SELECT $1 FROM @stage"


def test_the_options_of_the_connection(account: FakeSnowflake) -> None:
    credential: dict[str, str | int] = {"sf_account": "acme", "sf_user": "l", "sf_password": "pa55", "sf_role": "R"}
    run(account, call_as(**credential), query=sql("SELECT 1 AS n"), database="SALES", schema="RAW")
    used = account.options[0]
    assert {name: used[name] for name in ("account", "user", "role", "database", "schema", "paramstyle")} == {
        "account": "acme", "user": "l", "role": "R", "database": "SALES", "schema": "RAW", "paramstyle": "qmark",
    }  # fmt: skip
    assert used["session_parameters"] == {"QUERY_TAG": f"noetl:{trace_id('e1')}"}, "not the id of the execution"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"user": "l", "password": "p"}, "needs `account` and `user`"),
        ({"account": "a/../b", "user": "l", "password": "p"}, "needs `account` and `user`"),
        ({"account": "a", "user": "l"}, "needs `password`"),
        ({"account": "a", "user": "l", "private_key": "x"}, "is not a private key"),
        ({"account": "a", "user": "l", "password": "wrong"}, "Incorrect username or password"),
    ],
)
def test_a_wrong_credential_is_refused(account: FakeSnowflake, fields: dict[str, str | int], part: str) -> None:
    output = run(account, call_as(**fields), query=sql("SELECT 1"))
    assert output.error is not None
    assert part in output.error.message


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"query": sql("SELECT 1; SELECT 2")}, "must be one statement"),
        ({"command": sql("COMMIT")}, "COMMIT is not allowed"),
        ({"command": sql("A ?; B ?"), "rows": [[1]]}, "must be one statement"),
        ({"command": sql("A ", "", values=(1,)), "rows": [[1]]}, "no {{ }}"),
        ({}, "`query` or `command` is required"),
    ],
)
def test_sql_that_cannot_run_is_refused(account: FakeSnowflake, fields: dict[str, object], part: str) -> None:
    output = run(account, None, **fields)
    assert output.error is not None
    assert part in output.error.message
    assert account.statements == []


def test_too_many_rows_fail(account: FakeSnowflake) -> None:
    call = call_as()._replace(spec={"max_rows": 1})
    output = run(account, call, query=sql("SELECT 1 AS n UNION ALL SELECT 2"))
    assert output.error is not None
    assert output.error.kind == "payload-too-large"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowflake", None)
    output = asyncio.run(SnowflakeTool().run(SnowflakeInput(query=sql("SELECT 1")), call_as()))
    assert output.error is not None
    assert "pip install './plugins/snowflake[connector]'" in output.error.message


def has_driver() -> bool:
    try:
        return importlib.util.find_spec("snowflake.connector") is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.skipif(not has_driver(), reason="Snowflake's driver is not installed")
@pytest.mark.filterwarnings("ignore")
def test_with_the_driver_of_snowflake(account: FakeSnowflake) -> None:
    server = FakeServer(account)

    async def work() -> tuple[Output, Output, Output]:
        async with server.serve():
            call = call_as(**LOADER, host="127.0.0.1", port=server.port, protocol="http")
            tool = SnowflakeTool()
            try:
                made = "CREATE TABLE t (id INTEGER, name TEXT, meta TEXT)"
                first = await tool.run(SnowflakeInput(command=sql(made)), call)
                assert first.status == "ok", first
                insert = sql("INSERT INTO t VALUES (?, ?, ?)")
                rows: list[list[JSON] | dict[str, JSON]] = [[1, "O'Brien", {"a": 1}], [2, None, None]]
                second = await tool.run(SnowflakeInput(command=insert, rows=rows), call)
                query = sql("SELECT id, name, meta FROM t WHERE id >= ", " ORDER BY id", values=(1,))
                third = await tool.run(SnowflakeInput(query=query), call)
                return second, third, await tool.run(SnowflakeInput(query=sql("SELECT * FROM missing")), call)
            finally:
                await tool.close()

    second, third, missing = asyncio.run(work())
    assert second.own["snowflake"]["rowcount"] == 2
    assert third.data == [
        {"ID": "1", "NAME": "O'Brien", "META": {"a": 1}},
        {"ID": "2", "NAME": None, "META": None},
    ]
    assert missing.error is not None
    assert missing.own["snowflake"]["code"] == 2003
