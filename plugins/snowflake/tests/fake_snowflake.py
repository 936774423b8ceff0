"""A small Snowflake on SQLite: with the interface of Snowflake's driver, and with the HTTP protocol of the driver.

Names of columns are upper case, placeholders are `?`, DDL commits, errors have the numbers and states of Snowflake.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

VARIANT = 5


class Answer(NamedTuple):
    columns: list[tuple[str, int]]  # name, type
    rows: list[tuple[Any, ...]]
    rowcount: int | None


class FakeError(Exception):
    """Like ProgrammingError of the driver."""

    def __init__(self, code: int, state: str, message: str) -> None:
        super().__init__(message)
        self.errno, self.sqlstate, self.msg, self.sfqid = code, state, message, "01-err"


class FakeSnowflake:
    """One account. The password of `loader` is `pa55`."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("file::memory:?cache=shared", uri=True, check_same_thread=False)
        self.sessions: dict[int, FakeSession] = {}
        self.options: list[dict[str, Any]] = []
        self.statements: list[str] = []
        self.bound: list[tuple[Any, ...]] = []

    def connect(self, **options: Any) -> FakeSession:
        self.options.append(options)
        if options.get("password") != "pa55" and "token" not in options and "private_key" not in options:
            raise FakeError(250001, "08001", "Incorrect username or password was specified.")
        session = FakeSession(self, len(self.options))
        self.sessions[session.session_id] = session
        return session

    def close(self) -> None:
        self._file.close()


class FakeSession:
    """A connection of the driver."""

    def __init__(self, account: FakeSnowflake, session_id: int) -> None:
        self.account, self.session_id = account, session_id
        self.canceled = threading.Event()
        self._sqlite = sqlite3.connect(
            "file::memory:?cache=shared", uri=True, check_same_thread=False, isolation_level=None
        )
        self._sqlite.create_function("PARSE_JSON", 1, lambda text: text)

    def cursor(self) -> FakeCursor:
        return FakeCursor(self)

    def close(self) -> None:
        self.account.sessions.pop(self.session_id, None)
        self._sqlite.close()

    def execute(self, sql: str, values: tuple[Any, ...]) -> Answer:
        self.account.statements.append(sql)
        self.account.bound.append(values)
        if "SYSTEM$CANCEL_ALL_QUERIES" in sql:
            other = self.account.sessions.get(int(values[0]))
            if other is not None:
                other.canceled.set()
            return Answer([("X", 2)], [("queries cancelled.",)], 1)
        if "SYSTEM$WAIT" in sql:
            if self.canceled.wait(60):
                raise FakeError(604, "57014", "SQL execution canceled")
            return Answer([("X", 2)], [("waited",)], 1)
        if re.match(r"\s*(CREATE|DROP|ALTER)\b", sql, re.IGNORECASE) and self._sqlite.in_transaction:
            self._sqlite.execute("COMMIT")
            self._sqlite.execute("BEGIN")
        try:
            cursor = self._sqlite.execute(sql, values)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                name = str(error).rsplit(" ", 1)[-1].upper()
                message = f"SQL compilation error: Object '{name}' does not exist or not authorized."
                raise FakeError(2003, "42S02", message) from error
            raise FakeError(1003, "42000", f"SQL compilation error: {error}") from error
        if cursor.description is None:  # Snowflake returns the number of rows as a row
            return Answer([("number of rows inserted", 0)], [(cursor.rowcount,)], cursor.rowcount)
        types = [VARIANT if name[0].upper().startswith("META") else 2 for name in cursor.description]
        columns = [(name[0].upper(), kind) for name, kind in zip(cursor.description, types, strict=True)]
        rows = cursor.fetchall()
        return Answer(columns, rows, len(rows))


