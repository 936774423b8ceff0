"""Read-only checks of the PostgreSQL that servers share: its settings, our tables, and ownership."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from noetl.adapters.postgres.database import explained
from noetl.adapters.postgres.schema import OLDEST, VERSION
from noetl.adapters.secrets.stored import KeyFile
from noetl.clock import Clock, SystemClock
from noetl.defaults import LEASE_S
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor import Diagnosis, check_stored_secrets

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_S: Final = 5.0
SKEW_S: Final = 2.0  # recorded instants use the database's clock; people compare them with their own
IDLE_S: Final = 300.0
_SETTINGS: Final = (
    "server_version", "server_version_num", "server_encoding", "fsync", "synchronous_commit",
    "full_page_writes", "max_connections", "default_transaction_read_only",
)  # fmt: skip
_OWNERS: Final = """
SELECT (SELECT partitions FROM noetl.house) AS wanted,
       count(*) FILTER (WHERE until > now()) AS owned,
       (SELECT count(*) FROM noetl.servers WHERE until > now()) AS servers
FROM noetl.partitions
"""
_OPEN: Final = """
SELECT count(*) AS all,
       count(*) FILTER (WHERE partitions.until IS NULL OR partitions.until <= now()) AS ownerless
FROM noetl.heads LEFT JOIN noetl.partitions ON partitions.number = heads.partition
WHERE status NOT IN ('ok', 'error', 'cancelled')
"""
_IDLE: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND now() - state_change > $1
"""


async def check_postgres(url: str, environment: Mapping[str, str], clock: Clock | None = None) -> list[Diagnosis]:
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_S, command_timeout=CONNECT_S)
    except Exception as error:  # noqa: BLE001  # a wrong address causes many different exceptions
        return [Diagnosis("postgres-reachable", "error", str(explained(error)), _unreachable())]
    try:
        return await _examine(connection, environment, clock or SystemClock())
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        return [Diagnosis("postgres-reachable", "error", str(explained(error)))]
    finally:
        await connection.close()


