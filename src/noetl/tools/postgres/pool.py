"""Connections to PostgreSQL: one pool for each credential, opened at first use, with checked addresses.

The environment is ignored: a worker's own PGPASSWORD must not be sent to the server of a playbook.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from noetl.addresses import Network, refusal
from noetl.output import JSON, Output, failed
from noetl.secret import Secret
from noetl.tools.errors import ToolError, allow_hint
from noetl.tools.postgres.received import ReceivedBytes
from noetl.tools.postgres.tool import CONNECTIONS, CONNECTIONS_MAX

Connection: TypeAlias = Any  # asyncpg's
Values: TypeAlias = Mapping[str, Secret]

POOLS_MAX = 32  # credentials with open connections
IDLE_S = 60.0  # an unused connection is closed after this time
RELEASE_S = 5.0  # time to cancel a running statement; then the connection is dropped
_FILES = frozenset({"service", "servicefile", "passfile"})  # they read credentials from files of the worker


class InvalidCredential(ToolError):
    """The credential cannot be used; the message contains no value of it."""

    kind = "credential"


class ConnectionsBusy(ToolError):
    """All connections that the task may use are in use."""

    kind = "timeout"

    def output(self) -> Output:
        return failed(self.kind, str(self), retryable=True)


class AddressRefused(ToolError):
    """The address policy does not allow a connection to this address (D88)."""

    kind = "postgres"


class ConnectionTarget(NamedTuple):
    """The server and database that a credential names."""

    hosts: tuple[tuple[str, int], ...]
    user: str
    password: str
    database: str
    verify: bool  # the certificate must match the host name
    root: str | None  # file with the certificate of the authority
    options: str  # a DSN with the remaining options, for the driver


def connection_target(values: Values) -> ConnectionTarget:
    """Parse a credential: a DSN, or separate fields. Raises InvalidCredential."""
    fields = {name: secret.reveal() for name, secret in values.items()}
    dsn = fields.get("dsn") or fields.get("")
    if dsn:
        return _from_dsn(dsn)
    for name in ("host", "user"):
        if not fields.get(name):
            raise InvalidCredential(f'the credential has neither "{name}" nor "dsn"')
    user = fields["user"]
    hosts = ((fields["host"], _port(fields.get("port") or "5432")),)
    database = fields.get("database") or user
    return ConnectionTarget(hosts, user, fields.get("password", ""), database, False, None, "postgresql://")


def _from_dsn(dsn: str) -> ConnectionTarget:
    try:
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise InvalidCredential("the dsn of the credential is not a valid URL") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise InvalidCredential("the dsn of the credential must begin with postgresql://")
    if _FILES & set(query):
        raise InvalidCredential(
            "the dsn of the credential refers to a file with credentials, which NoETL does not read"
        )
    login, _, location = parts.netloc.rpartition("@")
    name, _, password = login.partition(":")
    user = query.pop("user", "") or unquote(name)
    if not user:
        raise InvalidCredential("the dsn of the credential has no user")
    hosts = _hosts(query.pop("host", "") or unquote(location) or "localhost", query.pop("port", ""))
    database = query.pop("dbname", "") or query.pop("database", "") or unquote(parts.path[1:]) or user
    verify = query.get("sslmode") == "verify-full"
    if verify and len(hosts) > 1:
        raise InvalidCredential("sslmode=verify-full allows only one host")
    root = query.get("sslrootcert") if verify else None
    if verify:
        query = {key: value for key, value in query.items() if not key.startswith("ssl")}
    password = query.pop("password", "") or unquote(password)
    options = f"postgresql://?{urlencode(query)}" if query else "postgresql://"
    return ConnectionTarget(hosts, user, password, database, verify, root, options)


def _hosts(location: str, port: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in location.split(","):
        host, colon, own = part.rpartition(":")
        if not colon or part.startswith("/") or part.endswith("]"):
            host, own = part, ""
        found.append((host.strip("[]"), _port(own or port.partition(",")[0] or "5432")))
    return tuple(found)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise InvalidCredential("the port of the credential must be a number from 1 to 65535")
    return int(text)


class _NamedContext(ssl.SSLContext):
    """Verifies the certificate against the host name, although the connection is made to an IP address."""

    host = ""

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**named, "server_hostname": self.host})


class ConnectionPools:
    """The connection pools of one worker."""

    def __init__(self, *, allow_private: bool, allow: Sequence[Network] = ()) -> None:
        self._allow_private = allow_private
        self._allow = allow
        self._pools: dict[tuple[JSON, ...], _Pool] = {}  # the most recently used is last

    @asynccontextmanager
    async def connection(
        self, values: Values, connect_s: float, most: int = CONNECTIONS, wait_s: float | None = None
    ) -> AsyncIterator[Connection]:
        """Raises ConnectionsBusy, InvalidCredential, AddressRefused, OSError, TimeoutError, and errors of the driver.

        All callers with the same `most` together use at most that many connections at the same time. Others wait, at
        most for `wait_s`; None: the caller's timeout limits the wait.
        """
        pool = self._pool(values, connect_s)
        pool.users += 1
        try:
            # asyncpg needs this before the first use. It opens no connection, and repeating it is harmless.
            await pool.pool
            async with _slot(pool.slots.setdefault(most, asyncio.Semaphore(most)), most, wait_s):
                connection = await pool.pool.acquire()
                try:
                    yield connection
                finally:
                    await _release(pool.pool, connection)
        finally:
            pool.users -= 1

    def _pool(self, values: Values, connect_s: float) -> _Pool:
        key = (frozenset(values.items()), connect_s)
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = _Pool(self._create_pool(connection_target(values), connect_s))
        self._pools[key] = pool
        if len(self._pools) > POOLS_MAX:
            idle = next((each for each, kept in self._pools.items() if not kept.users), None)
            if idle is not None and idle != key:
                self._pools.pop(idle).pool.terminate()
        return pool

    def _create_pool(self, target: ConnectionTarget, connect_s: float) -> Any:
        import asyncpg

        async def connect(*_arguments: Any, **named: Any) -> Connection:
            # Names are resolved for each connection, because DNS can change. The connection is made to the
            # address that was checked, not to the name.
            hosts = [
                (address, port) for host, port in target.hosts for address in await self._allowed_addresses(host, port)
            ]
            connection = await asyncpg.connect(
                target.options,
                host=[host for host, _ in hosts],
                port=[port for _, port in hosts],
                user=target.user,
                password=target.password,
                database=target.database,
                timeout=connect_s,
                server_settings={"application_name": "noetl", "standard_conforming_strings": "on"},
                **({"ssl": _ssl_context(target)} if target.verify else {}),
                **named,
            )
            ReceivedBytes.attach(connection)
            return connection

        return asyncpg.create_pool(
            min_size=0,
            max_size=CONNECTIONS_MAX,
            max_inactive_connection_lifetime=IDLE_S,
            connect=connect,
            init=_init_connection,
            reset=_reset_connection,
        )

    async def _allowed_addresses(self, host: str, port: int) -> list[str]:
        """Raises AddressRefused if no address of the host is allowed."""
        if host.startswith(("/", "@")):
            if not self._allow_private:
                raise AddressRefused("a Unix socket is not allowed: it is an address of the worker's machine")
            return [host]
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        reasons = {each: refusal(each, allow_private=self._allow_private, allow=self._allow) for each in addresses}
        allowed = [each for each, reason in reasons.items() if reason is None]
        if not allowed:
            reason = next(iter(reasons.values()), "the host has no address")
            raise AddressRefused(f"the address of the server is not allowed: {reason}{allow_hint(reason)}")
        return allowed

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        for each in pools.values():
            each.pool.terminate()


class _Pool:
    """A pool of the driver, and the number of calls that use it."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.users = 0
        self.slots: dict[int, asyncio.Semaphore] = {}  # for each value of `spec.connections`


