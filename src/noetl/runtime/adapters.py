"""Opens adapters by their URLs: result stores in buckets, NATS and PostgreSQL, and API tokens in PostgreSQL.

Their libraries are optional extras, imported only when a URL needs them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from noetl.clock import SystemClock
from noetl.errors import Rejected, install_hint
from noetl.ports import ApiTokenStore, AuditStore
from noetl.runtime.settings import RESULTS, Settings
from noetl.worker.result_stores import NamedStore, ResultStores


def nats_configuration(pools: Sequence[str]) -> str:
    """The NATS users for servers and isolated pools, with environment variables as passwords. Raises Rejected."""
    from noetl.adapters.nats.permissions import nats_users_template

    return nats_users_template(pools)


def open_shared_stores(settings: Settings, nats: str, inbox: str = "") -> ResultStores:
    """The result stores of servers and workers, which share no disk: as configured, or else in NATS.

    `inbox`: the prefix of the subjects on which NATS may answer this process; "": the default.
    """
    return ResultStores([open_remote_store(settings, name, inbox) for name in settings.result_stores(default=nats)])


def open_remote_store(settings: Settings, url: str, inbox: str = "") -> NamedStore:
    """A result store that is not on our disk. Raises Rejected without the URL: it may contain a password."""
    scheme, _, rest = url.partition("://")
    try:
        match scheme:
            case "s3" | "gs" | "az":
                from noetl.adapters.objects import ObjectResults

                return NamedStore(scheme, ObjectResults(url, settings.s3_endpoint or None), shared=True)
            case "nats" | "tls":
                from noetl.adapters.nats.results import BUCKET, NatsResults

                host, _, bucket = rest.partition("/")
                results = NatsResults(f"{scheme}://{host}", bucket or BUCKET, inbox=inbox)
                return NamedStore("nats_object", results, shared=True)
            case "postgresql" | "postgres":
                from noetl.adapters.postgres.results import PostgresResults

                return NamedStore("postgres", PostgresResults(url), shared=True)
    except ImportError as error:
        extras = {"nats": "nats", "tls": "nats", "postgresql": "postgres", "postgres": "postgres"}
        extra = extras.get(scheme, "objects")
        raise Rejected("no-adapter", f"{RESULTS} requires an extra: {install_hint(extra)}") from error
    known = "files, sqlite, s3://bucket/prefix, gs://…, az://…, nats://host:port/bucket or postgresql://…"
    raise Rejected("bad-setting", f"{RESULTS} names an unknown store: use {known}")


class TokenStores(NamedTuple):
    """API tokens, and the audit trail that records changes of them."""

    tokens: ApiTokenStore
    audit: AuditStore


@asynccontextmanager
async def open_tokens(url: str) -> AsyncIterator[TokenStores]:
    """The API tokens in a PostgreSQL database. The first token is made here: the API asks for a token itself.

    Raises Rejected when the driver is not installed, and Unavailable when the database does not answer.
    """
    try:
        from noetl.adapters.postgres.audit import PostgresAudit
        from noetl.adapters.postgres.database import open_postgres
        from noetl.adapters.postgres.secrets import PostgresTokens
    except ImportError as error:
        raise Rejected("no-adapter", f"PostgreSQL requires an extra: {install_hint('postgres')}") from error
    database = open_postgres(url, SystemClock())
    try:
        yield TokenStores(PostgresTokens(database), PostgresAudit(database))
    finally:
        await database.close()
