"""Checks of a PostgreSQL that servers share: settings, our tables in it, who owns what. They only look."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from noetl.adapters.postgres.errors import explained
from noetl.adapters.postgres.schema import OLDEST, VERSION
from noetl.adapters.secrets.keys import KeyFile
from noetl.clock import Clock, SystemClock
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor.checks import Diagnosis
from noetl.runtime.doctor.machine import keys_fit

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_S: Final = 5.0
SKEW_S: Final = 2.0  # instants on record go by the database's time; people compare them with their own
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


async def examine_postgres(
    url: str, environment: Mapping[str, str], clock: Clock | None = None
) -> list[Diagnosis]:
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_S, command_timeout=CONNECT_S)
    except Exception as error:  # noqa: BLE001  # a wrong address shows itself in many ways
        return [Diagnosis("postgres-reachable", "error", str(explained(error)), _unreachable())]
    try:
        return await _examine(connection, environment, clock or SystemClock())
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        return [Diagnosis("postgres-reachable", "error", str(explained(error)))]
    finally:
        await connection.close()


async def _examine(connection: Connection, environment: Mapping[str, str], clock: Clock) -> list[Diagnosis]:
    row = await connection.fetchrow(
        "SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in _SETTINGS)
    )
    settings: dict[str, str] = dict(row)
    found = [version(settings), durability(settings), commits(settings), encoding(settings)]
    found += [await skew(connection, clock), await idle(connection)]
    number = await _tables(connection)
    found.append(schema(number))
    if number == VERSION:
        found += [
            await owners(connection),
            await ownerless(connection),
            await secrets(connection, environment),
        ]
    return found


def _unreachable() -> str:
    return "does it run, is the address right, may this machine reach it? postgresql://user:password@host/database"


def version(settings: dict[str, str]) -> Diagnosis:
    words = f"PostgreSQL {settings['server_version']} answers"
    if int(settings["server_version_num"]) < OLDEST:
        return Diagnosis(
            "postgres-version", "error", words, f"NoETL needs PostgreSQL {OLDEST // 10_000} or newer"
        )
    return Diagnosis("postgres-version", "ok", words)


def durability(settings: dict[str, str]) -> Diagnosis:
    """No session can turn these on for itself."""
    off = [name for name in ("fsync", "full_page_writes") if settings[name] != "on"]
    if off:
        words = (
            f"{' and '.join(off)} off: a power loss may take what was acknowledged, or damage the database"
        )
        return Diagnosis("postgres-fsync", "error", words, "set them to on in postgresql.conf, and reload")
    return Diagnosis("postgres-fsync", "ok", "fsync and full_page_writes are on")


def commits(settings: dict[str, str]) -> Diagnosis:
    if settings["default_transaction_read_only"] == "on":
        words = "the address leads to a database that takes no writes, as a standby does"
        return Diagnosis("postgres-commit", "error", words, "give the address of the primary")
    if (found := settings["synchronous_commit"]) in ("off", "local"):
        words = f"synchronous_commit is {found} by default; NoETL sets it to on for its own sessions"
        return Diagnosis("postgres-commit", "info", words)
    return Diagnosis("postgres-commit", "ok", f"synchronous_commit is {found}")


def encoding(settings: dict[str, str]) -> Diagnosis:
    if (found := settings["server_encoding"]) != "UTF8":
        cure = "create another one: CREATE DATABASE noetl ENCODING 'UTF8' TEMPLATE template0"
        return Diagnosis("postgres-encoding", "error", f"the database holds {found} and not UTF8", cure)
    return Diagnosis("postgres-encoding", "ok", "the database holds UTF8")


async def skew(connection: Connection, clock: Clock) -> Diagnosis:
    """Half of the round trip is the best guess of when it was asked."""
    before = clock.now()
    there = await connection.fetchval("SELECT clock_timestamp()")
    after = clock.now()
    seconds = (there - (before + (after - before) / 2)).total_seconds()
    if abs(seconds) > SKEW_S:
        where = "ahead of" if seconds > 0 else "behind"
        words = f"the clock of the database is {abs(seconds):.0f} s {where} ours"
        return Diagnosis(
            "postgres-clock", "warning", words, "let both machines keep time by NTP (chrony, timesyncd)"
        )
    return Diagnosis("postgres-clock", "ok", f"its clock and ours differ by {abs(seconds) * 1000:.0f} ms")


async def idle(connection: Connection) -> Diagnosis:
    found = await connection.fetchval(_IDLE, timedelta(seconds=IDLE_S))
    if found:
        words = f"{count(found, 'session')} idle in a transaction for {IDLE_S / 60:g} min: tables grow"
        cure = "end them by pg_terminate_backend, and set idle_in_transaction_session_timeout"
        return Diagnosis("postgres-idle", "warning", words, cure)
    return Diagnosis("postgres-idle", "ok", "nobody keeps a transaction open for long")


async def _tables(connection: Connection) -> int | None:
    """The version of our tables, 0 for none; None: the schema is another's, or we may not look."""
    if not await connection.fetchval("SELECT to_regnamespace('noetl') IS NOT NULL"):
        return 0
    try:
        found: int = await connection.fetchval("SELECT number FROM noetl.version")
    except asyncpg.PostgresError:
        return None
    return found


def schema(number: int | None) -> Diagnosis:
    check = "postgres-schema"
    if number is None:
        words = "there is a schema noetl that is not ours, or that this user may not read"
        return Diagnosis(
            check, "error", words, "name another database, or give the user all rights on that schema"
        )
    if number > VERSION:
        words = f"tables of version {number}, and this NoETL knows {VERSION}"
        return Diagnosis(check, "error", words, "update NoETL on this machine")
    if number < VERSION:
        words = "no tables yet" if number == 0 else f"tables of version {number}, we know {VERSION}"
        return Diagnosis(check, "info", f"{words}: the next `noetl server` brings them up to date")
    return Diagnosis(check, "ok", f"tables of version {number}")


async def owners(connection: Connection) -> Diagnosis:
    row: Any = await connection.fetchrow(_OWNERS)
    wanted = row["wanted"] or 0
    words = f"{count(row['servers'], 'live server')} for {row['owned']} of {wanted} partitions"
    if not row["servers"]:
        return Diagnosis(
            "postgres-servers", "warning", f"no server lives: {words}", "start one: noetl server"
        )
    if row["owned"] < wanted:
        cure = "what a dead server had is taken over within its lease of 30 s; if not, see their logs"
        return Diagnosis("postgres-servers", "warning", words, cure)
    return Diagnosis("postgres-servers", "ok", words)


async def ownerless(connection: Connection) -> Diagnosis:
    row: Any = await connection.fetchrow(_OPEN)
    if row["ownerless"]:
        words = f"{row['ownerless']} of {row['all']} open executions have no owner: nothing happens to them"
        return Diagnosis(
            "postgres-executions", "warning", words, "start a server; a live one takes them within 30 s"
        )
    return Diagnosis("postgres-executions", "ok", f"{row['all']} open executions, each with an owner")


async def secrets(connection: Connection, environment: Mapping[str, str]) -> Diagnosis:
    rows = await connection.fetch(
        "SELECT key_id, count(*) AS count FROM noetl.secrets WHERE body <> '' GROUP BY 1"
    )
    try:
        known = {key.id for key in KeyFile(environment=environment).all()}
    except NoetlError:
        known = set()  # said of the variable itself
    return keys_fit({row["key_id"]: row["count"] for row in rows}, known)