@asynccontextmanager
async def _slot(slots: asyncio.Semaphore, most: int, wait_s: float | None) -> AsyncIterator[None]:
    """The right to use one connection. Raises ConnectionsBusy."""
    try:
        async with asyncio.timeout(wait_s):
            await slots.acquire()
    except TimeoutError:
        raise ConnectionsBusy(
            f"no connection was free within {wait_s:g} s (spec.connections: {most}, spec.connection_wait_s: {wait_s:g})"
        ) from None
    try:
        yield
    finally:
        slots.release()


def _ssl_context(target: ConnectionTarget) -> ssl.SSLContext:
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.host = target.hosts[0][0]
    if target.root is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=target.root)
    return context


async def _init_connection(connection: Connection) -> None:
    # Intervals as text: the type that the driver uses has no months.
    await connection.set_type_codec("interval", schema="pg_catalog", format="text", encoder=str, decoder=str)


async def _reset_connection(connection: Connection) -> None:
    """Undo settings, roles, sequences and temporary tables: the next call may belong to another playbook."""
    more = "SET SESSION AUTHORIZATION DEFAULT; DISCARD SEQUENCES; DISCARD TEMP"
    await connection.execute(f"{connection.get_reset_query()}\n{more}")


async def _release(pool: Any, connection: Connection) -> None:
    """Reset the connection and return it to the pool; drop it if that fails or takes too long."""
    import asyncpg

    try:
        await pool.release(connection, timeout=RELEASE_S)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()