class FakeCursor:
    """A cursor of the driver."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self._rows: list[tuple[Any, ...]] = []
        self.description: list[tuple[str, int]] | None = None
        self.rowcount: int | None = None
        self.sfqid = ""

    def execute(self, sql: str, values: tuple[Any, ...] | None = None, *, timeout: int | None = None) -> FakeCursor:
        assert timeout is None or timeout > 0
        answer = self._session.execute(sql, values or ())
        self.description, self._rows, self.rowcount = answer.columns, list(answer.rows), answer.rowcount
        self.sfqid = f"01-{len(self._session.account.statements)}"
        return self

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        batch, self._rows = self._rows[:size], self._rows[size:]
        return batch


class FakeServer:
    """The HTTP protocol between the driver and the service."""

    def __init__(self, account: FakeSnowflake) -> None:
        self.account = account
        self.port = 0
        self._sessions: dict[str, FakeSession] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        app = web.Application()
        app.add_routes(
            [
                web.post("/session/v1/login-request", self.login),
                web.post("/queries/v1/query-request", self.query),
                web.post("/session", self.end),
                web.post("/telemetry/send", self.end),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        site = next(iter(runner.addresses))
        self.port = site[1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def _body(self, request: web.Request) -> dict[str, Any]:
        content = await request.read()
        if content[:2] == b"\x1f\x8b":  # aiohttp has not decoded it
            content = gzip.decompress(content)
        return dict(json.loads(content)) if content else {}

    async def login(self, request: web.Request) -> web.Response:
        data = (await self._body(request))["data"]
        try:
            session = self.account.connect(password=data.get("PASSWORD"), user=data["LOGIN_NAME"])
        except FakeError as error:
            return web.json_response({"data": None, "code": "390100", "message": error.msg, "success": False})
        token = f"token-{session.session_id}"
        self._sessions[token] = session
        info = {"databaseName": None, "schemaName": None, "warehouseName": None, "roleName": "LOADER"}
        answer = {
            "token": token, "masterToken": "m", "validityInSeconds": 3600, "masterValidityInSeconds": 14400,
            "sessionId": session.session_id, "parameters": [], "sessionInfo": info, "displayUserName": "LOADER",
            "serverVersion": "9.0", "firstLogin": False, "healthCheckInterval": 45,
        }  # fmt: skip
        return web.json_response({"data": answer, "code": None, "message": None, "success": True})

    async def query(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        token = re.search(r'Token="([^"]+)"', request.headers.get("Authorization", ""))
        session = self._sessions[token[1] if token else ""]
        bindings = body.get("bindings") or {}
        values = tuple(bindings[str(index + 1)]["value"] for index in range(len(bindings)))
        text = {"true": 1, "false": 0}
        typed = tuple(text.get(value, value) if isinstance(value, str) else value for value in values)
        try:
            answer = await asyncio.to_thread(session.execute, body["sqlText"], typed)
        except FakeError as error:
            data = {"errorCode": f"{error.errno:06}", "sqlState": error.sqlstate, "queryId": "01-err"}
            return web.json_response({
                "data": data, "code": f"{error.errno:06}", "message": error.msg, "success": False
            })  # fmt: skip
        kinds = {0: "fixed", 2: "text", VARIANT: "variant"}
        rowtype = [
            {
                "name": name, "type": kinds[kind], "nullable": True, "scale": 0, "precision": 38, "length": 100,
                "byteLength": 100, "database": "", "schema": "", "table": "",
            }
            for name, kind in answer.columns
        ]  # fmt: skip
        rows = [[None if value is None else str(value) for value in row] for row in answer.rows]
        is_select = re.match(r"\s*(SELECT|WITH|SHOW)\b", body["sqlText"], re.IGNORECASE) is not None
        found: dict[str, Any] = {
            "parameters": [], "rowtype": rowtype, "rowset": rows, "total": len(rows), "returned": len(rows),
            "queryId": f"01-{len(self.account.statements)}", "queryResultFormat": "json", "sqlState": "00000",
            "databaseProvider": None, "finalDatabaseName": None, "finalSchemaName": None, "finalWarehouseName": None,
            "finalRoleName": "LOADER", "numberOfBinds": len(values), "arrayBindSupported": True,
            "statementTypeId": 4096 if is_select else 12544, "version": 1,
        }  # fmt: skip
        return web.json_response({"data": found, "code": None, "message": None, "success": True})

    async def end(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": None, "code": None, "message": None, "success": True})