async def _examine(connection: Connection, environment: Mapping[str, str], clock: Clock) -> list[Diagnosis]:
    row = await connection.fetchrow("SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in _SETTINGS))
    settings: dict[str, str] = dict(row)
    found = [check_version(settings), check_durability(settings), check_commits(settings), check_encoding(settings)]
    found += [await check_clock(connection, clock), await check_idle_sessions(connection)]
    number = await _tables(connection)
    found.append(check_schema(number))
    if number == VERSION:
        found += [
            await check_servers(connection),
            await check_executions(connection),
            await check_secrets(connection, environment),
        ]
    return found


def _unreachable() -> str:
    return (
        "check that it runs, that the address is right, and that no firewall blocks it:"
        " postgresql://user:password@host/database"
    )


def check_version(settings: dict[str, str]) -> Diagnosis:
    words = f"PostgreSQL {settings['server_version']} answers"
    if int(settings["server_version_num"]) < OLDEST:
        return Diagnosis("postgres-version", "error", words, f"NoETL needs PostgreSQL {OLDEST // 10_000} or newer")
    return Diagnosis("postgres-version", "ok", words)


def check_durability(settings: dict[str, str]) -> Diagnosis:
    """Only the server can enable these, not a session."""
    off = [name for name in ("fsync", "full_page_writes") if settings[name] != "on"]
    if off:
        words = f"{' and '.join(off)} off: a power loss may lose acknowledged data or corrupt the database"
        return Diagnosis("postgres-fsync", "error", words, "set them to on in postgresql.conf and reload it")
    return Diagnosis("postgres-fsync", "ok", "fsync and full_page_writes are on")


def check_commits(settings: dict[str, str]) -> Diagnosis:
    if settings["default_transaction_read_only"] == "on":
        words = "the database is read-only, perhaps a standby"
        return Diagnosis("postgres-commit", "error", words, "use the address of the primary")
    if (found := settings["synchronous_commit"]) in ("off", "local"):
        words = f"synchronous_commit is {found} by default; NoETL sets it to on for its own sessions"
        return Diagnosis("postgres-commit", "info", words)
    return Diagnosis("postgres-commit", "ok", f"synchronous_commit is {found}")


def check_encoding(settings: dict[str, str]) -> Diagnosis:
    if (found := settings["server_encoding"]) != "UTF8":
        cure = "create another database: CREATE DATABASE noetl ENCODING 'UTF8' TEMPLATE template0"
        return Diagnosis("postgres-encoding", "error", f"the encoding of the database is {found}, not UTF8", cure)
    return Diagnosis("postgres-encoding", "ok", "the encoding of the database is UTF8")


async def check_clock(connection: Connection, clock: Clock) -> Diagnosis:
    """The middle of the round trip is the best estimate of when the server read its clock."""
    before = clock.now()
    there = await connection.fetchval("SELECT clock_timestamp()")
    after = clock.now()
    seconds = (there - (before + (after - before) / 2)).total_seconds()
    if abs(seconds) > SKEW_S:
        where = "ahead of" if seconds > 0 else "behind"
        words = f"the clock of the database is {abs(seconds):.0f} s {where} the local one"
        return Diagnosis("postgres-clock", "warning", words, "synchronise both machines by NTP (chrony, timesyncd)")
    return Diagnosis("postgres-clock", "ok", f"its clock and the local one differ by {abs(seconds) * 1000:.0f} ms")


async def check_idle_sessions(connection: Connection) -> Diagnosis:
    found = await connection.fetchval(_IDLE, timedelta(seconds=IDLE_S))
    if found:
        words = f"{count(found, 'session')} idle in a transaction for {IDLE_S / 60:g} min: tables grow"
        cure = "end them with pg_terminate_backend, and set idle_in_transaction_session_timeout"
        return Diagnosis("postgres-idle", "warning", words, cure)
    return Diagnosis("postgres-idle", "ok", "no session is idle in a transaction for long")


async def _tables(connection: Connection) -> int | None:
    """The version of our tables, 0 for none; None: the schema is not ours, or not readable."""
    if not await connection.fetchval("SELECT to_regnamespace('noetl') IS NOT NULL"):
        return 0
    try:
        found: int = await connection.fetchval("SELECT number FROM noetl.version")
    except asyncpg.PostgresError:
        return None
    return found


def check_schema(number: int | None) -> Diagnosis:
    check = "postgres-schema"
    if number is None:
        words = "the schema noetl is not from NoETL, or this user cannot read it"
        return Diagnosis(check, "error", words, "use another database, or grant the user all rights on that schema")
    if number > VERSION:
        words = f"the tables have version {number}, and this NoETL supports {VERSION}"
        return Diagnosis(check, "error", words, "update NoETL on this machine")
    if number < VERSION:
        found = f"the tables have version {number}, and this NoETL supports {VERSION}" if number else "no tables yet"
        return Diagnosis(check, "info", f"{found}: the next `noetl server` upgrades them")
    return Diagnosis(check, "ok", f"the tables have version {number}")


async def check_servers(connection: Connection) -> Diagnosis:
    row: Any = await connection.fetchrow(_OWNERS)
    wanted = row["wanted"] or 0
    words = f"{count(row['servers'], 'live server')} with {row['owned']} of {wanted} partitions"
    if not row["servers"]:
        return Diagnosis("postgres-servers", "warning", f"no live server: {words}", "start one: noetl server")
    if row["owned"] < wanted:
        cure = f"live servers take over partitions within the lease of {LEASE_S:g} s; if not, see their logs"
        return Diagnosis("postgres-servers", "warning", words, cure)
    return Diagnosis("postgres-servers", "ok", words)


async def check_executions(connection: Connection) -> Diagnosis:
    row: Any = await connection.fetchrow(_OPEN)
    if row["ownerless"]:
        words = f"{row['ownerless']} of {row['all']} open executions have no live owner and make no progress"
        cure = f"start a server; a live one adopts them within {LEASE_S:g} s"
        return Diagnosis("postgres-executions", "warning", words, cure)
    return Diagnosis("postgres-executions", "ok", f"{row['all']} open executions, each with a live owner")


async def check_secrets(connection: Connection, environment: Mapping[str, str]) -> Diagnosis:
    rows = await connection.fetch("SELECT key_id, count(*) AS count FROM noetl.secrets WHERE body <> '' GROUP BY 1")
    try:
        known = {key.id for key in KeyFile(environment=environment).all()}
    except NoetlError:
        known = set()  # the check of the variable reports it
    return check_stored_secrets({row["key_id"]: row["count"] for row in rows}, known)
