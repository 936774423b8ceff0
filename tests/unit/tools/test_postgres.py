"""The tool `postgres` on a real server: rows, commands, transactions, limits and errors."""

from __future__ import annotations

import asyncio
import signal

import asyncpg
import pytest

from noetl.output import JSON
from noetl.secret import Secret
from noetl.tool import Auth
from noetl.tools.postgres.tool import PostgresInput, PostgresTool
from tests.services import PASSWORD, connected, postgres
from tests.unit.tools.calls import call
from tests.unit.tools.databases import PostgresOn, credential, new_database, sql


async def until(watching: asyncpg.Connection, there_is: str) -> None:
    """Polls the server until it has such a row."""
    async with asyncio.timeout(60):
        while not await watching.fetch(there_is):
            pass


def test_a_query_returns_rows_as_objects() -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.query("SELECT i, i * 2 AS twice FROM generate_series(1, 3) i WHERE i > {{ n }}", n=1)
            assert output.data == [{"i": 2, "twice": 4}, {"i": 3, "twice": 6}]
            assert output.own == {"pg": {"code": None, "sqlstate": None, "message": None, "rowcount": 2}}

    asyncio.run(work())


def test_a_command_is_one_transaction_and_returns_the_last_rows() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE a (n int)")
            output = await pg.command(
                "INSERT INTO a VALUES ({{ n }}), ({{ n + 1 }}); SELECT sum(n) AS sum FROM a; UPDATE a SET n = 0",
                n=4,
            )
            assert output.data == [{"sum": 9}]
            assert output.own["pg"]["rowcount"] == 2
            broken = await pg.command("INSERT INTO a VALUES (7); SELECT 1 / 0")
            assert broken.error is not None
            assert (broken.own["pg"]["code"], broken.own["pg"]["message"]) == ("22012", "division by zero")
            assert await pg.rows("SELECT * FROM a") == [{"n": 0}, {"n": 0}]

    asyncio.run(work())


def test_parameters_are_bound_by_position_and_by_name() -> None:
    async def work() -> None:
        async with new_database() as pg:
            assert await pg.rows("SELECT $2::text || $1::text AS x", params=["a", "b"]) == [{"x": "ba"}]
            named = await pg.rows("SELECT :a::int + {{ n }}::int AS x", params={"a": 1}, n=2)
            assert named == [{"x": 3}]
            output = await pg.query("SELECT $1, {{ n }}", params=["a"], n=2)
            assert output.error is not None
            assert (output.error.kind, output.own) == ("input", {})

    asyncio.run(work())


@pytest.mark.parametrize("command", ["COMMIT", "SELECT 1; ROLLBACK", "COPY a FROM STDIN", "", "SELECT $1"])
def test_an_invalid_command_is_refused_before_it_is_sent(command: str) -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.command(command)
            assert output.error is not None
            assert output.error.kind == "input"
            assert await pg.rows("SELECT 1 AS x") == [{"x": 1}]

    asyncio.run(work())


def test_a_single_statement_runs_without_a_transaction() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("VACUUM")
            await pg.make("CREATE FUNCTION one() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 2; SELECT 1; END")
            assert await pg.rows("SELECT one()") == [{"one": 1}]

    asyncio.run(work())


def test_session_state_is_reset_after_each_call() -> None:
    async def work() -> None:
        async with new_database() as pg:
            before = await pg.rows("SELECT pg_backend_pid() AS pid")
            await pg.make("CREATE ROLE weak_one; SET ROLE weak_one; SET search_path = nowhere")
            await pg.make("CREATE TEMP TABLE mine (a int)")
            await pg.make("CREATE TEMP TABLE mine (a int)")
            assert await pg.rows("SELECT current_user::text AS who") == [{"who": "postgres"}]
            assert await pg.rows("SHOW search_path") == [{"search_path": '"$user", public'}]
            assert await pg.rows("SELECT pg_backend_pid() AS pid") == before
            await pg.make("DROP ROLE weak_one")

    asyncio.run(work())


def test_more_rows_than_max_rows_are_an_error() -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.query("SELECT generate_series(1, 2500)", spec={"max_rows": 2000})
            assert output.error is not None
            assert output.error.kind == "payload-too-large"
            assert len(await pg.rows("SELECT generate_series(1, 2500)", spec={"max_rows": 2500})) == 2500
            output = await pg.command("SELECT generate_series(1, 3)", spec={"max_rows": 2})
            assert output.error is not None

    asyncio.run(work())


def test_the_timeout_of_the_task_limits_the_statement() -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.query("SELECT pg_sleep(30)", spec={"timeout": {"total": 0.1}})
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("timeout", True)

    asyncio.run(work())


