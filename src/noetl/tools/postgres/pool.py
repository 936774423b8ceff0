"""Connections to PostgreSQL, one pool for each credential: made when first used, checked where they lead to.

Nothing is taken from the environment: a worker's own PGPASSWORD must not reach a playbook's server.
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
from noetl.output import JSON
from noetl.secret import Secret

Connection: TypeAlias = Any  # asyncpg's
Values: TypeAlias = Mapping[str, Secret]

POOLS_MAX = 32  # credentials that a worker keeps connections for
CONNECTIONS_MAX = 10  # of one credential
IDLE_S = 60.0  # after that a connection that nobody uses is closed
RELEASE_S = 5.0  # to cancel what still runs on a connection; then it is dropped
_FILES = frozenset({"service", "servicefile", "passfile"})  # credentials from files of the worker's own


class BadCredential(Exception):
    """The credential can not be used; the message shows no value."""


class Refused(Exception):
    """The address is one that tools may not connect to (D88)."""


class Target(NamedTuple):
    """Where a credential leads to."""

    hosts: tuple[tuple[str, int], ...]
    user: str
    password: str
    database: str
    verify: bool  # the certificate must be that of the host
    root: str | None  # a file with the authority's certificate
    options: str  # a DSN without all of the above: what the driver reads for itself


def target(values: Values) -> Target:
    """Read a credential: a DSN, or its parts. Raises BadCredential."""
    given = {name: secret.reveal() for name, secret in values.items()}
    dsn = given.get("dsn") or given.get("")
    if dsn:
        return _from_dsn(dsn)
    for name in ("host", "user"):
        if not given.get(name):
            raise BadCredential(f'the credential has no "{name}", and no "dsn"')
    user = given["user"]
    hosts = ((given["host"], _port(given.get("port") or "5432")),)
    database = given.get("database") or user
    return Target(hosts, user, given.get("password", ""), database, False, None, "postgresql://")


def _from_dsn(dsn: str) -> Target:
    try:
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise BadCredential("the dsn of the credential can not be read") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise BadCredential("the dsn of the credential does not begin with postgresql://")
    if _FILES & set(query):
        raise BadCredential("the dsn names a file with credentials, which is not read here")
    signed, _, places = parts.netloc.rpartition("@")
    name, _, password = signed.partition(":")
    user = query.pop("user", "") or unquote(name)
    if not user:
        raise BadCredential("the dsn of the credential has no user")
    hosts = _hosts(query.pop("host", "") or unquote(places) or "localhost", query.pop("port", ""))
    database = query.pop("dbname", "") or query.pop("database", "") or unquote(parts.path[1:]) or user
    verify = query.get("sslmode") == "verify-full"
    if verify and len(hosts) > 1:
        raise BadCredential("sslmode=verify-full takes one host only")
    root = query.get("sslrootcert") if verify else None
    if verify:
        query = {key: value for key, value in query.items() if not key.startswith("ssl")}
    password = query.pop("password", "") or unquote(password)
    options = f"postgresql://?{urlencode(query)}" if query else "postgresql://"
    return Target(hosts, user, password, database, verify, root, options)


def _hosts(places: str, port: str) -> tuple[tuple[str, int], ...]:
    found = []
    for place in places.split(","):
        host, colon, own = place.rpartition(":")
        if not colon or place.startswith("/") or place.endswith("]"):
            host, own = place, ""
        found.append((host.strip("[]"), _port(own or port.partition(",")[0] or "5432")))
    return tuple(found)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise BadCredential("the port of the credential is no number of a port")
    return int(text)


class _NamedContext(ssl.SSLContext):
    """Asks for the certificate of the host that was named, though the address is what is connected to."""

    host = ""

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**named, "server_hostname": self.host})


class Pools:
    """The pools of one worker."""

    def __init__(self, *, allow_private: bool, allow: Sequence[Network] = ()) -> None:
        self._allow_private = allow_private
        self._allow = allow
        self._pools: dict[tuple[JSON, ...], _Shared] = {}  # the one used last is the last

    @asynccontextmanager
    async def connection(self, values: Values, connect_s: float) -> AsyncIterator[Connection]:
        """Raises BadCredential, Refused, OSError, TimeoutError, or what the driver raises.

        While all connections are in use it waits, as long as whoever calls does.
        """
        shared = self._shared(values, connect_s)
        shared.users += 1
        try:
            # Of an empty pool nothing is opened by this, and a second time it does nothing.
            await shared.pool
            connection = await shared.pool.acquire()
            try:
                yield connection
            finally:
                await _release(shared.pool, connection)
        finally:
            shared.users -= 1

    def _shared(self, values: Values, connect_s: float) -> _Shared:
        key = (frozenset(values.items()), connect_s)
        shared = self._pools.pop(key, None)
        if shared is None:
            shared = _Shared(self._pool(target(values), connect_s))
        self._pools[key] = shared
        if len(self._pools) > POOLS_MAX:
            idle = next((each for each, kept in self._pools.items() if not kept.users), None)
            if idle is not None and idle != key:
                self._pools.pop(idle).pool.terminate()
        return shared

    def _pool(self, place: Target, connect_s: float) -> Any:
        import asyncpg

        async def connect(*_places: Any, **named: Any) -> Connection:
            # Looked up for each connection: names move, and what was checked is what is connected to.
            hosts = [
                (address, port) for host, port in place.hosts for address in await self._checked(host, port)
            ]
            return await asyncpg.connect(
                place.options,
                host=[host for host, _ in hosts],
                port=[port for _, port in hosts],
                user=place.user,
                password=place.password,
                database=place.database,
                timeout=connect_s,
                server_settings={"application_name": "noetl", "standard_conforming_strings": "on"},
                **({"ssl": _context(place)} if place.verify else {}),
                **named,
            )

        return asyncpg.create_pool(
            min_size=0,
            max_size=CONNECTIONS_MAX,
            max_inactive_connection_lifetime=IDLE_S,
            connect=connect,
            init=_prepared_session,
            reset=_forget_session,
        )

    async def _checked(self, host: str, port: int) -> list[str]:
        if host.startswith(("/", "@")):
            if not self._allow_private:
                raise Refused("a Unix socket is an address of this machine")
            return [host]
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        reasons = {
            each: refusal(each, allow_private=self._allow_private, allow=self._allow) for each in addresses
        }
        fine = [each for each, reason in reasons.items() if reason is None]
        if not fine:
            raise Refused(next(iter(reasons.values())) or "there is no address")
        return fine

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        for shared in pools.values():
            shared.pool.terminate()


class _Shared:
    """A pool and how many use it now."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.users = 0


def _context(place: Target) -> ssl.SSLContext:
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.host = place.hosts[0][0]
    if place.root is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=place.root)
    return context


async def _prepared_session(connection: Connection) -> None:
    # As text: the driver's own form of an interval has no months.
    await connection.set_type_codec("interval", schema="pg_catalog", format="text", encoder=str, decoder=str)


async def _forget_session(connection: Connection) -> None:
    """What one call has set, made or become is not there for the next, which may be someone else's."""
    leave = "SET SESSION AUTHORIZATION DEFAULT; DISCARD SEQUENCES; DISCARD TEMP"
    await connection.execute(f"{connection.get_reset_query()}\n{leave}")


async def _release(pool: Any, connection: Connection) -> None:
    """Back into the pool, clean; what can not be cleaned in time is dropped."""
    import asyncpg

    try:
        await pool.release(connection, timeout=RELEASE_S)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()