def test_a_cancelled_call_ends_on_the_server_too() -> None:
    async def work() -> None:
        async with new_database() as pg, connected(pg.name) as watching:
            running = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
            asked = asyncio.create_task(pg.query("SELECT pg_sleep(60)"))
            await until(watching, running)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await watching.fetch(running) == []
            assert await pg.rows("SELECT 1 AS x") == [{"x": 1}]

    asyncio.run(work())


def test_a_cancelled_command_is_rolled_back() -> None:
    async def work() -> None:
        async with new_database() as pg, connected(pg.name) as watching:
            await pg.make("CREATE TABLE a (n int)")
            asked = asyncio.create_task(pg.command("INSERT INTO a VALUES (1); SELECT pg_sleep(60)"))
            await until(watching, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await pg.rows("SELECT * FROM a") == []

    asyncio.run(work())


def test_a_serialization_failure_is_retryable() -> None:
    async def work() -> None:
        async with new_database() as pg, connected(pg.name) as other:
            await pg.make("CREATE TABLE a (n int); INSERT INTO a VALUES (1)")
            transaction = other.transaction(isolation="serializable")
            await transaction.start()
            await other.execute("UPDATE a SET n = n + 1")
            waiting = asyncio.create_task(
                pg.command("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; UPDATE a SET n = n + 10")
            )
            await until(other, "SELECT 1 FROM pg_locks WHERE NOT granted")
            await transaction.commit()
            output = await waiting
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("postgres", True)
            assert output.own["pg"]["code"] == output.error.details["sqlstate"] == "40001"
            assert await pg.rows("SELECT n FROM a") == [{"n": 2}]

    asyncio.run(work())


def test_an_error_contains_no_value_and_names_the_constraint() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE a (token text CONSTRAINT one_token UNIQUE, n int CHECK (n > 0))")
            secret = "canary-7f3a"
            await pg.make("INSERT INTO a VALUES ({{ s }}, 1)", s=secret)
            for source in (
                "INSERT INTO a VALUES ({{ s }}, 1)",
                "INSERT INTO a VALUES ('x', {{ s }})",
                "INSERT INTO a VALUES ('{{ s }}', -1)",
                "SELECT {{ s }}::jsonb",
                "SELECT {{ s }}::timestamptz",
                "SELECT ({{ s }} || '\"')::int",
                "SELECT {{ [s] }}::int[]",
                "SELECT {{ {'base64': s} }}::bytea",
            ):
                output = await pg.command(source, s=secret)
                assert output.error is not None, source
                assert secret not in str(output), source
            output = await pg.command("INSERT INTO a VALUES ({{ s }}, 1)", s=secret)
            assert output.error is not None
            assert output.error.message == 'duplicate key value violates unique constraint "one_token"'
            assert output.error.details == {
                "sqlstate": "23505", "constraint": "one_token", "table": "a", "schema": "public",
            }  # fmt: skip
            assert not output.error.retryable

    asyncio.run(work())


def test_a_restart_of_the_server_between_calls_is_not_noticed() -> None:
    async def work() -> None:
        async with new_database() as pg:
            await pg.make("CREATE TABLE a (n int)")
            await asyncio.to_thread(postgres().restart)
            assert await pg.rows("SELECT * FROM a") == []

    asyncio.run(work())


@pytest.mark.parametrize("source", ["SELECT pg_sleep(60)", "INSERT INTO a SELECT 1 FROM pg_sleep(60)"])
def test_a_lost_connection_is_retryable_and_reports_an_unknown_effect(source: str) -> None:
    async def work() -> None:
        async with new_database() as pg, connected("postgres") as watching:
            await pg.make("CREATE TABLE a (n int)")
            asked = asyncio.create_task(pg.command(source))
            sleeping = f"SELECT pid FROM pg_stat_activity WHERE datname = '{pg.name}' AND wait_event = 'PgSleep'"
            await until(watching, sleeping)
            await asyncio.to_thread(postgres().restart, signal.SIGKILL)
            output = await asked
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("postgres", True)
            assert output.error.details["unknown"] is source.startswith("INSERT")
            assert await pg.rows("SELECT * FROM a") == []

    asyncio.run(work())


def test_an_unreachable_server_is_retryable() -> None:
    async def work() -> None:
        async with new_database() as pg:
            pg.auth = credential(host="127.0.0.1", port="1", user="a")
            output = await pg.query("SELECT 1")
            assert output.error is not None
            assert (output.error.kind, output.error.retryable) == ("postgres", True)
            assert output.error.details == {"sqlstate": None, "unknown": False}

    asyncio.run(work())


def test_a_refused_password_is_renewed_once_and_never_shown() -> None:
    async def work() -> None:
        asked: list[str] = []

        def auth(password: str, then: str) -> Auth:
            async def renew() -> Auth:
                asked.append(then)
                return auth(then, then)

            values = {
                "host": "127.0.0.1",
                "port": str(postgres().port),
                "user": "postgres",
                "password": password,
            }
            return Auth("pg", "postgres_credential", {k: Secret(v) for k, v in values.items()}, renew)

        async with new_database() as pg:
            pg.auth = auth("wrong-one", PASSWORD)
            assert await pg.rows("SELECT current_database() AS x") == [{"x": "postgres"}]
            pg.auth = auth("wrong-one", "wrong-two")
            output = await pg.query("SELECT 1")
            assert asked == [PASSWORD, "wrong-two"]
            assert output.error is not None
            assert (output.error.retryable, output.own["pg"]["code"]) == (False, "28P01")
            assert "wrong-" not in str(output)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("host", "message"), [("127.0.0.1", "loopback"), ("localhost", "loopback"), ("/tmp", "Unix socket")]
)
def test_an_address_outside_the_policy_is_refused(host: str, message: str) -> None:
    async def work() -> None:
        tool = PostgresTool(allow_private=False)
        auth = credential(host=host, port=str(postgres().port), user="postgres", password=PASSWORD)
        output = await tool.run(PostgresInput(query=sql("SELECT 1")), call()._replace(auth=auth))
        assert output.error is not None
        assert message in output.error.message
        await tool.close()
        opened = PostgresTool(allow_private=False, allow=["127.0.0.0/8"])
        if host == "127.0.0.1":
            output = await opened.run(PostgresInput(query=sql("SELECT 1 AS x")), call()._replace(auth=auth))
            assert output.data == [{"x": 1}]
        await opened.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    "values",
    [{}, {"host": "h"}, {"user": "u"}, {"dsn": "mysql://u@h"}, {"dsn": "postgresql://h"}, {"dsn": "postgresql://u:secret@h:port"},
     {"host": "h", "user": "u", "port": "x-secret"}, {"dsn": "postgresql://u@h?service=x"}],
)  # fmt: skip
def test_an_invalid_credential_is_an_error_without_its_values(values: dict[str, str]) -> None:
    async def work() -> None:
        async with new_database() as pg:
            pg.auth = credential(**values)
            output = await pg.query("SELECT 1")
            assert output.error is not None
            assert output.error.kind == "credential"
            assert "secret" not in str(output)

    asyncio.run(work())


def test_a_credential_is_required() -> None:
    async def work() -> None:
        output = await PostgresTool().run(PostgresInput(query=sql("SELECT 1")), call())
        assert output.error is not None
        assert output.error.kind == "input"

    asyncio.run(work())


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b"])
def test_text_that_postgresql_cannot_store_is_an_error_without_the_text(value: str) -> None:
    async def work() -> None:
        async with new_database() as pg:
            for source in (
                "SELECT {{ value }}::text",
                "SELECT {{ value }}::date",
                "SELECT {{ [value] }}::text[]",
            ):
                output = await pg.query(source, value=f"canary{value}")
                assert output.error is not None
                assert (output.error.kind, output.error.retryable) == ("postgres", False)
                assert "canary" not in str(output)
            assert await pg.rows("SELECT 1 AS x") == [{"x": 1}]

    asyncio.run(work())


def test_many_calls_at_once_share_a_few_connections() -> None:
    async def one(pg: PostgresOn, n: int) -> JSON:
        return (await pg.rows("SELECT {{ n }}::int AS n, pg_backend_pid() AS pid", n=n))[0]

    async def work() -> None:
        async with new_database() as pg:
            rows = await asyncio.gather(*(one(pg, n) for n in range(50)))
            assert [row["n"] for row in rows] == list(range(50))
            assert len({row["pid"] for row in rows}) <= 10

    asyncio.run(work())


@pytest.mark.parametrize(
    "spec", [{"connections": 0}, {"connections": 101}, {"connection_wait_s": 0}, {"connections": "x"}]
)
def test_an_invalid_limit_of_connections_is_an_error_of_kind_input(spec: dict[str, JSON]) -> None:
    async def work() -> None:
        async with new_database() as pg:
            output = await pg.query("SELECT 1", spec=spec)
            assert output.error is not None
            assert (output.error.kind, output.error.message.startswith("spec: ")) == ("input", True)

    asyncio.run(work())
